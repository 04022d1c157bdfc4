//! The targets of a fault: `holder`, `client:0`, `node`, `minority`, `resource`, or several with commas.

use std::fmt;
use std::str::FromStr;

use super::phrase::{PhraseError, serde_as_phrase};
use base::members::Role;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The client that holds the lock at that moment, between its read and its write.
    Holder,
    /// A client drawn by the plan.
    AnyClient,
    /// This client, counted from 0.
    Client(u32),
    Clients,
    /// A node of the lock drawn by the plan.
    AnyNode,
    /// This node, counted from 0.
    Node(u32),
    Nodes,
    /// The largest minority of the nodes, drawn by the plan.
    Minority,
    /// The smallest majority of the nodes, drawn by the plan.
    Majority,
    /// A node that has the lock's key at that moment. If the fault also names the holder, the key is the holder's; otherwise,
    /// with several keys, it is the key that the plan drew. The same applies to the next two.
    Voter,
    /// The primary of the lock's key at that moment, if nodes have roles.
    Primary,
    /// The replica of that primary that is next in line.
    Replica,
    Sentinels,
    /// The Redis that stores the protected resource.
    Resource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets(pub Vec<Target>);

const WORDS: [(&str, Target); 12] = [
    ("holder", Target::Holder),
    ("client", Target::AnyClient),
    ("clients", Target::Clients),
    ("node", Target::AnyNode),
    ("nodes", Target::Nodes),
    ("minority", Target::Minority),
    ("majority", Target::Majority),
    ("voter", Target::Voter),
    ("primary", Target::Primary),
    ("replica", Target::Replica),
    ("sentinels", Target::Sentinels),
    ("resource", Target::Resource),
];

impl Target {
    pub fn role(self) -> Role {
        match self {
            Target::Holder | Target::AnyClient | Target::Client(_) | Target::Clients => Role::Client,
            Target::AnyNode | Target::Node(_) | Target::Nodes | Target::Minority | Target::Majority => Role::Node,
            Target::Voter | Target::Primary | Target::Replica => Role::Node,
            Target::Sentinels => Role::Sentinel,
            Target::Resource => Role::Resource,
        }
    }

    pub fn is_client(self) -> bool {
        self.role() == Role::Client
    }

    pub fn is_node(self) -> bool {
        self.role() == Role::Node
    }
}

impl Targets {
    pub fn one(target: Target) -> Targets {
        Targets(vec![target])
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Client(number) => write!(f, "client:{number}"),
            Target::Node(number) => write!(f, "node:{number}"),
            target => f.write_str(WORDS.iter().find(|(_, known)| known == target).map_or("", |(word, _)| word)),
        }
    }
}

impl FromStr for Target {
    type Err = PhraseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbered = |number: &str| number.parse::<u32>().ok();
        match text.split_once(':') {
            // The resource's name until version 0.1; see `catalogue::RENAMED`.
            None if text == "storage" => Some(Target::Resource),
            None => WORDS.iter().find(|(word, _)| *word == text).map(|(_, target)| *target),
            Some(("client", number)) => numbered(number).map(Target::Client),
            Some(("node", number)) => numbered(number).map(Target::Node),
            Some(_) => None,
        }
        .ok_or_else(|| {
            let words: Vec<_> = WORDS.iter().map(|(word, _)| format!("`{word}`")).collect();
            PhraseError::new(format!(
                "unknown target `{text}`; expected {}, `client:N` or `node:N`, N from 0, or several with commas",
                words.join(", ")
            ))
        })
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let targets: Vec<String> = self.0.iter().map(Target::to_string).collect();
        f.write_str(&targets.join(","))
    }
}

impl FromStr for Targets {
    type Err = PhraseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split(',').map(|target| target.trim().parse()).collect::<Result<_, _>>().map(Targets)
    }
}

serde_as_phrase!(Target, Targets);
