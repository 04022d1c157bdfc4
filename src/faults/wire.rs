//! What the controller and its agent say to each other: one JSON object a line, orders one way, answers the other.
//!
//! Both ends are the same binary (the agent's image is made of the controller's own program), so there are no versions.

use serde::{Deserialize, Serialize};

use super::process::ProcessState;
use crate::history::FaultKind;

/// An order with the number that its answer will carry; answers may come in another order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub id: u64,
    pub order: Order,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Read CLOCK_MONOTONIC.
    Clock,
    /// From now on `member` is the process with this PID, and what belongs to it.
    Adopt { member: String, pid: u32, scope: Scope },
    /// Inject a fault into a member and observe it.
    Inject { kind: FaultKind, member: String },
    /// Undo a fault in a member and observe that it is undone.
    Heal { kind: FaultKind, member: String },
    /// Undo every fault in every member.
    HealAll,
    /// Ask a Redis server, within a time limit.
    Redis { url: String, command: RedisCommand, limit_ms: u64 },
}

/// Which processes belong to a member besides its first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All in its PID namespace: a container.
    Namespace,
    /// Its descendants, where it has no namespace of its own.
    Descendants,
}

/// What the controller may ask a Redis server. Reads only: nobody but clients writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RedisCommand {
    Ping,
    /// How many keys there are.
    Dbsize,
    /// The value of one key.
    Get(String),
    /// How many connections clients have open, the asker's own included.
    Connections,
    /// The server's name and version.
    Version,
}

/// A Redis server's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RedisReply {
    Pong,
    Count(u64),
    /// `None`: there is no such key.
    Value(Option<String>),
    Version(String),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Response {
    pub id: u64,
    pub answer: Answer,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    Clock { mono_ns: i64 },
    Adopted,
    Observed(Observation),
    ObservedAll(Vec<Observation>),
    Redis(RedisReply),
    Failed(String),
}

/// What was seen after a fault was injected or healed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Whether the effect was seen, not only ordered.
    pub observed: bool,
    /// The member's processes at that moment.
    pub processes: Vec<ProcessState>,
    /// Microseconds from the order's arrival to the effect on the member's first process, where it was seen.
    pub effect_us: Option<u64>,
    /// Microseconds from the order's arrival to the end of the observation.
    pub took_us: u64,
    /// What was seen, in words.
    pub text: String,
}

impl Observation {
    /// The member's first process does not exist any more.
    pub(crate) fn gone(member: &str) -> Observation {
        Observation {
            observed: false,
            processes: Vec::new(),
            effect_us: None,
            took_us: 0,
            text: format!("{member}: its process is gone"),
        }
    }
}
