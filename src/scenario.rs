//! What is to be run: a workload, a nemesis and the numbers, complete and checked before anything starts.
//!
//! The workload and nemesis files deserialize into the types here; the vocabulary is closed, so that a typo gets a
//! message that lists what was expected.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::history::{Claim, FaultKind};
use crate::units::{Length, LengthRange};

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
    /// What the run is to show, where the user said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expectation>,
    pub workload: Workload,
    pub nemesis: Nemesis,
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

/// A schedule of faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nemesis {
    /// One line for `redjepsen list`.
    pub description: String,
    /// What happens and where the idea comes from.
    pub story: String,
    /// Faults that recur; none at all for the control run.
    #[serde(default)]
    pub faults: Vec<RecurringFault>,
}

/// One fault that recurs over the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecurringFault {
    pub fault: FaultKind,
    pub target: Target,
    /// From the start of one to the start of the next, drawn each time.
    pub every: LengthRange,
    /// How long each lasts, drawn each time.
    #[serde(rename = "for")]
    pub lasts: LengthRange,
}

/// Whom a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The client that holds the lock at that moment, between its read and its write.
    Holder,
    /// A client drawn by the plan.
    AnyClient,
    /// This client, counted from 0.
    Client(u32),
    /// A node of the lock drawn by the plan.
    AnyNode,
    /// This node, counted from 0.
    Node(u32),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Holder => f.write_str("holder"),
            Target::AnyClient => f.write_str("client"),
            Target::Client(number) => write!(f, "client:{number}"),
            Target::AnyNode => f.write_str("node"),
            Target::Node(number) => write!(f, "node:{number}"),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbered = |number: &str| number.parse::<u32>().ok();
        match text.split_once(':') {
            None if text == "holder" => Some(Target::Holder),
            None if text == "client" => Some(Target::AnyClient),
            None if text == "node" => Some(Target::AnyNode),
            Some(("client", number)) => numbered(number).map(Target::Client),
            Some(("node", number)) => numbered(number).map(Target::Node),
            _ => None,
        }
        .ok_or_else(|| {
            format!("unknown target `{text}`; expected `holder`, `client`, `client:N`, `node` or `node:N`, N from 0")
        })
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
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
