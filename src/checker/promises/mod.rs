//! What users of a lock are promised besides the lock itself, each promise with what could have broken it.
//!
//! - [`waits`]: a bounded wait ends in time, and a lock runs out however its holder ends;
//! - [`truth`]: what a release says that it did, and that a client has the lock, is so;
//! - [`losses`]: a holder is told in time that its lock is gone;
//! - [`grants`]: no lock is handed out that has run out by the library's own word.
//!
//! All but the first come up only in some runs ([`Claim::is_conditional`]), and are looked for only where the workload
//! makes them: another library means something else by the same words. [`owners`] says who certainly had the lock, and
//! [`stopped`] who could not speak.

mod grants;
mod losses;
mod owners;
mod stopped;
mod truth;
mod waits;

use super::evidence::{Evidence, NotCounted};
use super::verdict::Anomaly;
use crate::history::{Claim, History};

/// The promises about what a library says that are the same whatever its file states.
const OF_WORDS: [Claim; 3] = [Claim::Releases, Claim::Ownership, Claim::Grants];

/// What was found of one promise.
pub(super) struct Findings {
    pub anomalies: Vec<Anomaly>,
    pub evidence: Evidence,
}

impl Findings {
    /// With this many facts that could have broken it; `missing` says what did not come up if there are none.
    fn new(anomalies: Vec<Anomaly>, count: u64, text: String, missing: &str) -> Findings {
        let missing = (count == 0).then(|| missing.to_string());
        Findings { anomalies, evidence: Evidence { count, text, missing, not_counted: None } }
    }

    /// The same, if something went wrong that shows nothing for this reason.
    fn undecided(mut self, why: Option<String>) -> Findings {
        self.evidence.not_counted = why.map(NotCounted::Undecided).or(self.evidence.not_counted);
        self
    }
}

/// Examines one promise.
type Check = fn(&History) -> Findings;

/// How each promise is checked.
const PROMISES: [(Claim, Check); 5] = [
    (Claim::Promises, waits::check),
    (Claim::Releases, truth::releases),
    (Claim::Ownership, truth::ownership),
    (Claim::Losses, losses::check),
    (Claim::Grants, grants::check),
];

/// Examines each promise that the workload makes, and the first one always. Sorts the operations of each key.
pub(super) fn check(history: &History) -> Vec<(Claim, Findings)> {
    let made =
        |claim: Claim| !claim.is_conditional() || history.run.as_ref().is_some_and(|run| run.claims.contains(&claim));
    PROMISES.iter().filter(|(claim, _)| made(*claim)).map(|(claim, check)| (*claim, check(history))).collect()
}

/// What breaks the promises of its words that the workload does not make.
pub(super) fn broken_if_made(history: &History) -> Vec<Anomaly> {
    let is_made = |claim: &Claim| history.run.as_ref().is_some_and(|run| run.claims.contains(claim));
    let not_made = PROMISES.iter().filter(|(claim, _)| OF_WORDS.contains(claim) && !is_made(claim));
    not_made.flat_map(|(_, check)| check(history).anomalies).collect()
}
