//! Decides from a history whether updates were lost and whether the lock excluded. Pure: no IO, clock or randomness.
//!
//! - [`gates`]: did the run prove anything?
//! - [`updates`]: did every acknowledged update survive? [`register`] links operations by the values they read and
//!   wrote, [`lineage`] decides what survived, [`order`] compares with real time. Under blind writes, [`rollback`]
//!   finds what was undone. For counters and lists, [`amounts`] checks that the numbers agree
//! - [`holds`]: did two clients hold a lock at once?
//! - [`liveness`]: could a free lock be acquired?
//! - [`locks`]: did tokens rise, was the lock acquired when a script expected it, were holders told that they lost it?
//! - [`promises`]: did each wait end in time, was a lock left without an end, and was what a library says so?
//! - [`evidence`]: what could have falsified each of these?
//! - [`starved`]: what kept a member from its work, so that time shows nothing?
//! - [`blame`]: is a loss the lock's fault?
//! - [`causes`]: how did two holders come about? [`attribute`]: which fault explains the rest?
//! - [`minimal_counterexample`]: which few operations show it? (The crate [`linearizability`] answers that for any history.)
//!
//! The verdict is `invalid` if an anomaly contradicts a claim of the workload, unless the evidence itself is in doubt;
//! else `unknown` if a gate failed or a claim has too little evidence; else `valid`.

mod amounts;
mod attribute;
mod blame;
mod causes;
mod evidence;
mod gates;
mod holds;
mod known;
mod lineage;
mod liveness;
mod locks;
mod minimal_counterexample;
#[cfg(debug_assertions)]
mod mutants;
mod order;
mod promises;
mod reach;
mod register;
mod rollback;
mod sentence;
mod starved;
mod updates;
mod verdict;
mod words;

pub use evidence::LEAST_EVIDENCE;
pub use gates::LEAST_ACKNOWLEDGED;
pub use liveness::STUCK_AFTER_TTLS;
pub use minimal_counterexample::{MinimalCounterexample, minimal_counterexample};
pub use sentence::Sentence;
pub use starved::{QUIETER, a_server_was_missing, covered, everyone_ran};
pub use verdict::*;

use std::collections::BTreeMap;

use self::evidence::NotCounted;
use crate::history::{Claim, History, Outcome, ResourceKind};
use crate::sync::both;

/// Checks a history against the claims in its header, or against every property if it has no header.
pub fn check(history: &History) -> Verdict {
    let (updates, of_locks) = both(history.is_long(), || updates::check(history), || OfLocks::check(history));
    let updates::Updates { mut anomalies, lost: mut lost_updates, mut keys, happened, measured } = updates;
    let OfLocks { overlaps, overlapping, owed, promises, mut liveness, exclusion } = of_locks;
    let undecided = owed.doubt.map(NotCounted::Undecided);
    liveness.evidence.not_counted = undecided.or(liveness.evidence.not_counted);
    blame::assign(history, &mut anomalies);
    blame::take_out(&anomalies, &mut lost_updates, &mut keys);
    let mut gates = gates::check(history, &anomalies);
    anomalies.extend(owed.anomalies);
    anomalies.extend(liveness.anomalies);
    let (mut kept, mut promised) = (BTreeMap::new(), Vec::new());
    for (claim, findings) in promises {
        promised.extend(findings.anomalies);
        kept.insert(claim, findings.evidence);
    }
    anomalies.extend(promised);
    anomalies.extend(gates::ended_by_themselves(history));
    attribute::explain_all(history, &mut anomalies);
    anomalies.extend(overlapping);
    anomalies.sort_by(|a, b| (a.time, a.kind, &a.operations).cmp(&(b.time, b.kind, &b.operations)));
    gates.extend(gates::nobody_kept(history, &anomalies));
    if let Some(there) = starved::servers_there(history, &anomalies)
        && let Some(healthy) = gates.iter_mut().find(|gate| gate.name == there.name)
    {
        *healthy = there;
    }
    #[cfg(debug_assertions)]
    mutants::blind(&mut gates, &mut anomalies);

    let evidence = |claim| match claim {
        Claim::Updates => evidence::updates(history, &happened),
        Claim::MutualExclusion => exclusion.clone(),
        Claim::Tokens => evidence::tokens(history, owed.tokens.comparable),
        Claim::Liveness => liveness.evidence.clone(),
        Claim::Amounts => evidence::amounts(history, &measured),
        Claim::Promises | Claim::Releases | Claim::Ownership | Claim::Losses | Claim::Grants => {
            kept.get(&claim).cloned().unwrap_or_default()
        }
    };
    let is_undecided = |claim| {
        let evidence = kept.get(&claim);
        evidence.is_some_and(|evidence| matches!(evidence.not_counted, Some(NotCounted::Undecided(_))))
    };
    let claims = claims(history, &anomalies, evidence);
    let lock = LockProperties {
        tokens: owed.tokens.seen,
        token_regressions: owed.tokens.regressions,
        reacquired_after_ns: liveness.reacquired_after_ns,
        longest_gap: liveness.longest_gap,
        untold_losses: owed.untold_losses,
    };

    let deciding = || claims.iter().filter(|claim| claim.claimed);
    let broken = || deciding().filter(|claim| claim.valid == Validity::Invalid);
    let believable = gates.iter().all(|gate| gate.passed || !gate.undermines_violations);
    let mut failed: Vec<&Gate> = gates.iter().filter(|gate| !gate.passed).collect();
    failed.sort_by_key(|gate| gates::rank(history, gate));
    let failed = failed.into_iter().map(|gate| gate.text.clone());
    let needed = deciding().filter(|claim| !claim.claim.is_conditional() || is_undecided(claim.claim));
    let missing = needed.filter_map(|claim| Some(format!("{}: {}", claim.claim.name(), claim.missing.as_ref()?)));
    let doubts: Vec<String> = failed.chain(missing).collect();
    let (valid, reasons) = if believable && broken().next().is_some() {
        let sentence = |claim: &ClaimVerdict| match claim.claim {
            Claim::Updates => broken_updates(&anomalies, lost_updates),
            Claim::MutualExclusion => broken_exclusion(overlaps, history),
            Claim::Tokens => {
                format!("{} with a token that does not rise", words::count(lock.token_regressions, "acquisition"))
            }
            Claim::Liveness => broken_liveness(&anomalies),
            Claim::Amounts => first_of(&anomalies, AnomalyKind::WrongAmount).unwrap_or_default(),
            Claim::Promises | Claim::Releases | Claim::Ownership | Claim::Losses | Claim::Grants => {
                let of_claim = anomalies.iter().filter(|anomaly| anomaly.kind.contradicts() == Some(claim.claim));
                of_claim.min_by_key(|anomaly| anomaly.kind).map(|anomaly| anomaly.summary.clone()).unwrap_or_default()
            }
        };
        (Validity::Invalid, broken().map(sentence).collect())
    } else if doubts.is_empty() {
        (Validity::Valid, Vec::new())
    } else {
        (Validity::Unknown, doubts)
    };
    let counts = counts(history);
    Verdict { valid, reasons, claims, lost_updates, keys, mutual_exclusion: overlaps, lock, gates, anomalies, counts }
}

/// What clients were told that is not so, by the promises about a library's words that its workload does not make.
pub fn broken_if_made(history: &History) -> Vec<Anomaly> {
    promises::broken_if_made(history)
}

/// What does not depend on the values that were read and written.
struct OfLocks {
    overlaps: MutualExclusion,
    overlapping: Vec<Anomaly>,
    owed: locks::Owed,
    promises: Vec<(Claim, promises::Findings)>,
    liveness: liveness::Liveness,
    exclusion: evidence::Evidence,
}

impl OfLocks {
    fn check(history: &History) -> OfLocks {
        let found = holds::check(history);
        let holds::Overlaps { anomalies: mut overlapping, violations, comparable_holds, side_by_side } = found;
        causes::of_overlaps(history, &mut overlapping);
        OfLocks {
            owed: locks::check(history, &overlapping),
            overlaps: MutualExclusion { violations, comparable_holds },
            overlapping,
            promises: promises::check(history),
            liveness: liveness::check(history),
            exclusion: evidence::mutual_exclusion(history, side_by_side),
        }
    }
}

/// The outcome of each claim, updates first: the claims that the workload makes, and others that the history bears on.
fn claims(
    history: &History,
    anomalies: &[Anomaly],
    evidence: impl Fn(Claim) -> evidence::Evidence,
) -> Vec<ClaimVerdict> {
    let mut claims = Vec::new();
    for claim in Claim::ALL {
        // A history without a header may be of any library.
        let claimed = history.run.as_ref().map_or(!claim.is_conditional(), |run| match claim {
            Claim::Updates => run.claims.contains(&claim) && run.resource != ResourceKind::None,
            Claim::Amounts => run.claims.contains(&Claim::Updates) && evidence::concerns(claim, history),
            claim => run.claims.contains(&claim),
        });
        let broken = anomalies.iter().any(|anomaly| anomaly.kind.contradicts() == Some(claim));
        if !claimed && !broken && !evidence::concerns(claim, history) {
            continue;
        }
        let evidence::Evidence { count, text, missing, not_counted } = evidence(claim);
        let (missing, not_counted) = match not_counted {
            Some(NotCounted::Undecided(why)) => (Some(why), None),
            Some(NotCounted::Explained(why)) => (missing, Some(why)),
            None => (missing, None),
        };
        // A violation needs no further evidence.
        let missing = missing.filter(|_| !broken);
        let valid = match missing {
            _ if broken => Validity::Invalid,
            Some(_) => Validity::Unknown,
            None => Validity::Valid,
        };
        claims.push(ClaimVerdict { claim, claimed, valid, evidence: count, text, missing, not_counted });
    }
    claims
}

fn broken_updates(anomalies: &[Anomaly], lost: LostUpdates) -> String {
    let number = |kind| anomalies.iter().filter(|anomaly| anomaly.kind == kind).count() as u64;
    let others = [
        (AnomalyKind::StaleRead, "stale read"),
        (AnomalyKind::ImpossibleRead, "impossible read"),
        (AnomalyKind::OrderViolation, "violation of the real-time order"),
    ];
    let mut parts = Vec::new();
    if lost.count > 0 {
        let percent = lost.fraction * 100.0;
        parts.push(format!(
            "{} of {} lost ({percent:.1} %)",
            words::number(lost.count),
            words::count(lost.acknowledged, "acknowledged update")
        ));
    }
    for (kind, noun) in others {
        match number(kind) {
            0 => {}
            1 => parts.push(format!("1 {noun}")),
            many if kind == AnomalyKind::OrderViolation => {
                parts.push(format!("{many} violations of the real-time order"));
            }
            many => parts.push(words::count(many, noun)),
        }
    }
    words::list(&parts)
}

/// The summary of the first anomaly of a kind.
fn first_of(anomalies: &[Anomaly], kind: AnomalyKind) -> Option<String> {
    anomalies.iter().find(|anomaly| anomaly.kind == kind).map(|anomaly| anomaly.summary.clone())
}

fn broken_liveness(anomalies: &[Anomaly]) -> String {
    let stuck = first_of(anomalies, AnomalyKind::NotObtained).or_else(|| first_of(anomalies, AnomalyKind::Unavailable));
    stuck.unwrap_or_else(|| {
        let late = anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::AcquiredLate).count() as u64;
        format!("{} did not acquire the lock when it should have been available", words::count(late, "client"))
    })
}

fn broken_exclusion(exclusion: MutualExclusion, history: &History) -> String {
    let MutualExclusion { violations, comparable_holds } = exclusion;
    let permits = history.permits();
    if permits > 1 {
        return format!(
            "more than {permits} clients held one lock at once: {} among {}",
            format_args!("{} too many", words::count(violations, "hold")),
            words::count(comparable_holds, "hold")
        );
    }
    format!(
        "{} held one lock at once: {} among {}",
        if history.has_readers() { "a writer and another client" } else { "two clients" },
        words::count(violations, "overlap"),
        words::count(comparable_holds, "hold")
    )
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
