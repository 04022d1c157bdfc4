//! A suite file: blocks of cells, each block a product of workloads and nemeses, with options.
//!
//! A typo is rejected with its line and the expected words. [Planning](super::plan) checks that the workloads and nemeses
//! exist.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};

use super::sweep::Sweep;
use base::texts::one_or_more;
use model::nemesis::Expectation;
use model::scenario::Options;
use model::scenario::catalogue::{self, CatalogueError, SUITES};

/// Opens a suite by name or path. Returns the name that it is filed under, the suite, and the folder that its paths are
/// relative to.
pub fn open(name_or_path: &str) -> Result<(String, SuiteFile, PathBuf), CatalogueError> {
    let (name, suite) = catalogue::find("suite", SUITES, name_or_path)?;
    let folder = if catalogue::is_path(name_or_path) { Path::new(name_or_path).parent() } else { None };
    Ok((name, suite, folder.map(Path::to_path_buf).unwrap_or_default()))
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteFile {
    /// A line for `redjepsen list`. Optional for the user's own suites.
    #[serde(default)]
    pub description: String,
    /// The number of runs of each cell, unless the cell sets its own. Each run uses the next seed.
    #[serde(default = "once")]
    pub runs: u32,
    /// The seed of each cell's first run.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// Options of every run, as flags of `redjepsen run`. Cells may override them.
    #[serde(default)]
    pub with: Options,
    pub cells: Vec<Block>,
    /// The user's options, which override those of the file.
    #[serde(skip)]
    pub overrides: Options,
}

impl SuiteFile {
    /// The file with the user's overrides: these options, the first seed, and the number of runs of every cell.
    pub fn with_overrides(mut self, overrides: Options, seed: Option<u64>, runs: Option<u32>) -> SuiteFile {
        self.overrides = overrides;
        self.seed = seed.unwrap_or(self.seed);
        if let Some(runs) = runs {
            self.runs = runs;
            self.cells.iter_mut().for_each(|block| block.runs = None);
        }
        self
    }
}

/// Every named workload under every named nemesis. If one side is left out, it means all for which the files have an
/// expectation together with the other side. Cells of other blocks and published libraries are not included.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    pub workload: Option<Names>,
    pub nemesis: Option<Names>,
    /// If workloads are left out: true for those of published libraries, false for all others.
    #[serde(default)]
    pub libraries: bool,
    /// Runs every known issue, with the version that fails and the fixed version, instead of workloads and nemeses.
    #[serde(default)]
    pub issues: bool,
    pub runs: Option<u32>,
    /// Overrides the expectations in the files of the workload and the nemesis.
    pub expect: Option<Expected>,
    /// How many of the runs must find an expected violation.
    pub found: Option<FoundIn>,
    #[serde(default)]
    pub with: Options,
    /// The servers of the nodes, each as `server` of `with`. There is a cell for each.
    #[serde(default)]
    pub servers: Option<Names>,
    /// Lists of values for options. There is a cell for each combination.
    #[serde(default)]
    pub sweep: Sweep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    Valid,
    Violation,
    /// The result is only recorded, even if a file expects something.
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

/// How many of a cell's runs must find an expected violation. (If none is expected, no run may find one.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoundIn {
    /// Every run: the default for scripted scenarios, which cause the situation step by step.
    Every,
    /// At least one run: the default for random faults.
    Some,
}

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
