//! The number of a counter and the length of a list match the updates that they descend from. This claim accompanies `updates` if
//! the resource is a counter or a list. The theory is in `checker/amounts.rs`.

use super::super::evidence;
use super::*;
use base::words::{count, line};
use model::history::ResourceKind;

/// The headline quotes at most this many characters of the summary; the report has all of it.
const LONGEST: usize = 300;

pub static DEF: Property = Property {
    id: "amounts",
    rank: Rank::Claim(ClaimDef {
        claim: Claim::Amounts,
        conditional: false,
        decides: |run| {
            run.claims.contains(&Claim::Updates) && matches!(run.resource, ResourceKind::Counter | ResourceKind::List)
        },
        concerns: evidence::has_amounts,
        counted: |_| 0,
        retitled: |_| None,
        reason: |seen| {
            seen.first_of(AnomalyKind::WrongAmount).map(|anomaly| anomaly.summary.clone()).unwrap_or_default()
        },
        found: |seen| match seen.contradictions() {
            0 => "all amounts match".to_string(),
            wrong => plural(wrong, "wrong amount"),
        },
        headline,
    }),
    title: "Amounts match the updates",
    applies: "runs whose resource is a counter or a list",
    parameter: None,
    check: |case| Findings {
        anomalies: case.updates_where(|kind| kind == AnomalyKind::WrongAmount),
        evidence: evidence::amounts(case.history, &case.updates.measured),
    },
};

/// A counter's number or a list's length differs from the number of updates that it descends from.
pub static WRONG_AMOUNT: AnomalyDef =
    AnomalyDef { name: "wrong amount", incident: "A wrong amount", lines: Lines::Operations, blames: Blames::Effects };

/// The first wrong amount, in the words of the check.
fn headline(seen: &Seen, of: &Circumstances) -> String {
    let first = seen.first_of(AnomalyKind::WrongAmount);
    let first = first.map_or(String::new(), |anomaly| format!(": {}", line(&anomaly.summary, LONGEST)));
    match seen.verdict.count_of(AnomalyKind::WrongAmount) {
        0 | 1 => format!("{} left a wrong amount{first}.", of.lock),
        more => format!("{} left {} wrong amounts, the first{first}.", of.lock, count(more)),
    }
}
