//! The published libraries of a suite: what each passed, what broke it and why, and which locks do better.

use serde::{Deserialize, Serialize};

use super::Shown;
use base::words::{line, plural, unless_none};
use checker::Validity;
use model::scenario::{Cause, Finding, Library};
use suite::matrix::{Cell, Matrix, TestedLibrary};
use suite::outcome::CellStatus;

/// One library's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LibraryAccount {
    pub workload: String,
    pub name: String,
    pub version: String,
    pub home: Option<String>,
    /// The library's number of users.
    pub users: String,
    /// The result in a few words: `held in 1 of 3 scenarios, 1 defect of its own`.
    pub summary: String,
    /// The number of broken cells that the reference lock passes.
    pub defects: usize,
    /// The number of broken cells without a known cause. They may be defects of the library or limitations of its kind.
    #[serde(default)]
    pub unexplained: usize,
    pub broken: Vec<BrokenAccount>,
    /// The cells without a violation, each with its runs and the command that a fault hit.
    pub held: Vec<String>,
    /// Why cells neither held nor failed, one line for each reason.
    pub open: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrokenAccount {
    /// Its index among the suite's cells.
    pub cell: usize,
    /// The number of failed runs, and of all runs.
    pub invalid: u32,
    pub done: u32,
    /// `the library's own defect`.
    pub whose: String,
    /// The finding, its lines of source, and its issue.
    pub what: Option<String>,
    pub source: Option<String>,
    pub issue: Option<String>,
    /// The command that shows it again.
    pub command: String,
}

/// The libraries under test. Empty in most suites.
pub(super) fn all(matrix: &Matrix) -> Vec<LibraryAccount> {
    scores(matrix).iter().map(|score| score.account(matrix)).collect()
}

/// One library's cells.
struct Score<'m> {
    tested: &'m TestedLibrary,
    /// Cells without a violation in any run.
    held: Vec<&'m Cell>,
    /// The broken cells, with their indexes among the suite's cells.
    broken: Vec<(usize, &'m Cell)>,
    /// Cells that showed too little, or were not run.
    open: Vec<&'m Cell>,
}

fn scores(matrix: &Matrix) -> Vec<Score<'_>> {
    let score = |tested| {
        let mut score = Score { tested, held: Vec::new(), broken: Vec::new(), open: Vec::new() };
        for (place, cell) in matrix.cells.iter().enumerate() {
            match Shown::of(cell) {
                _ if cell.workload != score.tested.workload => {}
                Shown::Broken => score.broken.push((place, cell)),
                Shown::Held => score.held.push(cell),
                Shown::Unknown | Shown::NotRun => score.open.push(cell),
            }
        }
        score
    };
    matrix.libraries.iter().map(score).collect()
}

impl<'m> Score<'m> {
    fn account(&self, matrix: &Matrix) -> LibraryAccount {
        let library = self.library();
        let broken = self.broken.iter().map(|(place, cell)| {
            let finding = self.finding(cell);
            BrokenAccount {
                cell: *place,
                invalid: cell.tally.invalid,
                done: cell.tally.done(),
                whose: whose(finding).to_string(),
                what: finding.map(|finding| finding.what.clone()),
                source: finding.and_then(|finding| finding.source.clone()),
                issue: finding.and_then(|finding| finding.issue.clone()),
                command: command(cell),
            }
        });
        LibraryAccount {
            workload: self.tested.workload.clone(),
            name: library.name.clone(),
            version: library.version.clone(),
            home: library.home.clone(),
            users: library.users.clone().unwrap_or_else(|| "number of downloads and stars unknown".to_string()),
            summary: self.summary(),
            defects: self.broken_by(Some(Cause::Library)),
            unexplained: self.broken_by(None),
            broken: broken.collect(),
            held: self.held.iter().map(|cell| held(cell)).collect(),
            open: why_open(matrix, self),
        }
    }

    fn library(&self) -> &'m Library {
        &self.tested.library
    }

    fn finding(&self, cell: &Cell) -> Option<&'m Finding> {
        self.library().findings.iter().find(|finding| finding.nemesis.contains(&cell.nemesis))
    }

    /// The number of broken cells with this cause. None stands for an unknown cause.
    fn broken_by(&self, cause: Option<Cause>) -> usize {
        self.broken.iter().filter(|(_, cell)| self.finding(cell).map(|finding| finding.cause) == cause).count()
    }

    /// The result in a few words.
    fn summary(&self) -> String {
        let all = self.held.len() + self.broken.len() + self.open.len();
        let mut text = format!("passed {} of {}", self.held.len(), plural(all as u64, "scenario"));
        match self.broken_by(Some(Cause::Library)) {
            0 => {}
            some => text.push_str(&format!(", {} of the library itself", plural(some as u64, "defect"))),
        }
        match self.broken_by(None) {
            0 => {}
            some => text.push_str(&format!(", {} not explained", plural(some as u64, "violation"))),
        }
        if !self.open.is_empty() {
            text.push_str(&format!(", {} not shown", self.open.len()));
        }
        text
    }
}

fn whose(finding: Option<&Finding>) -> &'static str {
    match finding.map(|finding| finding.cause) {
        Some(Cause::Library) => "the library's own defect",
        Some(Cause::Kind) => "a limitation of every lock of this kind",
        None => "not explained yet; `redjepsen library` finds the cause",
    }
}

/// The command that shows a cell again.
fn command(cell: &Cell) -> String {
    let shown = cell.runs.iter().find(|run| run.valid == Some(Validity::Invalid));
    match shown.filter(|run| !run.repeat.is_empty()) {
        Some(run) => run.repeat.clone(),
        None => format!("redjepsen run --workload {} --nemesis {}", cell.workload, cell.nemesis),
    }
}

/// `late-acquire-reply (2 runs): c0's 1st SET of lock:k0 to n0 was answered with OK, and the reply is held`. If runs differ,
/// the others are counted.
fn held(cell: &Cell) -> String {
    let name = format!("{} ({})", cell.nemesis, plural(u64::from(cell.tally.done()), "run"));
    let struck: Vec<&str> = cell.runs.iter().filter_map(|run| run.struck.as_deref()).collect();
    let Some(first) = struck.first() else { return name };
    let others = struck.iter().filter(|other| *other != first).count();
    let differ = unless_none(others as u64, |some| format!(" (different in {})", plural(some, "run")));
    format!("{name}: {}{differ}", line(first, 200))
}

/// Why cells neither held nor failed, one line for each reason.
fn why_open(matrix: &Matrix, score: &Score) -> Vec<String> {
    match matrix.not_here.get(&score.tested.workload) {
        Some(reason) => vec![format!("skipped on this machine: {}", line(reason, 300))],
        None => score.open.iter().map(|cell| why(cell)).collect(),
    }
}

fn why(cell: &Cell) -> String {
    match cell.runs.iter().find(|run| run.valid.is_none()) {
        _ if cell.standing == CellStatus::NotRun && cell.runs.is_empty() => format!("{}: not run", cell.nemesis),
        Some(run) => format!("{}: could not run: {}", cell.nemesis, line(&run.summary, 200)),
        None => format!("{}: too little evidence", cell.nemesis),
    }
}
