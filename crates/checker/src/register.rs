//! One key's register as its values describe it: which operation replaced which value with which, and which operations read it.
//!
//! This is the graph of [`linearizability::value_graph`] with everything needed to name lost updates: every read, and both
//! branches of a value that two operations replaced. So it is a forest.
//!
//! Evidence counts as described there, with two additions:
//! - a value that an operation reports was read, however the operation ended: the read precedes the write, whose outcome may be
//!   unknown;
//! - a refused compare-and-set is used only for the value that it read.

use std::collections::HashMap;

use linearizability::value_graph::{Zone, circles};
use smallvec::SmallVec;

use super::known::Known;
use base::mutants::planted;
use model::history::{Function, Operation, Outcome, Phase, Reading, Writers};

/// A time: run time in nanoseconds, then the line's index, which orders events with equal times.
pub(super) type Moment = (u64, u64);

/// Later than all times: for operations that took effect at an unknown time, or not at all.
pub(super) const NEVER: Moment = (u64::MAX, u64::MAX);

/// The node of the empty register; every register begins with it.
pub(super) const EMPTY: usize = 0;

/// One observation of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    /// The index of the operation in the history.
    pub place: usize,
    pub invoked: Moment,
    /// When the value had certainly been read.
    pub completed: Moment,
    /// True if the observer also replaced the value, and so has its own node.
    pub by_writer: bool,
}

/// How a tree of values begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// The register as it was at the start.
    Empty,
    /// An operation that happened but replaced an unknown value: a write, or an rmw that did not report the value that it read.
    Unknown,
    /// A value that no client can have written, or a cycle cut open. It is already reported, so its order proves nothing more.
    Broken,
}

/// A value that the register certainly had.
#[derive(Debug)]
pub(super) struct RegisterValue {
    /// Index in the history of the operation that wrote it; None for the empty register and for values from nowhere.
    writer: Option<u32>,
    pub invoked: Moment,
    /// [`NEVER`] if the writer was not acknowledged.
    pub completed: Moment,
    pub acknowledged: bool,
    /// The node that the writer read, or the kind of root if this is one.
    parent: Result<u32, Root>,
    /// Usually one.
    pub children: SmallVec<[usize; 1]>,
    /// Reads of this value, except by acknowledged writers.
    pub reads: Vec<Observation>,
}

#[derive(Debug)]
pub(super) struct KeyValues<'h> {
    pub operations: &'h Known<'h>,
    pub key: &'h str,
    pub nodes: Vec<RegisterValue>,
    /// Every node after its parent.
    pub order: Vec<usize>,
    places: &'h [usize],
    /// The operation that was meant to write each value, as an index in `places`.
    writers: Writers,
    /// For each of `places`, the node of the value that it was meant to write, if there is one.
    node_of_new: Vec<Option<u32>>,
    /// The nodes of values that no operation was meant to write.
    strange: HashMap<&'h str, usize>,
    /// Values that an operation read but none can have written, each with the failed operation that tried to write it.
    pub from_nowhere: Vec<(usize, Option<usize>)>,
    /// Operations that depend on each other in a cycle.
    pub circles: Vec<Vec<usize>>,
    /// True if some operations by nature don't report the value that they replaced.
    pub has_writes: bool,
}

impl<'h> KeyValues<'h> {
    /// Links the operations on one key, given as indices in the history. Linear in their number.
    pub fn new(operations: &'h Known<'h>, key: &'h str, places: &'h [usize]) -> KeyValues<'h> {
        let mut register = KeyValues {
            operations,
            key,
            nodes: Vec::with_capacity(places.len() + 1),
            order: Vec::with_capacity(places.len() + 1),
            places,
            writers: Writers::default(),
            node_of_new: vec![None; places.len()],
            strange: HashMap::new(),
            from_nowhere: Vec::new(),
            circles: Vec::new(),
            has_writes: places.iter().any(|&place| operations[place].f == Function::Write),
        };
        register.nodes.push(RegisterValue::new(None, Err(Root::Empty)));
        let seen = register.add_nodes();
        register.add_observations(&seen);
        register.cut_circles();
        register
    }

    /// The node of a reading, if it is known. Every known reading of this register has a node.
    pub fn node_of(&self, reading: &Reading) -> Option<usize> {
        match reading {
            Reading::Unknown => None,
            Reading::Empty => Some(EMPTY),
            Reading::Value(value) => self.node_of_value(value),
        }
    }

    pub fn node_of_value(&self, value: &str) -> Option<usize> {
        match self.writer_of(value) {
            Some(number) => self.node_of_new[number].map(|node| node as usize),
            None => self.strange.get(value).copied(),
        }
    }

    /// The operation that was meant to write a value, as an index in `places`.
    fn writer_of(&self, value: &str) -> Option<usize> {
        let (operations, places) = (self.operations, self.places);
        self.writers.of(value, |number| written(&operations[places[number as usize]])).map(|number| number as usize)
    }

    /// The indices of the operations that certainly replaced a value, and whether that value is known.
    pub fn happened(&self) -> impl Iterator<Item = (usize, bool)> {
        self.nodes.iter().filter_map(|node| {
            let writer = node.writer().filter(|&writer| self.operations[writer].f != Function::Write)?;
            Some((writer, node.parent() != Err(Root::Unknown)))
        })
    }

    /// True if an operation read the value that the operation with this index wrote.
    pub fn is_seen(&self, place: usize) -> bool {
        let node = written(&self.operations[place]).and_then(|value| self.node_of_value(value));
        node.is_some_and(|node| !self.nodes[node].children.is_empty() || !self.nodes[node].reads.is_empty())
    }

    /// Adds a node for every value that certainly existed: acknowledged or seen. Returns for each of `places` the node of the
    /// value that it read, if known.
    fn add_nodes(&mut self) -> Vec<Option<u32>> {
        let (operations, places) = (self.operations, self.places);
        let new = |number: u32| written(&operations[places[number as usize]]);
        for number in 0..places.len() as u32 {
            new(number).and_then(|value| self.writers.add(value, number, new));
        }
        let read = |(number, &place): (usize, &usize)| {
            let operation = &operations[place];
            if is_acknowledged(operation) && new(number as u32).is_some() {
                self.node_of_new[number].get_or_insert_with(|| add(&mut self.nodes, Some((place, operation))));
            }
            let seen = match &operation.old {
                Reading::Unknown => return None,
                Reading::Empty => return Some(EMPTY as u32),
                Reading::Value(seen) => seen.as_str(),
            };
            let Some(writer) = self.writers.of(seen, new).map(|writer| writer as usize) else {
                let nodes = &mut self.nodes;
                let node = self.strange.entry(seen).or_insert_with(|| {
                    self.from_nowhere.push((nodes.len(), None));
                    add(nodes, None) as usize
                });
                return Some(*node as u32);
            };
            let node = &mut self.node_of_new[writer];
            if node.is_none() {
                let wrote = (places[writer], &operations[places[writer]]);
                let failed = wrote.1.outcome == Outcome::Fail
                    || (planted("register.info-is-fail") && wrote.1.outcome == Outcome::Info);
                self.from_nowhere.extend(failed.then_some((self.nodes.len(), Some(wrote.0))));
                *node = Some(add(&mut self.nodes, (!failed).then_some(wrote)));
            }
            *node
        };
        places.iter().enumerate().map(read).collect()
    }

    /// `seen` has for each of `places` the node of the value that it read.
    fn add_observations(&mut self, seen: &[Option<u32>]) {
        for (number, (&place, seen)) in self.places.iter().zip(seen).enumerate() {
            let operation = &self.operations[place];
            let Some(seen) = seen.map(|node| node as usize) else { continue };
            let own = self.node_of_new[number].map(|own| own as usize);
            let own = own.filter(|&own| self.nodes[own].writer() == Some(place));
            if let Some(own) = own {
                self.nodes[own].parent = Ok(seen as u32);
                self.nodes[seen].children.push(own);
            }
            // An acknowledged writer read and wrote at one time, so its own node has all the evidence.
            if own.is_none() || operation.outcome != Outcome::Ok {
                let completed =
                    if operation.outcome == Outcome::Ok { completed(operation) } else { in_hand(operation) };
                let read = Observation { place, invoked: invoked(operation), completed, by_writer: own.is_some() };
                self.nodes[seen].reads.push(read);
            }
        }
    }

    /// Orders the nodes, parents first. Nodes that no root reaches belong to a cycle, which is cut at its earliest writer.
    fn cut_circles(&mut self) {
        let mut roots: Vec<usize> = (0..self.nodes.len()).filter(|&node| self.nodes[node].parent.is_err()).collect();
        self.circles = circles(self.nodes.len(), |node| self.nodes[node].parent().ok());
        for circle in &self.circles {
            let Some(&cut) = circle.iter().rev().min_by_key(|&&node| self.nodes[node].invoked) else { continue };
            if let Ok(parent) = std::mem::replace(&mut self.nodes[cut].parent, Err(Root::Broken)) {
                self.nodes[parent as usize].children.retain(|child| *child != cut);
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

/// Adds the node of a value with its writer.
fn add(nodes: &mut Vec<RegisterValue>, writer: Option<(usize, &Operation)>) -> u32 {
    let root = if writer.is_some() { Root::Unknown } else { Root::Broken };
    nodes.push(RegisterValue::new(writer, Err(root)));
    nodes.len() as u32 - 1
}

impl RegisterValue {
    fn new(writer: Option<(usize, &Operation)>, parent: Result<u32, Root>) -> RegisterValue {
        let acknowledged = writer.is_some_and(|(_, operation)| is_acknowledged(operation));
        RegisterValue {
            writer: writer.map(|(place, _)| place as u32),
            invoked: writer.map_or((0, 0), |(_, operation)| invoked(operation)),
            completed: writer.filter(|_| acknowledged).map_or(NEVER, |(_, operation)| completed(operation)),
            acknowledged,
            parent,
            children: SmallVec::new(),
            reads: Vec::new(),
        }
    }

    pub fn writer(&self) -> Option<usize> {
        self.writer.map(|place| place as usize)
    }

    pub fn parent(&self) -> Result<usize, Root> {
        self.parent.map(|node| node as usize)
    }

    /// Extends a zone with every operation on this value.
    pub fn extend(&self, zone: &mut Zone<Moment, usize>) {
        for read in &self.reads {
            zone.complete(read.completed, read.place);
            zone.invoke(read.invoked, read.place);
        }
        if let Some(writer) = self.writer() {
            zone.complete(self.completed, writer);
            zone.invoke(self.invoked, writer);
        }
    }
}

fn is_acknowledged(operation: &Operation) -> bool {
    operation.outcome == Outcome::Ok || (planted("register.fail-is-ok") && operation.outcome == Outcome::Fail)
}

/// The value that an operation wrote or was meant to write.
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

/// When an unacknowledged operation had read its value. If it completed, that counts instead of the report of the read, because
/// the completion may correct the value. The report carries no index, so it counts as the last of its nanosecond.
fn in_hand(operation: &Operation) -> Moment {
    if operation.completed.is_some() {
        return completed(operation);
    }
    let report = operation.phases.iter().filter(|stamp| stamp.phase == Phase::Read).last();
    report.map_or(NEVER, |stamp| (stamp.received, u64::MAX))
}

/// The earliest time at which a write can have taken effect, in nanoseconds of run time: its client's last stamp before it, or
/// its invocation.
pub(super) fn sent(operation: &Operation) -> u64 {
    let reports = operation.phases.iter().filter(|stamp| stamp.phase == Phase::BeforeWrite);
    let sent = reports.last().and_then(|stamp| u64::try_from(stamp.stamped?).ok());
    sent.map_or(operation.invoked, |sent| sent.max(operation.invoked))
}

/// The latest time at which a write can have taken effect, in nanoseconds of run time. This is its `written` stamp, else the time
/// the report of it was received, else its completion.
pub(super) fn effective(operation: &Operation) -> u64 {
    let report = operation.phase(Phase::Written);
    report
        .map(|stamp| stamp.stamped.and_then(|time| u64::try_from(time).ok()).unwrap_or(stamp.received))
        .or(operation.completed)
        .unwrap_or(operation.invoked)
}
