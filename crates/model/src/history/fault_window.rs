//! A fault from its order to its heal, as a history records it.

use super::{CallEffect, Command, FaultKind, Operation};
use base::members::Role;

/// The report of a heal, up to the names of the members that another fault still hits.
pub const STILL_HIT: &str = " (another fault still hits ";

/// One fault from order to heal.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultWindow {
    pub fault: u32,
    pub kind: FaultKind,
    /// The order in the words of the nemesis file, with its drawn targets; empty if not known.
    pub what: String,
    pub targets: Vec<String>,
    /// When the order was sent. For a fault at a command, when it fired: it does nothing before that.
    pub inject: u64,
    /// When the order was answered, and whether its effect was observed.
    pub injected: Option<(u64, bool)>,
    pub heal: Option<u64>,
    pub healed: Option<(u64, bool)>,
    /// How long after its heal it may still keep a lock, in nanoseconds, such as a key on a node whose clock was ahead. `None` if
    /// not known.
    pub aftermath_ns: Option<u64>,
    /// The largest error of the clocks that it hit, ahead or behind, in nanoseconds. `None` if it is not on clocks, or the error
    /// is not known.
    pub clock_off_ns: Option<u64>,
    /// The affected links, as pairs of sender and receiver; `None` if they are not known, or the fault is not on links.
    pub links: Option<Vec<(String, String)>>,
    /// Its effect at a command; `None` if it is not at a command, or the effect is not known.
    pub on_call: Option<CallEffect>,
    /// The commands at which it fires every time, with any key; `None` if it fires once, or they are not known.
    pub on_each: Option<Command>,
    /// The minimum delay of packets on its links, in nanoseconds; `None` if it does not delay them, or the delay is not known.
    pub delay_ns: Option<u64>,
    pub skipped: Option<String>,
    /// The observations at injection and at heal.
    pub texts: Vec<String>,
    /// Indices of the events of this fault.
    pub lines: Vec<u64>,
}

impl FaultWindow {
    /// A fault that was ordered; nothing else is known yet.
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

    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().map(String::as_str).filter(|target| Role::of(target) == Some(Role::Node))
    }

    /// True if it ended processes of clients alone. New processes take their places at once; the killed processes never act again.
    pub fn kills_clients(&self) -> bool {
        self.kind.ends_processes() && self.targets.iter().all(|target| Role::of(target) == Some(Role::Client))
    }

    /// True if it hits the process of this operation of a client with this name. A process that replaces a killed process is not
    /// hit by that kill.
    pub fn hits_process(&self, operation: &Operation, client: &str) -> bool {
        let is_before = !self.kills_clients() || operation.invoked <= self.inject;
        is_before && self.targets.iter().any(|target| target == client)
    }

    /// True if its own record says that it had no effect. Such a fault lost no key, forgot no script, delayed nothing, moved no
    /// clock, was on no link, or ended when it began.
    pub fn did_nothing(&self) -> bool {
        let says_zero = |report: &str| report.split_once(": ").map_or(report, |(_, what)| what).starts_with("0 ");
        let changes_data = !self.kind.says.lasts && !self.kind.is_of_the_network() && !self.kind.ends_processes();
        let lost_nothing = changes_data && self.texts.first().is_some_and(|text| text.split("; ").all(says_zero));
        let ended_at_once =
            self.kind.is_an_outage() && self.certain_span().is_some_and(|(since, until)| since == until);
        lost_nothing
            || ended_at_once
            || self.delay_ns == Some(0)
            || self.clock_off_ns == Some(0)
            || self.links.as_ref().is_some_and(Vec::is_empty)
    }

    /// True if its heal was observed to leave this member to another fault.
    pub fn left_to_another(&self, target: &str) -> bool {
        let held = self.texts.last().filter(|_| self.was_healed()).and_then(|text| text.split_once(STILL_HIT));
        held.is_some_and(|(_, names)| names.trim_end_matches(')').split(", ").any(|name| name == target))
    }

    pub fn hits(&self, role: Role) -> bool {
        self.targets.iter().any(|target| Role::of(target) == Some(role))
    }

    pub fn was_observed(&self) -> bool {
        matches!(self.injected, Some((_, true)))
    }

    pub fn was_healed(&self) -> bool {
        matches!(self.healed, Some((_, true)))
    }

    /// The time in which it was certainly in effect, if it was observed: up to the order to heal it, or for ever.
    pub fn certain_span(&self) -> Option<(u64, u64)> {
        let (since, _) = self.injected.filter(|(_, observed)| *observed)?;
        Some((since, self.ordered_span().1.unwrap_or(u64::MAX).max(since)))
    }

    /// From its order to the order to heal it, or to the heal if no order was recorded. Its targets may go on before the heal is
    /// observed.
    pub fn ordered_span(&self) -> (u64, Option<u64>) {
        (self.inject, self.heal.or(self.healed.map(|(time, _)| time)))
    }

    /// The time in which the fault may have been in effect; open-ended if no heal was recorded.
    pub fn span(&self) -> (u64, Option<u64>) {
        (self.inject, self.healed.map(|(time, _)| time))
    }
}
