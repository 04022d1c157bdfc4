//! The bugs planted in locks and in the checker, and what finds each bug: `mutants.csv` and `checker-mutants.csv` in
//! `tests/fixtures`.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

/// The lists of bugs, below `tests/fixtures`.
pub const LOCKS: &str = "mutants.csv";
pub const CHECKER: &str = "checker-mutants.csv";
/// How many bugs the documents call the hardest.
const HARDEST: usize = 10;

/// A bug of a lock.
#[derive(Clone)]
pub struct OfLock {
    pub bug: String,
    pub workload: String,
    /// The bug in one plain sentence.
    pub what: String,
    /// How many cells the correct lock passes.
    pub cells: usize,
    /// How many of these cells find the bug.
    pub found: usize,
    /// A cell that finds the bug.
    pub by: String,
    /// The codes of the diagnoses in this cell that name the bug.
    pub codes: Vec<String>,
    /// The codes of the other diagnoses in this cell. They are true: consequences of the bug, or inherent.
    pub also: Vec<String>,
    /// Why no cell finds the bug, or why no diagnosis names it.
    pub why: String,
}

/// A bug of the checker.
#[derive(Clone)]
pub struct OfChecker {
    pub bug: String,
    /// The bug in one plain sentence.
    pub what: String,
    /// How many tests find the bug.
    pub found: usize,
    /// A test that finds the bug.
    pub by: String,
}

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The lines of a table below its head, with this many columns.
fn rows<const COLUMNS: usize>(name: &str) -> Vec<[String; COLUMNS]> {
    let text = fs::read_to_string(fixture(name)).unwrap();
    let cells = |line: &str| {
        let cells: Vec<String> = line.split(',').map(str::to_string).collect();
        cells.try_into().unwrap_or_else(|_| panic!("{name}: {line}: a comma separates columns, {COLUMNS} of them"))
    };
    text.lines().skip(1).map(cells).collect()
}

pub fn of_locks() -> Vec<OfLock> {
    let number = |text: String| text.parse().unwrap();
    let words = |text: String| text.split_whitespace().map(str::to_string).collect();
    let row = |[bug, workload, what, cells, found, by, codes, also, why]: [String; 9]| OfLock {
        bug,
        workload,
        what,
        cells: number(cells),
        found: number(found),
        by,
        codes: words(codes),
        also: words(also),
        why,
    };
    rows(LOCKS).into_iter().map(row).collect()
}

pub fn of_checker() -> Vec<OfChecker> {
    let row = |[bug, what, found, by]: [String; 4]| OfChecker { bug, what, found: found.parse().unwrap(), by };
    rows(CHECKER).into_iter().map(row).collect()
}

/// The bugs of locks that the fewest cells find, relative to the cells that the lock passes.
pub fn hardest() -> Vec<OfLock> {
    let mut found: Vec<OfLock> = of_locks().into_iter().filter(|row| row.found > 0).collect();
    found.sort_by_key(|row| (row.found, Reverse(row.cells), row.bug.clone(), row.workload.clone()));
    found.truncate(HARDEST);
    found
}
