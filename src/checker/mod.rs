//! Decides from a history whether updates were lost and whether the lock excluded. Pure: no IO, no clock, no randomness.
//!
//! - [`gates`]: did the run prove anything?
//! - [`updates`]: did every acknowledged update survive? In three parts: [`register`] links what the values say,
//!   [`lineage`] decides what survived, [`order`] compares with real time, and where writes hide what was before them,
//!   [`rollback`] finds what was undone; and of counters and lists, [`amounts`] asks whether the numbers agree
//! - [`holds`]: did two clients hold a lock at once?
//! - [`locks`]: did tokens rise, did the lock come back, were losers told?
//! - [`attribute`]: which fault explains it?
//! - [`linear`]: the same question of any history, against any model; [`fewest`] asks it of a run's updates
//!
//! The verdict is `invalid` where an anomaly contradicts a property that the workload claims, unless the evidence
//! itself is in doubt; else `unknown` where a gate failed; else `valid`.

mod amounts;
mod attribute;
mod fewest;
mod gates;
mod holds;
mod lineage;
pub mod linear;
mod locks;
mod order;
mod register;
mod rollback;
mod updates;
mod verdict;
mod words;

pub use fewest::{Fewest, fewest};
pub use gates::{COMPARABLE_ONE_IN, LEAST_ACKNOWLEDGED};
pub use locks::STUCK_AFTER_TTLS;
pub use verdict::*;

use crate::history::{Claim, History, Outcome};

/// Checks a history against the claims in its header; a history without a header is held to every property.
pub fn check(history: &History) -> Verdict {
    let gates = gates::check(history);
    let updates::Updates { mut anomalies, lost: lost_updates, keys } = updates::check(history);
    let overlaps = holds::check(history);
    let mut overlapping = overlaps.anomalies;
    attribute::explain_all(history, &mut overlapping);
    let (lock, of_the_lock) = locks::check(history, &overlapping);
    anomalies.extend(of_the_lock);
    attribute::explain_all(history, &mut anomalies);
    anomalies.extend(overlapping);
    anomalies.sort_by(|a, b| (a.time, a.kind, &a.operations).cmp(&(b.time, b.kind, &b.operations)));

    let claims = claims(history);
    let mutual_exclusion = MutualExclusion {
        violations: overlaps.violations,
        comparable_holds: overlaps.comparable_holds,
        claimed: claims.contains(&Claim::MutualExclusion),
    };
    let broken: Vec<Claim> = claims
        .into_iter()
        .filter(|claim| anomalies.iter().any(|anomaly| anomaly.kind.contradicts() == *claim))
        .collect();
    let believable = gates.iter().all(|gate| gate.passed || !gate.undermines_violations);
    let (valid, reasons) = if !broken.is_empty() && believable {
        let sentence = |claim: &Claim| match claim {
            Claim::Updates => broken_updates(&anomalies, lost_updates),
            Claim::MutualExclusion => broken_exclusion(mutual_exclusion),
            Claim::Tokens => {
                format!("{} with a token that does not rise", words::count(lock.token_regressions, "acquisition"))
            }
            Claim::Liveness if anomalies.iter().any(|anomaly| anomaly.kind == AnomalyKind::NeverReacquired) => {
                "the lock was never acquired again after the last heal".to_string()
            }
            Claim::Liveness => {
                let late = anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::AcquiredLate).count() as u64;
                format!("{} did not get the lock in the time in which it was to be had", words::count(late, "client"))
            }
        };
        (Validity::Invalid, broken.iter().map(sentence).collect())
    } else if gates.iter().any(|gate| !gate.passed) {
        (Validity::Unknown, gates.iter().filter(|gate| !gate.passed).map(|gate| gate.text.clone()).collect())
    } else {
        (Validity::Valid, Vec::new())
    };
    let counts = counts(history);
    Verdict { valid, reasons, lost_updates, keys, mutual_exclusion, lock, gates, anomalies, counts }
}

/// The properties that decide the verdict, each once, updates first.
fn claims(history: &History) -> Vec<Claim> {
    let all = [Claim::Updates, Claim::MutualExclusion, Claim::Tokens, Claim::Liveness];
    all.into_iter().filter(|claim| history.run.as_ref().is_none_or(|run| run.claims.contains(claim))).collect()
}

fn broken_updates(anomalies: &[Anomaly], lost: LostUpdates) -> String {
    let number = |kind| anomalies.iter().filter(|anomaly| anomaly.kind == kind).count() as u64;
    let others = [
        (AnomalyKind::StaleRead, "stale read"),
        (AnomalyKind::ImpossibleRead, "impossible read"),
        (AnomalyKind::OrderViolation, "violation of the order in real time"),
    ];
    let mut parts = Vec::new();
    if lost.count > 0 {
        let percent = lost.fraction * 100.0;
        parts.push(format!("{} of {} acknowledged updates lost ({percent:.1} %)", lost.count, lost.acknowledged));
    }
    for (kind, noun) in others {
        match number(kind) {
            0 => {}
            1 => parts.push(format!("1 {noun}")),
            many if kind == AnomalyKind::OrderViolation => {
                parts.push(format!("{many} violations of the order in real time"));
            }
            many => parts.push(words::count(many, noun)),
        }
    }
    words::list(&parts)
}

fn broken_exclusion(exclusion: MutualExclusion) -> String {
    let MutualExclusion { violations, comparable_holds, .. } = exclusion;
    let times = words::count(violations, "time");
    format!("two clients held one lock at once {times}, in {}", words::count(comparable_holds, "comparable hold"))
}

fn counts(history: &History) -> Counts {
    let mut counts = Counts::default();
    for operation in &history.operations {
        match operation.outcome {
            Outcome::Ok => counts.ok += 1,
            Outcome::Fail => counts.fail += 1,
            Outcome::Info => counts.info += 1,
        }
    }
    counts
}
