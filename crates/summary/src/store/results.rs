//! What programs read of a run's `results.json`: the same for lists, suites and comparisons. Histories are not read for these.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Latency, Row};
use base::files::{self, FileError};
use checker::{Counts, LockProperties, LostUpdates, MutualExclusion, QUIETER, Remark, Validity};
use suite::matrix::add_version;
use suite::outcome::{Numbers, RunOutcome, Sample};

/// The file's name in a run's folder.
pub const FILE: &str = "results.json";

/// A run's results, as far as anybody reads them. What earlier versions did not write is left at its default.
#[derive(Clone, Debug, Deserialize)]
pub struct Results {
    #[serde(default)]
    pub simulated: bool,
    pub valid: Validity,
    pub summary: String,
    pub lost_updates: LostUpdates,
    pub mutual_exclusion: MutualExclusion,
    pub lock: LockProperties,
    pub first_violation_s: Option<f64>,
    pub acknowledged_per_second: Option<f64>,
    pub latency: Option<Latency>,
    #[serde(default)]
    pub advisories: Vec<Remark>,
    pub misdiagnosed: Option<String>,
    #[serde(default)]
    pub busy_s: f64,
    #[serde(default)]
    pub counts: Counts,
    pub workload: Option<String>,
    pub nemesis: Option<String>,
    pub seed: Option<u64>,
    #[serde(default)]
    pub started: String,
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    #[serde(default)]
    pub setting: Vec<Row>,
    #[serde(default)]
    pub repeat: String,
    /// How late a timer of the controller was at worst, in milliseconds.
    pub late_ms: Option<u64>,
    #[serde(default)]
    faults: Faults,
    #[serde(default)]
    reasons: Vec<String>,
    #[serde(default)]
    diagnoses: Vec<ToldDefect>,
}

#[derive(Clone, Debug, Deserialize)]
struct ToldDefect {
    code: String,
    name: String,
    #[serde(default)]
    inherent: bool,
    #[serde(default)]
    findings: Vec<ToldFinding>,
}

#[derive(Clone, Debug, Deserialize)]
struct ToldFinding {
    sentence: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Faults {
    #[serde(default)]
    all: Vec<FaultRecord>,
}

#[derive(Clone, Debug, Deserialize)]
struct FaultRecord {
    struck: Option<String>,
}

impl Results {
    /// Those of the run in this folder.
    pub fn read(folder: &Path) -> Result<Results, FileError> {
        read(folder)
    }

    /// Those of a run that a file in this folder names, if they are still there, below it.
    pub fn of(home: &Path, run: &RunOutcome) -> Option<Results> {
        Results::read(&files::below(home, &run.folder).ok()?).ok()
    }

    /// At which command a fault struck first, and what that was answered.
    pub fn struck(&self) -> Option<String> {
        self.faults.all.iter().find_map(|fault| fault.struck.clone())
    }

    /// Whether its reasons ask for a quieter machine.
    pub fn asks_for_quiet(&self) -> bool {
        self.reasons.iter().any(|reason| reason.ends_with(QUIETER))
    }

    /// The defects that its commands show: `RJ001 release-without-compare: c0's DEL at 1.2 s removed c1's key.` Inherent ones are left out.
    pub fn defects(&self) -> Vec<String> {
        let own = self.diagnoses.iter().filter(|told| !told.inherent);
        let sentence = |told: &ToldDefect| told.findings.first().map_or(String::new(), |first| first.sentence.clone());
        own.map(|told| format!("{} {}: {}", told.code, told.name, sentence(told))).collect()
    }

    pub fn numbers(&self) -> Numbers {
        Numbers {
            acknowledged: self.lost_updates.acknowledged,
            lost: self.lost_updates.count,
            overlaps: self.mutual_exclusion.violations,
            holds: self.mutual_exclusion.comparable_holds,
            first_violation_s: self.first_violation_s,
            without_lock_s: self.lock.reacquired_after_ns.map(|ns| ns as f64 / 1e9),
            per_second: self.acknowledged_per_second,
            latency_ms: self.latency.map(|latency| (latency.median_ms, latency.p99_ms)),
        }
    }

    /// The run as one of those that are compared.
    pub fn sample(&self) -> Sample {
        let (numbers, advisories) = (self.numbers(), self.advisories.clone());
        Sample { valid: Some(self.valid), simulated: self.simulated, numbers, advisories }
    }
}

/// The results of the run in this folder: as [`Results`], or, if this version wrote them, as a whole [`RunSummary`](crate::RunSummary).
pub fn read<T: DeserializeOwned>(folder: &Path) -> Result<T, FileError> {
    let path = folder.join(FILE);
    let text = files::read_inside(&path, files::RESULTS)?;
    serde_json::from_str(&text).map_err(|error| FileError::read(&path, std::io::Error::other(error)))
}

/// The versions that the runs in this folder ran on, as each reported them.
pub fn versions(folder: &Path, runs: &[RunOutcome]) -> BTreeMap<String, String> {
    let mut versions: BTreeMap<String, String> = BTreeMap::new();
    for (name, version) in runs.iter().filter_map(|run| Results::of(folder, run)).flat_map(|results| results.versions) {
        add_version(&mut versions, name, &version);
    }
    versions
}
