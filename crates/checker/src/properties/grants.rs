//! The library hands out no lock that has expired by its own account, that is, with a validity of zero at the acquisition.
//!
//! The library may have computed the validity before its client was stopped or its clock was set, and the client asked later. So
//! a client that may have been stopped meanwhile, or had a wrong clock, is excused.

use std::collections::BTreeSet;

use super::super::evidence::NotCounted;
use super::super::words::{count, number};
use super::*;

pub static DEF: Property = Property {
    id: "grants",
    rank: Rank::Claim(ClaimDef::of_answers(
        Claim::Grants,
        |run| run.claims.contains(&Claim::Grants),
        found,
        |seen, of| format!("{} handed out a lock whose reported validity was 0{}.", of.lock, seen.times()),
    )),
    title: "Every lock is valid when a client acquires it",
    applies: "runs whose clients say how long their lock is valid",
    parameter: None,
    check,
};

/// The library handed out a lock with a reported validity of zero.
pub static EXPIRED_GRANT: AnomalyDef = AnomalyDef {
    name: "lock handed out when it had run out",
    incident: "A lock handed out when it had expired",
    lines: Lines::Grants,
    blames: Blames::Nothing,
};

fn found(seen: &Seen) -> String {
    match (seen.contradictions(), seen.verdict.claim(Claim::Grants)) {
        (0, Some(claim)) if claim.not_counted.is_some() => format!("{} valid", number(claim.evidence)),
        (0, _) => "each valid when it was handed out".to_string(),
        (many, _) => plural(many, "expired grant"),
    }
}

/// Reports locks that had no validity left when their clients acquired them.
fn check(case: &Case) -> Findings {
    let (history, stops) = (case.history, case.stops());
    let words = Words::new(history);
    let (mut anomalies, mut grants, mut shortest, mut undecided) = (Vec::new(), 0, u64::MAX, None);
    let (mut excused, mut excuses) = (0, BTreeSet::new());
    for (place, operation) in history.operations.iter().enumerate() {
        let Some(acquired) = operation.phase(Phase::Acquired) else { continue };
        let Some(validity_ms) = acquired.validity_ms else { continue };
        let asked = operation.phase(Phase::Acquiring).map_or(operation.invoked, PhaseStamp::time);
        let (client, at) = (words.client(place), acquired.time());
        if let Some(why) = stops.why(history, &client, asked, at).or_else(|| wrong_clock(history, &client, asked, at)) {
            if validity_ms == 0 {
                excused += 1;
                excuses.insert(why);
            }
            continue;
        }
        grants += 1;
        shortest = shortest.min(validity_ms);
        if validity_ms > 0 {
            continue;
        }
        let summary = format!(
            "{client} received the lock of {} at {}, {} after it had asked, although the library reported no validity left",
            operation.key,
            seconds(at),
            length(at.saturating_sub(asked)),
        );
        if let Some(why) = kept(history, Needs::ClientAlone(&client), (asked, at), 0) {
            undecided.get_or_insert(format!("{summary}, but {why}"));
            continue;
        }
        anomalies.push(Anomaly::new(AnomalyKind::ExpiredGrant, &operation.key, at, vec![operation.index], summary));
    }
    let left = if grants == 0 {
        String::new()
    } else {
        format!(", the shortest {}", length(shortest.saturating_mul(1_000_000)))
    };
    let text = format!("{} with a validity{left}", count(grants, "grant"));
    let mut findings = Findings::new(anomalies, grants, text, "no client reports how long its lock is valid");
    let excuses: Vec<String> = excuses.into_iter().collect();
    findings.evidence.not_counted = (excused > 0).then(|| {
        NotCounted::Explained(format!(
            "{} handed out with no validity left,{} after {}",
            number(excused),
            if excused == 1 { "" } else { " each" },
            excuses.join(" or ")
        ))
    });
    findings.undecided(undecided)
}

/// A sentence if a client's clock was wrong meanwhile.
fn wrong_clock(history: &History, client: &str, from: u64, to: u64) -> Option<String> {
    let mut of_clock = history.faults.iter().filter(|window| window.kind.does.wall_clock && window.skipped.is_none());
    let is_wrong = of_clock.any(|window| {
        let (inject, healed) = window.span();
        window.targets.iter().any(|target| target == client)
            && inject <= to
            && healed.is_none_or(|healed| from <= healed)
    });
    is_wrong.then(|| "its client's clock was changed".to_string())
}
