//! What a run showed, and the status of its cell that follows. Pure.

use serde::{Deserialize, Serialize};

use super::file::Found;
use crate::checker::{LockProperties, LostUpdates, MutualExclusion, Validity};
use crate::nemesis::Expectation;

/// One finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The name of its cell.
    pub cell: String,
    /// Which run of the cell, counted from 1.
    pub run: u32,
    pub seed: u64,
    /// None if the run could not be made, so that there is no verdict.
    pub valid: Option<Validity>,
    /// What happened, in one sentence.
    pub summary: String,
    /// The run's folder, relative to the suite's; empty if there is none.
    pub folder: String,
    /// The command that repeats it.
    pub repeat: String,
    /// From its start to its end, in seconds.
    pub seconds: f64,
    pub numbers: Numbers,
}

/// The comparable numbers of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    pub acknowledged: u64,
    pub lost: u64,
    /// Pairs of holds that overlapped, and holds that could be compared.
    pub overlaps: u64,
    pub holds: u64,
    /// From the first operation to the first violation of what the workload claims, in seconds.
    pub first_violation_s: Option<f64>,
    /// From the last heal to the next acquisition, in seconds.
    pub without_lock_s: Option<f64>,
    /// Acknowledged updates a second.
    pub per_second: Option<f64>,
}

/// What the suite reads in a run's `results.json`.
#[derive(Debug, Deserialize)]
pub struct Results {
    pub valid: Validity,
    pub summary: String,
    lost_updates: LostUpdates,
    mutual_exclusion: MutualExclusion,
    lock: LockProperties,
    first_violation_s: Option<f64>,
    acknowledged_per_second: Option<f64>,
    #[serde(default)]
    pub versions: std::collections::BTreeMap<String, String>,
}

impl Results {
    pub fn numbers(&self) -> Numbers {
        Numbers {
            acknowledged: self.lost_updates.acknowledged,
            lost: self.lost_updates.count,
            overlaps: self.mutual_exclusion.violations,
            holds: self.mutual_exclusion.comparable_holds,
            first_violation_s: self.first_violation_s,
            without_lock_s: self.lock.reacquired_after_ns.map(|ns| ns as f64 / 1e9),
            per_second: self.acknowledged_per_second,
        }
    }
}

/// The status of a cell, by its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellStatus {
    /// It certainly shows something other than expected.
    Surprise,
    /// Its runs prove too little.
    Unknown,
    /// Not all of its runs were made.
    NotRun,
    AsExpected,
    /// Nothing was expected of it.
    Observed,
}

/// How many runs of a cell ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub planned: u32,
    pub valid: u32,
    pub invalid: u32,
    pub unknown: u32,
    pub could_not_run: u32,
}

impl Tally {
    pub fn of<'a>(planned: u32, runs: impl Iterator<Item = &'a RunOutcome>) -> Tally {
        let mut tally = Tally { planned, ..Tally::default() };
        for run in runs {
            match run.valid {
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

    /// The status of a cell with these runs. One run that contradicts the expectation decides, whatever the others
    /// prove; a run that proves nothing never counts for the expectation.
    pub fn standing(&self, expected: Option<Expectation>, found: Option<Found>) -> CellStatus {
        let complete = self.done() >= self.planned;
        let proven = self.unknown + self.could_not_run == 0;
        let (contradicted, met) = match (expected, found) {
            (None, _) if complete => return CellStatus::Observed,
            (None, _) => return CellStatus::NotRun,
            (Some(Expectation::Valid), _) => (self.invalid > 0, proven),
            (Some(Expectation::Violation), Some(Found::Some)) => {
                (complete && proven && self.invalid == 0, self.invalid > 0)
            }
            (Some(Expectation::Violation), Some(Found::Every) | None) => (self.valid > 0, proven),
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

    #[test]
    fn a_cell_is_what_its_runs_certainly_show() {
        use CellStatus::*;
        use Expectation::{Valid, Violation};
        let tally =
            |valid, invalid, unknown, could_not_run| Tally { planned: 3, valid, invalid, unknown, could_not_run };
        for (runs, expected, found, standing) in [
            (tally(3, 0, 0, 0), Some(Valid), None, AsExpected),
            (tally(2, 0, 1, 0), Some(Valid), None, Unknown),
            (tally(2, 0, 0, 1), Some(Valid), None, Unknown),
            (tally(2, 0, 0, 0), Some(Valid), None, NotRun),
            // A surprise outranks an unknown run and one that was not made.
            (tally(1, 1, 1, 0), Some(Valid), None, Surprise),
            (tally(0, 1, 0, 0), Some(Valid), None, Surprise),
            (tally(0, 3, 0, 0), Some(Violation), Some(Found::Every), AsExpected),
            (tally(1, 2, 0, 0), Some(Violation), Some(Found::Every), Surprise),
            (tally(1, 0, 0, 0), Some(Violation), Some(Found::Every), Surprise),
            (tally(0, 2, 1, 0), Some(Violation), Some(Found::Every), Unknown),
            (tally(1, 1, 1, 0), Some(Violation), Some(Found::Every), Surprise),
            (tally(2, 1, 0, 0), Some(Violation), Some(Found::Some), AsExpected),
            (tally(1, 1, 1, 0), Some(Violation), Some(Found::Some), AsExpected),
            (tally(3, 0, 0, 0), Some(Violation), Some(Found::Some), Surprise),
            (tally(2, 0, 1, 0), Some(Violation), Some(Found::Some), Unknown),
            (tally(0, 0, 0, 3), Some(Violation), Some(Found::Some), Unknown),
            (tally(2, 0, 0, 0), Some(Violation), Some(Found::Some), NotRun),
            (tally(1, 1, 1, 0), None, None, Observed),
            (tally(0, 0, 0, 0), None, None, NotRun),
        ] {
            assert_eq!(runs.standing(expected, found), standing, "{runs:?} where {expected:?} {found:?} was expected");
        }
    }
}
