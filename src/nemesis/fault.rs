//! A fault as a phrase: `pause holder`, `loss 30% client:0 and node:1`, `clock node:2 +2ttl`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::call::CallFault;
use super::partition::{Between, Partition};
use super::phrase::{PhraseError, first, length, lengths, only, serde_as_phrase};
use super::target::{Target, Targets};
use crate::history::FaultKind;
use crate::units::{Length, LengthRange};

/// What is broken, and whom it hits.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// `pause WHO`: SIGSTOP to all its processes.
    Pause(Targets),
    /// `pause background WHO`: all threads of its processes but the first of each are stopped.
    PauseBackground(Targets),
    /// `kill WHO`: SIGKILL; the heal restarts it.
    Kill(Targets),
    /// `power-loss WHO`: a kill that also loses what was not synced.
    PowerLoss(Targets),
    /// `partition A from B`, `partition A to B`, `partition minority`: packets are dropped.
    Partition(Partition),
    /// `loss 30% A and B`: this percentage of packets is dropped.
    Loss(u8, Between),
    /// `delay 50ms A to B`: packets are held back.
    Delay(LengthRange, Between),
    /// `reset A and B`: connections are reset.
    Reset(Between),
    /// `clock WHO +2ttl`, `clock WHO x1.5`, `clock WHO strobe 200ms every 1ms`.
    Clock(Targets, Change),
    /// `evict WHO`: memory is limited to nothing, so that keys are evicted.
    Evict(Targets),
    /// `flush WHO`: all keys are lost.
    Flush(Targets),
    /// `failover primary`: an operator makes its replica the primary.
    Failover(Targets),
    /// `hold reply to 2nd SET client:0 from node:1`: something happens at one command.
    Call(CallFault),
}

/// How a wall clock goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    Ahead(Length),
    Behind(Length),
    /// It runs this many times as fast.
    Rate(f64),
    /// It alternates between right and ahead by the first length; each state lasts the second length.
    Strobe(Length, Length),
}

/// What a fault may begin with.
pub(super) const VERBS: [&str; 14] = [
    "pause",
    "kill",
    "power-loss",
    "partition",
    "loss",
    "delay",
    "reset",
    "clock",
    "evict",
    "flush",
    "failover",
    "hold",
    "lose",
    "cut",
];

const EXPECTED: &str = "`pause WHO`, `pause background WHO`, `kill WHO`, `power-loss WHO`, `partition A from B`, `partition minority` (or another \
                        shape), `loss 30% A and B`, `delay 50ms A to B`, `reset A and B`, `clock WHO +2ttl`, `evict WHO`, \
                        `flush WHO`, `failover primary`, or a fault at a command such as `hold reply to SET client:0 from node:0`";

impl Fault {
    /// Its kind, as histories record it.
    pub fn kind(&self) -> FaultKind {
        match self {
            Fault::Pause(_) => FaultKind::Pause,
            Fault::PauseBackground(_) => FaultKind::PauseBackground,
            Fault::Kill(_) => FaultKind::Kill,
            Fault::PowerLoss(_) => FaultKind::PowerLoss,
            Fault::Partition(_) => FaultKind::Partition,
            Fault::Loss(..) => FaultKind::Loss,
            Fault::Delay(..) => FaultKind::Delay,
            Fault::Reset(_) => FaultKind::Reset,
            Fault::Clock(..) => FaultKind::Clock,
            Fault::Evict(_) => FaultKind::Evict,
            Fault::Flush(_) => FaultKind::Flush,
            Fault::Failover(_) => FaultKind::Failover,
            Fault::Call(_) => FaultKind::Call,
        }
    }

    /// Every group of targets in it.
    pub fn all_targets(&self) -> Vec<&Targets> {
        match self {
            Fault::Pause(targets)
            | Fault::PauseBackground(targets)
            | Fault::Kill(targets)
            | Fault::PowerLoss(targets)
            | Fault::Clock(targets, _)
            | Fault::Evict(targets)
            | Fault::Flush(targets)
            | Fault::Failover(targets) => vec![targets],
            Fault::Partition(Partition::Shape(..)) => Vec::new(),
            Fault::Partition(Partition::Between(parts)) => {
                parts.iter().flat_map(|part| [&part.one, &part.other]).collect()
            }
            Fault::Loss(_, between) | Fault::Delay(_, between) | Fault::Reset(between) => {
                vec![&between.one, &between.other]
            }
            Fault::Call(call) => vec![&call.clients, &call.servers],
        }
    }

    /// Whether it names a target for which `is_such` is true.
    pub fn names(&self, is_such: impl Fn(Target) -> bool) -> bool {
        self.all_targets().iter().any(|targets| targets.0.iter().any(|target| is_such(*target)))
    }

    /// For how long after its heal it may still keep a lock of this TTL, if it was in effect for `lasted`: a node whose
    /// clock was ahead holds keys that end by that clock, so once it is set right they live for as much longer.
    pub fn aftermath(&self, ttl: Duration, lasted: Duration) -> Duration {
        match self {
            Fault::Clock(targets, change) if targets.0.iter().any(|target| target.is_node()) => {
                change.ahead(ttl, lasted)
            }
            _ => Duration::ZERO,
        }
    }

    /// Refuses targets for which it makes no sense.
    fn check(self) -> Result<Fault, PhraseError> {
        let refuse = |targets: &Targets, expected: &str| {
            Err(PhraseError::new(format!("`{self}`: {targets} can't be a target of that; {expected}")))
        };
        match &self {
            Fault::PauseBackground(targets) if !targets.0.iter().all(|target| target.is_client()) => {
                refuse(targets, "only clients can")
            }
            Fault::Kill(targets) if targets.0.contains(&Target::Resource) => {
                refuse(targets, "the resource is not under test and has to survive")
            }
            Fault::PowerLoss(targets) | Fault::Evict(targets) | Fault::Flush(targets)
                if !targets.0.iter().all(|target| target.is_node()) =>
            {
                refuse(targets, "only nodes of the lock can")
            }
            Fault::Failover(targets) if targets.0 != [Target::Primary] => {
                refuse(targets, "only `primary` can be followed by its replica")
            }
            Fault::Clock(targets, _) if targets.0.contains(&Target::Resource) => {
                refuse(targets, "the resource does not depend on a clock")
            }
            _ => Ok(self),
        }
    }
}

impl FromStr for Fault {
    type Err = PhraseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (verb, rest) = first(text);
        let fault = match verb {
            _ if rest.is_empty() => return Err(PhraseError::expected(text, EXPECTED)),
            _ if CallFault::begins(text) => Fault::Call(text.parse()?),
            "hold" | "lose" | "cut" => return Err(CallFault::expected(text)),
            "pause" => match first(rest) {
                ("background", who) => Fault::PauseBackground(only(who)?),
                _ => Fault::Pause(only(rest)?),
            },
            "kill" => Fault::Kill(only(rest)?),
            "power-loss" => Fault::PowerLoss(only(rest)?),
            "partition" => Fault::Partition(only(rest)?),
            "loss" => {
                let (percent, between) = first(rest);
                let number = percent.strip_suffix('%').and_then(|number| number.parse().ok());
                match number {
                    Some(number @ 1..=99) => Fault::Loss(number, Between::parse(between)?),
                    _ => return Err(PhraseError::expected(percent, "a part of the packets, from `1%` to `99%`")),
                }
            }
            "delay" => {
                let (by, between) = first(rest);
                Fault::Delay(lengths(by)?, Between::parse(between)?)
            }
            "reset" => Fault::Reset(Between::parse(rest)?),
            "clock" => {
                let (targets, change) = first(rest);
                Fault::Clock(only(targets)?, change.parse()?)
            }
            "evict" => Fault::Evict(only(rest)?),
            "flush" => Fault::Flush(only(rest)?),
            "failover" => Fault::Failover(only(rest)?),
            _ => return Err(PhraseError::expected(text, EXPECTED)),
        };
        fault.check()
    }
}

impl Change {
    /// By how much it has brought a clock ahead at the most, after `lasted`.
    fn ahead(self, ttl: Duration, lasted: Duration) -> Duration {
        match self {
            Change::Ahead(by) | Change::Strobe(by, _) => by.resolve(ttl),
            Change::Rate(factor) => {
                let ahead = lasted.as_secs_f64() * (factor - 1.0).max(0.0);
                Duration::try_from_secs_f64(ahead).unwrap_or(Duration::MAX)
            }
            Change::Behind(_) => Duration::ZERO,
        }
    }
}

impl FromStr for Change {
    type Err = PhraseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = || {
            let ways = "`+2ttl` (ahead), `-500ms` (behind), `x1.5` (runs faster), or `strobe 200ms every 1ms`";
            PhraseError::expected(text, ways)
        };
        if let Some(ahead) = text.strip_prefix('+') {
            return Ok(Change::Ahead(length(ahead)?));
        }
        if let Some(behind) = text.strip_prefix('-') {
            return Ok(Change::Behind(length(behind)?));
        }
        if let Some(rate) = text.strip_prefix('x') {
            return match rate.parse::<f64>() {
                Ok(rate) if (0.001..=1000.0).contains(&rate) => Ok(Change::Rate(rate)),
                _ => Err(PhraseError::expected(text, "a rate from `x0.001` to `x1000`")),
            };
        }
        let strobe = text.strip_prefix("strobe ").and_then(|rest| rest.split_once(" every "));
        let (by, every) = strobe.ok_or_else(expected)?;
        Ok(Change::Strobe(length(by.trim())?, length(every.trim())?))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |between: &Between| between.to_string().replace(" from ", " and ");
        match self {
            Fault::Pause(targets) => write!(f, "pause {targets}"),
            Fault::PauseBackground(targets) => write!(f, "pause background {targets}"),
            Fault::Kill(targets) => write!(f, "kill {targets}"),
            Fault::PowerLoss(targets) => write!(f, "power-loss {targets}"),
            Fault::Partition(cut) => write!(f, "partition {cut}"),
            Fault::Loss(percent, between) => write!(f, "loss {percent}% {}", joined(between)),
            Fault::Delay(by, between) => write!(f, "delay {by} {}", joined(between)),
            Fault::Reset(between) => write!(f, "reset {}", joined(between)),
            Fault::Clock(targets, change) => write!(f, "clock {targets} {change}"),
            Fault::Evict(targets) => write!(f, "evict {targets}"),
            Fault::Flush(targets) => write!(f, "flush {targets}"),
            Fault::Failover(targets) => write!(f, "failover {targets}"),
            Fault::Call(call) => call.fmt(f),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Ahead(by) => write!(f, "+{by}"),
            Change::Behind(by) => write!(f, "-{by}"),
            Change::Rate(rate) => write!(f, "x{rate}"),
            Change::Strobe(by, every) => write!(f, "strobe {by} every {every}"),
        }
    }
}

serde_as_phrase!(Fault);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_understood_and_survive_printing() {
        for text in [
            "pause holder",
            "pause client:0,node:3",
            "kill node",
            "kill client",
            "power-loss voter",
            "partition minority",
            "partition majorities-ring replies",
            "partition halves requests",
            "partition client:0 from node:0,node:1",
            "partition node:2 to client:0",
            "partition client:0 from node:1; client:1 from node:0",
            "partition clients from majority",
            "partition holder from resource",
            "partition primary from replica",
            "partition primary from nodes,sentinels",
            "kill primary",
            "loss 30% clients and nodes",
            "delay 50ms client:0 to resource",
            "delay 0.1ttl..0.2ttl nodes and clients",
            "reset client and node",
            "clock node:2 +2ttl",
            "clock minority -500ms",
            "clock client:0 x0.5",
            "clock nodes strobe 200ms every 1ms",
            "evict majority",
            "flush node",
            "failover primary",
            "pause background client:0",
            "hold request SET client:0 to node:1",
            "hold reply to SET holder from resource",
            "hold reply to 2nd SET on lock:k? clients from nodes",
            "lose reply to each EVAL client:0,client:2 from majority",
            "reset after 11th write client and node:0",
            "reset connection of SUBSCRIBE client:0 and nodes",
            "cut connection of any client:1 and primary",
        ] {
            let fault: Fault = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(fault.to_string(), text);
            assert_eq!(fault.to_string().parse::<Fault>().unwrap(), fault);
        }
        assert_eq!("  pause   holder ".parse::<Fault>().unwrap().to_string(), "pause holder");
    }

    #[test]
    fn what_is_no_fault_is_refused_with_what_would_be() {
        for (text, expected) in [
            ("", "expected `pause WHO`"),
            ("pause", "expected `pause WHO`"),
            ("paus holder", "expected `pause WHO`"),
            ("pause client:x", "unknown target `client:x`"),
            ("pause client:-1", "unknown target"),
            ("pause holder now", "unknown target `holder now`"),
            ("kill resource", "has to survive"),
            ("flush client:0", "only nodes"),
            ("power-loss resource", "only nodes"),
            ("evict sentinels", "only nodes"),
            ("failover node:0", "only `primary`"),
            ("failover primary,replica", "only `primary`"),
            ("clock resource +1s", "does not depend on a clock"),
            ("partition somewhere", "`A from B`"),
            ("partition one two", "`requests` or `replies`"),
            ("partition client:0 from", "`A from B`"),
            ("loss 0% client and node", "`1%` to `99%`"),
            ("loss 101% client and node", "`1%` to `99%`"),
            ("loss client and node", "`1%` to `99%`"),
            ("delay soon client to node", "not a length"),
            ("clock node", "`+2ttl`"),
            ("clock node 2ttl", "`+2ttl`"),
            ("clock node x0", "a rate from"),
            ("clock node xNaN", "a rate from"),
            ("clock node strobe 1ms", "strobe 200ms every 1ms"),
            ("pause background", "unknown target"),
            ("pause background node:0", "only clients can"),
            ("hold SET client:0 to node:0", "`hold request SET client:0 to node:0`"),
            ("lose", "expected `pause WHO`"),
            ("lose request SET client:0 to node:0", "`lose reply to SET client:0 from node:0`"),
            ("cut client:0 from node:0", "`cut connection of SUBSCRIBE client:0 and node:0`"),
            ("hold request SET", "a command, `any` or `write`, then `CLIENT to SERVER`"),
            ("hold request 2nd", "a command, `any` or `write`"),
            ("hold request SET on lock:k0", "a command, `any` or `write`"),
            ("hold request SET node:0 to client:0", "the client first"),
            ("hold request SET client:0 to client:1", "the client first"),
            ("hold request SET client:0 to sentinels", "the client first"),
            ("hold request 0th SET client:0 to node:0", "from `1st`"),
            ("hold request 2th SET client:0 to node:0", "`2nd`"),
            ("hold request S.T client:0 to node:0", "letters"),
            ("reset connection of 2nd SUBSCRIBE client:0 and node:0", "no number"),
        ] {
            let error = text.parse::<Fault>().map(|fault| panic!("{text} became {fault}")).unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }

    /// Keys end by their node's clock, so they outlive a heal by as much as that clock was ahead.
    #[test]
    fn only_a_nodes_clock_that_was_ahead_has_an_aftermath() {
        let aftermath = |text: &str, ttl: Duration| {
            text.parse::<Fault>().unwrap().aftermath(ttl, Duration::from_millis(70)).as_millis()
        };
        for (text, millis) in [
            ("clock node:0 x11", 700),
            ("clock node:0 x0.5", 0),
            ("clock voter +2ttl", 2_000),
            ("clock nodes strobe 200ms every 1ms", 200),
            ("clock node:0 -2ttl", 0),
            ("clock clients +2ttl", 0),
            ("clock sentinels +2ttl", 0),
            ("pause nodes", 0),
        ] {
            assert_eq!(aftermath(text, Duration::from_secs(1)), millis, "{text}");
        }
        assert_eq!(aftermath("clock node +1000ttl", Duration::MAX), Duration::MAX.as_millis());
    }
}
