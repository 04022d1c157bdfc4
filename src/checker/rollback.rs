//! Which updates were rolled back: an older value was seen after them, and they never were again.
//!
//! Where every update says what it replaced, an update is lost when the lineage of the final value leaves it out
//! ([`super::lineage`]). A write says nothing of the kind, and the next write hides what was lost before it. What is left
//! are sightings: an operation that found value `v` although the update `w` had come after `v` and was over. No order
//! allows that, so whatever is found here contradicts the register whichever way it is read:
//!
//! - `w` came after `v` if it descends from it, or if a part of the lineage of `v` was over before `w` was invoked;
//! - `w` was over once it was acknowledged, or once somebody had its value;
//! - `w` is not in the lineage of `v`.
//!
//! Which of the two went wrong, the values alone can't always tell: either `w` was lost or the sighting was stale. As
//! with the last value of a register, what was seen last is taken to have survived: `w` counts as lost only if nothing
//! that saw it or built on it was begun after that sighting, and if `v` was not lost itself. So the side of a split
//! brain that is thrown away bears no witness against the other one.

use std::collections::BTreeMap;

use super::lineage::Lineage;
use super::order::{anomaly, latest_known};
use super::register::{EMPTY, Moment, NEVER, Register, Root};
use super::verdict::{Anomaly, AnomalyKind};
use super::words::{Words, reading, seconds};
use crate::history::Outcome;

/// An operation that found a value: its invocation, and its place in the history.
type Sighting = (Moment, usize);

/// Finds the updates that were rolled back, one anomaly for each first sighting of what was before them, and takes
/// their nodes out of later comparisons, so that one cause is reported once. Sorts the nodes; linear otherwise.
pub(super) fn check(register: &Register, lineage: &mut Lineage, words: Words) -> Vec<Anomaly> {
    let mut found = Vec::new();
    if !register.has_writes {
        return found;
    }
    for ((sighting, seen), nodes) in rolled_back(register, lineage) {
        let mut lost: Vec<usize> = nodes.iter().filter(|&&node| register.nodes[node].acknowledged).copied().collect();
        // What was seen and not acknowledged is no loss of its own, and by itself a matter of the order.
        if lost.is_empty() {
            continue;
        }
        lost.sort_unstable_by_key(|&node| register.nodes[node].invoked);
        for node in nodes {
            lineage.gone[node] = true;
        }
        found.push(rollback(register, sighting.1, seen, &lost, words));
    }
    found
}

/// Nodes by the sighting that shows that they are gone, and by the node that was sighted.
fn rolled_back(register: &Register, lineage: &Lineage) -> BTreeMap<(Sighting, usize), Vec<usize>> {
    let known = Known::new(register);
    let mut gone = vec![false; register.nodes.len()];
    for &node in lineage.lines.iter().flat_map(|line| &line.lost) {
        gone[node] = true;
    }
    // What was seen last decides first, so whoever bears witness against a node has been decided upon. Parents come
    // before their children, which are seen no longer than they are.
    let mut order = register.order.clone();
    order.sort_by_key(|&node| std::cmp::Reverse(known.seen_until[node]));
    let mut standing = Latest::new(register.nodes.len());
    // The ancestor that was found last, and when.
    let mut above = vec![((0, 0), EMPTY); register.nodes.len()];
    let mut by_sighting: BTreeMap<(Sighting, usize), Vec<usize>> = BTreeMap::new();
    for node in order.into_iter().filter(|&node| !known.broken[node]) {
        if let Ok(parent) = register.nodes[node].parent {
            let last = known.last_sighting(parent).filter(|_| !gone[parent]);
            above[node] = last.map_or(above[parent], |(time, _)| above[parent].max((time, parent)));
        }
        if gone[node] {
            continue;
        }
        let over = known.over[node].max(known.seen_until[node]);
        let (last, seen) = standing.before(known.rank(register.nodes[node].invoked)).max(above[node]);
        if node != EMPTY && last > over {
            let first = known.sightings[seen].partition_point(|(invoked, _)| *invoked <= over);
            gone[node] = true;
            by_sighting.entry((known.sightings[seen][first], seen)).or_default().push(node);
        } else if let Some((last, _)) = known.last_sighting(node) {
            standing.add(known.rank(known.since[node]), (last, node));
        }
    }
    by_sighting
}

/// What is known of each node, by its number.
struct Known {
    /// Who found its value, by invocation.
    sightings: Vec<Vec<Sighting>>,
    /// By when it had certainly been written.
    over: Vec<Moment>,
    /// The last invocation of anything that saw it or built on it.
    seen_until: Vec<Moment>,
    /// By when a part of its lineage had certainly been there.
    since: Vec<Moment>,
    /// Whether its lineage has no beginning, which is reported already.
    broken: Vec<bool>,
    /// All of `since`, rising.
    beginnings: Vec<Moment>,
}

impl Known {
    fn new(register: &Register) -> Known {
        let nodes = &register.nodes;
        let mut known = Known {
            sightings: vec![Vec::new(); nodes.len()],
            over: nodes.iter().map(|node| node.completed).collect(),
            seen_until: nodes.iter().map(|node| node.invoked).collect(),
            since: vec![NEVER; nodes.len()],
            broken: vec![false; nodes.len()],
            beginnings: Vec::new(),
        };
        for &node in register.order.iter().rev() {
            let here = &nodes[node];
            let children = here.children.iter().map(|&child| &nodes[child]);
            let writers = children.filter_map(|child| Some((child.invoked, child.writer?)));
            let readers = here.reads.iter().map(|read| (read.invoked, read.place));
            known.sightings[node] = readers.chain(writers).collect();
            known.sightings[node].sort_unstable();
            for read in &here.reads {
                known.over[node] = known.over[node].min(read.completed);
                known.seen_until[node] = known.seen_until[node].max(read.invoked);
            }
            if let Ok(parent) = here.parent {
                known.over[parent] = known.over[parent].min(known.over[node]);
                known.seen_until[parent] = known.seen_until[parent].max(known.seen_until[node]);
            }
        }
        for &node in &register.order {
            let read = nodes[node].reads.iter().map(|read| read.completed).min();
            let own = nodes[node].completed.min(read.unwrap_or(NEVER));
            (known.since[node], known.broken[node]) = match nodes[node].parent {
                Ok(parent) => (known.since[parent].min(own), known.broken[parent]),
                Err(Root::Empty) => ((0, 0), false),
                Err(Root::Unknown) => (own, false),
                Err(Root::Broken) => (own, true),
            };
        }
        known.beginnings = known.since.clone();
        known.beginnings.sort_unstable();
        known
    }

    fn last_sighting(&self, node: usize) -> Option<Sighting> {
        self.sightings[node].last().copied()
    }

    /// How many lineages had begun before a moment.
    fn rank(&self, moment: Moment) -> usize {
        self.beginnings.partition_point(|since| *since < moment)
    }
}

/// The latest sighting among those with a lower rank: a tree of maxima (Fenwick, 1994).
struct Latest(Vec<(Moment, usize)>);

impl Latest {
    fn new(ranks: usize) -> Latest {
        Latest(vec![((0, 0), EMPTY); ranks + 1])
    }

    fn add(&mut self, rank: usize, sighting: (Moment, usize)) {
        let mut place = rank + 1;
        while let Some(latest) = self.0.get_mut(place) {
            *latest = sighting.max(*latest);
            place += place & place.wrapping_neg();
        }
    }

    fn before(&self, rank: usize) -> (Moment, usize) {
        let (mut latest, mut place) = (((0, 0), EMPTY), rank);
        while place > 0 {
            latest = latest.max(self.0[place]);
            place &= place - 1;
        }
        latest
    }
}

fn rollback(register: &Register, sighting: usize, seen: usize, lost: &[usize], words: Words) -> Anomaly {
    let operation = &register.operations[sighting];
    let mut places: Vec<usize> = lost.iter().filter_map(|&node| register.nodes[node].writer).collect();
    let lost = places.iter().map(|&place| register.operations[place].index).collect();
    let summary = format!(
        "{} found {} after {}; {} had been acknowledged by then and came after that value, and nobody ever saw {} again",
        words.client(sighting),
        reading(register.key, &operation.old),
        seconds(operation.invoked),
        words.new_values(&places),
        if places.len() == 1 { "it" } else { "them" },
    );
    let time = match operation.outcome {
        Outcome::Ok => latest_known(register, sighting),
        Outcome::Fail | Outcome::Info => operation.invoked,
    };
    places.truncate(1);
    places.push(sighting);
    places.extend(register.nodes[seen].writer);
    Anomaly { lost, ..anomaly(register, AnomalyKind::LostUpdate, time, places, summary) }
}
