//! What is said of a suite, said once: a [`Table`] of its cells, with the [words](phrases) that terminal, page, Markdown and JUnit
//! print. (`matrix.json` is the matrix itself, which can be joined with others.)

pub mod libraries;
pub mod phrases;
mod sweeps;

use std::ops::Deref;

pub use libraries::LibraryAccount;
pub use phrases::{distinct, expected};
pub use sweeps::{SweepAccount, SweepPoint};

use suite::matrix::{Cell, Matrix};
use suite::outcome::RunOutcome;

/// A suite's matrix, and what follows from all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Table<'m> {
    pub matrix: &'m Matrix,
    /// The verdict as it is shown: `SURPRISE`.
    pub word: &'static str,
    pub headline: String,
    /// The workloads, in order of first appearance.
    pub workloads: Vec<String>,
    /// What came out otherwise than the last time, a line each.
    pub changes: Vec<String>,
    /// Why cells were not run to their end, or are left out, with how many there are; a line for each reason.
    pub not_run: Vec<String>,
    /// The published libraries under test.
    pub libraries: Vec<LibraryAccount<'m>>,
    /// Cells that differ in one option only.
    pub sweeps: Vec<SweepAccount>,
}

impl Deref for Table<'_> {
    type Target = Matrix;

    fn deref(&self) -> &Matrix {
        self.matrix
    }
}

/// What a suite came to, in a word and in a sentence.
pub fn word_and_headline(matrix: &Matrix) -> (&'static str, String) {
    told(matrix, !sweeps::all(matrix).is_empty())
}

fn told(matrix: &Matrix, is_swept: bool) -> (&'static str, String) {
    // A sweep is there to be looked at, and nothing came out otherwise than it should.
    match is_swept && matrix.counts.observed == matrix.cells.len() as u64 {
        true => ("OBSERVED", phrases::side_by_side(matrix)),
        false => (phrases::verdict(matrix.verdict), matrix.headline()),
    }
}

impl<'m> Table<'m> {
    pub fn new(matrix: &'m Matrix) -> Table<'m> {
        let sweeps = sweeps::all(matrix);
        let (word, headline) = told(matrix, !sweeps.is_empty());
        Table {
            matrix,
            word,
            headline,
            workloads: distinct(matrix.cells.iter().map(|cell| cell.workload.as_str())),
            changes: matrix.since.as_ref().map(|since| since.lines()).unwrap_or_default(),
            not_run: phrases::not_run(matrix),
            libraries: libraries::all(matrix),
            sweeps,
        }
    }

    /// The cells that a reader should look at, surprises first.
    pub fn alarming(&self) -> Vec<&'m Cell> {
        let mut alarming: Vec<&Cell> = self.matrix.cells.iter().filter(|cell| cell.is_alarming()).collect();
        alarming.sort_by_key(|cell| cell.standing);
        alarming
    }

    /// The runs whose timers were late, or that were made again, with their cells, and what there is to say of that.
    pub fn mistimed(&self) -> Vec<(&'m Cell, &'m RunOutcome, String)> {
        let runs = self.matrix.cells.iter().flat_map(|cell| cell.runs.iter().map(move |run| (cell, run)));
        runs.filter_map(|(cell, run)| Some((cell, run, phrases::timing(run)?))).collect()
    }

    /// ` (simulated)`, where it was.
    pub fn mark(&self) -> &'static str {
        if self.matrix.simulated > 0 { " (simulated)" } else { "" }
    }
}
