//! A fault from its order to its heal, as a history tells it.

use super::{CallEffect, Command, FaultKind};
use base::members::Role;

/// One fault from order to heal.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultWindow {
    pub fault: u32,
    pub kind: FaultKind,
    /// What was ordered, in the words of the nemesis file, with its targets drawn; empty if not known.
    pub what: String,
    pub targets: Vec<String>,
    /// When the order was sent; for a fault at a command, when it struck, as it does nothing before that.
    pub inject: u64,
    /// When the order was answered, and whether its effect was observed.
    pub injected: Option<(u64, bool)>,
    pub heal: Option<u64>,
    pub healed: Option<(u64, bool)>,
    /// For how long after its heal it may still keep a lock, such as a key on a node whose clock was ahead, in
    /// nanoseconds; `None` if that is not known.
    pub aftermath_ns: Option<u64>,
    /// By how much the clocks that it hit were wrong at most, ahead or behind, in nanoseconds; `None` if it is not on
    /// clocks, or that is not known.
    pub clock_off_ns: Option<u64>,
    /// From whom to whom packets are affected, as pairs of sender and receiver; `None` if that is not known, or it is not
    /// on links.
    pub links: Option<Vec<(String, String)>>,
    /// What it does at its command, if it is at one and that is known.
    pub on_call: Option<CallEffect>,
    /// The commands that it strikes each time, whichever their key; `None` if it strikes once, or that is not known.
    pub on_each: Option<Command>,
    /// By how much packets on its links are late at least, in nanoseconds, if it delays them and that is known.
    pub delay_ns: Option<u64>,
    /// Why nothing was injected.
    pub skipped: Option<String>,
    /// What was seen at injection and at heal.
    pub texts: Vec<String>,
    /// Indices of the events that say all this.
    pub lines: Vec<u64>,
}

impl FaultWindow {
    /// A fault that was ordered, of which nothing more is known.
    pub fn new(fault: u32, kind: FaultKind) -> FaultWindow {
        FaultWindow {
            fault,
            kind,
            what: String::new(),
            targets: Vec::new(),
            inject: 0,
            injected: None,
            heal: None,
            healed: None,
            aftermath_ns: None,
            clock_off_ns: None,
            links: None,
            on_call: None,
            on_each: None,
            delay_ns: None,
            skipped: None,
            texts: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// The nodes among those that it hit.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().map(String::as_str).filter(|target| Role::of(target) == Some(Role::Node))
    }

    /// Whether it hits a member of this role.
    pub fn hits(&self, role: Role) -> bool {
        self.targets.iter().any(|target| Role::of(target) == Some(role))
    }

    /// Whether the fault happened and was seen to happen.
    pub fn was_observed(&self) -> bool {
        matches!(self.injected, Some((_, true)))
    }

    /// Whether the fault was undone and seen to be undone.
    pub fn was_healed(&self) -> bool {
        matches!(self.healed, Some((_, true)))
    }

    /// From when to when it was certainly in effect, if it was observed: up to the order to heal it, or for ever.
    pub fn certain_span(&self) -> Option<(u64, u64)> {
        let (since, _) = self.injected.filter(|(_, observed)| *observed)?;
        Some((since, self.ordered_span().1.unwrap_or(u64::MAX).max(since)))
    }

    /// From its order to the order to heal it, or until that was seen: what it struck may go on before its heal is seen.
    pub fn ordered_span(&self) -> (u64, Option<u64>) {
        (self.inject, self.heal.or(self.healed.map(|(time, _)| time)))
    }

    /// From when to when the fault may have been in effect; open-ended if no heal was recorded.
    pub fn span(&self) -> (u64, Option<u64>) {
        (self.inject, self.healed.map(|(time, _)| time))
    }
}
