//! An order to the agent: the kind of fault, the members or links that it hits, and its numbers, all resolved.

use serde::{Deserialize, Serialize};

use super::clock::Skew;
use model::fault_kinds::{CommandFault, FaultKind};

/// A fault to inject. Members are given by name, durations in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Injection {
    pub kind: FaultKind,
    /// The members that the fault hits directly; empty if it hits links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Each link from its sender to its receiver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Parameter::is_none")]
    pub with: Parameter,
}

/// A further parameter of the fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Parameter {
    #[default]
    None,
    /// This share, from 1 to 100 percent.
    Percent(u8),
    /// This length, plus or minus the jitter.
    Length {
        ms: u64,
        jitter_ms: u64,
    },
    Skew(Skew),
    Command(CommandFault),
    Promotion(Promotion),
}

/// The operator's command that makes a replica the primary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promotion {
    /// The replicas that may take over.
    pub replicas: Vec<String>,
    /// The URL of the server that gets the command.
    pub url: String,
    pub words: Vec<String>,
}

impl Parameter {
    fn is_none(&self) -> bool {
        *self == Parameter::None
    }
}

impl Injection {
    pub fn on_members(kind: FaultKind, members: Vec<String>) -> Injection {
        Injection { kind, members, links: Vec::new(), with: Parameter::None }
    }

    pub fn on_links(kind: FaultKind, links: Vec<(String, String)>) -> Injection {
        Injection { kind, members: Vec::new(), links, with: Parameter::None }
    }

    pub fn with(self, with: Parameter) -> Injection {
        Injection { with, ..self }
    }

    /// The members that the fault affects, each once, in order.
    pub fn affected(&self) -> Vec<String> {
        let ends = self.links.iter().flat_map(|(from, to)| [from, to]);
        let mut named: Vec<String> = self.members.iter().chain(ends).cloned().collect();
        named.sort();
        named.dedup();
        named
    }
}
