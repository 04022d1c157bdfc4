//! The primitive operations of faults on simulated members. Everything built on them is the same as on a real machine.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use super::machine::Inside;
use super::world::{World, WorldState};
use crate::faults::{Effect, Ends, Host, MemberAction, Observation, Pair, Scope, SoFar};
use base::machine::Machine;

/// The host on which the agent acts.
pub(super) struct SimulatedHost {
    pub world: Arc<World>,
    /// The agent's address: no fault reaches it.
    pub address: Ipv4Addr,
}

impl Host for SimulatedHost {
    fn blocks(&self) -> bool {
        false
    }

    fn monotonic(&self) -> Duration {
        self.world.change(|state| state.monotonic())
    }

    fn machine(&self) -> Arc<dyn Machine> {
        Arc::new(Inside { world: Arc::clone(&self.world), address: self.address, pid: None })
    }

    fn guard(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn set_network(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn adopt(&self, name: &str, pid: u32, _: Scope, _: Option<Ipv4Addr>) -> Result<(), String> {
        self.world.change(|state| {
            let (address, _) = state.machine_named(name).ok_or_else(|| unknown(name))?;
            match state.running(address) {
                Some(running) if running.pid == pid => Ok(()),
                _ => Err(format!("cannot adopt {name}: process {pid} ended meanwhile")),
            }
        })
    }

    fn address_of(&self, name: &str) -> Result<Option<Ipv4Addr>, String> {
        self.world
            .change(|state| state.machine_named(name).map(|(address, _)| Some(address)))
            .ok_or_else(|| unknown(name))
    }

    fn runs(&self, name: &str) -> bool {
        self.world.change(|state| state.machine_named(name).is_some_and(|(_, machine)| machine.running.is_some()))
    }

    fn act(&self, name: &str, action: MemberAction) -> Result<Observation, String> {
        self.world.change(|state| {
            let (address, _) = state.machine_named(name).ok_or_else(|| unknown(name))?;
            if state.bugs.as_ref().is_some_and(|bugs| !bugs.acts(name, action)) {
                return Ok(seen(true, format!("{name}: done as ordered")));
            }
            Ok(act(state, name, address, action))
        })
    }

    fn change_links(&self, fault: u32, links: &[Pair], effect: Effect) -> Result<Observation, String> {
        self.world.change(|state| {
            if state.bugs.as_ref().is_some_and(|bugs| !bugs.changes_network(false)) {
                return Ok(seen(true, "as ordered".to_string()));
            }
            state.network.faults.inject(fault, links, effect).map(|text| seen(true, text))
        })
    }

    fn restore_links(&self, fault: u32) -> Result<Observation, String> {
        self.world.change(|state| {
            if state.bugs.as_ref().is_some_and(|bugs| !bugs.changes_network(true)) {
                return Ok(seen(true, "open again".to_string()));
            }
            let healed = state.network.faults.heal(fault);
            let (held, links) = healed.ok_or_else(|| format!("there is no network fault {fault}"))?;
            state.release(held, &links);
            Ok(seen(true, "open again".to_string()))
        })
    }

    fn strike(&self, fault: u32, disarm: bool) -> SoFar {
        self.world.change(|state| state.network.faults.strike(fault, disarm))
    }

    fn provoke(&self, _: u32, connections: &[Ends]) -> Result<(), String> {
        self.world.change(|state| state.provoke(connections));
        Ok(())
    }

    fn on_network(&self) -> Vec<u32> {
        self.world.change(|state| state.network.faults.in_effect())
    }

    fn reset(&self) -> Result<(), String> {
        Err("a simulated cluster serves one run".to_string())
    }

    fn close_network(&self) -> Result<(), String> {
        self.world.change(|state| state.network.faults.heal_all());
        Ok(())
    }
}

fn act(state: &mut WorldState, name: &str, address: Ipv4Addr, action: MemberAction) -> Observation {
    let gone = || seen(false, format!("{name}: its process is gone"));
    match action {
        MemberAction::Stop | MemberAction::Continue => {
            let stopped = action == MemberAction::Stop;
            // A new process took the place of the one that was stopped.
            let is_another = !stopped && state.running(address).is_some_and(|running| !running.stopped);
            if is_another || !state.set_stopped(address, stopped) {
                // A process that has ended no longer stands still.
                return Observation { observed: !stopped, ..gone() };
            }
            seen(true, format!("{name}: {}", if stopped { "stands still" } else { "goes on" }))
        }
        MemberAction::StopBackground => seen(false, format!("{name}: it has one thread only")),
        MemberAction::ContinueBackground => seen(true, format!("{name}: it has one thread only")),
        // A simulated server writes its file with each command, so there is nothing more to write when it is asked to end.
        MemberAction::Kill | MemberAction::ShutDown | MemberAction::LosePower => {
            if !state.kill(address, action == MemberAction::LosePower) {
                return gone();
            }
            let lost = if action == MemberAction::LosePower { "; unsynced data is lost" } else { "" };
            seen(true, format!("{name}: gone{lost}"))
        }
        MemberAction::VerifyRunning => {
            let runs = state.running(address).is_some();
            seen(runs, format!("{name}: {}", if runs { "runs again" } else { "was not started again" }))
        }
        MemberAction::Skew(skew) => {
            let (real, monotonic) = (state.wall(), state.monotonic());
            let Some((_, machine)) = state.machine_named(name) else { return gone() };
            match machine.clock.set(skew, real, monotonic) {
                Ok(()) => {
                    // A real server checks its clock many times per second; a simulated server checks it at once.
                    state.wake(address);
                    seen(true, tell_clock(state, name, address))
                }
                Err(reason) => seen(false, format!("{name}: {reason}")),
            }
        }
        MemberAction::KeepNoSnapshot => match state.keep_no_snapshot(address, true) {
            true => seen(true, format!("{name}: ready")),
            false => gone(),
        },
        MemberAction::RemoveSnapshot => {
            state.keep_no_snapshot(address, false);
            seen(true, format!("{name}: no snapshot is left"))
        }
        MemberAction::RestoreClock => {
            if let Some((_, machine)) = state.machine_named(name) {
                machine.clock = Default::default();
                state.wake(address);
            }
            seen(true, tell_clock(state, name, address))
        }
        MemberAction::SlowDisk { .. } => seen(
            false,
            format!("{name}: a simulated server syncs in no time, so its disk can't be slow; use a real server"),
        ),
        MemberAction::RestoreDisk => seen(true, format!("{name}: its disk was not changed")),
    }
}

fn tell_clock(state: &WorldState, name: &str, address: Ipv4Addr) -> String {
    let ahead = state.clocks(address).wall.as_secs_f64() - state.wall().as_secs_f64();
    format!("{name}: its wall clock shows {ahead:+.3} s")
}

fn seen(observed: bool, text: String) -> Observation {
    Observation { observed, effect_us: observed.then_some(0), ..Observation::unseen(text) }
}

fn unknown(name: &str) -> String {
    format!("no member `{name}` was adopted")
}
