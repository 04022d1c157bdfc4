//! The changes since earlier suite runs. Each cell is compared with the newest earlier run of the same command that has it. So
//! a run of few cells hides nothing about the others.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::outcome::CellStatus;
use base::words::list;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteRun<'m> {
    /// RFC 3339.
    pub started: &'m str,
    /// Each cell with its status, except cells without a run.
    pub cells: Vec<(&'m str, CellStatus)>,
}

/// The difference between two suite runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Since {
    /// The start of the newest earlier one, RFC 3339.
    pub started: String,
    /// The number of cells with an earlier result.
    pub compared: u64,
    /// The cells with another status, in the suite's order.
    pub changes: Vec<Change>,
}

/// A cell with another status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub cell: String,
    pub before: CellStatus,
    pub now: CellStatus,
}

impl Change {
    /// True if the status is worse than before.
    fn is_worse(&self) -> bool {
        matches!(self.now, CellStatus::Surprise | CellStatus::Unknown) && self.now < self.before
            || self.before == CellStatus::AsExpected && self.now == CellStatus::NotRun
    }
}

impl Since {
    /// Compares with earlier suite runs, the newest first. None if no cell has an earlier result.
    pub fn of(now: &SuiteRun, earlier: &[SuiteRun]) -> Option<Since> {
        let mut before: BTreeMap<&str, CellStatus> = BTreeMap::new();
        for (name, standing) in earlier.iter().flat_map(|night| &night.cells) {
            before.entry(name).or_insert(*standing);
        }
        let pairs = || now.cells.iter().filter_map(|(name, now)| Some((*name, *before.get(name)?, *now)));
        let compared = pairs().count() as u64;
        let is_here = |(name, _): &(&str, CellStatus)| now.cells.iter().any(|(cell, _)| cell == name);
        let newest = earlier.iter().find(|night| night.cells.iter().any(is_here))?;
        let changes = pairs().filter(|(_, before, now)| before != now);
        let changes = changes.map(|(cell, before, now)| Change { cell: cell.to_string(), before, now });
        Some(Since { started: newest.started.to_string(), compared, changes: changes.collect() })
    }

    pub fn sentence(&self) -> String {
        let worse = self.changes.iter().filter(|change| change.is_worse()).count();
        let good = |change: &&Change| change.now == CellStatus::AsExpected;
        let good = self.changes.iter().filter(good).count();
        let other = self.changes.len() - worse - good;
        let parts: Vec<String> = [(worse, "worse"), (good, "as expected again"), (other, "different")]
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, what)| format!("{number} {what}"))
            .collect();
        let since = &self.started;
        match parts.is_empty() {
            true => format!("Nothing changed since {since}."),
            false => format!("Since {since}: {}.", list(&parts)),
        }
    }

    /// A line for each change, worse ones first.
    pub fn lines(&self) -> Vec<String> {
        let mut changes: Vec<&Change> = self.changes.iter().collect();
        changes.sort_by_key(|change| !change.is_worse());
        let line = |change: &&Change| format!("{}: {}, was {}", change.cell, change.now.word(), change.before.word());
        changes.iter().map(line).collect()
    }
}

/// The names of the cells whose last status was as expected or observed. The runs must be ordered newest first. Other cells
/// failed, or were never run because they changed.
pub fn passed<'m>(earlier: impl IntoIterator<Item = (&'m str, CellStatus)>) -> BTreeSet<String> {
    let mut last: BTreeMap<&str, CellStatus> = BTreeMap::new();
    for (name, standing) in earlier {
        last.entry(name).or_insert(standing);
    }
    let passed = |standing: &CellStatus| matches!(standing, CellStatus::AsExpected | CellStatus::Observed);
    last.into_iter().filter(|(_, standing)| passed(standing)).map(|(name, _)| name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use CellStatus::{AsExpected, NotRun, Surprise, Unknown};

    fn night<'m>(started: &'m str, cells: &[(&'m str, CellStatus)]) -> SuiteRun<'m> {
        SuiteRun { started, cells: cells.to_vec() }
    }

    #[test]
    fn each_cell_is_held_against_the_last_time_that_it_was_run() {
        let earlier = [
            // The last suite run had only one cell.
            night("3", &[("b", Unknown)]),
            night("2", &[("a", AsExpected), ("b", AsExpected), ("c", Surprise)]),
            night("1", &[("a", Surprise), ("d", AsExpected)]),
        ];
        let now = night("4", &[("a", Surprise), ("b", AsExpected), ("c", Surprise), ("d", NotRun), ("e", Unknown)]);
        let since = Since::of(&now, &earlier).unwrap();
        assert_eq!((since.started.as_str(), since.compared), ("3", 4), "`e` is new");
        assert_eq!(since.sentence(), "Since 3: 2 worse and 1 as expected again.");
        let lines = ["a: UNEXPECTED, was as expected", "d: not run, was as expected", "b: as expected, was UNKNOWN"];
        assert_eq!(since.lines(), lines);
        let same = night("4", &[("a", AsExpected)]);
        assert_eq!(Since::of(&same, &earlier).unwrap().sentence(), "Nothing changed since 2.");
        assert_eq!(Since::of(&night("4", &[("z", AsExpected)]), &earlier), None);
        assert_eq!(Since::of(&now, &[]), None);
    }

    #[test]
    fn what_passed_is_what_was_as_expected_the_last_time() {
        let cells = [("b", AsExpected), ("a", Surprise), ("b", Surprise), ("c", Unknown), ("d", NotRun)];
        assert_eq!(passed(cells), BTreeSet::from(["b".to_string()]));
        assert_eq!(passed([("a", AsExpected), ("b", CellStatus::Observed)]).len(), 2);
        assert!(passed([("a", Surprise), ("a", AsExpected)]).is_empty(), "the last time counts");
    }
}
