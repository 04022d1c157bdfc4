//! The results of a suite run, and its cells over all suite runs: when each changed last, and what else changed with it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;

use crate::table;
use base::files::{self, FileError};
use checker::{LostUpdates, wilson_95};
use suite::matrix::{Cell, Matrix};
use suite::outcome::CellStatus;

/// The file's name in a suite's folder.
pub const FILE: &str = "matrix.json";

/// The results of a suite run, without its runs.
#[derive(Clone, Debug)]
pub struct Results {
    matrix: Matrix,
    /// The verdict in a word, as on its page.
    pub word: &'static str,
    pub headline: String,
}

impl Deref for Results {
    type Target = Matrix;

    fn deref(&self) -> &Matrix {
        &self.matrix
    }
}

/// A cell over all suite runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
    pub name: String,
    pub workload: String,
    pub nemesis: String,
    /// A point for each suite run, oldest first. None if the cell got no verdict.
    pub nights: Vec<Option<Point>>,
    pub since: Since,
}

/// The result of a cell in one suite run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The number of runs with a verdict, and of those with a violation.
    pub judged: u64,
    pub broken: u64,
    pub standing: CellStatus,
    pub lost: u64,
    pub acknowledged: u64,
}

/// When a cell changed last.
#[derive(Clone, Debug, PartialEq)]
pub enum Since {
    /// It never had a verdict.
    Never,
    /// It was the same in all suite runs.
    Always,
    /// It has been the same since the suite run with index `first`. It was different up to the one with index `before`.
    Night { first: usize, before: usize },
    /// It changed this often.
    Changes(usize),
}

/// A cell with more changes than this is unstable.
const MOST_CHANGES: usize = 2;

impl Results {
    /// Reads the results of the suite run in this folder.
    pub fn read(folder: &Path) -> Result<Results, FileError> {
        let mut matrix = matrix(folder)?;
        let (word, headline) = table::word_and_headline(&matrix);
        // A store may have many suite runs.
        matrix.cells.iter_mut().for_each(|cell| cell.runs = Vec::new());
        Ok(Results { matrix, word, headline })
    }
}

/// The matrix in a suite's folder, or in a file.
pub fn matrix(path: &Path) -> Result<Matrix, FileError> {
    let path = if path.is_dir() { path.join(FILE) } else { path.to_path_buf() };
    let text = files::read_inside(&path, files::RESULTS)?;
    serde_json::from_str(&text).map_err(|error| FileError::read(&path, std::io::Error::other(error)))
}

impl Point {
    /// None if the cell got no verdict.
    fn of(cell: &Cell) -> Option<Point> {
        let (broken, LostUpdates { count: lost, acknowledged, .. }) =
            (u64::from(cell.tally.invalid), cell.numbers.lost_updates);
        let judged = u64::from(cell.tally.valid) + broken;
        (judged > 0).then_some(Point { judged, broken, standing: cell.standing, lost, acknowledged })
    }

    /// The share of failed runs with Wilson's interval.
    pub fn share(&self) -> (f64, f64, f64) {
        let (low, high) = wilson_95(self.broken, self.judged).unwrap_or((0.0, 1.0));
        (self.broken as f64 / self.judged.max(1) as f64, low, high)
    }

    fn is_broken(&self) -> bool {
        self.broken > 0
    }
}

/// The cells of these suite runs, which must be ordered oldest first. The cells have the order of the newest one; cells that it
/// lacks follow.
pub fn trends(nights: &[&Results]) -> Vec<Trend> {
    let mut trends: Vec<Trend> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, night) in nights.iter().enumerate().rev() {
        for cell in &night.cells {
            let place = *places.entry(&cell.name).or_insert_with(|| {
                trends.push(Trend {
                    name: cell.name.clone(),
                    workload: cell.workload.clone(),
                    nemesis: cell.nemesis.clone(),
                    nights: vec![None; nights.len()],
                    since: Since::Never,
                });
                trends.len() - 1
            });
            trends[place].nights[number] = Point::of(cell);
        }
    }
    for trend in &mut trends {
        trend.since = since(&trend.nights);
    }
    trends
}

fn since(nights: &[Option<Point>]) -> Since {
    let seen: Vec<(usize, bool)> =
        nights.iter().enumerate().filter_map(|(night, point)| Some((night, point.as_ref()?.is_broken()))).collect();
    let changes: Vec<(usize, usize)> =
        seen.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| (pair[0].0, pair[1].0)).collect();
    match (&seen[..], &changes[..]) {
        ([], _) => Since::Never,
        (_, []) => Since::Always,
        (_, [.., (before, first)]) if changes.len() <= MOST_CHANGES => Since::Night { first: *first, before: *before },
        (_, several) => Since::Changes(several.len()),
    }
}

/// The versions that differ between two suite runs: name, before, after.
pub fn versions_changed(before: &Results, after: &Results) -> Vec<(String, String, String)> {
    let names: std::collections::BTreeSet<&String> = before.versions.keys().chain(after.versions.keys()).collect();
    let text = |night: &Results, name: &str| night.versions.get(name).cloned().unwrap_or_else(|| "–".to_string());
    let changed = names.into_iter().filter(|name| before.versions.get(*name) != after.versions.get(*name));
    changed.map(|name| (name.clone(), text(before, name), text(after, name))).collect()
}

/// True if the tests differ. False if only the tested library changed.
pub fn suite_changed(before: &Results, after: &Results) -> bool {
    match (&before.tests_sha256, &after.tests_sha256) {
        (Some(before), Some(after)) => before != after,
        _ => before.suite_sha256 != after.suite_sha256,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(broken: u64) -> Option<Point> {
        Some(Point { judged: 3, broken, standing: CellStatus::AsExpected, lost: broken, acknowledged: 100 })
    }

    #[test]
    fn the_first_night_that_changed_is_named_unless_it_goes_to_and_fro() {
        for (nights, expected) in [
            (vec![], Since::Never),
            (vec![None, None], Since::Never),
            (vec![point(0), None, point(0)], Since::Always),
            (vec![point(1), point(3)], Since::Always),
            (vec![point(0), point(0), point(2), point(3)], Since::Night { first: 2, before: 1 }),
            // A suite run without a verdict lies in between.
            (vec![point(0), None, point(2)], Since::Night { first: 2, before: 0 }),
            (vec![point(0), point(1), point(0)], Since::Night { first: 2, before: 1 }),
            (vec![point(0), point(1), point(0), point(1)], Since::Changes(3)),
        ] {
            assert_eq!(since(&nights), expected, "{nights:?}");
        }
    }
}
