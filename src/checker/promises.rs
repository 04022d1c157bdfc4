//! What users of a lock library are promised besides the lock itself: a bounded wait that ends in time, and a lock that
//! runs out however its holder ends. And how it came that two clients held a lock at once.

use super::evidence::Evidence;
use super::holds::certain_hold;
use super::verdict::{Anomaly, AnomalyKind};
use super::words::{Words, count, length, seconds};
use crate::history::{FactName, FaultKind, FaultWindow, History, Operation, Outcome, Phase};
use crate::members::Role;

/// A wait may overrun by this part of itself, and by no less than [`LEAST_OVERRUN_NS`]: clients look again only now and
/// then, and machines are busy.
const OVERRUN: f64 = 0.5;
const LEAST_OVERRUN_NS: u64 = 1_000_000_000;

/// The findings on promises.
pub(super) struct Promises {
    pub anomalies: Vec<Anomaly>,
    pub evidence: Evidence,
}

/// Examines each attempt that was to end within a time limit, and what was left on the nodes.
pub(super) fn check(history: &History) -> Promises {
    let mut anomalies = Vec::new();
    let waits = waits(history, &mut anomalies);
    endless(history, &mut anomalies);
    let text = format!("{} for the lock, each with a time limit", count(waits, "attempt"));
    let missing = (waits == 0).then(|| "no attempt to get the lock is known to have had a time limit".to_string());
    Promises { anomalies, evidence: Evidence { count: waits, text, missing } }
}

/// Reports attempts that went on for much longer than they were allowed to, though nobody kept their client from ending
/// them, and no request from an answer. Returns how many attempts there were.
fn waits(history: &History, found: &mut Vec<Anomaly>) -> u64 {
    let Some(limit) = history.run.as_ref().and_then(|run| run.acquire_timeout_ms) else { return 0 };
    let limit = limit.saturating_mul(1_000_000);
    let most = limit.saturating_add(((limit as f64 * OVERRUN) as u64).max(LEAST_OVERRUN_NS));
    let words = Words::new(history);
    let mut attempts = 0;
    for (place, operation) in history.operations.iter().enumerate().filter(|(_, operation)| operation.f.is_locked()) {
        let acquired = operation.phase(Phase::Acquired).map(|stamp| stamp.received);
        let gave_up = operation.completed.filter(|_| operation.outcome == Outcome::Fail);
        let Some(end) = acquired.or(gave_up) else { continue };
        attempts += 1;
        let waited = end.saturating_sub(operation.invoked);
        let client = words.process(operation.process);
        let unhindered = end.saturating_sub(answered_from(history, operation.invoked, end));
        if unhindered <= most || is_held_up(history, &client, operation.invoked, end) {
            continue;
        }
        let outcome = if acquired.is_some() { "got it" } else { "gave up" };
        found.push(Anomaly {
            kind: AnomalyKind::WaitedTooLong,
            key: operation.key.clone(),
            time: end,
            operations: vec![operation.index],
            fault: None,
            lost: Vec::new(),
            how: None,
            summary: format!(
                "{} asked for the lock at {} and {outcome} {} later, though it was to wait for {} at most",
                words.client(place),
                seconds(operation.invoked),
                length(waited),
                length(limit),
            ),
        });
    }
    attempts
}

/// From when on nodes answered again, if a fault kept one from it: a lock may wait for an answer for as long as it was
/// told that one takes, which is not its limit for waiting. Once such a fault is healed, TCP may wait for as long again
/// as it lasted before it sends again what was lost.
fn answered_from(history: &History, from: u64, to: u64) -> u64 {
    let silences = |window: &&FaultWindow| {
        window.hits(Role::Node) && !matches!(window.kind, FaultKind::Clock | FaultKind::Evict | FaultKind::Flush)
    };
    let answered = |window: &FaultWindow| {
        let healed = window.healed.filter(|(_, seen)| *seen).map_or(u64::MAX, |(time, _)| time);
        healed.saturating_add(healed.saturating_sub(window.inject))
    };
    let hit = history.faults.iter().filter(silences).filter(|window| window.skipped.is_none() && window.inject < to);
    hit.map(answered).fold(from, u64::max).min(to)
}

/// Whether a client or the whole machine may have stood still meanwhile.
fn is_held_up(history: &History, client: &str, from: u64, to: u64) -> bool {
    let until = |window: &FaultWindow| window.healed.filter(|(_, seen)| *seen).map_or(u64::MAX, |(time, _)| time);
    let of_process =
        |window: &&FaultWindow| matches!(window.kind, FaultKind::Pause | FaultKind::Kill | FaultKind::Clock);
    let hit = history.faults.iter().filter(of_process).filter(|window| window.skipped.is_none());
    let mut hit = hit.filter(|window| window.targets.iter().any(|target| target == client));
    hit.any(|window| window.inject < to && from < until(window))
        || history.stalls.iter().any(|(began, ended)| *began < to && from < *ended)
}

/// Reports what the nodes still keep at the end though its time should be over soon.
fn endless(history: &History, found: &mut Vec<Anomaly>) {
    for fact in history.facts.iter().filter(|fact| fact.name == FactName::NothingEndless && !fact.holds) {
        found.push(Anomaly {
            kind: AnomalyKind::LeftBehind,
            key: history.operations.first().map(|operation| operation.key.clone()).unwrap_or_default(),
            time: history.last_time,
            operations: Vec::new(),
            fault: None,
            lost: Vec::new(),
            how: None,
            summary: format!("after the last client had gone, a lock was left that outlasts its TTL: {}", fact.text),
        });
    }
}

/// Says of each overlap how it came about, where the history makes that certain.
pub(super) fn explain_overlaps(history: &History, overlapping: &mut [Anomaly]) {
    for anomaly in overlapping {
        let &[earlier, later] = anomaly.operations.as_slice() else { continue };
        let of = |index| {
            let place = history.operations.binary_search_by_key(&index, |operation| operation.index).ok()?;
            Some((place, &history.operations[place]))
        };
        if let (Some(earlier), Some(later)) = (of(earlier), of(later)) {
            anomaly.how = how(history, earlier, later, anomaly.fault);
        }
    }
}

type Placed<'h> = (usize, &'h Operation);

fn how(history: &History, earlier: Placed, later: Placed, fault: Option<u32>) -> Option<String> {
    let words = Words::new(history);
    let (first, second) = (words.client(earlier.0), words.client(later.0));
    let (began, taken) = (stamp(earlier.1, Phase::Acquired)?, stamp(later.1, Phase::Acquired)?);
    let extensions = || earlier.1.phases.iter().filter(|stamp| stamp.phase == Phase::Extended);
    if let Some(extended) = extensions().filter_map(|stamp| stamp.stamped).find(|extended| *extended > taken) {
        return Some(format!(
            "{first} extended its lock at {} and was told that it still had it, when {second} had taken it {} before",
            at(extended),
            between(taken, extended),
        ));
    }
    let run = history.run.as_ref().filter(|run| run.expires)?;
    let ttl = i64::try_from(run.ttl_ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
    let renewed = extensions().filter_map(|stamp| stamp.stamped).filter(|extended| *extended <= taken).max();
    if taken >= renewed.unwrap_or(began).saturating_add(ttl) {
        return None;
    }
    if let Some((place, released)) = foreign_release(history, earlier, (began, taken)) {
        return Some(format!(
            "{} gave a lock back at {} that it no longer had, and {first}'s was gone",
            words.client(place),
            at(released)
        ));
    }
    let kinds = [
        FaultKind::Kill,
        FaultKind::PowerLoss,
        FaultKind::Clock,
        FaultKind::Evict,
        FaultKind::Flush,
        FaultKind::Failover,
    ];
    let forgetful = |window: &FaultWindow| kinds.contains(&window.kind) && window.injected.is_some();
    let on_nodes = history.faults.iter().any(|window| forgetful(window) && window.inject < run_time(taken));
    let excused =
        on_nodes || fault.is_some_and(|fault| history.faults.iter().any(|one| one.fault == fault && forgetful(one)));
    (!excused).then(|| {
        format!(
            "{second} got it {} after {first}, less than a TTL ({}): one of the two was handed out when it had run out",
            between(began, taken),
            length(run_time(ttl)),
        )
    })
}

/// Somebody's release that was sent while the earlier holder had the lock, by a client that had held it before.
fn foreign_release(history: &History, earlier: Placed, (began, taken): (i64, i64)) -> Option<(usize, i64)> {
    let others = history.operations.iter().enumerate();
    let mut others = others.filter(|(place, other)| *place != earlier.0 && other.key == earlier.1.key);
    others.find_map(|(place, other)| {
        let released = stamp(other, Phase::Releasing)?;
        let (held_from, _) = certain_hold(other)?;
        (held_from < began && began < released && released < taken).then_some((place, released))
    })
}

fn stamp(operation: &Operation, phase: Phase) -> Option<i64> {
    operation.phase(phase)?.stamped
}

fn run_time(stamp: i64) -> u64 {
    u64::try_from(stamp).unwrap_or(0)
}

fn at(stamp: i64) -> String {
    seconds(run_time(stamp))
}

fn between(from: i64, to: i64) -> String {
    length(run_time(to.saturating_sub(from)))
}
