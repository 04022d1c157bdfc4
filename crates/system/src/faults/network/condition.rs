//! The combined effect of all faults on one link from a member to another.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Effect, InjectedFault, Pair};

/// The condition of a link. A cut hides everything else, and a reset hides everything else that would happen to TCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Condition {
    pub cut: bool,
    pub reset: bool,
    /// True if commands on the link are watched.
    pub calls: bool,
    /// The share of packets that pass if the link is not cut, from 0 to 1.
    pub pass: f64,
    pub delay: Duration,
    /// A packet's delay may be this much longer or shorter.
    pub jitter: Duration,
}

impl Condition {
    pub const WELL: Condition =
        Condition { cut: false, reset: false, calls: false, pass: 1.0, delay: Duration::ZERO, jitter: Duration::ZERO };

    /// The handling in user space that rules alone cannot do; None if rules are enough.
    pub fn in_userspace(&self) -> Option<Handling> {
        if self.cut {
            Some(Handling::Cut)
        } else if self.calls || !self.longest_delay().is_zero() {
            let (least, most) = (self.shortest_delay(), self.longest_delay());
            Some(Handling::Hold { reset: self.reset, pass: self.pass, least, most })
        } else if self.reset {
            Some(Handling::Reset)
        } else {
            None
        }
    }

    pub fn longest_delay(&self) -> Duration {
        self.delay.saturating_add(self.jitter)
    }

    pub fn shortest_delay(&self) -> Duration {
        self.delay.saturating_sub(self.jitter)
    }
}

/// How the packets of a link are handled in user space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Handling {
    /// The rules drop all packets; packets that already wait are lost as well.
    Cut,
    /// The rules drop TCP segments, and the carrier answers them with RSTs.
    Reset,
    /// The rules drop all packets. After the delay, the carrier sends this share again, except segments to be reset.
    Hold { reset: bool, pass: f64, least: Duration, most: Duration },
}

impl Handling {
    /// Sends all packets that the rules drop at once.
    pub const PASS_ON: Handling =
        Handling::Hold { reset: false, pass: 1.0, least: Duration::ZERO, most: Duration::ZERO };
}

/// The condition of every link that a fault affects. Losses multiply, and delays add up.
pub(super) fn combined<'fault>(faults: impl IntoIterator<Item = &'fault InjectedFault>) -> BTreeMap<Pair, Condition> {
    let mut conditions = BTreeMap::new();
    for fault in faults {
        for pair in &fault.pairs {
            let condition = conditions.entry(*pair).or_insert(Condition::WELL);
            match &fault.effect {
                Effect::Drop => condition.cut = true,
                Effect::Reset => condition.reset = true,
                Effect::Command(_) => condition.calls = true,
                Effect::Lose { percent: 100 } => condition.cut = true,
                Effect::Lose { percent } => condition.pass *= 1.0 - f64::from(*percent) / 100.0,
                Effect::Delay { ms, jitter_ms } => {
                    condition.delay = condition.delay.saturating_add(Duration::from_millis(*ms));
                    condition.jitter = condition.jitter.saturating_add(Duration::from_millis(*jitter_ms));
                }
            }
        }
    }
    conditions
}
