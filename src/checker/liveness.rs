//! Can a free lock be acquired? A key is stuck if its lock is free and asked for, but nobody acquires it for longer
//! than any expiry explains, with or without faults.
//!
//! Free means that nothing in the history keeps the lock: no live client that holds it, may hold it or renews it, and
//! no fault that is or may still be in effect, such as one whose heal nobody saw. A machine that stood still keeps it as
//! a fault does. A dead holder keeps nothing: a lock must get over it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::evidence::Evidence;
use super::verdict::{Anomaly, AnomalyKind, Gap};
use super::words::{count, length, list, seconds};
use crate::history::{ClientStep, FactName, FaultKind, FaultWindow, History, Operation, Outcome, Phase, Process};
use crate::members::Role;
use crate::nemesis::{Change, Fault};

/// A free lock gets this many TTLs to be acquired before it counts as stuck: one for a node that expires a key late,
/// the others for contenders, which need several attempts.
pub const STUCK_AFTER_TTLS: u64 = 3;
/// The minimum for very short TTLs, in nanoseconds.
const STUCK_AFTER_NS: u64 = 2_000_000_000;
/// Attempts that follow each other so closely ask for the lock without a break: clients think in between.
const BREATH_NS: u64 = 100_000_000;
/// This many attempts show that a lock was asked for, however short they were.
const ATTEMPTS: usize = 5;

/// The findings on liveness.
pub(super) struct Liveness {
    /// One anomaly for each time that a key was stuck.
    pub anomalies: Vec<Anomaly>,
    pub evidence: Evidence,
    /// The longest time in which a lock was free and asked for, and nobody had it.
    pub longest_gap: Option<Gap>,
    /// Nanoseconds from the last heal to the next acquisition of any key; None if there was no heal or no acquisition.
    pub reacquired_after_ns: Option<u64>,
}

/// A start and an end, in nanoseconds of run time.
type Span = (u64, u64);

/// What is known about the lock of one key.
#[derive(Default)]
struct Key<'h> {
    /// When a live client held it or may have held it.
    held: Vec<Span>,
    /// Attempts that failed, in the order of their invocations.
    failed: Vec<(Span, &'h Operation)>,
    acquired: Vec<u64>,
    /// Attempts that got the lock, from when they asked to when they had it.
    asked: Vec<Span>,
}

/// Sorts the holds of each key; linear otherwise.
pub(super) fn check(history: &History) -> Liveness {
    let keys = keys(history);
    let faults = faults(history);
    let healed = history.faults.iter().filter_map(|window| window.healed.filter(|_| window.was_observed()));
    let last_heal = healed.map(|(time, _)| time).max();
    let acquired = || keys.values().flat_map(|key| &key.acquired).copied();
    let healthy = history.facts.iter().any(|fact| fact.name == FactName::NodesHealthy && fact.holds);
    let mut anomalies = Vec::new();
    // If nobody ever got any lock, a stuck lock can't be told from clients that can't use it.
    if healthy && acquired().next().is_some() {
        for (name, key) in &keys {
            stuck(history, name, key, &faults, &mut anomalies);
        }
    }
    let reacquired_after_ns = last_heal
        .filter(|_| !faults.iter().any(|(_, until)| *until == u64::MAX))
        .and_then(|healed| acquired().filter(|&time| time > healed).min().map(|time| time - healed));
    let longest_gap =
        keys.iter().filter_map(|(name, key)| longest_gap(name, key, history.last_time)).max_by_key(length_of);
    let allowed = history.run.as_ref().and_then(|run| run.longest_gap_ms).map(|ms| ms.saturating_mul(1_000_000));
    anomalies
        .extend(longest_gap.iter().filter(|gap| allowed.is_some_and(|most| length_of(gap) > most)).map(unavailable));
    let evidence = evidence(&keys, &faults, last_heal);
    Liveness { anomalies, evidence, longest_gap, reacquired_after_ns }
}

fn keys(history: &History) -> BTreeMap<&str, Key<'_>> {
    let ended = history.clients.iter().filter(|(_, event)| event.step == ClientStep::Ended);
    let ended: HashMap<u32, u64> = ended.map(|(time, event)| (event.process, *time)).collect();
    let lasts = Lasts::new(history);
    let mut keys: BTreeMap<&str, Key> = BTreeMap::new();
    for operation in history.operations.iter().filter(|operation| operation.f.is_locked()) {
        let key = keys.entry(&operation.key).or_default();
        let died = match operation.process {
            Process::Client(process) => ended.get(&process).copied(),
            Process::Controller => None,
        };
        let acquired = operation.phase(Phase::Acquired).map(|stamp| stamp.received);
        key.acquired.extend(acquired);
        key.asked.extend(acquired.map(|acquired| (operation.invoked, acquired)));
        match in_vain(operation) {
            Some(attempt) => key.failed.push((attempt, operation)),
            None => key.held.push(lasts.possible_hold(operation, died)),
        }
    }
    keys
}

/// Whether a phase says that the lock was taken.
fn is_taken(phase: Phase) -> bool {
    phase >= Phase::HalfAcquired
}

/// An attempt that certainly failed to get the lock, from its invocation to its end.
fn in_vain(operation: &Operation) -> Option<Span> {
    let refused = operation.error.as_deref().is_none_or(|error| error == "not-acquired");
    let taken = operation.phases.iter().any(|stamp| is_taken(stamp.phase));
    let completed = operation.completed.filter(|_| operation.outcome == Outcome::Fail && refused && !taken)?;
    Some((operation.invoked, completed))
}

fn asked(operation: &Operation) -> bool {
    operation.phase(Phase::Acquiring).is_some()
}

/// What ends a hold other than its holder, as far as the history tells.
struct Lasts {
    /// Whether the lock expires by itself.
    expires: bool,
    /// Whether holders renew the lock.
    is_renewed: bool,
}

impl Lasts {
    fn new(history: &History) -> Lasts {
        let mut stamps = history.operations.iter().flat_map(|operation| &operation.phases);
        let is_renewed = stamps.clone().any(|stamp| stamp.phase == Phase::Extended);
        Lasts { is_renewed, expires: stamps.any(|stamp| stamp.validity_ms.is_some()) }
    }

    /// When a live client had the lock or may have had it, given that the client died at `died`.
    fn possible_hold(&self, operation: &Operation, died: Option<u64>) -> Span {
        let start = operation.phases.iter().find(|stamp| is_taken(stamp.phase)).map(|stamp| stamp.received);
        let start = start.unwrap_or(operation.invoked);
        let over = operation.phases.iter().find(|stamp| matches!(stamp.phase, Phase::Lost | Phase::Released));
        let runs_out = operation.phases.iter().filter_map(|stamp| {
            stamp.validity_ms.map(|left| stamp.received.saturating_add(left.saturating_mul(1_000_000)))
        });
        let runs_out = runs_out.max().filter(|_| !self.is_renewed);
        let gave_back = operation.phase(Phase::Releasing).is_some() || operation.outcome != Outcome::Info;
        let end = match (over, operation.completed) {
            (Some(over), _) => over.received,
            // It never reported a release, so only its death ends its hold.
            (None, _) if !gave_back && !self.expires => u64::MAX,
            (None, completed) => completed.unwrap_or(u64::MAX),
        };
        let end = end.min(runs_out.unwrap_or(u64::MAX)).min(died.unwrap_or(u64::MAX));
        (start, end.max(start))
    }
}

/// When faults were or may have been in effect.
fn faults(history: &History) -> Vec<Span> {
    let ttl = Duration::from_millis(history.run.as_ref().map_or(0, |run| run.ttl_ms));
    let until = |window: &FaultWindow| match window.healed {
        Some((time, true)) => time.saturating_add(aftermath(window, time, ttl)),
        _ => u64::MAX,
    };
    let windows = history.faults.iter().filter(|window| window.skipped.is_none());
    windows.map(|window| (window.inject, until(window))).collect()
}

/// For how long after its heal a fault may still keep a lock, in nanoseconds: a node whose clock was ahead holds keys that
/// end by that clock, so once it is set right they live for as much longer.
fn aftermath(window: &FaultWindow, healed: u64, ttl: Duration) -> u64 {
    if window.kind != FaultKind::Clock || !window.hits(Role::Node) {
        return 0;
    }
    let ahead = match window.what.parse() {
        Ok(Fault::Clock(_, Change::Ahead(by) | Change::Strobe(by, _))) => by.resolve(ttl),
        Ok(Fault::Clock(_, Change::Rate(factor))) => {
            Duration::from_nanos(healed.saturating_sub(window.inject)).mul_f64((factor - 1.0).max(0.0))
        }
        Ok(Fault::Clock(_, Change::Behind(_))) => Duration::ZERO,
        // The history does not say by how much.
        _ => return u64::MAX,
    };
    u64::try_from(ahead.as_nanos()).unwrap_or(u64::MAX)
}

/// Reports each time at which the lock was free and asked for, but nobody got it for too long.
fn stuck(history: &History, name: &str, key: &Key, faults: &[Span], found: &mut Vec<Anomaly>) {
    let ttl_ns = history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
    let patience = ttl_ns.saturating_mul(STUCK_AFTER_TTLS).max(STUCK_AFTER_NS);
    let mut taken: Vec<Span> = key.held.iter().chain(faults).chain(&history.stalls).copied().collect();
    taken.sort_unstable();
    // A sentinel after everything else ends the last stretch.
    taken.push((history.last_time, u64::MAX));
    let mut failed = key.failed.as_slice();
    let mut free_from: u64 = 0;
    for (from, until) in taken {
        if free_from.saturating_add(patience) < from {
            let over = failed.iter().take_while(|((_, completed), _)| *completed <= free_from).count();
            failed = &failed[over..];
            let meanwhile = failed.iter().take_while(|((invoked, _), _)| *invoked < from);
            let meanwhile = meanwhile.filter(|((_, completed), attempt)| *completed > free_from && asked(attempt));
            let attempts: Vec<_> = meanwhile.collect();
            let last = attempts.iter().map(|((_, completed), _)| (*completed).min(from)).max().unwrap_or(0);
            let waited = last.saturating_sub(free_from);
            let tried = attempts.len() >= ATTEMPTS || 2 * covered(&attempts, free_from, from) >= waited;
            if waited > patience && tried {
                found.push(anomaly(name, free_from, last, &attempts));
            }
        }
        free_from = free_from.max(until);
    }
}

/// The longest time in which the lock of a key was not held for all that is known, and somebody asked for it at nearly
/// every moment.
fn longest_gap(name: &str, key: &Key, last_time: u64) -> Option<Gap> {
    let mut taken = key.held.clone();
    taken.sort_unstable();
    taken.push((last_time, u64::MAX));
    let mut asked: Vec<Span> = key.asked.iter().copied().chain(key.failed.iter().map(|(span, _)| *span)).collect();
    asked.sort_unstable();
    let mut longest: Option<Gap> = None;
    let (mut free_from, mut next) = (0, 0);
    for (from, until) in taken {
        // Stretches in which somebody asks, as long as the lock is free.
        let mut stretch: Option<Span> = None;
        while let Some(&(began, ended)) = asked.get(next).filter(|(began, _)| *began < from) {
            let (began, ended) = (began.max(free_from), ended.min(from));
            stretch = match stretch {
                Some((start, end)) if began <= end.saturating_add(BREATH_NS) => Some((start, end.max(ended))),
                _ => Some((began, ended)).filter(|(began, ended)| began < ended),
            };
            if let Some((from, to)) = stretch
                && longest.as_ref().is_none_or(|gap| length_of(gap) < to - from)
            {
                longest = Some(Gap { key: name.to_string(), from, to });
            }
            next += 1;
        }
        // Whoever asks for longer asks in the next stretch too.
        next = asked[..next].iter().rposition(|(_, ended)| *ended <= until).map_or(0, |place| place + 1).min(next);
        free_from = free_from.max(until);
    }
    longest
}

fn length_of(gap: &Gap) -> u64 {
    gap.to.saturating_sub(gap.from)
}

fn unavailable(gap: &Gap) -> Anomaly {
    Anomaly {
        kind: AnomalyKind::Unavailable,
        key: gap.key.clone(),
        time: gap.to,
        operations: Vec::new(),
        fault: None,
        lost: Vec::new(),
        how: None,
        summary: format!(
            "the lock of {} was free and asked for from {} on, and nobody got it for {}, which is longer than the workload allows",
            gap.key,
            seconds(gap.from),
            length(length_of(gap)),
        ),
    }
}

/// For how long at least one of the attempts was under way between two moments.
fn covered(attempts: &[&(Span, &Operation)], from: u64, to: u64) -> u64 {
    let mut reached = from;
    let mut sum = 0;
    for ((invoked, completed), _) in attempts {
        let (start, end) = ((*invoked).max(reached), (*completed).min(to));
        sum += end.saturating_sub(start);
        reached = reached.max(end);
    }
    sum
}

fn anomaly(key: &str, free_from: u64, last: u64, attempts: &[&(Span, &Operation)]) -> Anomaly {
    Anomaly {
        kind: AnomalyKind::NotObtained,
        key: key.to_string(),
        time: last,
        operations: attempts.iter().take(2).map(|(_, operation)| operation.index).collect(),
        fault: None,
        lost: Vec::new(),
        how: None,
        summary: format!(
            "nobody got the lock of {key} for {} from {}, though it was free: {} failed, with no fault in effect",
            length(last - free_from),
            seconds(free_from),
            count(attempts.len() as u64, "attempt"),
        ),
    }
}

/// The attempts after the last heal, or all attempts if there was no fault: had they failed for long enough, the claim
/// would be broken.
fn evidence(keys: &BTreeMap<&str, Key>, faults: &[Span], last_heal: Option<u64>) -> Evidence {
    let since = last_heal.unwrap_or(0);
    let when = match last_heal {
        Some(healed) => format!("after the last heal at {}", seconds(healed)),
        None => "in the run".to_string(),
    };
    let acquired = |key: &Key| key.acquired.iter().filter(|&&time| time >= since).count() as u64;
    let failed = |key: &Key| key.failed.iter().filter(|((invoked, _), _)| *invoked >= since).count() as u64;
    let obtained: u64 = keys.values().map(acquired).sum();
    let attempts = obtained + keys.values().map(failed).sum::<u64>();
    let in_vain: Vec<String> = keys
        .iter()
        .filter(|(_, key)| failed(key) > 0 && acquired(key) == 0)
        .map(|(name, key)| format!("{name} ({})", count(failed(key), "attempt")))
        .collect();
    let missing = if faults.iter().any(|(_, until)| *until == u64::MAX) {
        Some("a fault was not seen to be healed and may still be in effect".to_string())
    } else if attempts == 0 {
        Some(format!("no client is known to have asked for the lock {when}"))
    } else if !in_vain.is_empty() {
        Some(format!(
            "nobody got the lock of {} {when}, but it was held, or not free for long enough to blame the lock",
            list(&in_vain)
        ))
    } else {
        None
    };
    let span = if last_heal.is_some() { "since the last heal" } else { "in the run" };
    let text = format!("{obtained} of {} {span} got the lock", count(attempts, "attempt"));
    Evidence { count: attempts, text, missing }
}
