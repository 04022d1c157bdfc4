//! Which updates were rolled back? An older value was seen after them, and they were never seen again.
//!
//! If every update reports the value that it replaced, an update is lost when the lineage of the final value leaves it out
//! ([`super::lineage`]). A blind write does not report that value, and the next write hides earlier losses. Only sightings
//! remain: an operation found value `v` although update `w` had come after `v` and was over. No order allows that, so each
//! finding contradicts the register, however it is explained:
//!
//! - `w` came after `v` if it descends from `v`, or if a part of the lineage of `v` was over before `w` was invoked;
//! - `w` was over once it was acknowledged, or once an operation had read its value;
//! - `w` is not in the lineage of `v`.
//!
//! The values alone can't always show which went wrong: either `w` was lost or the sighting was stale. As with the last value of
//! a register, the value seen last is assumed to have survived. So the history is read backwards, and each operation is kept
//! unless it contradicts an operation already kept. A contradicting read is stale. A contradicting update is lost, unless an
//! operation that saw it was kept. Operations on the discarded side of a split brain are not evidence.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::AnomalyKind;
use super::lineage::Lineage;
use super::order::{anomaly, comes_before, latest_known};
use super::register::{EMPTY, KeyValues, Moment, NEVER, Root, invoked};
use super::verdict::Anomaly;
use super::words::{Words, reading, seconds};
use model::history::Outcome;

/// An operation that found a value: its invocation, and its index in the history.
type Sighting = (Moment, usize);

/// The last time a value was found, and its node.
type LastSeen = (Moment, usize);

const NOTHING: LastSeen = ((0, 0), EMPTY);

/// Finds the updates that were rolled back: one anomaly for each first sighting of an older value. Removes their nodes from later
/// comparisons, so that each cause is reported once. Takes linear time, except that it sorts the operations.
pub(super) fn check(register: &KeyValues, lineage: &mut Lineage, words: Words) -> Vec<Anomaly> {
    let mut found = Vec::new();
    if !register.has_writes {
        return found;
    }
    for ((sighting, seen), nodes) in rolled_back(register, lineage) {
        let mut lost: Vec<usize> = nodes.iter().filter(|&&node| register.nodes[node].acknowledged).copied().collect();
        // A value that was seen but never acknowledged is not lost; alone it is a question of order.
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

/// The nodes that are gone, by the sighting that proves it and the node that was sighted.
fn rolled_back(register: &KeyValues, lineage: &Lineage) -> BTreeMap<(Sighting, usize), Vec<usize>> {
    let mut kept = KeptSuffix::new(register);
    for &node in lineage.lines.iter().flat_map(|line| &line.lost) {
        kept.out[node] = true;
    }
    let mut events: Vec<Access> = Vec::new();
    for (node, here) in register.nodes.iter().enumerate().filter(|(node, _)| !kept.out[*node]) {
        events.extend(here.reads.iter().map(|read| Access {
            invoked: read.invoked,
            over: read.completed,
            place: read.place,
            node,
            writes: false,
        }));
        let over = kept.over[node];
        events.extend(here.writer().map(|place| Access { invoked: here.invoked, over, place, node, writes: true }));
    }
    // If one invocation read and wrote, its write comes first: readers of that write have been processed already.
    events.sort_unstable_by_key(|event| Reverse((event.invoked, event.writes)));
    let mut gone: BTreeMap<(Sighting, usize), Vec<usize>> = BTreeMap::new();
    for event in events {
        let node = event.node;
        match kept.against(&event) {
            _ if event.writes && kept.stands[node] => kept.keep_write(register, &event),
            None if event.writes => kept.keep_write(register, &event),
            None => kept.keep_sighting(register, node, (event.invoked, event.place)),
            Some(seen) if event.writes => {
                // The sightings are in descending order.
                let later = kept.sightings[seen].partition_point(|(invoked, _)| *invoked > event.over);
                let Some(first) = later.checked_sub(1) else { continue };
                gone.entry((kept.sightings[seen][first], seen)).or_default().push(node);
            }
            Some(_) => {}
        }
    }
    gone
}

/// An operation and the node that it read or wrote.
struct Access {
    invoked: Moment,
    /// The time by which it had certainly happened.
    over: Moment,
    place: usize,
    node: usize,
    writes: bool,
}

/// The operations kept so far, going backwards from the end of the history.
struct KeptSuffix {
    /// For each node, whether it is ignored: it is already known to be lost, or its lineage has no beginning.
    out: Vec<bool>,
    /// For each node, the time by which it had certainly been written.
    over: Vec<Moment>,
    /// For each node, the time by which a part of its lineage certainly existed, as a rank among all such times.
    rank: Vec<usize>,
    /// These times, ascending.
    beginnings: Vec<Moment>,
    /// The first node of each node's tree.
    tree: Vec<usize>,
    /// The operations that found each node's value, in descending order.
    sightings: Vec<Vec<Sighting>>,
    /// For each node, whether an operation was kept that wrote it, saw it or built on it.
    stands: Vec<bool>,
    /// For each node, the time by which a node that stands had replaced it.
    replaced: Vec<Moment>,
    found: Latest,
    above: Above,
}

impl KeptSuffix {
    fn new(register: &KeyValues) -> KeptSuffix {
        let nodes = &register.nodes;
        let mut over: Vec<Moment> = nodes.iter().map(|node| node.completed).collect();
        for &node in register.order.iter().rev() {
            let read = nodes[node].reads.iter().map(|read| read.completed).min();
            over[node] = over[node].min(read.unwrap_or(NEVER));
            if let Ok(parent) = nodes[node].parent() {
                over[parent] = over[parent].min(over[node]);
            }
        }
        let (mut since, mut tree, mut out) = (over.clone(), vec![EMPTY; nodes.len()], vec![false; nodes.len()]);
        for &node in &register.order {
            match nodes[node].parent() {
                Ok(parent) => {
                    (since[node], tree[node], out[node]) = (since[parent].min(since[node]), tree[parent], out[parent]);
                }
                Err(Root::Empty) => since[node] = (0, 0),
                Err(root) => (tree[node], out[node]) = (node, root == Root::Broken),
            }
        }
        let mut beginnings = since.clone();
        beginnings.sort_unstable();
        KeptSuffix {
            rank: since.iter().map(|since| beginnings.partition_point(|other| other < since)).collect(),
            out,
            over,
            beginnings,
            tree,
            sightings: vec![Vec::new(); nodes.len()],
            stands: vec![false; nodes.len()],
            replaced: vec![NEVER; nodes.len()],
            found: Latest::new(nodes.len()),
            above: Above::new(register),
        }
    }

    /// The node whose sighting the operation contradicts; None if it contradicts none. The operation was over before that
    /// sighting, and came after a part of that node's lineage.
    fn against(&self, event: &Access) -> Option<usize> {
        let begun = self.beginnings.partition_point(|since| *since < event.invoked);
        let elsewhere = self.found.before(begun, self.tree[event.node]);
        let (last, seen) = elsewhere.max(self.above.of(event.node));
        if last > event.over {
            return Some(seen);
        }
        (!event.writes && self.replaced[event.node] < event.invoked).then_some(event.node)
    }

    fn keep_write(&mut self, register: &KeyValues, event: &Access) {
        self.stand(register, event.node);
        if let Ok(parent) = register.nodes[event.node].parent() {
            self.keep_sighting(register, parent, (event.invoked, event.place));
        }
    }

    fn keep_sighting(&mut self, register: &KeyValues, node: usize, sighting: Sighting) {
        self.stand(register, node);
        self.sightings[node].push(sighting);
        self.found.add(self.rank[node], (sighting.0, node), self.tree[node]);
        self.above.add(node, (sighting.0, node));
    }

    fn stand(&mut self, register: &KeyValues, node: usize) {
        let mut node = node;
        while !std::mem::replace(&mut self.stands[node], true) {
            let Ok(parent) = register.nodes[node].parent() else { return };
            self.replaced[parent] = self.replaced[parent].min(self.over[node]);
            node = parent;
        }
    }
}

/// The latest sightings of two trees among those of a lower rank: a tree of maxima (Fenwick, 1994).
struct Latest(Vec<[(LastSeen, usize); 2]>);

impl Latest {
    fn new(ranks: usize) -> Latest {
        Latest(vec![[(NOTHING, usize::MAX); 2]; ranks + 1])
    }

    fn add(&mut self, rank: usize, found: LastSeen, tree: usize) {
        let mut place = rank + 1;
        while let Some(best) = self.0.get_mut(place) {
            join(best, (found, tree));
            place += place & place.wrapping_neg();
        }
    }

    /// The latest sighting with a lower rank and in another tree.
    fn before(&self, rank: usize, tree: usize) -> LastSeen {
        let (mut best, mut place) = ([(NOTHING, usize::MAX); 2], rank);
        while place > 0 {
            self.0[place].iter().for_each(|&one| join(&mut best, one));
            place &= place - 1;
        }
        best.iter().find(|(_, of)| *of != tree).map_or(NOTHING, |(found, _)| *found)
    }
}

/// Keeps the latest sightings of two different trees, the latest first.
fn join(best: &mut [(LastSeen, usize); 2], one: (LastSeen, usize)) {
    if one.1 == best[0].1 {
        best[0].0 = best[0].0.max(one.0);
    } else if one.0 > best[0].0 {
        *best = [one, best[0]];
    } else if one.0 > best[1].0 {
        best[1] = one;
    }
}

/// For each node, the ancestor that was found last: maxima over ranges of nodes. A node's descendants have the numbers that
/// follow its own.
struct Above {
    number: Vec<usize>,
    /// The size of each node's subtree, including the node.
    size: Vec<usize>,
    maxima: Vec<LastSeen>,
}

impl Above {
    fn new(register: &KeyValues) -> Above {
        let nodes = &register.nodes;
        let mut size = vec![1; nodes.len()];
        for &node in register.order.iter().rev() {
            if let Ok(parent) = nodes[node].parent() {
                size[parent] += size[node];
            }
        }
        let (mut number, mut next) = (vec![0; nodes.len()], 0);
        // For each node, the first number that is still free for its descendants.
        let mut free = vec![0; nodes.len()];
        for &node in &register.order {
            let from = match nodes[node].parent() {
                Ok(parent) => &mut free[parent],
                Err(_) => &mut next,
            };
            number[node] = *from;
            *from += size[node];
            free[node] = number[node] + 1;
        }
        Above { number, size, maxima: vec![NOTHING; 2 * nodes.len()] }
    }

    fn add(&mut self, node: usize, found: LastSeen) {
        let leaves = self.maxima.len() / 2;
        let (mut low, mut high) = (leaves + self.number[node] + 1, leaves + self.number[node] + self.size[node]);
        while low < high {
            if low % 2 == 1 {
                self.maxima[low] = self.maxima[low].max(found);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                self.maxima[high] = self.maxima[high].max(found);
            }
            (low, high) = (low / 2, high / 2);
        }
    }

    fn of(&self, node: usize) -> LastSeen {
        let (mut place, mut latest) = (self.maxima.len() / 2 + self.number[node], NOTHING);
        while place > 0 {
            latest = latest.max(self.maxima[place]);
            place /= 2;
        }
        latest
    }
}

fn rollback(register: &KeyValues, sighting: usize, seen: usize, lost: &[usize], words: Words) -> Anomaly {
    let operation = &register.operations[sighting];
    let nodes = lost;
    let mut places: Vec<usize> = lost.iter().filter_map(|&node| register.nodes[node].writer()).collect();
    let lost = places.iter().map(|&place| register.operations[place].index).collect();
    let found = invoked(operation);
    // An update also counts as over once an operation has read it.
    let over = if nodes.iter().all(|&node| register.nodes[node].completed < found) {
        "had been acknowledged"
    } else {
        "had been acknowledged or read"
    };
    // Two simultaneous primaries may each show the other's value as older. Then it is not certain that any value was gone at
    // that time.
    let never_again = match nodes {
        _ if !nodes.iter().all(|&node| all_seen_by(register, node, found)) => "",
        [_] => ", and no client saw it again",
        _ => ", and no client saw them again",
    };
    // A late compare-and-set, for example, may be sent after some of them.
    let mut writers = nodes.iter().filter_map(|&node| register.nodes[node].writer());
    let is_older = writers.all(|writer| comes_before(register, seen, writer));
    let sent = register.nodes[seen].writer().map(|writer| &register.operations[writer]);
    let values = words.new_values(&places);
    let (them, are) = if nodes.len() > 1 { ("them", "they are".to_string()) } else { ("it", format!("{values} is")) };
    let (older, not_based) = match sent.filter(|_| !is_older) {
        Some(_) => ("", format!(", which is not based on {them}")),
        None => ("the older value ", String::new()),
    };
    let summary = format!(
        "{values} {over}, but after {} {} found {older}{}{not_based}{never_again}: {are} lost",
        seconds(operation.invoked),
        words.client(sighting),
        reading(register.key, &operation.old),
    );
    let time = match operation.outcome {
        Outcome::Ok => latest_known(register, sighting),
        Outcome::Fail | Outcome::Info => operation.invoked,
    };
    places.truncate(1);
    places.extend(register.nodes[seen].writer().filter(|&writer| writer != sighting));
    places.push(sighting);
    Anomaly { lost, ..anomaly(register, AnomalyKind::LostUpdate, time, places, summary) }
}

/// True if every read of a value was over before this time.
fn all_seen_by(register: &KeyValues, node: usize, moment: Moment) -> bool {
    let here = &register.nodes[node];
    here.reads.iter().all(|read| read.completed < moment)
        && here.children.iter().all(|&child| register.nodes[child].completed < moment)
}
