//! Each claim in words: what it says, how it came out, and on what evidence.

use super::story::{PropertyOutcome, Story};
use crate::checker::{AnomalyKind, ClaimVerdict};
use crate::history::Claim;
use crate::words::{count, length, percent, plural};

/// What a claim says.
pub fn title(claim: Claim) -> &'static str {
    match claim {
        Claim::Updates => "Every acknowledged update survives",
        Claim::MutualExclusion => "No two clients hold the lock at once",
        Claim::Tokens => "Fencing tokens rise",
        Claim::Liveness => "A free lock can be acquired",
        Claim::Amounts => "Amounts match the updates",
        Claim::Promises => "Attempts keep to their timeout, and locks expire",
    }
}

/// What was found, in a few words.
pub fn found(story: &Story, claim: Claim) -> String {
    let verdict = story.report.verdict;
    let seen = story.contradictions(claim);
    match claim {
        Claim::Updates => {
            let lost = verdict.lost_updates;
            match (lost.count, lost.acknowledged) {
                (0, _) if seen > 0 => plural(seen, "contradiction"),
                (0, 0) => "nothing was acknowledged".to_string(),
                (0, all) => format!("none of {} lost", count(all)),
                (lost_count, all) => {
                    format!("{} of {} lost ({})", count(lost_count), count(all), percent(lost.fraction))
                }
            }
        }
        Claim::MutualExclusion => match (seen, verdict.mutual_exclusion.comparable_holds) {
            (0, 0) => "no holds to compare".to_string(),
            (0, all) => format!("no overlap among {}", plural(all, "hold")),
            (seen, all) => format!("{} among {}", plural(seen, "overlap"), plural(all, "hold")),
        },
        Claim::Tokens => match verdict.lock.token_regressions {
            0 if verdict.lock.tokens == 0 => "no token was seen".to_string(),
            0 => format!("{} in rising order", plural(verdict.lock.tokens, "token")),
            many => format!("{} of {} did not rise", count(many), plural(verdict.lock.tokens, "token")),
        },
        Claim::Liveness if story.has(AnomalyKind::AcquiredLate) => "not acquired in time".to_string(),
        Claim::Liveness if seen > 0 => "free, yet not acquired".to_string(),
        Claim::Liveness => {
            let stuck = match verdict.lock.reacquired_after_ns {
                Some(after) => format!("acquired {} after the last heal", length(after)),
                None => "never stuck".to_string(),
            };
            match &verdict.lock.longest_gap {
                Some(gap) => format!("{stuck}; longest wait on a free lock: {}", length(gap.to - gap.from)),
                None => stuck,
            }
        }
        Claim::Amounts if seen > 0 => plural(seen, "wrong amount"),
        Claim::Amounts => "all amounts match".to_string(),
        Claim::Promises if seen > 0 => plural(seen, "broken promise"),
        Claim::Promises => "all kept".to_string(),
    }
}

/// What could have falsified the claim, or what is missing.
pub fn evidence(claim: &ClaimVerdict) -> String {
    match &claim.missing {
        Some(missing) => format!("not enough evidence: {missing}"),
        None => format!("evidence: {}", claim.text),
    }
}

/// The outcome in a word or two, and the CSS class for it.
pub fn standing(story: &Story, claim: &ClaimVerdict) -> (&'static str, &'static str) {
    let harmless = claim.claim == Claim::MutualExclusion && story.resource_refuses();
    match story.standing(claim.claim) {
        PropertyOutcome::Broken => ("broken", "Broken"),
        PropertyOutcome::Unproven => ("unproven", "Not proven"),
        PropertyOutcome::Unclaimed if harmless => ("unclaimed", "Seen, but harmless here"),
        PropertyOutcome::Unclaimed => ("unclaimed", "Seen, but not claimed by this workload"),
        PropertyOutcome::Held if claim.claimed => ("held", "Held"),
        PropertyOutcome::Held => ("held", "Not claimed, and not violated"),
    }
}
