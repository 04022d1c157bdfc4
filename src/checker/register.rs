//! One key's register as its values describe it: which operation replaced which value with which, and who read what.
//!
//! This is the graph of [`linearizability::value_graph`] with everything needed to say what was lost: every read, and
//! both branches of a value that two operations replaced. So it is a forest.
//!
//! Evidence counts as described there, and also:
//! - an operation did read what it read, however it ended: the read precedes the write whose fate is unknown;
//! - a refused compare-and-set is used only for the value that it read.

use std::collections::HashMap;

use linearizability::value_graph::{Zone, circles};

use crate::history::{Function, Operation, Outcome, Phase, Reading};

/// A moment in real time: run time in nanoseconds, then the line's index, which orders events with equal times.
pub(super) type Moment = (u64, u64);

/// After everything: for operations that took effect at an unknown time, or not at all.
pub(super) const NEVER: Moment = (u64::MAX, u64::MAX);

/// The node of the empty register, the first of every register.
pub(super) const EMPTY: usize = 0;

/// One observation of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    /// Place of the operation in the history.
    pub place: usize,
    pub invoked: Moment,
    /// When the value had certainly been read.
    pub completed: Moment,
    /// Whether the observer also replaced the value, and so has its own node.
    pub by_writer: bool,
}

/// How a tree of values begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// The register as it was at the start.
    Empty,
    /// An operation that happened but replaced an unknown value: a write, or an rmw that did not report what it read.
    Unknown,
    /// A value that nobody can have written, or a cycle cut open: already reported, so its order proves nothing more.
    Broken,
}

/// A value that the register certainly had.
#[derive(Debug)]
pub(super) struct Node {
    /// Place in the history of the operation that wrote it; None for the empty register and for values from nowhere.
    pub writer: Option<usize>,
    pub invoked: Moment,
    /// [`NEVER`] for a writer that was not acknowledged.
    pub completed: Moment,
    pub acknowledged: bool,
    /// The node that the writer read, or how the tree begins if this is its root.
    pub parent: Result<usize, Root>,
    pub children: Vec<usize>,
    /// Reads of this value, except by acknowledged writers.
    pub reads: Vec<Observation>,
}

/// The values of one key.
#[derive(Debug)]
pub(super) struct Register<'h> {
    pub operations: &'h [Operation],
    pub key: &'h str,
    pub nodes: Vec<Node>,
    /// Every node after its parent.
    pub order: Vec<usize>,
    node_of_value: HashMap<&'h str, usize>,
    /// Values that somebody saw but no operation can have written, with the failed operation that tried to.
    pub from_nowhere: Vec<(usize, Option<usize>)>,
    /// Operations that depend on each other in a cycle.
    pub circles: Vec<Vec<usize>>,
    /// Whether there are operations that by nature don't report what they replaced.
    pub has_writes: bool,
}

impl<'h> Register<'h> {
    /// Links the operations on one key, given as places in the history. Linear in their number.
    pub fn new(operations: &'h [Operation], key: &'h str, places: &[usize]) -> Register<'h> {
        let mut register = Register {
            operations,
            key,
            nodes: vec![Node::new(None, Err(Root::Empty))],
            order: Vec::new(),
            node_of_value: HashMap::new(),
            from_nowhere: Vec::new(),
            circles: Vec::new(),
            has_writes: places.iter().any(|&place| operations[place].f == Function::Write),
        };
        register.add_nodes(places);
        register.add_observations(places);
        register.cut_circles();
        register
    }

    /// The node of what was read, if known. Every known reading of this register has one.
    pub fn node_of(&self, reading: &Reading) -> Option<usize> {
        match reading {
            Reading::Unknown => None,
            Reading::Empty => Some(EMPTY),
            Reading::Value(value) => self.node_of_value.get(value.as_str()).copied(),
        }
    }

    /// The places of the operations that certainly replaced something, and whether it is known what.
    pub fn happened(&self) -> impl Iterator<Item = (usize, bool)> {
        self.nodes.iter().filter_map(|node| {
            let writer = node.writer.filter(|&writer| self.operations[writer].f != Function::Write)?;
            Some((writer, node.parent != Err(Root::Unknown)))
        })
    }

    /// Whether somebody read what the operation at this place wrote.
    pub fn is_seen(&self, place: usize) -> bool {
        let node = written(&self.operations[place]).and_then(|value| self.node_of_value.get(value));
        node.is_some_and(|&node| !self.nodes[node].children.is_empty() || !self.nodes[node].reads.is_empty())
    }

    /// Adds a node for every value that was certainly there: acknowledged or seen.
    fn add_nodes(&mut self, places: &[usize]) {
        let mut writers: HashMap<&str, usize> = HashMap::new();
        for &place in places {
            if let Some(new) = written(&self.operations[place]) {
                writers.insert(new, place);
            }
        }
        for &place in places {
            let operation = &self.operations[place];
            if operation.outcome == Outcome::Ok
                && let Some(new) = written(operation)
            {
                self.add_node(new, Some(place));
            }
            if let Reading::Value(seen) = &operation.old
                && !self.node_of_value.contains_key(seen.as_str())
            {
                let writer = writers.get(seen.as_str()).copied();
                if let Some(writer) = writer.filter(|&writer| self.operations[writer].outcome != Outcome::Fail) {
                    self.add_node(seen, Some(writer));
                } else {
                    let node = self.add_node(seen, None);
                    self.from_nowhere.push((node, writer));
                }
            }
        }
    }

    fn add_node(&mut self, value: &'h str, writer: Option<usize>) -> usize {
        let next = self.nodes.len();
        let node = *self.node_of_value.entry(value).or_insert(next);
        if node == next {
            let root = if writer.is_some() { Root::Unknown } else { Root::Broken };
            self.nodes.push(Node::new(writer.map(|place| (place, &self.operations[place])), Err(root)));
        }
        node
    }

    fn add_observations(&mut self, places: &[usize]) {
        for &place in places {
            let operation = &self.operations[place];
            let Some(seen) = self.node_of(&operation.old) else { continue };
            let own = written(operation)
                .and_then(|new| self.node_of_value.get(new).copied())
                .filter(|&own| self.nodes[own].writer == Some(place));
            if let Some(own) = own {
                self.nodes[own].parent = Ok(seen);
                self.nodes[seen].children.push(own);
            }
            // An acknowledged writer read and wrote at one moment, so its own node says everything.
            if own.is_none() || operation.outcome != Outcome::Ok {
                let completed =
                    if operation.outcome == Outcome::Ok { completed(operation) } else { in_hand(operation) };
                let read = Observation { place, invoked: invoked(operation), completed, by_writer: own.is_some() };
                self.nodes[seen].reads.push(read);
            }
        }
    }

    /// Orders the nodes, parents first. Nodes that no root reaches hang on a cycle; it is cut at its earliest writer.
    fn cut_circles(&mut self) {
        let mut roots: Vec<usize> = (0..self.nodes.len()).filter(|&node| self.nodes[node].parent.is_err()).collect();
        self.circles = circles(self.nodes.len(), |node| self.nodes[node].parent.ok());
        for circle in &self.circles {
            let Some(&cut) = circle.iter().rev().min_by_key(|&&node| self.nodes[node].invoked) else { continue };
            if let Ok(parent) = std::mem::replace(&mut self.nodes[cut].parent, Err(Root::Broken)) {
                self.nodes[parent].children.retain(|&child| child != cut);
            }
            roots.push(cut);
        }
        for root in roots {
            self.reach(root);
        }
    }

    fn reach(&mut self, root: usize) {
        let mut next = self.order.len();
        self.order.push(root);
        while next < self.order.len() {
            self.order.extend(&self.nodes[self.order[next]].children);
            next += 1;
        }
    }
}

impl Node {
    fn new(writer: Option<(usize, &Operation)>, parent: Result<usize, Root>) -> Node {
        let acknowledged = writer.is_some_and(|(_, operation)| operation.outcome == Outcome::Ok);
        Node {
            writer: writer.map(|(place, _)| place),
            invoked: writer.map_or((0, 0), |(_, operation)| invoked(operation)),
            completed: writer.filter(|_| acknowledged).map_or(NEVER, |(_, operation)| completed(operation)),
            acknowledged,
            parent,
            children: Vec::new(),
            reads: Vec::new(),
        }
    }

    /// Extends a zone with everything that was done with this value.
    pub fn extend(&self, zone: &mut Zone<Moment, usize>) {
        for read in &self.reads {
            zone.complete(read.completed, read.place);
            zone.invoke(read.invoked, read.place);
        }
        if let Some(writer) = self.writer {
            zone.complete(self.completed, writer);
            zone.invoke(self.invoked, writer);
        }
    }
}

/// What an operation wrote or was to write.
pub(super) fn written(operation: &Operation) -> Option<&str> {
    operation.new.as_deref().filter(|_| operation.f.writes())
}

pub(super) fn invoked(operation: &Operation) -> Moment {
    (operation.invoked, operation.index)
}

/// When the operation's answer was read; [`NEVER`] if none was recorded.
pub(super) fn completed(operation: &Operation) -> Moment {
    operation.completed.map_or(NEVER, |time| (time, operation.completed_index.unwrap_or(u64::MAX)))
}

/// When an unacknowledged operation had read its value. Its completion, if any, counts instead of the report of the
/// read, because it may correct the value. The report carries no index, so it counts as the last of its nanosecond.
fn in_hand(operation: &Operation) -> Moment {
    if operation.completed.is_some() {
        return completed(operation);
    }
    let report = operation.phases.iter().rfind(|stamp| stamp.phase == Phase::Read);
    report.map_or(NEVER, |stamp| (stamp.received, u64::MAX))
}

/// The latest time at which a write can have taken effect, in nanoseconds of run time: its `written` stamp, else when
/// that report was received, else its completion.
pub(super) fn effective(operation: &Operation) -> u64 {
    let report = operation.phase(Phase::Written);
    report
        .map(|stamp| stamp.stamped.and_then(|time| u64::try_from(time).ok()).unwrap_or(stamp.received))
        .or(operation.completed)
        .unwrap_or(operation.invoked)
}
