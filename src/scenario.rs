//! What is to be run: a workload, a nemesis and the numbers, complete and checked before anything starts.
//!
//! The workload and nemesis files deserialize into the types here; the vocabulary is closed, so that a typo gets a
//! message that lists what was expected.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::history::Claim;
use crate::locks::{LockOptions, LockSettings};
use crate::nemesis::Nemesis;
use crate::units::{Length, LengthError, LengthRange};

/// A complete run, as saved in `scenario.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    pub workload_name: String,
    pub nemesis_name: String,
    pub seed: u64,
    pub clients: u32,
    pub nodes: u32,
    pub keys: u32,
    /// The lock's time to live.
    #[serde(with = "as_text")]
    pub ttl: Duration,
    /// How long clients start new operations.
    #[serde(with = "as_text")]
    pub time_limit: Duration,
    /// How long a holder thinks between read and write, drawn per operation.
    pub hold: LengthRange,
    /// Operations a second that all clients together aim at.
    pub rate: f64,
    /// How long an operation may wait for the lock.
    #[serde(with = "as_text")]
    pub acquire_timeout: Duration,
    /// What the lock's nodes keep on their disks.
    #[serde(default)]
    pub persistence: Persistence,
    /// What the run is to show, where the user said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expectation>,
    pub workload: Workload,
    pub nemesis: Nemesis,
}

/// What the lock's nodes keep on their disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// Nothing: a node that is started again is empty.
    #[default]
    None,
    /// An append-only file, synced once a second.
    Everysec,
    /// An append-only file, synced before each answer.
    Always,
}

/// What a run is expected to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    Valid,
    Violation,
}

/// A lock, the resource that it protects, and what the pair claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// One line for `redjepsen list`.
    pub description: String,
    /// Where the lock comes from and what theory says of it.
    pub source: String,
    /// How many lock nodes a run has unless the user says otherwise.
    pub nodes: u32,
    pub lock: LockSpec,
    pub resource: ResourceSpec,
    /// The properties that decide the verdict.
    pub claims: Vec<Claim>,
    /// What is expected under a nemesis, by the nemesis's name.
    #[serde(default)]
    pub expect: std::collections::BTreeMap<String, Expectation>,
}

/// The lock under test, with its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockSpec {
    /// No lock at all.
    None(NoOptions),
    /// `SET NX PX` on the first node, compare-and-delete to release.
    Single(SingleOptions),
    /// Redlock over all nodes.
    Redlock(RedlockOptions),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoOptions {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SingleOptions {
    /// How long one request to the node may take.
    pub node_timeout: Length,
    /// How long to wait before asking again, drawn each time.
    pub retry_delay: LengthRange,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedlockOptions {
    pub ask: Ask,
    /// How long one request to one node may take; far below the TTL.
    pub node_timeout: Length,
    /// Part of the TTL that clocks may drift apart while the lock is held, such as 0.01.
    pub drift_factor: f64,
    /// How long to wait before asking again, drawn each time so that contenders fall out of step.
    pub retry_delay: LengthRange,
    /// Whether a majority that took longer than the lock is valid counts as none, as it should.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub check_elapsed: bool,
    /// The clock by which the client reckons how long asking took.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clock: ClockSource,
    /// Which nodes are told when the lock is given up.
    #[serde(default, skip_serializing_if = "is_default")]
    pub release: ReleaseOn,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The clock that a client of a lock reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockSource {
    /// One that never jumps and runs evenly.
    #[default]
    Monotonic,
    /// The time of day, which somebody may set.
    Wall,
}

/// Which nodes are told that a lock is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseOn {
    /// All of them, as the documentation says: a reply that was lost may have been a yes.
    #[default]
    All,
    /// Those that said yes.
    Acquired,
}

/// In which order Redlock asks its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// All at once.
    Parallel,
    /// One after the other.
    Sequential,
}

/// What the lock protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceSpec {
    pub kind: ResourceKind,
    pub fencing: Fencing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceKind {
    /// One value a key, each written value unique in the run.
    Register,
}

/// How the resource itself guards against writers that lost the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fencing {
    /// Not at all: every write is taken.
    None,
    /// It refuses a write whose old value is not current (a check-and-set, made by Lua on the resource).
    OldValue,
}

/// Why a scenario makes no sense: what the user said, and what would do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct ScenarioError(String);

impl From<LengthError> for ScenarioError {
    fn from(error: LengthError) -> Self {
        ScenarioError(error.to_string())
    }
}

impl Scenario {
    /// Refuses numbers that make no sense, before anything is started; names the flag and what it may be.
    pub fn check(&self) -> Result<(), ScenarioError> {
        within("--clients", self.clients, 1..=100)?;
        within("--nodes", self.nodes, 1..=31)?;
        within("--keys", self.keys, 1..=10_000)?;
        length_within("--ttl", self.ttl, Duration::from_millis(10), Duration::from_secs(3600))?;
        length_within("--time-limit", self.time_limit, Duration::from_secs(1), Duration::from_secs(24 * 3600))?;
        length_within("--acquire-timeout", self.acquire_timeout, Duration::from_millis(1), self.time_limit)?;
        if !(self.rate.is_finite() && (0.01..=100_000.0).contains(&self.rate)) {
            return Err(ScenarioError(format!(
                "--rate {} makes no sense; it is in operations a second, from 0.01 to 100000",
                self.rate
            )));
        }
        let (_, longest_hold) =
            self.hold.resolve(self.ttl).map_err(|error| ScenarioError(format!("--hold: {error}")))?;
        if longest_hold >= self.time_limit {
            return Err(ScenarioError(format!(
                "--hold {} can last as long as --time-limit {}; make it shorter",
                self.hold,
                Length::Absolute(self.time_limit)
            )));
        }
        self.lock_settings(Vec::new()).map(|_| ())
    }

    /// The lock as the clients are told of it, every length resolved.
    pub fn lock_settings(&self, nodes: Vec<String>) -> Result<LockSettings, ScenarioError> {
        let millis = |length: Duration| length.as_millis() as u64;
        let delay = |range: LengthRange| range.resolve(self.ttl).map(|(low, high)| (millis(low), millis(high)));
        let node_timeout = |length: Length| {
            let timeout = length.resolve(self.ttl);
            if timeout > self.ttl * 10 || timeout < Duration::from_millis(1) {
                return Err(ScenarioError(format!(
                    "workload {}: `node_timeout = \"{length}\"` must lie between 1 ms and 10 TTLs of {}",
                    self.workload_name,
                    Length::Absolute(self.ttl)
                )));
            }
            Ok(millis(timeout))
        };
        let (name, options) = match &self.workload.lock {
            LockSpec::None(_) => ("none", LockOptions::default()),
            LockSpec::Single(single) => (
                "single",
                LockOptions {
                    node_timeout_ms: Some(node_timeout(single.node_timeout)?),
                    retry_delay_ms: Some(delay(single.retry_delay)?),
                    ..LockOptions::default()
                },
            ),
            LockSpec::Redlock(redlock) => {
                if !(0.0..1.0).contains(&redlock.drift_factor) {
                    return Err(ScenarioError(format!(
                        "workload {}: `drift_factor = {}` must be a part of the TTL, from 0 to below 1",
                        self.workload_name, redlock.drift_factor
                    )));
                }
                (
                    "redlock",
                    LockOptions {
                        node_timeout_ms: Some(node_timeout(redlock.node_timeout)?),
                        retry_delay_ms: Some(delay(redlock.retry_delay)?),
                        drift_factor: Some(redlock.drift_factor),
                        sequential: Some(redlock.ask == Ask::Sequential),
                        unchecked: (!redlock.check_elapsed).then_some(true),
                        wall_clock: (redlock.clock == ClockSource::Wall).then_some(true),
                        release_acquired: (redlock.release == ReleaseOn::Acquired).then_some(true),
                    },
                )
            }
        };
        Ok(LockSettings { name: name.to_string(), ttl_ms: millis(self.ttl), nodes, options })
    }

    /// The name that the run is filed under, such as `redlock-pause`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.workload_name, self.nemesis_name)
    }
}

fn within(flag: &str, number: u32, allowed: std::ops::RangeInclusive<u32>) -> Result<(), ScenarioError> {
    if allowed.contains(&number) {
        return Ok(());
    }
    Err(ScenarioError(format!(
        "{flag} {number} makes no sense; it may be from {} to {}",
        allowed.start(),
        allowed.end()
    )))
}

fn length_within(flag: &str, length: Duration, shortest: Duration, longest: Duration) -> Result<(), ScenarioError> {
    if (shortest..=longest).contains(&length) {
        return Ok(());
    }
    let text = |length| Length::Absolute(length).to_string();
    Err(ScenarioError(format!(
        "{flag} {} makes no sense; it may be from {} to {}",
        text(length),
        text(shortest),
        text(longest)
    )))
}

/// Durations as people write them.
mod as_text {
    use super::*;

    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Length::Absolute(*duration))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        match Length::deserialize(deserializer)? {
            Length::Absolute(duration) => Ok(duration),
            length @ Length::Ttl(_) => {
                Err(serde::de::Error::custom(format!("`{length}` must be absolute here, such as `1s`")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    fn scenario() -> Scenario {
        let (workload_name, workload) = catalogue::workload("redlock").unwrap();
        let (nemesis_name, nemesis) = catalogue::nemesis("pause").unwrap();
        Scenario {
            workload_name,
            nemesis_name,
            seed: 7,
            clients: 5,
            nodes: 5,
            keys: 1,
            ttl: Duration::from_secs(1),
            time_limit: Duration::from_secs(30),
            hold: "0.01ttl..0.1ttl".parse().unwrap(),
            rate: 50.0,
            acquire_timeout: Duration::from_secs(4),
            persistence: Persistence::None,
            expect: Some(Expectation::Violation),
            workload,
            nemesis,
        }
    }

    #[test]
    fn a_scenario_that_makes_sense_is_accepted_and_survives_its_file() {
        let scenario = scenario();
        scenario.check().unwrap();
        let file = toml::to_string(&scenario).unwrap();
        assert_eq!(toml::from_str::<Scenario>(&file).unwrap(), scenario, "{file}");
        let settings = scenario.lock_settings(vec!["redis://n0".into()]).unwrap();
        assert_eq!((settings.ttl_ms, settings.options.node_timeout_ms), (1000, Some(50)));
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused_by_the_name_of_their_flag() {
        let refused = |change: fn(&mut Scenario), flag: &str| {
            let mut scenario = scenario();
            change(&mut scenario);
            let error = scenario.check().unwrap_err().to_string();
            assert!(error.contains(flag), "{error}");
        };
        refused(|s| s.clients = 0, "--clients 0");
        refused(|s| s.nodes = 32, "--nodes 32");
        refused(|s| s.keys = 0, "--keys 0");
        refused(|s| s.ttl = Duration::ZERO, "--ttl 0s");
        refused(|s| s.time_limit = Duration::from_millis(999), "--time-limit 999ms");
        refused(|s| s.rate = 0.0, "--rate 0");
        refused(|s| s.rate = f64::NAN, "--rate NaN");
        refused(|s| s.hold = "31s".parse().unwrap(), "--hold 31s");
        refused(|s| s.hold = "2s..1s".parse().unwrap(), "--hold");
        refused(|s| s.acquire_timeout = Duration::from_secs(31), "--acquire-timeout 31s");
        refused(|s| s.ttl = Duration::from_millis(15), "node_timeout");
    }
}
