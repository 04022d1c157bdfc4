//! Who can't reach whom: `client:0 from node:1`, `minority`, `halves replies`.

use std::fmt;
use std::str::FromStr;

use super::phrase::PhraseError;
use super::target::Targets;

/// The packets that a fault affects: from each member of one side to each of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Between {
    pub one: Targets,
    pub other: Targets,
    /// Whether packets in the other direction are affected too.
    pub both_ways: bool,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partition {
    /// Drawn by the plan.
    Shape(Shape, Way),
    /// Listed one by one.
    Between(Vec<Between>),
}

/// Partitions by name, as in Jepsen; between clients and nodes, since independent nodes do not talk to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One node is cut off from all clients.
    One,
    /// A minority of the nodes is cut off from all clients.
    Minority,
    /// A majority of the nodes is cut off from all clients.
    Majority,
    /// Clients and nodes are split into two halves.
    Halves,
    /// Each client reaches a majority of the nodes; if possible, no two clients reach the same one.
    MajoritiesRing,
    /// Two halves of clients and nodes, and one node that both reach.
    Bridge,
}

/// Which packets of a partition are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Both,
    /// From clients to nodes.
    Requests,
    /// From nodes to clients: requests are carried out, but the client does not learn of it.
    Replies,
}

const SHAPES: [(&str, Shape); 6] = [
    ("one", Shape::One),
    ("minority", Shape::Minority),
    ("majority", Shape::Majority),
    ("halves", Shape::Halves),
    ("majorities-ring", Shape::MajoritiesRing),
    ("bridge", Shape::Bridge),
];

impl Between {
    /// `A from B` or `A and B`: both ways; `A to B`: one way.
    pub(super) fn parse(text: &str) -> Result<Between, PhraseError> {
        for (word, both_ways) in [(" from ", true), (" and ", true), (" to ", false)] {
            if let Some((one, other)) = text.split_once(word) {
                return Ok(Between { one: one.trim().parse()?, other: other.trim().parse()?, both_ways });
            }
        }
        Err(PhraseError::expected(text, "`A from B` or `A and B` (both ways), or `A to B` (one way)"))
    }
}

impl FromStr for Partition {
    type Err = PhraseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_whitespace();
        let shape = words.next().and_then(|word| SHAPES.iter().find(|(name, _)| *name == word));
        let Some((_, shape)) = shape.filter(|_| !text.contains(" from ") && !text.contains(" to ")) else {
            let explicit: Result<Vec<_>, _> = text.split(';').map(|part| Between::parse(part.trim())).collect();
            return explicit.map(Partition::Between).map_err(|error| {
                let names: Vec<_> = SHAPES.iter().map(|(name, _)| format!("`{name}`")).collect();
                PhraseError::new(format!("{error}; or one of {}", names.join(", ")))
            });
        };
        let way = match (words.next(), words.next()) {
            (None, _) => Way::Both,
            (Some("requests"), None) => Way::Requests,
            (Some("replies"), None) => Way::Replies,
            _ => {
                return Err(PhraseError::expected(text, "nothing, `requests` or `replies` after the partition's name"));
            }
        };
        Ok(Partition::Shape(*shape, way))
    }
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.one, if self.both_ways { "from" } else { "to" }, self.other)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Partition::Shape(shape, way) => {
                f.write_str(SHAPES.iter().find(|(_, known)| known == shape).map_or("", |(name, _)| name))?;
                f.write_str(match way {
                    Way::Both => "",
                    Way::Requests => " requests",
                    Way::Replies => " replies",
                })
            }
            Partition::Between(parts) => {
                let parts: Vec<String> = parts.iter().map(Between::to_string).collect();
                f.write_str(&parts.join("; "))
            }
        }
    }
}
