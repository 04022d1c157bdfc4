//! Members that are processes of this machine. Signals stop, kill and trace them; the bridge that joins them changes their
//! packets.

mod background;
mod kill;
pub(super) mod member;
mod power;
pub(super) mod skew;
mod slow_disk;
mod snapshot;
mod stop;
mod synced_files;
mod tracer;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, mem};

use super::host::{Host, MemberAction};
use super::network::{Effect, Ends, Guard, Network, Pair, Seen, SoFar};
use super::wire::{Observation, Scope};
use base::machine::{Machine, ThisMachine};
use base::sync::lock;
use member::Member;

/// The adopted members, and their network.
#[derive(Default)]
pub struct ThisHost {
    members: Mutex<HashMap<String, Arc<Mutex<Member>>>>,
    /// The members' network; None before the controller has named it.
    network: Mutex<Option<Network>>,
    /// Isolates the network on machines where other users could reach it.
    guard: Mutex<Option<Guard>>,
}

impl ThisHost {
    fn member(&self, name: &str) -> Result<Arc<Mutex<Member>>, String> {
        lock(&self.members).get(name).cloned().ok_or_else(|| format!("no member `{name}` was adopted"))
    }

    fn with_network<T>(&self, work: impl FnOnce(&mut Network) -> io::Result<T>) -> Result<T, String> {
        let mut network = lock(&self.network);
        let network = network.as_mut().ok_or("the agent does not know the members' network")?;
        work(network).map_err(|error| error.to_string())
    }
}

impl Host for ThisHost {
    // It reads /proc, and waits for the effects that it must observe.
    fn blocks(&self) -> bool {
        true
    }

    fn monotonic(&self) -> Duration {
        ThisMachine.monotonic()
    }

    fn machine(&self) -> Arc<dyn Machine> {
        Arc::new(ThisMachine)
    }

    fn guard(&self, bridge: &str, table: &str) -> Result<(), String> {
        *lock(&self.guard) = Some(Guard::set_up(bridge, table).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn set_network(&self, bridge: &str, table: &str) -> Result<(), String> {
        *lock(&self.network) = Some(Network::open(bridge, table).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn adopt(&self, name: &str, pid: u32, scope: Scope, address: Option<Ipv4Addr>) -> Result<(), String> {
        let mut member = Member::adopt(name, pid, scope).map_err(|error| format!("cannot adopt {name}: {error}"))?;
        member.address = address;
        if let Ok(earlier) = self.member(name) {
            let mut earlier = lock(&earlier);
            if earlier.paused {
                stop::heal(&mut earlier).map_err(|error| error.to_string())?;
            }
            member.durable = mem::take(&mut earlier.durable);
            // The new process starts with the same control file.
            member.skewed = earlier.skewed;
            member.snapshots = earlier.snapshots;
            member.slowed = earlier.slowed;
        }
        lock(&self.members).insert(name.to_string(), Arc::new(Mutex::new(member)));
        Ok(())
    }

    fn address_of(&self, name: &str) -> Result<Option<Ipv4Addr>, String> {
        Ok(lock(&*self.member(name)?).address)
    }

    fn runs(&self, name: &str) -> bool {
        self.member(name).is_ok_and(|member| lock(&member).init.runs())
    }

    fn act(&self, name: &str, action: MemberAction) -> Result<Observation, String> {
        let member = self.member(name)?;
        let member = &mut lock(&member);
        let seen = match action {
            MemberAction::Stop => stop::inject(member),
            MemberAction::Continue => stop::heal(member),
            MemberAction::StopBackground => background::inject(member),
            MemberAction::ContinueBackground => background::heal(member),
            MemberAction::Kill => kill::inject(member),
            MemberAction::ShutDown => kill::shut_down(member),
            MemberAction::LosePower => power::inject(member),
            MemberAction::VerifyRunning => Ok(kill::runs_again(member, Instant::now())),
            MemberAction::Skew(skew) => skew::inject(member, skew),
            MemberAction::RestoreClock => skew::heal(member),
            MemberAction::KeepNoSnapshot => snapshot::keep_none(member),
            MemberAction::RemoveSnapshot => snapshot::remove(member),
            MemberAction::SlowDisk { ms, jitter_ms } => slow_disk::inject(member, ms, jitter_ms),
            MemberAction::RestoreDisk => slow_disk::heal(member),
        };
        Ok(seen.unwrap_or_else(|error| Observation::unseen(format!("{name}: {error}"))))
    }

    fn change_links(&self, fault: u32, links: &[Pair], effect: Effect) -> Result<Observation, String> {
        self.with_network(|network| network.inject(fault, links, effect)).map(observation)
    }

    fn restore_links(&self, fault: u32) -> Result<Observation, String> {
        self.with_network(|network| network.heal(fault)).map(observation)
    }

    fn strike(&self, fault: u32, disarm: bool) -> SoFar {
        lock(&self.network).as_ref().ok_or(None).and_then(|network| network.strike(fault, disarm))
    }

    fn provoke(&self, fault: u32, connections: &[Ends]) -> Result<(), String> {
        self.with_network(|network| network.provoke(fault, connections))
    }

    fn on_network(&self) -> Vec<u32> {
        lock(&self.network).as_ref().map(Network::in_effect).unwrap_or_default()
    }

    fn reset(&self) -> Result<(), String> {
        let mut members = lock(&self.members);
        if let Some((name, _)) = members.iter().find(|(_, member)| lock(member).paused) {
            return Err(format!("{name} was stopped and not resumed"));
        }
        members.clear();
        let mut network = lock(&self.network);
        if let Some(known) = network.take() {
            *network = Some(known.reopen().map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    fn close_network(&self) -> Result<(), String> {
        // Removes the table with all its rules.
        lock(&self.network).take().map_or(Ok(()), Network::close).map_err(|error| error.to_string())
    }
}

fn observation(seen: Seen) -> Observation {
    let Seen { observed, text, effect_us, took_us } = seen;
    Observation { observed, effect_us, took_us, ..Observation::unseen(text) }
}
