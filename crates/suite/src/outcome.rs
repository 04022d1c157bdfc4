//! The result of a run, and the status of its cell. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::file::FoundIn;
use checker::{Remark, Validity};
use model::nemesis::Expectation;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    pub cell: String,
    /// The number of the run in its cell, from 1.
    pub run: u32,
    pub seed: u64,
    /// None if the run could not be made.
    pub valid: Option<Validity>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// The event, in one sentence.
    pub summary: String,
    /// The run's folder, relative to the suite's; empty if there is none.
    pub folder: String,
    pub repeat: String,
    /// The command that a fault hit first, with its reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub struck: Option<String>,
    pub seconds: f64,
    pub numbers: Numbers,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advisories: Vec<Remark>,
    /// A remark if the run's diagnosis differs from the one in the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misdiagnosed: Option<String>,
    /// The defects that its commands show: code, name and what happened. Inherent ones are left out. Not stored.
    #[serde(skip)]
    pub defects: Vec<String>,
    #[serde(default)]
    pub timing: Timing,
    /// The earlier attempt that this run replaces, see [`needs_rerun`](RunOutcome::needs_rerun).
    pub first_attempt: Option<Box<Attempt>>,
}

/// How late a run's timers were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// The largest delay of a timer of the controller, in milliseconds. None if the run does not report it.
    pub late_ms: Option<u64>,
    /// The largest permitted delay, in milliseconds: a twentieth of the TTL. If a timer was later, the timing was not kept.
    pub limit_ms: u64,
    /// True if other runs were active on the same machine.
    pub beside_others: bool,
    /// True if the run is unknown, and its reasons ask for a quieter machine.
    #[serde(default)]
    pub asks_for_quiet: bool,
}

/// A timer may be late by the TTL divided by this. Scenarios wait for at least half a TTL before the next step. A lock's own
/// allowance for slow clocks is a hundredth of the TTL plus two milliseconds.
const TTL_TO_LATENESS: u64 = 20;

impl Timing {
    /// The timing of a run with this TTL while no other run was active.
    pub fn of(late_ms: Option<u64>, ttl: Duration) -> Timing {
        Timing { late_ms, limit_ms: ttl.as_millis() as u64 / TTL_TO_LATENESS, ..Timing::default() }
    }

    pub fn was_kept(&self) -> bool {
        self.why_not_kept().is_none()
    }

    pub fn why_not_kept(&self) -> Option<String> {
        match self.late_ms.filter(|late_ms| *late_ms > self.limit_ms) {
            Some(late_ms) => Some(format!("timers were {late_ms} ms late ({} ms are allowed)", self.limit_ms)),
            None => self.asks_for_quiet.then(|| "the run needs a quieter machine".to_string()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    pub valid: Option<Validity>,
    pub summary: String,
    pub folder: String,
    pub seconds: f64,
    pub timing: Timing,
}

impl RunOutcome {
    /// Whether the run shows nothing because of what else the machine did, so that it has to be made again alone: others were made
    /// beside it and it could not be made, or its timing was not kept and it is unknown or lacks an expected violation. A run that
    /// asks for a quieter machine has to be made again in any case: other programs may be done by then. A violation is a fact
    /// whatever the machine did, and a run that is valid as expected lacks nothing.
    pub fn needs_rerun(&self, expected: Option<Expectation>) -> bool {
        let Timing { beside_others, asks_for_quiet, .. } = self.timing;
        match self.valid {
            // A client without an ability will not have it next time.
            None => beside_others && !self.summary.contains("capabilities"),
            Some(Validity::Unknown) => asks_for_quiet || (beside_others && !self.timing.was_kept()),
            Some(Validity::Valid) => {
                beside_others && !self.timing.was_kept() && expected == Some(Expectation::Violation)
            }
            Some(Validity::Invalid) => false,
        }
    }

    pub fn sample(&self) -> Sample {
        let advisories = self.advisories.clone();
        Sample { valid: self.valid, simulated: self.simulated, numbers: self.numbers, advisories }
    }

    pub fn as_attempt(&self) -> Attempt {
        let RunOutcome { valid, summary, folder, seconds, timing, .. } = self.clone();
        Attempt { valid, summary, folder, seconds, timing }
    }
}

/// The values of one run that are compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// None if the run could not be made.
    pub valid: Option<Validity>,
    pub simulated: bool,
    pub numbers: Numbers,
    pub advisories: Vec<Remark>,
}

impl Sample {
    /// The run's badness. None if the run is unknown or could not be made.
    pub fn score(&self) -> Option<f64> {
        match self.valid? {
            Validity::Valid => Some(0.0),
            Validity::Invalid if self.numbers.acknowledged == 0 => Some(1.0),
            Validity::Invalid => Some(1.0 + self.numbers.lost as f64 / self.numbers.acknowledged as f64),
            Validity::Unknown => None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    pub acknowledged: u64,
    pub lost: u64,
    /// The number of overlapping pairs of holds, and of the holds that could be compared. There may be more pairs than holds.
    pub overlaps: u64,
    pub holds: u64,
    /// The time from the first operation to the first violation of a claim of the workload, in seconds.
    pub first_violation_s: Option<f64>,
    /// The time from the last heal to the next acquisition, in seconds.
    pub without_lock_s: Option<f64>,
    pub per_second: Option<f64>,
    /// The median and the 99th percentile of its acknowledged operations, in milliseconds. Earlier versions did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<(f64, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellStatus {
    /// Its result certainly contradicts the expectation.
    Surprise,
    /// Its runs have too little evidence.
    Unknown,
    /// Some of its runs are missing.
    NotRun,
    AsExpected,
    Observed,
}

impl CellStatus {
    pub fn word(self) -> &'static str {
        match self {
            CellStatus::Surprise => "UNEXPECTED",
            CellStatus::Unknown => "UNKNOWN",
            CellStatus::NotRun => "not run",
            CellStatus::AsExpected => "as expected",
            CellStatus::Observed => "observed",
        }
    }
}

/// The number of a cell's runs with each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub planned: u32,
    pub valid: u32,
    pub invalid: u32,
    pub unknown: u32,
    pub could_not_run: u32,
    /// How many of the invalid runs show another defect than the catalogue.
    #[serde(default, skip_serializing_if = "is_none")]
    pub misdiagnosed: u32,
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

impl Tally {
    /// The tally of a cell's runs. A run that must be rerun counts as unknown, whatever it found.
    pub fn of<'a>(planned: u32, expected: Option<Expectation>, runs: impl Iterator<Item = &'a RunOutcome>) -> Tally {
        let mut tally = Tally { planned, ..Tally::default() };
        for run in runs {
            tally.misdiagnosed += u32::from(run.misdiagnosed.is_some());
            match run.valid {
                Some(Validity::Valid) if run.needs_rerun(expected) => tally.unknown += 1,
                Some(Validity::Valid) => tally.valid += 1,
                Some(Validity::Invalid) => tally.invalid += 1,
                Some(Validity::Unknown) => tally.unknown += 1,
                None => tally.could_not_run += 1,
            }
        }
        tally
    }

    pub fn done(&self) -> u32 {
        self.valid + self.invalid + self.unknown + self.could_not_run
    }

    /// The status of a cell with these runs. One run that contradicts the expectation decides, whatever the others show. An
    /// unknown run never counts for the expectation.
    pub fn status(&self, expected: Option<Expectation>, found: Option<FoundIn>) -> CellStatus {
        if self.misdiagnosed > 0 {
            return CellStatus::Surprise;
        }
        let complete = self.done() >= self.planned;
        let proven = self.unknown + self.could_not_run == 0;
        let (contradicted, met) = match (expected, found) {
            (None, _) if complete => return CellStatus::Observed,
            (None, _) => return CellStatus::NotRun,
            (Some(Expectation::Valid), _) => (self.invalid > 0, proven),
            (Some(Expectation::Violation), Some(FoundIn::Some)) => {
                (complete && proven && self.invalid == 0, self.invalid > 0)
            }
            (Some(Expectation::Violation), Some(FoundIn::Every) | None) => (self.valid > 0, proven),
        };
        match (contradicted, complete, met) {
            (true, _, _) => CellStatus::Surprise,
            (false, false, _) => CellStatus::NotRun,
            (false, true, true) => CellStatus::AsExpected,
            (false, true, false) => CellStatus::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(valid: Option<Validity>, late_ms: Option<u64>, beside_others: bool) -> RunOutcome {
        RunOutcome {
            cell: "redlock under pause".into(),
            run: 1,
            seed: 1,
            valid,
            seconds: 1.5,
            timing: Timing { late_ms, limit_ms: 50, beside_others, asks_for_quiet: false },
            ..RunOutcome::default()
        }
    }

    #[test]
    fn a_run_is_made_again_only_if_it_lacks_something_that_others_may_have_kept_from_it() {
        use Expectation::{Valid as Holds, Violation};
        use Validity::{Invalid, Unknown, Valid};
        let (late, in_time, unsaid) = (Some(51), Some(50), None);
        for (valid, late_ms, beside_others, expected, again) in [
            (Some(Unknown), late, true, Some(Holds), true),
            (Some(Unknown), late, true, Some(Violation), true),
            (Some(Valid), late, true, Some(Violation), true),
            (None, unsaid, true, Some(Holds), true),
            // A violation stands, expected or not, and so does a valid run that is expected to be valid.
            (Some(Invalid), late, true, Some(Holds), false),
            (Some(Invalid), late, true, Some(Violation), false),
            (Some(Valid), late, true, Some(Holds), false),
            (Some(Valid), late, true, None, false),
            // The run was in time, or no other run was active. Its result stands.
            (Some(Unknown), in_time, true, Some(Holds), false),
            (Some(Valid), in_time, true, Some(Violation), false),
            (Some(Unknown), unsaid, true, Some(Holds), false),
            (Some(Unknown), late, false, Some(Holds), false),
            (Some(Valid), late, false, Some(Violation), false),
            (None, unsaid, false, Some(Holds), false),
        ] {
            let run = run(valid, late_ms, beside_others);
            assert_eq!(run.needs_rerun(expected), again, "{run:?} where {expected:?} was expected");
        }
        for beside_others in [true, false] {
            let mut waited = run(Some(Unknown), in_time, beside_others);
            waited.timing.asks_for_quiet = true;
            assert!(waited.needs_rerun(Some(Holds)), "other programs may have had the processors");
            assert_eq!(waited.timing.why_not_kept().as_deref(), Some("the run needs a quieter machine"));
        }
    }

    #[test]
    fn a_run_that_has_to_be_made_again_surprises_nobody() {
        let standing = |runs: &[RunOutcome]| {
            let expected = Some(Expectation::Violation);
            Tally::of(2, expected, runs.iter()).status(expected, Some(FoundIn::Every))
        };
        let found = run(Some(Validity::Invalid), Some(900), true);
        let missed = |late_ms| run(Some(Validity::Valid), Some(late_ms), true);
        assert_eq!(standing(&[found.clone(), missed(51)]), CellStatus::Unknown);
        assert_eq!(standing(&[found, missed(50)]), CellStatus::Surprise);
    }

    #[test]
    fn a_cell_is_what_its_runs_certainly_show() {
        use CellStatus::*;
        use Expectation::{Valid, Violation};
        let tally = |valid, invalid, unknown, could_not_run| Tally {
            planned: 3,
            valid,
            invalid,
            unknown,
            could_not_run,
            misdiagnosed: 0,
        };
        for (runs, expected, found, standing) in [
            (tally(3, 0, 0, 0), Some(Valid), None, AsExpected),
            (tally(2, 0, 1, 0), Some(Valid), None, Unknown),
            (tally(2, 0, 0, 1), Some(Valid), None, Unknown),
            (tally(2, 0, 0, 0), Some(Valid), None, NotRun),
            // An unexpected result outranks unknown and missing runs.
            (tally(1, 1, 1, 0), Some(Valid), None, Surprise),
            (tally(0, 1, 0, 0), Some(Valid), None, Surprise),
            (tally(0, 3, 0, 0), Some(Violation), Some(FoundIn::Every), AsExpected),
            (tally(1, 2, 0, 0), Some(Violation), Some(FoundIn::Every), Surprise),
            (tally(1, 0, 0, 0), Some(Violation), Some(FoundIn::Every), Surprise),
            (tally(0, 2, 1, 0), Some(Violation), Some(FoundIn::Every), Unknown),
            (tally(1, 1, 1, 0), Some(Violation), Some(FoundIn::Every), Surprise),
            (tally(2, 1, 0, 0), Some(Violation), Some(FoundIn::Some), AsExpected),
            (tally(1, 1, 1, 0), Some(Violation), Some(FoundIn::Some), AsExpected),
            (tally(3, 0, 0, 0), Some(Violation), Some(FoundIn::Some), Surprise),
            (tally(2, 0, 1, 0), Some(Violation), Some(FoundIn::Some), Unknown),
            (tally(0, 0, 0, 3), Some(Violation), Some(FoundIn::Some), Unknown),
            (tally(2, 0, 0, 0), Some(Violation), Some(FoundIn::Some), NotRun),
            (tally(1, 1, 1, 0), None, None, Observed),
            (tally(0, 0, 0, 0), None, None, NotRun),
        ] {
            assert_eq!(runs.status(expected, found), standing, "{runs:?} where {expected:?} {found:?} was expected");
        }
    }
}
