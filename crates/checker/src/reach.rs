//! Which of several faults could cause an anomaly: faults on nodes must reach as many nodes as that takes.

use std::collections::BTreeSet;
use std::time::Duration;

use base::members::Role;
use model::fault_kinds::{OnData, OnPackets, RulesOut};
use model::history::{FactName, FaultKind, FaultWindow, History, ResourceKind};
use model::nemesis::{Argument, Fault};

/// The clocks of two machines drift apart by less than 1/5000.
const DRIFT: i64 = 5_000;

/// The nodes that must have the key of a lock.
pub(super) enum Needed<'h> {
    /// This many of the independent nodes.
    Several(usize),
    /// One of these primaries.
    OneOf(Vec<&'h str>),
}

impl<'h> Needed<'h> {
    /// The nodes needed for this key at this time, as far as the history shows.
    pub fn new(history: &'h History, key: &str, moment: u64) -> Needed<'h> {
        let mut of_key = history.promotions.iter().filter(|seen| seen.promotion.key == key).peekable();
        if let Some(first) = of_key.peek() {
            let before = &first.promotion.instead_of;
            let last = of_key.take_while(|seen| seen.time <= moment).last();
            return Needed::OneOf(vec![last.map_or(before, |seen| &seen.promotion.node).as_str()]);
        }
        let ready = history.facts.iter().find(|fact| fact.name == FactName::NodesReady);
        if let Some((_, roles)) = ready.and_then(|fact| fact.text.split_once("; ")) {
            return Needed::OneOf(roles.split(", ").filter_map(|one| one.split(' ').next()).collect());
        }
        Needed::Several(history.run.as_ref().map_or(1, |run| run.nodes as usize / 2 + 1))
    }

    /// True if these are enough nodes.
    fn are(&self, nodes: &BTreeSet<&str>) -> bool {
        match self {
            Needed::Several(least) => nodes.len() >= *least,
            Needed::OneOf(primaries) => primaries.iter().any(|primary| nodes.contains(primary)),
        }
    }

    /// True if this fault hits enough nodes.
    pub fn hits(&self, window: &FaultWindow) -> bool {
        self.are(&window.nodes().collect())
    }

    /// The fault without which too few nodes would have lost the key, among the faults that hit between these two times. `kept`
    /// are the nodes that never had the key; later faults found no key to remove. None if all faults together hit too few nodes;
    /// `Some(None)` if faults of several kinds were needed, or it is unknown which one was.
    pub fn lost(
        &self,
        history: &'h History,
        kept: &BTreeSet<&'h str>,
        from: u64,
        to: u64,
    ) -> Option<Option<&'h FaultWindow>> {
        let mut lost: Vec<&FaultWindow> =
            history.faults.iter().filter(|window| lost_between(window, from, to)).collect();
        lost.sort_by_key(|window| window.inject);
        let nodes = |windows: &[&'h FaultWindow]| -> BTreeSet<&'h str> {
            kept.iter().copied().chain(windows.iter().flat_map(|window| window.nodes())).collect()
        };
        let enough = (1..=lost.len()).find(|enough| self.are(&nodes(&lost[..*enough])))?;
        let is_needed = |one: &&FaultWindow| match self {
            // It is unknown which of several primaries has the key.
            Needed::OneOf(primaries) if primaries.len() > 1 => self.hits(one),
            _ => {
                let others = lost[..enough].iter().copied().filter(|other| other.fault != one.fault);
                !self.are(&nodes(&others.collect::<Vec<_>>()))
            }
        };
        Some(last_of_one_kind(&lost.iter().copied().filter(is_needed).collect::<Vec<_>>()))
    }
}

/// True if this fault was observed to remove data from nodes at some time from `from` to `to`. It does so when it begins; data
/// written later stay, unless its heal starts the server anew.
pub(super) fn lost_between(window: &FaultWindow, from: u64, to: u64) -> bool {
    let is_within = |ordered: u64, done: Option<(u64, bool)>| {
        done.is_some_and(|(answered, seen)| seen && ordered <= to && answered >= from)
    };
    let heal_restarts = window.kind.does.restarts && !window.kind.ends_processes();
    window.kind.does.data == OnData::Lost
        && (is_within(window.inject, window.injected)
            || heal_restarts && window.heal.is_some_and(|heal| is_within(heal, window.healed)))
}

/// The nodes that a client could not reach during the whole time.
pub(super) fn kept_from<'h>(history: &'h History, client: &str, from: u64, to: u64) -> BTreeSet<&'h str> {
    let all_the_while = |window: &&FaultWindow| {
        let certain = window.certain_span().is_some_and(|(since, until)| since <= from && to <= until);
        certain || (window.was_observed() && window.kind.is_at_command() && overlaps(window, from, to))
    };
    let nodes = |window: &'h FaultWindow| -> Vec<&'h str> {
        let is_node = |name: &&str| Role::of(name) == Some(Role::Node);
        let does = window.kind.does;
        match &window.links {
            _ if window.kind.halts() || window.kind.refuses_writes() => window.nodes().collect(),
            _ if window.kind.is_at_command() && window.targets.iter().any(|target| target == client) => {
                window.nodes().collect()
            }
            Some(links) if does.packets == OnPackets::Cut => {
                let others = links.iter().filter_map(|(one, other)| match (one == client, other == client) {
                    (true, _) => Some(other.as_str()),
                    (_, true) => Some(one.as_str()),
                    _ => None,
                });
                others.filter(is_node).collect()
            }
            _ => Vec::new(),
        }
    };
    history.faults.iter().filter(all_the_while).flat_map(nodes).collect()
}

/// The last of these faults, each of which could be the cause, if they are of one kind. Otherwise it is unknown which one was.
pub(super) fn last_of_one_kind<'h>(windows: &[&'h FaultWindow]) -> Option<&'h FaultWindow> {
    let last = windows.iter().max_by_key(|window| window.inject)?;
    windows.iter().all(|window| window.kind == last.kind).then_some(*last)
}

/// The most telling of these faults; among equals, the last if they are of one kind. A new list of nodes delays no client and
/// changes no node, so it explains nothing here.
pub(super) fn most_telling<'h>(windows: impl Iterator<Item = &'h FaultWindow>) -> Option<&'h FaultWindow> {
    let by = |window: &FaultWindow| telling(window.kind, !window.hits(Role::Node));
    let windows: Vec<&FaultWindow> = windows.filter(|window| !window.kind.gives_a_list()).collect();
    let most = windows.iter().map(|window| by(window)).min()?;
    let equals: Vec<&FaultWindow> = windows.into_iter().filter(|window| by(window) == most).collect();
    last_of_one_kind(&equals)
}

/// The rank of a kind of fault as an explanation, on a client involved or on a node; a lower number explains more.
pub(super) fn telling(kind: FaultKind, on_client: bool) -> u8 {
    if on_client { kind.blame.client } else { kind.blame.node }
}

/// True if the fault was in effect at some time from `start` to `end`. A fault that ended at `start` was not, unless it ended as it
/// began.
pub(super) fn overlaps(window: &FaultWindow, start: u64, end: u64) -> bool {
    let (from, to) = window.span();
    from <= end && to.is_none_or(|to| to > start || to == start && from == to)
}

/// True if a fault may keep answers of the resource from this client while it lasts.
pub(super) fn may_keep_answers(history: &History, window: &FaultWindow, client: &str) -> bool {
    let resource = history.run.as_ref().map(|run| run.resource);
    let is_in_nodes = matches!(resource, Some(ResourceKind::Replicated | ResourceKind::Row));
    let keeper = if is_in_nodes { Role::Node } else { Role::Resource };
    let is_on_the_way = window.kind.is_of_the_network() || window.kind.is_at_command();
    resource != Some(ResourceKind::None)
        && window.was_observed()
        && window.hits(keeper)
        && (window.kind.halts() || is_on_the_way && is_between(window, client, keeper))
}

/// True if a fault hits a link between this client and a member of this role. If its links are unknown, if it hits the client.
pub(super) fn is_between(window: &FaultWindow, client: &str, role: Role) -> bool {
    let is_its = |name: &str| Role::of(name) == Some(role);
    let joins = |(one, other): &(String, String)| one == client && is_its(other) || other == client && is_its(one);
    match &window.links {
        Some(links) => links.iter().any(joins),
        None => window.targets.iter().any(|target| target == client),
    }
}

/// True if packets that this fault delayed had certainly arrived after this time. A request and its answer wait once each, perhaps
/// after those of a new connection.
pub(super) fn is_too_short(history: &History, window: &FaultWindow, time: u64) -> bool {
    let longest = longest_delay(history, window);
    longest.is_some_and(|longest| longest.saturating_mul(4) < time)
}

/// The longest time for which a fault holds back a packet, in nanoseconds. None if it does not delay packets, or is not known.
fn longest_delay(history: &History, window: &FaultWindow) -> Option<u64> {
    let ttl = Duration::from_millis(history.run.as_ref()?.ttl_ms);
    match window.what.parse::<Fault>().ok()?.with {
        Argument::Length(range) if window.kind.does.rules_out == RulesOut::SoonAnswersAcross => {
            u64::try_from(range.high.resolve(ttl).as_nanos()).ok()
        }
        _ => None,
    }
}

/// How far apart two clocks may be at a time of the run: the error of their comparison and their drift, in nanoseconds.
pub(super) fn clock_margin(history: &History, time: i64) -> i64 {
    let error = history.clock.map_or(0, |clock| i64::try_from(clock.error_ns).unwrap_or(i64::MAX));
    error.saturating_add(time / DRIFT)
}
