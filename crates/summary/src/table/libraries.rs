//! The published libraries of a suite: what each of them stood, what broke it and why, and who could do better.

use base::words::{line, plural};
use checker::Validity;
use model::scenario::{Cause, Finding, Library};
use suite::matrix::{Cell, Matrix, TestedLibrary};
use suite::outcome::CellStatus;

/// One library, and its cells.
#[derive(Clone, Debug, PartialEq)]
pub struct LibraryAccount<'m> {
    pub tested: &'m TestedLibrary,
    /// Without a violation in any run.
    pub held: Vec<&'m Cell>,
    pub broken: Vec<&'m Cell>,
    /// Too little was shown, or nothing was run.
    open: Vec<&'m Cell>,
}

/// The libraries under test; none in most suites.
pub(super) fn all(matrix: &Matrix) -> Vec<LibraryAccount<'_>> {
    let account = |tested| {
        let mut account = LibraryAccount { tested, held: Vec::new(), broken: Vec::new(), open: Vec::new() };
        for cell in &matrix.cells {
            match cell.tally.shown() {
                _ if cell.workload != account.tested.workload => {}
                Some(Validity::Invalid) => account.broken.push(cell),
                Some(Validity::Valid) => account.held.push(cell),
                Some(Validity::Unknown) | None => account.open.push(cell),
            }
        }
        account
    };
    matrix.libraries.iter().map(account).collect()
}

impl<'m> LibraryAccount<'m> {
    pub fn library(&self) -> &'m Library {
        &self.tested.library
    }

    /// How many use it.
    pub fn users(&self) -> &'m str {
        self.library().users.as_deref().unwrap_or("downloads and stars not known")
    }

    /// What is known of what broke it there: why, from which line of source, and where it was reported.
    pub fn finding(&self, cell: &Cell) -> Option<&'m Finding> {
        self.library().findings.iter().find(|finding| finding.nemesis.contains(&cell.nemesis))
    }

    /// How many broken cells have this cause; none is one that nobody has looked for, so that it may be its own defect or the fate of
    /// its kind.
    pub fn broken_by(&self, cause: Option<Cause>) -> usize {
        self.broken.iter().filter(|cell| self.finding(cell).map(|finding| finding.cause) == cause).count()
    }

    /// The result in a few words: `held in 1 of 3 scenarios, 1 defect of its own`.
    pub fn summary(&self) -> String {
        let all = self.held.len() + self.broken.len() + self.open.len();
        let mut text = format!("held in {} of {}", self.held.len(), plural(all as u64, "scenario"));
        match self.broken_by(Some(Cause::Library)) {
            0 => {}
            some => text.push_str(&format!(", {} of its own", plural(some as u64, "defect"))),
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

    /// Why cells are neither held nor broken, one line for each reason.
    pub fn why_open(&self, matrix: &Matrix) -> Vec<String> {
        match matrix.not_here.get(&self.tested.workload) {
            Some(reason) => vec![format!("not run here: {}", line(reason, 300))],
            None => self.open.iter().map(|cell| why(cell)).collect(),
        }
    }
}

/// Whose fault a violation is.
pub fn whose(finding: Option<&Finding>) -> &'static str {
    match finding.map(|finding| finding.cause) {
        Some(Cause::Library) => "the library's own defect",
        Some(Cause::Kind) => "the fate of every lock of this kind",
        None => "not explained yet; `redjepsen library` finds out whose it is",
    }
}

/// The command that shows a cell again.
pub fn command(cell: &Cell) -> String {
    let shown = cell.runs.iter().find(|run| run.valid == Some(Validity::Invalid));
    match shown.filter(|run| !run.repeat.is_empty()) {
        Some(run) => run.repeat.clone(),
        None => format!("redjepsen run --workload {} --nemesis {}", cell.workload, cell.nemesis),
    }
}

/// `late-acquire-reply (2 runs): c0's 1st SET of lock:k0 to n0 was answered with OK, and the reply is held`; where the runs
/// differ, the others are counted.
pub fn held(cell: &Cell) -> String {
    let name = format!("{} ({})", cell.nemesis, plural(u64::from(cell.tally.done()), "run"));
    let struck: Vec<&str> = cell.runs.iter().filter_map(|run| run.struck.as_deref()).collect();
    let Some(first) = struck.first() else { return name };
    let others = struck.iter().filter(|other| *other != first).count();
    let differ = match others {
        0 => String::new(),
        some => format!(" (otherwise in {})", plural(some as u64, "run")),
    };
    format!("{name}: {}{differ}", line(first, 200))
}

fn why(cell: &Cell) -> String {
    match cell.runs.iter().find(|run| run.valid.is_none()) {
        _ if cell.standing == CellStatus::NotRun && cell.runs.is_empty() => format!("{}: not run", cell.nemesis),
        Some(run) => format!("{}: could not run: {}", cell.nemesis, line(&run.summary, 200)),
        None => format!("{}: proves too little", cell.nemesis),
    }
}
