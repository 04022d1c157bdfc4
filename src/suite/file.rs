//! What a suite's file says: blocks of cells, each a product of workloads and nemeses, with their options.
//!
//! A typo is refused with its line and what was expected. Whether the workloads and nemeses exist is found out when the
//! cells are [planned](super::plan).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};

use crate::nemesis::Expectation;
use crate::scenario::catalogue::{self, CatalogueError, SUITES};
use crate::scenario::{Options, one_or_more};

/// A suite by name or path, with the name that it is filed under and the folder in which the paths in it start.
pub fn open(name_or_path: &str) -> Result<(String, SuiteFile, PathBuf), CatalogueError> {
    let (name, suite) = catalogue::find("suite", SUITES, name_or_path)?;
    let folder = if catalogue::is_path(name_or_path) { Path::new(name_or_path).parent() } else { None };
    Ok((name, suite, folder.map(Path::to_path_buf).unwrap_or_default()))
}

/// A suite, as its file says it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteFile {
    /// One line for `redjepsen list`.
    pub description: String,
    /// How often each cell is run, unless it says otherwise; each time with the next seed.
    #[serde(default = "once")]
    pub runs: u32,
    /// The seed of each cell's first run.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// Options of every run, as flags of `redjepsen run`, unless the cell says otherwise.
    #[serde(default)]
    pub with: Options,
    pub cells: Vec<Block>,
}

/// Every workload that is named, under every nemesis that is named. Where one of them is left out, it stands for all of
/// which the files expect something with the other, but for the cells that other blocks name.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    pub workload: Option<Names>,
    pub nemesis: Option<Names>,
    pub runs: Option<u32>,
    /// In place of what the files of the workload and the nemesis expect.
    pub expect: Option<Expected>,
    /// In how many of the runs an expected violation has to be found.
    pub found: Option<Found>,
    #[serde(default)]
    pub with: Options,
}

/// What a cell is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    Valid,
    Violation,
    /// Whatever it shows is only noted, also where a file expects something.
    Nothing,
}

impl Expected {
    pub fn expectation(self) -> Option<Expectation> {
        match self {
            Expected::Valid => Some(Expectation::Valid),
            Expected::Violation => Some(Expectation::Violation),
            Expected::Nothing => None,
        }
    }
}

/// In how many of a cell's runs an expected violation has to be found. (Where none is expected, none may be found.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// In each: what is said of a scenario, which brings the moment about.
    Every,
    /// In one at least: what is said of faults that come at random.
    Some,
}

/// One name or path, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Names, D::Error> {
        one_or_more(deserializer, "a name such as \"redlock\", or a list of names").map(Names)
    }
}

fn once() -> u32 {
    1
}

fn first_seed() -> u64 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_that_comes_with_the_binary_is_described() {
        for (name, _) in SUITES {
            let (_, suite, _) = open(name).unwrap();
            assert!(!suite.description.is_empty() && !suite.description.contains('\n'), "{name}");
        }
    }
}
