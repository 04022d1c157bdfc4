//! The network faults: links between members are cut, lose packets, are slow, or reset connections.
//!
//! Members are IPv4 addresses on one Linux bridge: containers on a user-defined Docker network, or network namespaces
//! of a local cluster. Everything is done and observed at the bridge, outside the members, in the caller's network
//! namespace. A link has a direction: X to Y and Y to X are two links.
//!
//! `condition` combines several faults on one link. `table` makes the kernel drop packets (`rules`). `carrier` does in user space
//! what rules cannot (`delay`, `reset`, and `calls` with `resp`, for faults on one command). `probe` and `observe` check the
//! effect. `guard` is not a fault, but uses the same means to isolate the members' bridge. All build on `capture` and `filter`
//! for packet sockets, `frame` for frames, and `netlink` and `links` for the kernel's network state.
//!
//! Deliberately absent: traffic between members and the machine itself, which includes the controller's own connections. All
//! protocols other than IPv4 are absent too; ARP passes, so members find each other as soon as a cut heals.

mod calls;
mod capture;
mod carrier;
mod condition;
mod delay;
mod filter;
mod frame;
mod guard;
mod links;
pub mod netlink;
mod observe;
mod probe;
mod reset;
mod resp;
mod rules;
mod simulated;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

pub use calls::CommandWatch;
pub use calls::{Ends, SoFar};
pub use guard::Guard;
pub use simulated::{LinkFaults, Released, Segment, SegmentFate};

use calls::{Ordered, Strikes};
use carrier::{Carried, Carrier, CarrierStats};
use condition::{Condition, Handling, combined};
use observe::{FORWARDED_AT_LAST as IN_TIME, Goal, LATE, Sight, observe};
use probe::Prober;
use table::NftTable;

use base::units::micros;
use model::fault_kinds::CallEffect;

/// A link (sender, receiver).
pub type Pair = (Ipv4Addr, Ipv4Addr);

/// The longest delay, in milliseconds: it must end while a member still waits for the packet.
const LONGEST_DELAY_MS: u64 = 600_000;
/// A loss counts as healed when this many probes in a row pass.
const ALL_PASS: usize = 24;
/// If another fault still loses packets, at least one of this many probes must pass.
const SOME_PASS: usize = 12;
/// How often an idle connection is provoked to send a segment, and how long to wait each time. Linux reacts at most once per half
/// second.
const PROVOCATIONS: usize = 70;
const PROVOKED: Duration = Duration::from_millis(10);

/// An effect on the packets of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// All packets are dropped.
    Drop,
    /// This share of packets is dropped, 1 to 100 percent, each packet at random.
    Lose { percent: u8 },
    /// All packets take this much longer, plus or minus the jitter, and stay in order.
    Delay { ms: u64, jitter_ms: u64 },
    /// TCP segments are dropped, and both ends get an RST; everything else passes.
    Reset,
    /// All packets pass until a certain command; then the fault affects its connection.
    Command(CommandWatch),
}

/// The observation after a fault was injected or healed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// True if the effect was observed, not only ordered, on every link between existing members.
    pub observed: bool,
    /// The observation in words.
    pub text: String,
    /// Microseconds from the call until the effect was observed on the last link.
    pub effect_us: Option<u64>,
    /// Microseconds from the call to its end.
    pub took_us: u64,
}

/// A fault that was injected.
#[derive(Clone, Debug)]
struct InjectedFault {
    effect: Effect,
    pairs: BTreeSet<Pair>,
}

/// All network faults of a run. Dropping it heals them, like [`Network::close`].
pub struct Network {
    bridge: String,
    table: NftTable,
    prober: Prober,
    /// Started by the first fault that needs more than rules.
    carrier: Option<Carrier>,
    faults: BTreeMap<u32, InjectedFault>,
    /// Healed faults that have left connections that the agent must follow until their end.
    followed: BTreeMap<u32, InjectedFault>,
    /// Faults whose rules are removed, but whose heal was not observed yet.
    unseen: BTreeMap<u32, InjectedFault>,
    /// Counts of the carrier that were not reported yet.
    stats: CarrierStats,
    /// The commands at which faults have fired.
    strikes: Strikes,
    open: bool,
}

impl Network {
    /// Prepares for faults among the members on `bridge`, in the caller's network namespace. All rules go into one table, named
    /// after `table`: characters that nft cannot read become `-`, and the name begins with `redjepsen-`.
    ///
    /// Tries every operation that faults will need. An error names the missing requirement and the remedy.
    pub fn open(bridge: &str, table: &str) -> io::Result<Network> {
        links::bridge(bridge)?;
        let table = NftTable::open(table)?;
        let prober = Prober::open().map_err(|error| {
            let remedy = "network faults need packet sockets, which take the capability NET_RAW (run as root; \
                          docker: --cap-add NET_RAW)";
            io::Error::new(error.kind(), format!("{remedy}: {error}"))
        })?;
        Ok(Network {
            bridge: bridge.to_string(),
            table,
            prober,
            carrier: None,
            faults: BTreeMap::new(),
            followed: BTreeMap::new(),
            unseen: BTreeMap::new(),
            stats: CarrierStats::default(),
            strikes: Strikes::default(),
            open: true,
        })
    }

    /// Applies the effect to all these links and observes whether it is in effect.
    ///
    /// `fault` is the caller's number for it, needed to heal it. If this fails, nothing has changed. A fault that was injected
    /// but not observed may be in effect and must be healed like any other.
    ///
    /// A fault on a command is only armed by this; observed then means that all packets pass as before. [`Network::strike`] tells
    /// whether it has fired.
    pub fn inject(&mut self, fault: u32, pairs: &[Pair], effect: Effect) -> io::Result<Seen> {
        let ordered = Instant::now();
        let problem = |problem| io::Error::new(io::ErrorKind::InvalidInput, problem);
        let is_there = self.faults.contains_key(&fault) || self.followed.contains_key(&fault);
        check(is_there, fault, pairs, &effect).map_err(problem)?;
        let before = self.in_userspace();
        let injected = InjectedFault { effect, pairs: pairs.iter().copied().collect() };
        self.unseen.remove(&fault);
        self.strikes.arm(fault);
        self.faults.insert(fault, injected.clone());
        if let Err(error) = self.change(before) {
            self.faults.remove(&fault);
            // Restores the old rules, in case the new rules are already in effect.
            let _ = self.table.apply(&self.on_links());
            return Err(error);
        }
        let now = combined(self.on_links().values());
        let goals =
            injected.pairs.iter().map(|pair| (*pair, goal_of_injection(&injected.effect, &now[pair]))).collect();
        Ok(match self.look(&goals) {
            Ok(sight) => {
                let watches_what_is_cut = matches!(injected.effect, Effect::Command(_)) && sight.hidden > 0;
                let observed = sight.bad.is_empty() && (sight.good > 0 || watches_what_is_cut);
                seen(observed, tell_injection(&injected.effect, &sight), sight.effect, ordered)
            }
            Err(error) => seen(false, format!("nothing was observed: {error}"), None, ordered),
        })
    }

    /// Undoes a fault, and observes whether its links are open again, as far as no other fault affects them. Delayed packets are
    /// delivered at once.
    ///
    /// If this fails, or the heal was not observed, it can be tried again.
    pub fn heal(&mut self, fault: u32) -> io::Result<Seen> {
        let ordered = Instant::now();
        let before = self.in_userspace();
        let in_effect = self.faults.remove(&fault);
        let Some(healed) = in_effect.clone().or_else(|| self.unseen.get(&fault).cloned()) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no network fault {fault}")));
        };
        let left = in_effect.as_ref().and_then(|healed| left_by(healed, &self.strikes.so_far(fault, true)));
        self.followed.extend(left.map(|left| (fault, left)));
        if let Err(error) = self.change(before) {
            self.followed.remove(&fault);
            self.faults.extend(in_effect.map(|healed| (fault, healed)));
            return Err(error);
        }
        let stats = self.stats.take(&healed.pairs);
        let struck = self.strikes.forget(fault);
        self.unseen.insert(fault, healed.clone());
        let now = combined(self.on_links().values());
        let goal = |pair| goal_of_heal(&healed.effect, now.get(pair).unwrap_or(&Condition::WELL));
        let goals = healed.pairs.iter().map(|pair| (*pair, goal(pair))).collect();
        Ok(match self.look(&goals) {
            Ok(sight) => {
                let observed = sight.bad.is_empty();
                if observed {
                    self.unseen.remove(&fault);
                }
                let mut text = sight.tell("open again", "still broken by another fault");
                text.push_str(&tell_stats(&healed.effect, &stats, struck));
                seen(observed, text, sight.effect, ordered)
            }
            Err(error) => seen(false, format!("nothing was observed: {error}"), None, ordered),
        })
    }

    /// Where a fault at a command has fired so far. If `disarm`, it fires no more, whatever the answer.
    pub fn strike(&self, fault: u32, disarm: bool) -> SoFar {
        self.strikes.so_far(fault, disarm)
    }

    /// Makes the server's end of each connection send a segment, so that a fault that chose the connection fires. An idle
    /// connection would not send any.
    pub fn provoke(&mut self, fault: u32, connections: &[Ends]) -> io::Result<()> {
        let bridge = links::bridge(&self.bridge)?;
        let addresses = connections.iter().flat_map(|(client, _, server)| [*client, *server]).collect();
        let macs = self.prober.who_is_there(&bridge, &addresses)?;
        for _ in 0..PROVOCATIONS {
            if connections.is_empty() || self.strikes.so_far(fault, false).is_ok() {
                break;
            }
            for ends in connections {
                self.prober.provoke(&bridge, &macs, *ends)?;
            }
            std::thread::sleep(PROVOKED);
        }
        Ok(())
    }

    /// The numbers of the faults in effect, and of healed faults whose heal was not observed.
    pub fn in_effect(&self) -> Vec<u32> {
        let numbers: BTreeSet<u32> = self.faults.keys().chain(self.unseen.keys()).copied().collect();
        numbers.into_iter().collect()
    }

    /// The same network without any faults: removes its table and again tries every operation that faults need.
    pub fn reopen(self) -> io::Result<Network> {
        let (bridge, table) = (self.bridge.clone(), self.table.name().to_string());
        self.close()?;
        Network::open(&bridge, &table)
    }

    /// Ends all faults and removes the table.
    pub fn close(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        if !self.open {
            return Ok(());
        }
        let before = self.in_userspace();
        self.faults.clear();
        self.followed.clear();
        // The rules must go, even if waiting packets cannot be sent.
        let carried = self.change(before);
        let deleted = self.table.delete();
        self.carrier = None;
        self.open = deleted.is_err();
        deleted.and(carried)
    }

    /// The faults that apply to links: faults in effect, and healed faults whose connections are followed.
    fn on_links(&self) -> BTreeMap<u32, InjectedFault> {
        self.followed.iter().chain(&self.faults).map(|(fault, ordered)| (*fault, ordered.clone())).collect()
    }

    /// Puts exactly the faults of [`Network::on_links`] in effect. `before` is the handling in user space so far. If this fails,
    /// nothing has changed.
    fn change(&mut self, before: BTreeMap<Pair, Handling>) -> io::Result<()> {
        let now = self.in_userspace();
        // Until the rules are gone, packets that they still drop on a formerly delayed link are passed on without delay.
        let mut meanwhile = now.clone();
        for (pair, _) in before.iter().filter(|(_, handling)| matches!(handling, Handling::Hold { .. })) {
            meanwhile.entry(*pair).or_insert(Handling::PASS_ON);
        }
        self.carry(meanwhile)?;
        if let Err(error) = self.table.apply(&self.on_links()) {
            self.carry(before)?;
            return Err(error);
        }
        self.carry(now)
    }

    fn in_userspace(&self) -> BTreeMap<Pair, Handling> {
        let conditions = combined(self.on_links().values()).into_iter();
        conditions.filter_map(|(pair, condition)| Some((pair, condition.in_userspace()?))).collect()
    }

    /// Makes the carrier handle these links in user space.
    fn carry(&mut self, handling: BTreeMap<Pair, Handling>) -> io::Result<()> {
        let calls = calls_among(&self.on_links());
        let carrier = match &mut self.carrier {
            Some(carrier) => carrier,
            None if handling.values().all(|handling| *handling == Handling::Cut) => return Ok(()),
            none => none.insert(Carrier::start(&self.bridge, links::bridge(&self.bridge)?, self.strikes.clone())?),
        };
        self.stats.add(carrier.carry(handling, calls, links::bridge(&self.bridge)?)?);
        Ok(())
    }

    fn look(&mut self, goals: &BTreeMap<Pair, Goal>) -> io::Result<Sight> {
        observe(&mut self.prober, || links::bridge(&self.bridge), goals)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Rejects invalid faults.
fn check(is_there: bool, fault: u32, pairs: &[Pair], effect: &Effect) -> Result<(), String> {
    let problem = match *effect {
        _ if is_there => format!("the network fault {fault} is in effect already"),
        _ if pairs.is_empty() => "a network fault needs at least one link".to_string(),
        _ if pairs.iter().any(|(from, to)| from == to) => "a link needs two different members".to_string(),
        Effect::Lose { percent: 0 | 101.. } => "the share of lost packets must be 1% to 100%".to_string(),
        Effect::Delay { ms, jitter_ms } if ms > LONGEST_DELAY_MS || jitter_ms > ms || ms == 0 => {
            format!("a delay must be 1 to {LONGEST_DELAY_MS} ms, and its jitter at most the delay")
        }
        _ => return Ok(()),
    };
    Err(problem)
}

/// The connections of a healed fault that the agent must follow: those on which it refused a command. None if there are none.
fn left_by(healed: &InjectedFault, so_far: &SoFar) -> Option<InjectedFault> {
    let (_, struck) = so_far.as_ref().ok()?;
    let refuses = matches!(&healed.effect, Effect::Command(watch) if watch.effect == CallEffect::Refuse);
    let pairs = struck.iter().flat_map(|(client, server)| [(*client, *server), (*server, *client)]).collect();
    refuses.then(|| InjectedFault { effect: healed.effect.clone(), pairs })
}

/// The faults on commands, with their links.
fn calls_among(faults: &BTreeMap<u32, InjectedFault>) -> BTreeMap<u32, Ordered> {
    let calls = faults.iter().filter_map(|(fault, ordered)| match &ordered.effect {
        Effect::Command(call) => Some((*fault, (call.clone(), ordered.pairs.clone()))),
        _ => None,
    });
    calls.collect()
}

/// Names of all runs' tables in the caller's network namespace, whether their owners are alive or dead.
#[cfg(test)]
pub fn left_over_tables() -> io::Result<Vec<String>> {
    table::list()
}

/// Deletes a table that [`left_over_tables`] named, and the faults in it.
#[cfg(test)]
pub fn delete_left_over_table(name: &str) -> io::Result<()> {
    table::delete(name)
}

fn goal_of_injection(effect: &Effect, now: &Condition) -> Goal {
    match *effect {
        Effect::Drop | Effect::Lose { percent: 100 } => Goal::Blocked,
        _ if now.cut => Goal::Hidden,
        Effect::Lose { .. } => Goal::Lossy { most: now.longest_delay() },
        Effect::Delay { .. } => Goal::Delayed { least: now.shortest_delay(), most: now.longest_delay() },
        Effect::Reset => Goal::Reset,
        Effect::Command(_) => goal_of_heal(effect, now),
    }
}

/// The expected state of a link after a fault on it was healed; other faults may remain.
fn goal_of_heal(healed: &Effect, now: &Condition) -> Goal {
    if now.cut {
        return Goal::Hidden;
    }
    match *healed {
        Effect::Reset if now.reset => Goal::Hidden,
        Effect::Reset if now.pass == 1.0 && now.longest_delay().is_zero() => Goal::PassesTcp,
        _ => {
            let lossless = now.pass == 1.0;
            let probes = match *healed {
                _ if !lossless => SOME_PASS,
                Effect::Lose { .. } => ALL_PASS,
                _ => 1,
            };
            // A remaining delay may be slightly late, but not so late that the healed delay could go unnoticed.
            let late = match *healed {
                Effect::Delay { ms, jitter_ms } => Duration::from_millis((ms - jitter_ms) / 2).clamp(IN_TIME, LATE),
                _ if now.longest_delay().is_zero() => IN_TIME,
                _ => LATE,
            };
            Goal::Passes { within: now.longest_delay() + late, probes, all: lossless }
        }
    }
}

fn seen(observed: bool, text: String, effect: Option<Instant>, ordered: Instant) -> Seen {
    let effect_us = effect.filter(|_| observed).map(|effect| micros(effect.duration_since(ordered)));
    Seen { observed, text, effect_us, took_us: micros(ordered.elapsed()) }
}

fn tell_injection(effect: &Effect, sight: &Sight) -> String {
    let state = match effect {
        Effect::Drop => "cut",
        Effect::Lose { .. } => "lose packets",
        Effect::Delay { .. } => "slow",
        Effect::Reset => "reset connections",
        Effect::Command(_) => "watched",
    };
    let mut text = sight.tell(state, "hidden by a cut");
    match effect {
        Effect::Lose { .. } if sight.entered > 0 => {
            let lost = sight.entered - sight.left.min(sight.entered);
            text.push_str(&format!("; {lost} of {} probes were lost", sight.entered));
        }
        Effect::Delay { .. } if !sight.transits.is_empty() => {
            let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
            let (middle, last) = (sight.transits[sight.transits.len() / 2], sight.transits[sight.transits.len() - 1]);
            text.push_str(&format!("; probes took {:.1} ms in the median, {:.1} at most", ms(middle), ms(last)));
        }
        _ => {}
    }
    text
}

/// The carrier's counts for this effect, and its losses, in words.
fn tell_stats(effect: &Effect, stats: &CarrierStats, struck: u64) -> String {
    let sum = |count: fn(&Carried) -> u64| stats.links.values().map(count).sum::<u64>();
    let mut text = match effect {
        Effect::Delay { .. } => format!("; {} packets were held", sum(|link| link.held)),
        Effect::Reset => format!("; {} segments were answered by RST", sum(|link| link.reset)),
        Effect::Command(_) if struck == 1 => "; it fired once".to_string(),
        Effect::Command(_) => format!("; it fired {struck} times"),
        Effect::Drop | Effect::Lose { .. } => String::new(),
    };
    for (count, what) in [(stats.no_room, "lost for lack of room"), (stats.missed, "missed and therefore lost")] {
        if count > 0 {
            text.push_str(&format!("; {count} packets were {what}"));
        }
    }
    text
}
