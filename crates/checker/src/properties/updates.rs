//! Every acknowledged update survives, in an order that agrees with real time. The theory is in [`crate`]'s `updates`.

use super::super::evidence;
use super::super::words;
use super::*;
use base::words::{count, percent};
use model::history::{Function, ResourceKind};

pub static DEF: Property = Property {
    id: "updates",
    rank: Rank::Claim(ClaimDef {
        claim: Claim::Updates,
        conditional: false,
        decides: |run| run.claims.contains(&Claim::Updates) && run.resource != ResourceKind::None,
        concerns: |history| history.operations.iter().any(touches),
        counted: |verdict| verdict.lost_updates.count,
        retitled: |history| history.has_readers().then(|| WITH_READERS.to_string()),
        reason,
        found,
        headline,
    }),
    title: "Every acknowledged update survives",
    applies: "runs whose clients read and write a resource",
    parameter: None,
    check: |case| Findings {
        anomalies: case.updates_where(|kind| kind.contradicts() == Some(Claim::Updates)),
        evidence: evidence::updates(case.history, &case.updates.happened),
    },
};

const WITH_READERS: &str =
    "Every acknowledged update survives, and a value that a reader read stays while it holds the lock";

const fn anomaly(name: &'static str, incident: &'static str) -> AnomalyDef {
    AnomalyDef { name, incident, lines: Lines::Operations, blames: Blames::Writes }
}

/// An acknowledged update is in no lineage of a value that was read later.
pub static LOST_UPDATE: AnomalyDef = anomaly("lost update", "An update overwritten");
/// An operation read a value that had already been replaced before it began.
pub static STALE_READ: AnomalyDef = anomaly("stale read", "A stale read");
/// An operation read a value that no client can have written by then.
pub static IMPOSSIBLE_READ: AnomalyDef = anomaly("impossible read", "An impossible read");
/// The order that the values dictate contradicts real time in another way.
pub static ORDER_VIOLATION: AnomalyDef = anomaly("order violation", "An order that contradicts real time");

fn touches(operation: &Operation) -> bool {
    operation.f != Function::Hold && operation.process != Process::Controller
}

fn reason(seen: &Seen) -> String {
    let lost = seen.verdict.lost_updates;
    let others = [
        (AnomalyKind::StaleRead, "stale read", "stale reads"),
        (AnomalyKind::ImpossibleRead, "impossible read", "impossible reads"),
        (AnomalyKind::OrderViolation, "violation of the real-time order", "violations of the real-time order"),
    ];
    let mut parts = Vec::new();
    if lost.count > 0 {
        let percent = lost.fraction * 100.0;
        let of = words::count(lost.acknowledged, "acknowledged update");
        parts.push(format!("{} of {of} lost ({percent:.1}%)", words::number(lost.count)));
    }
    parts.extend(others.into_iter().filter_map(|(kind, one, many)| match seen.verdict.count_of(kind) {
        0 => None,
        1 => Some(format!("1 {one}")),
        number if kind == AnomalyKind::OrderViolation => Some(format!("{number} {many}")),
        number => Some(words::count(number, one)),
    }));
    words::list(&parts)
}

fn found(seen: &Seen) -> String {
    let lost = seen.verdict.lost_updates;
    match (lost.count, lost.acknowledged) {
        (0, _) if seen.contradictions() > 0 => plural(seen.contradictions(), "contradiction"),
        (0, 0) => "nothing was acknowledged".to_string(),
        (0, all) => format!("none of {} lost", count(all)),
        (some, all) => format!("{} of {} lost ({})", count(some), count(all), percent(lost.fraction)),
    }
}

fn headline(seen: &Seen, of: &Circumstances) -> String {
    let (verdict, lock) = (seen.verdict, &of.lock);
    let lost = verdict.lost_updates;
    if lost.count > 0 {
        let all = plural(lost.acknowledged, &format!("acknowledged {}", of.update));
        let (share, lost) = (percent(lost.fraction), count(lost.count));
        return format!("{lock} lost {lost} of {all} ({share}){}{}.", of.cause_of_losses, of.end);
    }
    let (why, reads) = (&of.cause_of_losses, verdict.count_of(AnomalyKind::StaleRead));
    if seen.history.has_readers() && reads == seen.contradictions() {
        return format!("{lock} let {} go stale under the lock{why}.", plural(reads, "read"));
    }
    let observations = plural(seen.contradictions(), "observation");
    format!("{lock} produced {observations} that no correct order of the updates explains{why}.")
}
