//! What a suite's file says: blocks of cells, each a product of workloads and nemeses, with their options.
//!
//! A typo is refused with its line and what was expected. Whether the workloads and nemeses exist is found out when the
//! cells are [planned](super::plan).

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::nemesis::Expectation;
use crate::scenario::catalogue::{self, CatalogueError, SUITES};
use crate::topology::Persistence;
use crate::units::{Length, LengthRange};

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
    /// Options of every run, unless the cell says otherwise.
    #[serde(default)]
    pub with: With,
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
    pub with: With,
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

/// Options of a run, as the flags of `redjepsen run` of the same names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct With {
    pub time_limit: Option<Length>,
    pub cluster: Option<Cluster>,
    pub ttl: Option<Length>,
    pub clients: Option<u32>,
    pub nodes: Option<u32>,
    pub keys: Option<u32>,
    pub rate: Option<f64>,
    pub hold: Option<LengthRange>,
    pub acquire_timeout: Option<Length>,
    pub persistence: Option<Persistence>,
}

/// What the clusters are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Cluster {
    Auto,
    Docker,
    Local,
}

impl Cluster {
    pub fn word(self) -> &'static str {
        match self {
            Cluster::Auto => "auto",
            Cluster::Docker => "docker",
            Cluster::Local => "local",
        }
    }
}

impl With {
    /// These options, and where they say nothing the others.
    pub fn or(&self, other: &With) -> With {
        With {
            time_limit: self.time_limit.or(other.time_limit),
            cluster: self.cluster.or(other.cluster),
            ttl: self.ttl.or(other.ttl),
            clients: self.clients.or(other.clients),
            nodes: self.nodes.or(other.nodes),
            keys: self.keys.or(other.keys),
            rate: self.rate.or(other.rate),
            hold: self.hold.or(other.hold),
            acquire_timeout: self.acquire_timeout.or(other.acquire_timeout),
            persistence: self.persistence.or(other.persistence),
        }
    }

    /// Each option that is given, by the name of its flag and as it would be typed.
    pub fn said(&self) -> Vec<(&'static str, String)> {
        fn text(value: Option<impl ToString>) -> Option<String> {
            value.map(|value| value.to_string())
        }
        let persistence = self.persistence.map(|persistence| match persistence {
            Persistence::None => "none",
            Persistence::Everysec => "everysec",
            Persistence::Always => "always",
        });
        [
            ("cluster", text(self.cluster.map(Cluster::word))),
            ("time-limit", text(self.time_limit)),
            ("ttl", text(self.ttl)),
            ("clients", text(self.clients)),
            ("nodes", text(self.nodes)),
            ("keys", text(self.keys)),
            ("rate", text(self.rate)),
            ("hold", text(self.hold)),
            ("acquire-timeout", text(self.acquire_timeout)),
            ("persistence", text(persistence)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}

/// One name or path, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Names, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Names;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a name such as \"redlock\", or a list of names")
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<Names, E> {
                Ok(Names(vec![name.to_string()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    names.push(name);
                }
                if names.is_empty() {
                    return Err(A::Error::custom("an empty list of names; name at least one"));
                }
                Ok(Names(names))
            }
        }
        deserializer.deserialize_any(OneOrMore)
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
