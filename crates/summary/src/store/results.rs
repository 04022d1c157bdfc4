//! The fields of a run's `results.json` that programs read, for lists, suites and comparisons. Histories are not read for
//! these.

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

/// The results of a run, as far as they are read. Fields that earlier versions did not write have their default.
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
    /// The largest delay of a timer of the controller, in milliseconds.
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
    /// Reads the results of the run in this folder.
    pub fn read(folder: &Path) -> Result<Results, FileError> {
        read(folder)
    }

    /// Reads the results of a run that a file in this folder names. None if they are not there, or not below the folder.
    pub fn of(home: &Path, run: &RunOutcome) -> Option<Results> {
        Results::read(&files::below(home, &run.folder).ok()?).ok()
    }

    /// The command that a fault hit first, with its reply.
    pub fn struck(&self) -> Option<String> {
        self.faults.all.iter().find_map(|fault| fault.struck.clone())
    }

    /// True if its reasons ask for a quieter machine.
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

    /// The run as a sample for comparisons.
    pub fn sample(&self) -> Sample {
        let (numbers, advisories) = (self.numbers(), self.advisories.clone());
        Sample { valid: Some(self.valid), simulated: self.simulated, numbers, advisories }
    }
}

/// Reads the results of the run in this folder: as [`Results`] or, if this version wrote them, as a whole
/// [`RunSummary`](crate::RunSummary).
pub fn read<T: DeserializeOwned>(folder: &Path) -> Result<T, FileError> {
    let path = folder.join(FILE);
    let text = files::read_inside(&path, files::RESULTS)?;
    serde_json::from_str(&text).map_err(|error| FileError::read(&path, std::io::Error::other(error)))
}

/// The versions that the runs in this folder reported.
pub fn versions(folder: &Path, runs: &[RunOutcome]) -> BTreeMap<String, String> {
    let mut versions: BTreeMap<String, String> = BTreeMap::new();
    for (name, version) in runs.iter().filter_map(|run| Results::of(folder, run)).flat_map(|results| results.versions) {
        add_version(&mut versions, name, &version);
    }
    versions
}
