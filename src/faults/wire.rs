//! What the controller and its agent say to each other: one JSON object a line, orders one way, answers the other.
//!
//! Both ends are the same binary (the agent's image is made of the controller's own program), so there are no versions. They
//! meet over any pair of streams, also within one process.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::injection::Injection;
use super::process::ProcessState;

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
    /// The members are joined by this bridge; rules about their packets go into this table.
    Network { bridge: String, table: String },
    /// From now on `member` is the process with this PID, and what belongs to it.
    Adopt { member: String, pid: u32, scope: Scope, address: Option<Ipv4Addr> },
    /// Inject a fault under this number and observe it.
    Inject { fault: u32, injection: Injection },
    /// Undo the fault of this number and observe that it is undone.
    Heal { fault: u32 },
    /// Undo every fault.
    HealAll,
    /// Make sure that no fault is in effect and no rule about packets is left, and forget every member.
    StartAnew,
    /// Remove all that clients left on a Redis, and see that it is gone, within a time limit.
    Clear { url: String, limit_ms: u64 },
    /// Ask a server, within a time limit.
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

/// What the controller may ask a Redis server, and in their own words others (those answer what makes sense of them). Nothing that writes a key: only clients and faults do.
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
    /// Whether there is such a key.
    Exists(String),
    /// Its wall clock, in microseconds since 1970.
    Time,
    /// Any question in these words, such as `CLUSTER NODES`.
    Words(Vec<String>),
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
    /// The answer to a question in words: a line for each of its parts.
    Text(String),
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
    Done,
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
    /// The members' processes at that moment, where the fault is about processes.
    pub processes: Vec<ProcessState>,
    /// Microseconds from the order's arrival to the effect on the first member, where it was seen.
    pub effect_us: Option<u64>,
    /// Microseconds from the order's arrival to the end of the observation.
    pub took_us: u64,
    /// What was seen, in words.
    pub text: String,
}

impl Observation {
    /// The member's first process does not exist any more.
    pub(crate) fn gone(member: &str) -> Observation {
        Observation::unseen(format!("{member}: its process is gone"))
    }

    /// Nothing was seen, for the reason in the text.
    pub(crate) fn unseen(text: String) -> Observation {
        Observation { observed: false, processes: Vec::new(), effect_us: None, took_us: 0, text }
    }

    /// What was seen of several members is one observation: it was observed if it was of each.
    pub(crate) fn all(parts: Vec<Observation>) -> Observation {
        let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).filter(|text| !text.is_empty()).collect();
        Observation {
            observed: !parts.is_empty() && parts.iter().all(|part| part.observed),
            text: texts.join("; "),
            effect_us: parts.first().and_then(|part| part.effect_us),
            took_us: parts.iter().map(|part| part.took_us).sum(),
            processes: parts.into_iter().flat_map(|part| part.processes).collect(),
        }
    }
}
