//! No two clients, or no more clients than may, believe at the same time that they hold the lock. The theory is in
//! `checker/holds.rs`.

use super::super::words;
use super::*;

pub static DEF: Property = Property {
    id: "mutual-exclusion",
    rank: Rank::Claim(ClaimDef {
        claim: Claim::MutualExclusion,
        conditional: false,
        decides: |run| run.claims.contains(&Claim::MutualExclusion),
        concerns: |history| history.takes_locks() && history.operations.iter().any(|operation| operation.f.is_locked()),
        counted: |verdict| verdict.mutual_exclusion.violations,
        retitled,
        reason,
        found,
        headline,
    }),
    title: "No two clients hold the lock at once",
    applies: "runs whose clients acquire a lock",
    parameter: None,
    check: |case| Findings { anomalies: case.overlaps.anomalies.clone(), evidence: case.exclusion.clone() },
};

/// Two clients, or more clients than may, believed at once that they held the lock.
pub static OVERLAPPING_HOLDERS: AnomalyDef = AnomalyDef {
    name: "two holders at once",
    incident: "Two holders at once",
    lines: Lines::Operations,
    blames: Blames::Holders,
};

fn retitled(history: &History) -> Option<String> {
    match history.permits() {
        1 => history
            .has_readers()
            .then(|| "No client holds the lock while another client holds it for writing".to_string()),
        permits => Some(format!("No more than {permits} clients hold the lock at once")),
    }
}

/// The clients that must not hold the lock at once.
pub fn too_many_clients(history: &History) -> String {
    match history.permits() {
        1 if history.has_readers() => "a writer and another client".to_string(),
        1 => "two clients".to_string(),
        permits => format!("more than {permits} clients"),
    }
}

fn reason(seen: &Seen) -> String {
    let (violations, holds) =
        (seen.verdict.mutual_exclusion.violations, seen.verdict.mutual_exclusion.comparable_holds);
    let what = match seen.permits() {
        1 => words::count(violations, "overlap"),
        _ => format!("{} too many", words::count(violations, "hold")),
    };
    let clients = too_many_clients(seen.history);
    format!("{clients} held one lock at once: {what} among {}", words::count(holds, "hold"))
}

/// `36 overlaps`, or `3 holds too many` if several clients may hold the lock.
fn overlaps(seen: &Seen) -> String {
    match seen.permits() {
        1 => plural(seen.contradictions(), "overlap"),
        _ => format!("{} too many", plural(seen.contradictions(), "hold")),
    }
}

fn found(seen: &Seen) -> String {
    match (seen.contradictions(), seen.verdict.mutual_exclusion.comparable_holds) {
        (0, 0) => "no holds to compare".to_string(),
        (0, all) if seen.permits() > 1 => format!("never more than {} of {}", seen.permits(), plural(all, "hold")),
        (0, all) => format!("no overlap among {}{}", plural(all, "hold"), to_last_act(seen.verdict)),
        (_, all) => format!("{} among {}{}", overlaps(seen), plural(all, "hold"), to_last_act(seen.verdict)),
    }
}

/// `; 2 of them count only up to the last acts of stopped holders`; empty if there are none.
fn to_last_act(verdict: &Verdict) -> String {
    base::words::unless_none(verdict.mutual_exclusion.to_last_act, |holds| match holds {
        1 => "; 1 of them counts only up to the last act of a stopped holder".to_string(),
        _ => format!("; {holds} of them count only up to the last acts of stopped holders"),
    })
}

fn headline(seen: &Seen, of: &Circumstances) -> String {
    let verdict = seen.verdict;
    let of_updates = Seen::new(seen.history, verdict, Claim::Updates);
    let none_lost = verdict.lost_updates.acknowledged > 0
        && of_updates.contradictions() == 0
        && !verdict.has(AnomalyKind::WriteInFlight)
        && seen.permits() == 1;
    format!(
        "{} let {} hold the lock at once{}: {} among {}{}.",
        of.lock,
        too_many_clients(seen.history),
        of.cause,
        overlaps(seen),
        plural(verdict.mutual_exclusion.comparable_holds, "hold"),
        if none_lost { "; no acknowledged update was lost" } else { "" }
    )
}
