//! Messages between the controller and its agent: one JSON object per line, orders one way, answers the other.
//!
//! Both ends are the same binary (the agent's image is made from the controller's own program), so the messages have no version.
//! They work over any pair of streams, even within one process.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::injection::Injection;
use super::process::ProcessState;
use model::history::STILL_HIT;

/// An order with a number that its answer repeats; answers may come in a different order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    pub id: u64,
    pub order: Order,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Read CLOCK_MONOTONIC.
    Clock,
    /// Allow only root on this machine to reach the members' bridge, and keep members from reaching the machine. The packet rules
    /// for this go into a table with this name.
    Guard { bridge: String, table: String },
    /// This bridge joins the members; packet rules go into this table.
    Network { bridge: String, table: String },
    /// From now on, `member` is the process with this PID, and the processes that belong to it.
    Adopt { member: String, pid: u32, scope: Scope, address: Option<Ipv4Addr> },
    /// Inject a fault under this number and observe its effect.
    Inject { fault: u32, injection: Injection },
    /// Say whether a fault at a command has fired, and where. If `disarm`, it fires no more, whatever the answer.
    Strike { fault: u32, disarm: bool },
    /// Undo the fault with this number and observe that it is undone.
    Heal { fault: u32 },
    /// Undo every fault.
    HealAll,
    /// Make sure that no fault is in effect and no packet rule is left, and forget every member.
    StartAnew,
    /// Remove everything that clients left on a Redis and check that it is gone, within a time limit.
    Clear { url: String, limit_ms: u64 },
    /// Note every command that a Redis gets, until `Monitored`.
    Monitor { url: String, limit_ms: u64 },
    /// End this, and return the next part of the noted commands of the clients at these addresses.
    Monitored { url: String, of: BTreeSet<Ipv4Addr> },
    /// Watch these servers, by name and URL, until `Observed`.
    Observe { nodes: Vec<(String, String)> },
    /// End the watch, and return the next part of the sightings.
    Observed,
    /// Note when members do not run for at least this many ns, or these servers, by name and URL, do not answer, until `Watched`.
    Watch { servers: Vec<(String, String)>, least_ns: u64 },
    /// End the watch, and return the next part of the notes.
    Watched,
    /// Ask a server, within a time limit.
    Redis { url: String, command: RedisCommand, limit_ms: u64 },
}

/// The processes that belong to a member besides its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All processes in its PID namespace: a container.
    Namespace,
    /// The descendants of the first process, if the member has no separate namespace.
    Descendants,
}

/// The controller's questions to a Redis server (other servers answer only some of them). Only clients and faults write keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RedisCommand {
    Ping,
    /// The number of keys.
    Dbsize,
    /// The value of one key.
    Get(String),
    /// The number of open client connections, including the asker's.
    Connections,
    /// The server's name and version.
    Version,
    /// Says whether this key exists.
    Exists(String),
    /// The server's wall clock, in microseconds since 1970.
    Time,
    /// Any other question, as the words of a command such as `CLUSTER NODES`.
    Words(Vec<String>),
}

/// A Redis server's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RedisReply {
    Pong,
    Count(u64),
    /// `None` if the key does not exist.
    Value(Option<String>),
    Version(String),
    /// The answer to [`RedisCommand::Words`], each part on its own line.
    Text(String),
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Response {
    pub id: u64,
    pub answer: Answer,
}

/// The result of an order, as JSON, or why it was not carried out.
pub type Answer = Result<serde_json::Value, String>;

/// The observation after a fault was injected or healed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// True if the effect was observed, not only ordered.
    pub observed: bool,
    /// The members' processes at that moment, if the fault is about processes.
    pub processes: Vec<ProcessState>,
    /// Microseconds from the order's arrival to the effect on the first member; None if it was not observed.
    pub effect_us: Option<u64>,
    /// Microseconds from the order's arrival to the end of the observation.
    pub took_us: u64,
    /// The observation in words.
    pub text: String,
}

/// Says whether a fault at a command has fired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Struck {
    /// The members that it has hit so far; empty if it has not fired.
    pub members: Vec<String>,
    /// The first command at which it fired, or that there was none, in words.
    pub text: String,
}

impl Observation {
    /// The observation that the member's first process no longer exists.
    pub fn gone(member: &str) -> Observation {
        Observation::unseen(format!("{member}: its process is gone"))
    }

    /// The observation that nothing was seen; the text says why.
    pub fn unseen(text: String) -> Observation {
        Observation { observed: false, processes: Vec::new(), effect_us: None, took_us: 0, text }
    }

    /// An observation with this result and text.
    pub fn of(observed: bool, text: String) -> Observation {
        Observation { observed, ..Observation::unseen(text) }
    }

    pub fn nothing_to_undo() -> Observation {
        Observation::of(true, "nothing to undo".to_string())
    }

    /// Adds to the text the members that another fault still hits.
    pub fn besides(mut self, held: &[String]) -> Observation {
        if !held.is_empty() {
            self.observed |= self.text.is_empty();
            self.text.push_str(&format!("{STILL_HIT}{})", held.join(", ")));
        }
        self
    }

    /// Combines observations of several members into one: observed if all of them were.
    pub fn all(parts: Vec<Observation>) -> Observation {
        let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).filter(|text| !text.is_empty()).collect();
        Observation {
            observed: !parts.is_empty() && parts.iter().all(|part| part.observed),
            text: texts.join("; "),
            effect_us: parts.first().and_then(|part| part.effect_us),
            took_us: parts.iter().map(|part| part.took_us).max().unwrap_or(0),
            processes: parts.into_iter().flat_map(|part| part.processes).collect(),
        }
    }
}
