//! What a lock owes its users beside exclusion: tokens that rise, an end to every wait, and a word when it is lost.
//!
//! - **tokens** (Kleppmann's fencing): an acquisition that began after another one was over has the greater token;
//! - **liveness**: after the last heal somebody acquires the lock again;
//! - **told**: a holder whose lock another client took meanwhile was told so (`lost`) before it acted again.
//!
//! As everywhere, only what the stamps make certain counts.

use std::collections::BTreeMap;

use super::holds::certain_hold;
use super::verdict::{Anomaly, AnomalyKind, LockProperties, UntoldLoss};
use super::words::{Words, count, length, seconds};
use crate::history::{FactName, History, Operation, Outcome, Phase, Process, StepOutcome};
use crate::nemesis::{Event, Step};

/// After the last heal a lock gets this many TTLs to be acquired again before it counts as stuck: one runs out for what
/// a node did late, and contenders need some attempts.
pub const STUCK_AFTER_TTLS: u64 = 3;
/// The same for very short TTLs, in nanoseconds.
const STUCK_AFTER_NS: u64 = 2_000_000_000;

/// Examines tokens, liveness and untold losses. Near-linear: sorts the acquisitions of each key.
pub(super) fn check(history: &History, overlapping: &[Anomaly]) -> (LockProperties, Vec<Anomaly>) {
    let mut anomalies = Vec::new();
    let tokens = tokens(history, &mut anomalies);
    let (reacquired_after_ns, stuck) = liveness(history);
    anomalies.extend(stuck);
    late(history, &mut anomalies);
    let untold_losses = untold_losses(history, overlapping);
    (LockProperties { tokens, token_regressions: count_of(&anomalies), reacquired_after_ns, untold_losses }, anomalies)
}

fn count_of(anomalies: &[Anomaly]) -> u64 {
    anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::TokenRegress).count() as u64
}

/// An acquisition that bore a token.
#[derive(Clone, Copy)]
struct Grant {
    /// Before the first request for the lock left.
    began: i64,
    /// After the last reply was in hand.
    over: i64,
    token: u64,
    place: usize,
}

/// Reports each acquisition whose token is not greater than that of one which was over before it began. Returns how many
/// bore a token.
fn tokens(history: &History, found: &mut Vec<Anomaly>) -> u64 {
    let words = Words::new(history);
    let mut keys: BTreeMap<&str, Vec<Grant>> = BTreeMap::new();
    for (place, operation) in history.operations.iter().enumerate() {
        if let Some(grant) = grant(place, operation) {
            keys.entry(&operation.key).or_default().push(grant);
        }
    }
    let mut number = 0;
    for (key, mut grants) in keys {
        number += grants.len() as u64;
        let mut by_end = grants.clone();
        by_end.sort_by_key(|grant| grant.over);
        grants.sort_by_key(|grant| grant.began);
        let mut over = by_end.into_iter().peekable();
        let mut greatest: Option<Grant> = None;
        for grant in grants {
            while let Some(earlier) = over.next_if(|earlier| earlier.over < grant.began) {
                greatest = Some(greatest.filter(|greatest| greatest.token >= earlier.token).unwrap_or(earlier));
            }
            let Some(earlier) = greatest.filter(|earlier| earlier.token >= grant.token) else { continue };
            let time = u64::try_from(grant.over).unwrap_or(0);
            found.push(Anomaly {
                kind: AnomalyKind::TokenRegress,
                key: key.to_string(),
                time,
                operations: vec![history.operations[earlier.place].index, history.operations[grant.place].index],
                fault: None,
                lost: Vec::new(),
                summary: format!(
                    "{} acquired the lock of {key} with token {} at {}, after {} had acquired it with token {}",
                    words.client(grant.place),
                    grant.token,
                    seconds(time),
                    words.client(earlier.place),
                    earlier.token,
                ),
            });
        }
    }
    number
}

fn grant(place: usize, operation: &Operation) -> Option<Grant> {
    let acquired = operation.phase(Phase::Acquired)?;
    let began = operation.phase(Phase::Acquiring)?.stamped?;
    Some(Grant { began, over: acquired.stamped?, token: acquired.token?, place })
}

/// How long after the last observed heal the lock was first acquired, and whether it never was though clients tried for
/// longer than any expiry explains.
fn liveness(history: &History) -> (Option<u64>, Option<Anomaly>) {
    let heals = history.faults.iter().filter(|window| window.was_observed()).map(|window| window.healed);
    // A fault that was never healed leaves nothing to expect.
    let Some(healed) = heals.map(|healed| healed.map_or(u64::MAX, |(time, _)| time)).max() else { return (None, None) };
    let reports = || {
        let acquired = |operation: &Operation| operation.phase(Phase::Acquired).map(|stamp| stamp.received);
        history.operations.iter().filter_map(acquired)
    };
    if let Some(first) = reports().filter(|&received| received > healed).min() {
        return (Some(first - healed), None);
    }
    let ttl_ns = history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
    let patience = ttl_ns.saturating_mul(STUCK_AFTER_TTLS).max(STUCK_AFTER_NS);
    // Clients that tried the whole time, not the silence after the last of them.
    let tried_until = history
        .operations
        .iter()
        .filter(|operation| operation.f.is_locked() && operation.invoked > healed)
        .filter(|operation| operation.phase(Phase::Acquiring).is_some() && operation.outcome == Outcome::Fail)
        .filter_map(|operation| operation.completed)
        .max();
    let healthy = history.facts.iter().any(|fact| fact.name == FactName::NodesHealthy && fact.holds);
    let Some(until) = tried_until.filter(|&until| until > healed.saturating_add(patience)) else { return (None, None) };
    if !healthy || reports().next().is_none() {
        return (None, None);
    }
    let attempts: Vec<&Operation> =
        history.operations.iter().filter(|operation| operation.invoked > healed && is_client(operation)).collect();
    let anomaly = Anomaly {
        kind: AnomalyKind::NeverReacquired,
        key: attempts.first().map(|operation| operation.key.clone()).unwrap_or_default(),
        time: until,
        operations: attempts.iter().take(2).map(|operation| operation.index).collect(),
        fault: None,
        lost: Vec::new(),
        summary: format!(
            "nobody acquired the lock again after the last heal at {}: {} failed over {}, with every node healthy",
            seconds(healed),
            count(attempts.len() as u64, "attempt"),
            length(until - healed),
        ),
    };
    (None, Some(anomaly))
}

/// Reports each step of a script that expects the lock to be acquired by then, where it was not.
fn late(history: &History, found: &mut Vec<Anomaly>) {
    for (time, step) in history.steps.iter().filter(|(_, step)| step.outcome == StepOutcome::NotLive) {
        // A step that this build cannot read names nobody.
        let Ok(Step::Expect { client, event, .. }) = step.step.parse() else { continue };
        let of_client = |operation: &&Operation| {
            let number = match operation.process {
                Process::Client(process) => {
                    Some(process % history.run.as_ref().map_or(u32::MAX, |run| run.clients.max(1)))
                }
                Process::Controller => None,
            };
            number == Some(client) && operation.invoked <= *time
        };
        let Some(operation) = history.operations.iter().rfind(of_client) else { continue };
        found.push(Anomaly {
            kind: AnomalyKind::AcquiredLate,
            key: operation.key.clone(),
            time: *time,
            operations: vec![operation.index],
            fault: None,
            lost: Vec::new(),
            summary: match event {
                Event::Phase(Phase::Acquired) => format!(
                    "c{client} asked for the lock at {} and did not have it {} later, when it was to be had (`{}`)",
                    seconds(operation.invoked),
                    length(time.saturating_sub(operation.invoked)),
                    step.step
                ),
                _ => {
                    format!("what a live lock owes did not come by {} (`{}`): {}", seconds(*time), step.step, step.text)
                }
            },
        });
    }
}

fn is_client(operation: &Operation) -> bool {
    matches!(operation.process, Process::Client(_))
}

/// Holders that went on acting after another client had acquired the same lock, without having been told. Each holder
/// once, with the moment at which the lock was no longer its own.
fn untold_losses(history: &History, overlapping: &[Anomaly]) -> Vec<UntoldLoss> {
    let mut losses: BTreeMap<u64, UntoldLoss> = BTreeMap::new();
    for anomaly in overlapping {
        let &[earlier, _] = anomaly.operations.as_slice() else { continue };
        let Ok(place) = history.operations.binary_search_by_key(&earlier, |operation| operation.index) else {
            continue;
        };
        let operation = &history.operations[place];
        if operation.phases.iter().any(|stamp| stamp.phase == Phase::Lost) {
            continue;
        }
        let Some((_, end)) = certain_hold(operation) else { continue };
        losses.entry(earlier).or_insert(UntoldLoss {
            operation: earlier,
            time: anomaly.time,
            acted_until: u64::try_from(end).unwrap_or(0),
            fault: anomaly.fault,
        });
    }
    losses.into_values().collect()
}
