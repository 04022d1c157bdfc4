//! What the agent is told to break: a fault with its members and numbers, everything resolved.

use serde::{Deserialize, Serialize};

use super::clock::Skew;
use super::network::Effect;
use crate::history::FaultKind;

/// A fault to be injected. Members by name, lengths in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Injection {
    /// Every process of the members stands still.
    Pause { members: Vec<String> },
    /// Every process of the members is killed. Whoever started them starts them again.
    Kill { members: Vec<String> },
    /// As [`Injection::Kill`], and what they had not synced to their files is lost.
    PowerLoss { members: Vec<String> },
    /// What becomes of packets from the first of each pair to the second.
    Network { pairs: Vec<(String, String)>, effect: Effect },
    /// The members' wall clocks go wrong.
    Clock { members: Vec<String>, skew: Skew },
    /// The servers evict keys: their memory is bounded to nothing, under a policy that takes any key.
    Evict { members: Vec<String> },
    /// The servers lose all keys.
    Flush { members: Vec<String> },
    /// One of the replicas takes the place of the primary: so the server at `url` is told, in these words.
    Failover { primary: String, replicas: Vec<String>, url: String, words: Vec<String> },
}

impl Injection {
    /// What is recorded of it.
    pub fn kind(&self) -> FaultKind {
        match self {
            Injection::Pause { .. } => FaultKind::Pause,
            Injection::Kill { .. } => FaultKind::Kill,
            Injection::PowerLoss { .. } => FaultKind::PowerLoss,
            Injection::Network { effect, .. } => match effect {
                Effect::Drop => FaultKind::Partition,
                Effect::Lose { .. } => FaultKind::Loss,
                Effect::Delay { .. } => FaultKind::Delay,
                Effect::Reset => FaultKind::Reset,
            },
            Injection::Clock { .. } => FaultKind::Clock,
            Injection::Evict { .. } => FaultKind::Evict,
            Injection::Flush { .. } => FaultKind::Flush,
            Injection::Failover { .. } => FaultKind::Failover,
        }
    }

    /// The members that it is about, each once, in order.
    pub fn members(&self) -> Vec<String> {
        let mut named: Vec<String> = match self {
            Injection::Pause { members }
            | Injection::Kill { members }
            | Injection::PowerLoss { members }
            | Injection::Clock { members, .. }
            | Injection::Evict { members }
            | Injection::Flush { members } => members.clone(),
            Injection::Failover { primary, .. } => vec![primary.clone()],
            Injection::Network { pairs, .. } => pairs.iter().flat_map(|(one, other)| [one, other]).cloned().collect(),
        };
        named.sort();
        named.dedup();
        named
    }
}
