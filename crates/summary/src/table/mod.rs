//! The summary of a suite run: a [`SuiteSummary`] of its cells in words, which terminal, page, Markdown and JUnit print.
//! (`matrix.json` is the matrix itself, which can be merged with others.)

mod libraries;
mod phrases;
mod servers;
mod sweeps;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use libraries::{BrokenAccount, LibraryAccount};
pub use phrases::{distinct, expected};
pub use servers::{ServerRow, ServerSeen, ServersAccount};
pub use sweeps::{SweepAccount, SweepPoint};

use checker::Validity;
use suite::matrix::{Cell, Counts, Matrix, Overall};
use suite::outcome::{CellStatus, RunOutcome};

/// The summary of a suite run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteSummary {
    pub suite: String,
    pub description: String,
    pub verdict: Overall,
    /// The verdict as pages show it: `UNEXPECTED`.
    pub word: String,
    pub headline: String,
    /// True if any of its runs was simulated.
    pub simulated: bool,
    /// The duration and the environment, for the head of a page.
    pub about: Vec<String>,
    /// RFC 3339.
    pub started: String,
    pub took_s: f64,
    pub counts: Counts,
    /// The workloads, in order of first appearance.
    pub workloads: Vec<String>,
    pub cells: Vec<CellAccount>,
    /// The cells that need a look, unexpected ones first, as indexes in `cells`.
    pub alarms: Vec<usize>,
    pub mistimed: Vec<Mistimed>,
    /// The changes since the last suite run, a line each.
    #[serde(default)]
    pub changes: Vec<String>,
    /// Why cells were not completed, or are left out, with their number. A line for each reason.
    #[serde(default)]
    pub not_run: Vec<String>,
    /// Remarks against advisories: the number of runs and the worst case. A line for each advisory.
    #[serde(default)]
    pub advisories: Vec<String>,
    /// The published libraries under test.
    pub libraries: Vec<LibraryAccount>,
    /// The same cells on several servers. None if there are none.
    #[serde(default)]
    pub servers: Option<ServersAccount>,
    /// Cells that differ in one option only.
    pub sweeps: Vec<SweepAccount>,
    /// The versions of the environment.
    pub versions: BTreeMap<String, String>,
    /// The command that repeats the whole suite.
    pub repeat: String,
}

/// One workload under one nemesis. A dash means no value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellAccount {
    pub name: String,
    pub workload: String,
    pub nemesis: String,
    /// The options that differ from the suite's. May be empty.
    pub with: String,
    pub scripted: bool,
    /// `violation in some run`.
    pub expected: String,
    /// `broken in 1 of 3, 1 unknown`.
    pub seen: String,
    /// The result in a word.
    pub shown: Shown,
    /// The share of its runs, if that adds something: `1/3`.
    pub part: Option<String>,
    pub standing: CellStatus,
    pub standing_text: String,
    /// Why it was not completed. None if it was.
    #[serde(default)]
    pub not_run: Option<String>,
    /// Its status beside its runs: `expected: held`. May be empty.
    pub note: String,
    /// `12 of 610` acknowledged updates.
    pub lost: String,
    pub lost_any: bool,
    /// The share of lost updates, with its confidence interval.
    pub share: String,
    pub overlaps: String,
    pub first_violation: String,
    pub without_lock: String,
    /// Acknowledged updates per second.
    pub rate: String,
    /// The total duration of its runs.
    pub seconds: f64,
    pub runs: Vec<RunAccount>,
}

/// The result of a cell's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    Held,
    Broken,
    Unknown,
    NotRun,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunAccount {
    pub run: u32,
    pub seed: u64,
    /// None if the run could not be made.
    pub valid: Option<Validity>,
    /// The run's folder, relative to the suite's. May be empty.
    pub folder: String,
    pub summary: String,
    /// The command that repeats the run. May be empty.
    pub repeat: String,
    /// True if the run makes its cell alarming: it is unexpected or unknown.
    pub alarms: bool,
}

/// A run whose timers were late, or that was rerun, by its indexes in `cells` and `runs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mistimed {
    pub cell: usize,
    pub run: usize,
    pub text: String,
}

/// The result of a suite run, in a word and in a sentence.
pub fn word_and_headline(matrix: &Matrix) -> (&'static str, String) {
    headline_of(matrix, !sweeps::all(matrix).is_empty() || servers::are_compared(matrix))
}

fn headline_of(matrix: &Matrix, is_swept: bool) -> (&'static str, String) {
    // A sweep has no expectations, so no cell can be unexpected.
    match is_swept && matrix.counts.observed == matrix.cells.len() as u64 {
        true => ("OBSERVED", phrases::side_by_side(matrix)),
        false => (phrases::verdict(matrix.verdict), matrix.headline()),
    }
}

impl SuiteSummary {
    pub fn new(matrix: &Matrix) -> SuiteSummary {
        let cells: Vec<CellAccount> = matrix.cells.iter().map(|cell| CellAccount::new(cell, matrix)).collect();
        let is_alarming = |place: &usize| matches!(cells[*place].standing, CellStatus::Surprise | CellStatus::Unknown);
        let mut alarms: Vec<usize> = (0..cells.len()).filter(is_alarming).collect();
        alarms.sort_by_key(|place| cells[*place].standing);
        let runs = matrix.cells.iter().enumerate().flat_map(|(cell, of)| {
            of.runs
                .iter()
                .enumerate()
                .filter_map(move |(run, one)| Some(Mistimed { cell, run, text: phrases::timing(one)? }))
        });
        let (sweeps, servers) = (sweeps::all(matrix), ServersAccount::of(matrix, &cells));
        let (word, headline) = headline_of(matrix, !sweeps.is_empty() || servers.is_some());
        SuiteSummary {
            suite: matrix.suite.clone(),
            description: matrix.description.clone(),
            verdict: matrix.verdict,
            word: word.to_string(),
            headline,
            simulated: matrix.simulated > 0,
            about: phrases::about(matrix),
            started: matrix.started.clone(),
            took_s: matrix.took_s,
            counts: matrix.counts,
            workloads: distinct(matrix.cells.iter().map(|cell| cell.workload.as_str())),
            alarms,
            mistimed: runs.collect(),
            changes: matrix.since.as_ref().map(|since| since.lines()).unwrap_or_default(),
            not_run: phrases::not_run(matrix, &cells),
            advisories: phrases::advisories(matrix),
            libraries: libraries::all(matrix),
            servers,
            sweeps,
            versions: matrix.versions.clone(),
            repeat: matrix.repeat.clone(),
            cells,
        }
    }

    pub fn alarming(&self) -> impl ExactSizeIterator<Item = &CellAccount> {
        self.alarms.iter().map(|place| &self.cells[*place])
    }

    /// The runs with a remark on their timing, with their cells.
    pub fn mistimed(&self) -> impl ExactSizeIterator<Item = (&CellAccount, &RunAccount, &str)> {
        self.mistimed.iter().map(|one| {
            let cell = &self.cells[one.cell];
            (cell, &cell.runs[one.run], one.text.as_str())
        })
    }

    /// The lists of lines, each with its title.
    pub fn lists(&self) -> [(&'static str, &[String]); 4] {
        let between_servers = self.servers.as_ref().map_or(&[][..], |servers| &servers.lines);
        [
            ("Changed since the last suite run", &self.changes),
            (ServersAccount::TITLE, between_servers),
            ("Not run", &self.not_run),
            ("Advisories", &self.advisories),
        ]
    }

    /// ` (simulated)` if the runs were simulated. Otherwise empty.
    pub fn mark(&self) -> &'static str {
        if self.simulated { " (simulated)" } else { "" }
    }
}

impl CellAccount {
    fn new(cell: &Cell, matrix: &Matrix) -> CellAccount {
        let (numbers, tally, shown) = (&cell.numbers, cell.tally, Shown::of(cell));
        CellAccount {
            name: cell.name.clone(),
            workload: cell.workload.clone(),
            nemesis: cell.nemesis.clone(),
            with: cell.with.clone(),
            scripted: cell.scripted,
            expected: expected(cell.expected, cell.found).to_string(),
            seen: phrases::seen(cell),
            shown,
            part: match shown {
                Shown::Broken => Some(format!("{}/{}", tally.invalid, tally.done())),
                Shown::Held => Some(format!("{}/{}", tally.valid, tally.done())),
                Shown::Unknown | Shown::NotRun => None,
            },
            standing: cell.standing,
            standing_text: cell.standing.word().to_string(),
            not_run: phrases::why_not_run(cell, matrix),
            note: phrases::note(cell).to_string(),
            lost: phrases::lost(numbers),
            lost_any: numbers.lost_updates.count > 0,
            share: phrases::share(cell),
            overlaps: phrases::overlaps(numbers),
            first_violation: phrases::seconds(numbers.first_violation_s),
            without_lock: phrases::seconds(numbers.without_lock_s),
            rate: phrases::rate(numbers.per_second),
            seconds: cell.runs.iter().map(|run| run.seconds).sum(),
            runs: cell.runs.iter().map(|run| RunAccount::new(cell, run)).collect(),
        }
    }

    /// The cell's name without its workload: `pause with --ttl 2s`.
    pub fn nemesis_with(&self) -> String {
        if self.with.is_empty() { self.nemesis.clone() } else { format!("{} with {}", self.nemesis, self.with) }
    }

    /// The runs that make the cell alarming.
    pub fn alarming_runs(&self) -> impl Iterator<Item = &RunAccount> {
        self.runs.iter().filter(|run| run.alarms)
    }
}

impl RunAccount {
    fn new(cell: &Cell, run: &RunOutcome) -> RunAccount {
        RunAccount {
            run: run.run,
            seed: run.seed,
            valid: run.valid,
            folder: run.folder.clone(),
            summary: run.summary.clone(),
            repeat: run.repeat.clone(),
            alarms: phrases::alarms(cell, run),
        }
    }
}

impl Shown {
    fn of(cell: &Cell) -> Shown {
        match cell.tally {
            tally if tally.done() == 0 => Shown::NotRun,
            tally if tally.invalid > 0 => Shown::Broken,
            tally if tally.unknown + tally.could_not_run > 0 => Shown::Unknown,
            _ => Shown::Held,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Shown::Held => "passed",
            Shown::Broken => "failed",
            Shown::Unknown => "unknown",
            Shown::NotRun => "not run",
        }
    }
}
