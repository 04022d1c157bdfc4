//! Each claim in words: its meaning, its result, and the evidence.

use serde::{Deserialize, Serialize};

use super::story::{ClaimStatus, Story};
use checker::ClaimVerdict;
use checker::properties::Property;
use model::history::Claim;

/// One claim: its meaning, its result, and the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimAccount {
    #[serde(flatten)]
    pub checked: ClaimVerdict,
    /// A title such as `Fencing tokens increase`.
    pub title: String,
    /// The result in this run.
    pub standing: ClaimStatus,
    /// The result in a few words.
    pub standing_text: String,
    /// The finding: `3 of 111 lost (2.7%)`.
    pub found: String,
    /// `evidence: 111 updates with a known predecessor`, or why the evidence does not suffice.
    pub why: String,
    /// Why a contradiction does no harm here.
    pub harmless: Option<String>,
    /// The number of contradictions.
    pub contradictions: u64,
}

impl ClaimAccount {
    pub(super) fn new(story: &Story, verdict: &ClaimVerdict) -> ClaimAccount {
        let (claim, claimed) = (verdict.claim, verdict.claimed);
        let (property, def) = (Property::of(claim), story.seen(claim).def);
        let standing = story.status(claim);
        // The claim is in the workload's file, but the resource's refusals make it irrelevant for the verdict.
        let in_file = story.subject.scenario.is_some_and(|of| of.workload.claims.contains(&claim));
        let spared = in_file && !claimed && claim == Claim::MutualExclusion && story.refusal().is_some();
        let seen = standing == ClaimStatus::Unclaimed && claim == Claim::MutualExclusion;
        let none_lost = story.contradictions(Claim::Updates) == 0;
        let harmless = story.refusal().filter(|_| none_lost && (seen || spared));
        let standing_text = match standing {
            ClaimStatus::Broken => "Violated",
            ClaimStatus::Unproven => "Unknown",
            ClaimStatus::NotShown => "Not shown",
            ClaimStatus::Unclaimed if harmless.is_some() => "Seen, but harmless here",
            ClaimStatus::Unclaimed if spared => "Violated, but only lost updates count",
            ClaimStatus::Unclaimed => "Violated, but not claimed by this workload",
            ClaimStatus::Held if claimed => "Valid",
            ClaimStatus::Held if spared => "Not violated, and not needed here",
            ClaimStatus::Held => "Not claimed, and not violated",
        };
        ClaimAccount {
            checked: verdict.clone(),
            title: (def.retitled)(story.subject.history).unwrap_or_else(|| property.title.to_string()),
            standing,
            standing_text: standing_text.to_string(),
            found: match &verdict.not_counted {
                Some(other) => format!("{}; {other}: not counted", found(story, claim)),
                None => found(story, claim),
            },
            why: match &verdict.missing {
                Some(missing) if standing == ClaimStatus::NotShown => format!("no evidence: {missing}"),
                Some(missing) => format!("not enough evidence: {missing}"),
                None => format!("evidence: {}", verdict.text),
            },
            harmless: harmless.map(|refusal| format!("Late writes change nothing: {refusal}.")),
            contradictions: story.contradictions(claim),
        }
    }

    /// True if nothing contradicts the claim, not even contradictions that do not count.
    pub fn is_spotless(&self) -> bool {
        self.standing == ClaimStatus::Held && self.checked.not_counted.is_none()
    }

    /// The result in a word.
    pub fn word(&self) -> &'static str {
        match self.standing {
            ClaimStatus::Held if self.checked.claimed => "valid",
            ClaimStatus::Unclaimed if self.harmless.is_some() => "harmless",
            ClaimStatus::Held if self.harmless.is_some() => "not needed",
            ClaimStatus::Held | ClaimStatus::Unclaimed => "not claimed",
            ClaimStatus::Broken => "VIOLATED",
            ClaimStatus::Unproven => "unknown",
            ClaimStatus::NotShown => "not shown",
        }
    }
}

/// The finding in a few words.
fn found(story: &Story, claim: Claim) -> String {
    if story.status(claim) == ClaimStatus::NotShown {
        return "not exercised".to_string();
    }
    let seen = story.seen(claim);
    (seen.def.found)(&seen)
}
