//! What the agent is told to break: a fault with its members and numbers, all resolved.

use serde::{Deserialize, Serialize};

use super::clock::Skew;
use super::network::{Call, Effect};
use crate::history::FaultKind;

/// A fault to inject. Members are given by name, durations in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Injection {
    /// Every process of the members is stopped.
    Pause { members: Vec<String> },
    /// Every thread of the members is stopped but the first of each process.
    PauseBackground { members: Vec<String> },
    /// Every process of the members is killed. Whoever started them restarts them.
    Kill { members: Vec<String> },
    /// Like [`Injection::Kill`], and whatever they had not synced to their files is lost.
    PowerLoss { members: Vec<String> },
    /// What happens to packets from the first of each pair to the second.
    Network { pairs: Vec<(String, String)>, effect: Effect },
    /// What happens at a command from the first of each pair, a client, to the second, a server.
    Call { pairs: Vec<(String, String)>, call: Call },
    /// The members' wall clocks go wrong.
    Clock { members: Vec<String>, skew: Skew },
    /// The servers evict keys: their memory limit is one byte, under a policy that may evict any key.
    Evict { members: Vec<String> },
    /// The servers lose all keys.
    Flush { members: Vec<String> },
    /// One of the replicas replaces the primary: the server at `url` gets this command.
    Failover { primary: String, replicas: Vec<String>, url: String, words: Vec<String> },
}

impl Injection {
    /// The kind that is recorded for it.
    pub fn kind(&self) -> FaultKind {
        match self {
            Injection::Pause { .. } => FaultKind::Pause,
            Injection::PauseBackground { .. } => FaultKind::PauseBackground,
            Injection::Kill { .. } => FaultKind::Kill,
            Injection::PowerLoss { .. } => FaultKind::PowerLoss,
            Injection::Network { effect, .. } => match effect {
                Effect::Drop => FaultKind::Partition,
                Effect::Lose { .. } => FaultKind::Loss,
                Effect::Delay { .. } => FaultKind::Delay,
                Effect::Reset => FaultKind::Reset,
                Effect::Call(_) => FaultKind::Call,
            },
            Injection::Call { .. } => FaultKind::Call,
            Injection::Clock { .. } => FaultKind::Clock,
            Injection::Evict { .. } => FaultKind::Evict,
            Injection::Flush { .. } => FaultKind::Flush,
            Injection::Failover { .. } => FaultKind::Failover,
        }
    }

    /// The members that it affects, each once, in order.
    pub fn members(&self) -> Vec<String> {
        let mut named: Vec<String> = match self {
            Injection::Pause { members }
            | Injection::PauseBackground { members }
            | Injection::Kill { members }
            | Injection::PowerLoss { members }
            | Injection::Clock { members, .. }
            | Injection::Evict { members }
            | Injection::Flush { members } => members.clone(),
            Injection::Failover { primary, .. } => vec![primary.clone()],
            Injection::Network { pairs, .. } | Injection::Call { pairs, .. } => {
                pairs.iter().flat_map(|(one, other)| [one, other]).cloned().collect()
            }
        };
        named.sort();
        named.dedup();
        named
    }
}
