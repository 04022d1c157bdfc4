//! The links that a fault affects: `client:0 from node:1`, `minority`, `halves replies`.

use std::fmt;

use super::phrase::PhraseError;
use super::target::Targets;

#[derive(Clone, Debug, PartialEq)]
pub enum TargetSpec {
    Members(Targets),
    Links(Vec<LinkSelector>),
    /// The links between two sides; the plan draws the sides.
    Shape(Shape, Direction),
}

/// The links that a fault affects: from each member of one side to each member of the other. A link has a direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSelector {
    pub one: Targets,
    pub other: Targets,
    /// True if the links in the other direction are affected too.
    pub both_ways: bool,
}

/// Partitions by name, as in Jepsen. They lie between clients and nodes, since independent nodes do not talk to each other.
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
    /// Each client reaches a majority of the nodes; if possible, no two clients reach the same majority.
    MajoritiesRing,
    /// Two halves of clients and nodes, and one node that both halves reach.
    Bridge,
}

/// The directions in which a partition cuts links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Both,
    /// From clients to nodes.
    Requests,
    /// From nodes to clients: nodes execute requests, but the client does not learn of it.
    Replies,
}

impl Shape {
    /// True if some nodes are cut off from other nodes, and not only from clients.
    pub fn cuts_nodes_from_each_other(self) -> bool {
        matches!(self, Shape::Halves | Shape::Bridge)
    }
}

const SHAPES: [(&str, Shape); 6] = [
    ("one", Shape::One),
    ("minority", Shape::Minority),
    ("majority", Shape::Majority),
    ("halves", Shape::Halves),
    ("majorities-ring", Shape::MajoritiesRing),
    ("bridge", Shape::Bridge),
];

impl LinkSelector {
    pub fn both_ways(one: Targets, other: Targets) -> LinkSelector {
        LinkSelector { one, other, both_ways: true }
    }

    /// `A from B` or `A and B`: both ways; `A to B`: one way.
    pub(super) fn parse(text: &str) -> Result<LinkSelector, PhraseError> {
        for (word, both_ways) in [(" from ", true), (" and ", true), (" to ", false)] {
            if let Some((one, other)) = text.split_once(word) {
                return Ok(LinkSelector { one: one.trim().parse()?, other: other.trim().parse()?, both_ways });
            }
        }
        Err(PhraseError::expected(text, "`A from B` or `A and B` (both ways), or `A to B` (one way)"))
    }

    /// The phrase, with this word if both directions are meant.
    pub(super) fn said(&self, both: &str) -> String {
        format!("{} {} {}", self.one, if self.both_ways { both } else { "to" }, self.other)
    }
}

/// The links of a partition: a shape's name, or its sides.
pub(super) fn partition(text: &str) -> Result<TargetSpec, PhraseError> {
    let mut words = text.split_whitespace();
    let shape = words.next().and_then(|word| SHAPES.iter().find(|(name, _)| *name == word));
    let Some((_, shape)) = shape.filter(|_| !text.contains(" from ") && !text.contains(" to ")) else {
        let explicit: Result<Vec<_>, _> = text.split(';').map(|part| LinkSelector::parse(part.trim())).collect();
        return explicit.map(TargetSpec::Links).map_err(|error| {
            let names: Vec<_> = SHAPES.iter().map(|(name, _)| format!("`{name}`")).collect();
            PhraseError::new(format!("{error}; or one of {}", names.join(", ")))
        });
    };
    let direction = match (words.next(), words.next()) {
        (None, _) => Direction::Both,
        (Some("requests"), None) => Direction::Requests,
        (Some("replies"), None) => Direction::Replies,
        _ => {
            return Err(PhraseError::expected(text, "nothing, `requests` or `replies` after the partition's name"));
        }
    };
    Ok(TargetSpec::Shape(*shape, direction))
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SHAPES.iter().find(|(_, known)| known == self).map_or("", |(name, _)| name))
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Both => "",
            Direction::Requests => " requests",
            Direction::Replies => " replies",
        })
    }
}
