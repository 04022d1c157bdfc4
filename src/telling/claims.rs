//! Each claim in words: what it says, how it came out, and on what evidence.

use serde::{Deserialize, Serialize};

use super::headline::{is_long, too_many};
use super::story::{Standing, Story};
use crate::checker::{AnomalyKind, ClaimVerdict};
use crate::history::Claim;
use crate::words::{count, length, percent, plural};

/// One claim: what it says, how it came out, and on what evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimAccount {
    #[serde(flatten)]
    pub checked: ClaimVerdict,
    /// `Fencing tokens rise`.
    pub title: String,
    /// How it came out in this run.
    pub standing: Standing,
    /// The same in a few words.
    pub standing_text: String,
    /// What was found: `3 of 111 lost (2.7 %)`.
    pub found: String,
    /// `evidence: 111 updates with a known predecessor`, or that there is not enough.
    pub why: String,
    /// Why a contradiction does no harm here.
    pub harmless: Option<String>,
    /// How many contradictions were seen.
    pub contradictions: u64,
}

impl ClaimAccount {
    pub(super) fn new(story: &Story, verdict: &ClaimVerdict) -> ClaimAccount {
        let (claim, claimed) = (verdict.claim, verdict.claimed);
        let standing = story.standing(claim);
        // The workload's file claims it all the same, if what its resource refuses makes it decide nothing.
        let in_file = story.subject.scenario.is_some_and(|of| of.workload.claims.contains(&claim));
        let spared = in_file && !claimed && claim == Claim::MutualExclusion && story.refusal().is_some();
        let seen = standing == Standing::Unclaimed && claim == Claim::MutualExclusion;
        let none_lost = story.contradictions(Claim::Updates) == 0;
        let harmless = story.refusal().filter(|_| none_lost && (seen || spared));
        let standing_text = match standing {
            Standing::Broken => "Broken",
            Standing::Unproven => "Not proven",
            Standing::NotShown => "Not shown",
            Standing::Unclaimed if harmless.is_some() => "Seen, but harmless here",
            Standing::Unclaimed if spared => "Seen; the updates decide",
            Standing::Unclaimed => "Seen, but not claimed by this workload",
            Standing::Held if claimed => "Held",
            Standing::Held if spared => "Not violated, and not needed here",
            Standing::Held => "Not claimed, and not violated",
        };
        ClaimAccount {
            checked: verdict.clone(),
            title: title(story, claim),
            standing,
            standing_text: standing_text.to_string(),
            found: match &verdict.not_counted {
                Some(other) => format!("{}; {other}: not counted", found(story, claim)),
                None => found(story, claim),
            },
            why: match &verdict.missing {
                Some(missing) if standing == Standing::NotShown => format!("no evidence: {missing}"),
                Some(missing) => format!("not enough evidence: {missing}"),
                None => format!("evidence: {}", verdict.text),
            },
            harmless: harmless.map(|refusal| format!("A holder that comes too late changes nothing: {refusal}.")),
            contradictions: story.contradictions(claim),
        }
    }

    /// Whether nothing that was seen says the opposite, not even what does not count.
    pub fn is_spotless(&self) -> bool {
        self.standing == Standing::Held && self.checked.not_counted.is_none()
    }

    /// How it came out, in a word.
    pub fn word(&self) -> &'static str {
        match self.standing {
            Standing::Held if self.checked.claimed => "held",
            Standing::Unclaimed if self.harmless.is_some() => "harmless",
            Standing::Held if self.harmless.is_some() => "not needed",
            Standing::Held | Standing::Unclaimed => "not claimed",
            Standing::Broken => "BROKEN",
            Standing::Unproven => "unproven",
            Standing::NotShown => "not shown",
        }
    }
}

/// What a claim says.
fn title(story: &Story, claim: Claim) -> String {
    let title = match claim {
        Claim::MutualExclusion if story.permits() > 1 => {
            return format!("No more than {} clients hold the lock at once", story.permits());
        }
        Claim::Updates if story.has_readers() => {
            return "Every acknowledged update survives, and what a reader read stays while it has the lock"
                .to_string();
        }
        Claim::MutualExclusion if story.has_readers() => {
            return "No client holds the lock beside one that holds it for writing".to_string();
        }
        Claim::Updates => "Every acknowledged update survives",
        Claim::MutualExclusion => "No two clients hold the lock at once",
        Claim::Tokens => "Fencing tokens rise",
        Claim::Liveness => "A free lock can be acquired",
        Claim::Amounts => "Amounts match the updates",
        Claim::Promises => "Attempts keep to their timeout, and locks expire",
        Claim::Releases => "A release says what it did",
        Claim::Ownership => "A client that is told that it has the lock has it",
        Claim::Losses => "A holder is told in time that its lock is gone",
        Claim::Grants => "No lock is handed out that has run out",
    };
    title.to_string()
}

/// What was found, in a few words.
fn found(story: &Story, claim: Claim) -> String {
    let verdict = story.subject.verdict;
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
            (0, all) if story.permits() > 1 => {
                format!("never more than {} of {}", story.permits(), plural(all, "hold"))
            }
            (0, all) => format!("no overlap among {}", plural(all, "hold")),
            (seen, all) if story.permits() > 1 => format!("{} among {}", too_many(seen), plural(all, "hold")),
            (seen, all) => format!("{} among {}", plural(seen, "overlap"), plural(all, "hold")),
        },
        Claim::Tokens => match verdict.lock.token_regressions {
            0 if verdict.lock.tokens == 0 => "no token was seen".to_string(),
            0 => format!("{} in rising order", plural(verdict.lock.tokens, "token")),
            many => format!("{} of {} did not rise", count(many), plural(verdict.lock.tokens, "token")),
        },
        Claim::Liveness if story.has(AnomalyKind::AcquiredLate) => "not acquired in time".to_string(),
        Claim::Liveness if story.never_freed().is_some() => "not acquired: its key never ends".to_string(),
        Claim::Liveness if seen > 0 => "free, yet not acquired".to_string(),
        Claim::Liveness => {
            let gap = verdict.lock.longest_gap.as_ref();
            let stuck = match verdict.lock.reacquired_after_ns {
                Some(after) => Some(format!("acquired {} after the last heal", length(after))),
                // What nobody can call stuck may have been out of reach for long all the same.
                None => gap.is_none_or(|gap| !is_long(story, gap)).then(|| "never stuck".to_string()),
            };
            let gap = gap.map(|gap| format!("longest wait on a free lock: {}", length(gap.to - gap.from)));
            stuck.into_iter().chain(gap).collect::<Vec<String>>().join("; ")
        }
        Claim::Amounts if seen > 0 => plural(seen, "wrong amount"),
        Claim::Amounts => "all amounts match".to_string(),
        Claim::Promises if seen > 0 => plural(seen, "broken promise"),
        Claim::Promises => "all kept".to_string(),
        _ if seen == 0 && story.standing(claim) == Standing::NotShown => "did not come up".to_string(),
        Claim::Releases if seen > 0 => plural(seen, "untrue answer"),
        Claim::Releases => "every answer true".to_string(),
        Claim::Ownership if seen > 0 => plural(seen, "untrue answer"),
        Claim::Ownership => "every answer true".to_string(),
        Claim::Losses if seen > 0 => plural(seen, "late or missing word"),
        Claim::Losses => "each holder told in time".to_string(),
        Claim::Grants if seen > 0 => plural(seen, "expired grant"),
        Claim::Grants => match story.claim(claim) {
            Some(verdict) if verdict.not_counted.is_some() => format!("{} valid", count(verdict.evidence)),
            _ => "each valid when it was handed out".to_string(),
        },
    }
}
