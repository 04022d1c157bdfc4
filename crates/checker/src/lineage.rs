//! Which values does the register's last value descend from, and which acknowledged updates are certainly not among them?
//!
//! Every tree of values is cut into lines. A line runs from a root, or from a branch that did not survive, down to a leaf. The
//! line that holds the final value survives; its branches are lost. The final value is the value that the controller read after
//! every acknowledged update. Without such a read it is the value that the operation that completed last read or wrote.
//!
//! Any other tree begins with a write, or with an indeterminate operation whose read value is unknown. So it may have come
//! earlier in the lineage of the final value, but at most one path through it can have. The path with the most acknowledged
//! updates gets the benefit of the doubt, unless real time rules it out ([`doomed`]). So the count of lost updates is a lower
//! bound if such operations exist, and exact otherwise.

use linearizability::value_graph::Zone;

use super::register::{EMPTY, KeyValues, Moment, NEVER, Root, completed, effective, invoked};
use base::mutants::planted;
use model::history::{Function, Outcome, Process};

/// The lines of one register.
pub(super) struct Lineage {
    pub lines: Vec<Line>,
    /// The operation whose reading counts as the final value, and the node that it saw.
    pub last: Option<Last>,
    /// Nodes found to be rolled back. Later comparisons leave them out.
    pub gone: Vec<bool>,
    /// For each node, its line and its index on that line.
    place: Vec<(u32, u32)>,
}

/// The register's last known value.
#[derive(Clone, Copy)]
pub(super) struct Last {
    pub operation: usize,
    pub node: usize,
    /// True if the controller read it after every acknowledged update.
    pub is_final: bool,
}

/// Values that followed one another.
pub(super) struct Line {
    pub nodes: Vec<usize>,
    /// For each node, the latest time at which it or an earlier node of the line took effect.
    effects: Vec<u64>,
    pub kind: LineKind,
    /// Acknowledged updates on this line that cannot be in the lineage of the final value, as nodes.
    pub lost: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// It begins at the root of its tree.
    Main(Root),
    /// It branches off another line after this node.
    Branch { parent: usize },
}

impl Lineage {
    /// Decides which updates survived. `places` are the indices of the key's operations in the history. Linear in their number.
    pub fn new(register: &KeyValues, places: &[usize]) -> Lineage {
        let last = last_value(register, places);
        let doomed = doomed(register, last);
        let next = choose_survivors(register, last, &doomed);
        let nodes = register.nodes.len();
        let mut lineage = Lineage { lines: Vec::new(), last, gone: vec![false; nodes], place: vec![(0, 0); nodes] };
        for &head in &register.order {
            let kind = match register.nodes[head].parent() {
                Ok(parent) if next[parent] == Some(head as u32) => continue,
                Ok(parent) => LineKind::Branch { parent },
                Err(root) => LineKind::Main(root),
            };
            lineage.add_line(register, head, kind, &next, &doomed);
        }
        lineage
    }

    fn add_line(&mut self, register: &KeyValues, head: usize, kind: LineKind, next: &[Option<u32>], doomed: &[bool]) {
        let mut line = Line { nodes: Vec::new(), effects: Vec::new(), kind, lost: Vec::new() };
        let mut node = Some(head);
        let mut latest = 0;
        while let Some(here) = node {
            self.place[here] = (self.lines.len() as u32, line.nodes.len() as u32);
            if let Some(writer) = register.nodes[here].writer() {
                latest = latest.max(effective(&register.operations[writer]));
            }
            if register.nodes[here].acknowledged && (doomed[here] || matches!(kind, LineKind::Branch { .. })) {
                line.lost.push(here);
            }
            line.nodes.push(here);
            line.effects.push(latest);
            node = next[here].map(|node| node as usize);
        }
        self.lines.push(line);
    }

    /// The next node on this node's line.
    pub fn next(&self, node: usize) -> Option<usize> {
        let (line, place) = self.place_of(node);
        self.lines[line].nodes.get(place + 1).copied()
    }

    /// The first node of a line, from this node on, whose write took effect after `time`.
    pub fn first_after(&self, from: usize, time: u64) -> Option<usize> {
        let (line, place) = self.place_of(from);
        let line = &self.lines[line];
        let later = line.effects.partition_point(|&effect| effect <= time);
        line.nodes.get(later.max(place)).copied()
    }

    /// This node and those after it on its line.
    pub fn from(&self, node: usize) -> &[usize] {
        let (line, place) = self.place_of(node);
        &self.lines[line].nodes[place..]
    }

    /// The first node of this node's line.
    pub fn head(&self, node: usize) -> usize {
        self.lines[self.place_of(node).0].nodes[0]
    }

    fn place_of(&self, node: usize) -> (usize, usize) {
        let (line, place) = self.place[node];
        (line as usize, place as usize)
    }
}

fn last_value(register: &KeyValues, places: &[usize]) -> Option<Last> {
    let operation = |place: usize| &register.operations[place];
    let acknowledged = places.iter().filter(|&&place| operation(place).outcome == Outcome::Ok);
    let updated = acknowledged.clone().filter(|&&place| operation(place).f.writes());
    let updates_over = updated.map(|&place| completed(operation(place))).max().unwrap_or_default();
    let read = acknowledged.clone().rfind(|&&place| {
        let read = operation(place);
        let is_of_controller = read.process == Process::Controller && !planted("lineage.final-read");
        is_of_controller && read.f == Function::Read && invoked(read) > updates_over
    });
    if let Some(&place) = read
        && let Some(node) = register.node_of(&operation(place).old)
    {
        return Some(Last { operation: place, node, is_final: true });
    }
    let place = *acknowledged.max_by_key(|&&place| completed(operation(place)))?;
    let node = match (operation(place).f, &operation(place).new) {
        (f, Some(new)) if f.writes() => register.node_of_value(new),
        _ => register.node_of(&operation(place).old),
    };
    Some(Last { operation: place, node: node?, is_final: false })
}

/// Acknowledged updates of other trees that can come neither before nor after the lineage of the last value.
///
/// A lineage is contiguous: any other operation comes before all of it or after all of it. It can't come after if it
/// completed before a part of the lineage was invoked. It can't come before if the lineage begins at the empty
/// register, or if a part of the lineage completed before the operation was invoked.
fn doomed(register: &KeyValues, last: Option<Last>) -> Vec<bool> {
    let mut doomed = vec![false; register.nodes.len()];
    // Writes may hide losses, so the last value is just one of many observations; `rollback` weighs them all.
    let Some(last) = last.filter(|_| !register.has_writes) else { return doomed };
    let mut on_path = vec![false; register.nodes.len()];
    let mut lineage = Zone::empty((0, 0), NEVER, usize::MAX);
    let mut node = last.node;
    let root = loop {
        on_path[node] = true;
        register.nodes[node].extend(&mut lineage);
        match register.nodes[node].parent() {
            Ok(parent) => node = parent,
            Err(root) => break root,
        }
    };
    let mut in_tree = vec![false; register.nodes.len()];
    for &node in &register.order {
        let here = &register.nodes[node];
        in_tree[node] = here.parent().map_or(on_path[node], |parent| in_tree[parent]);
        // Parts of a node may have been discounted as evidence of order, but its acknowledgement is a fact.
        let over = here.writer().map_or(NEVER, |writer| completed(&register.operations[writer]));
        let too_early = over < lineage.last;
        let too_late = root == Root::Empty || lineage.first < here.invoked;
        doomed[node] = !in_tree[node] && here.acknowledged && too_early && too_late;
    }
    doomed
}

/// For each node, the child with which its line continues.
fn choose_survivors(register: &KeyValues, last: Option<Last>, doomed: &[bool]) -> Vec<Option<u32>> {
    let mut next: Vec<Option<u32>> = vec![None; register.nodes.len()];
    // How many updates the best path below a node keeps. Between equal paths, the node with the latest time decides.
    let mut best = vec![(0u32, EMPTY as u32); register.nodes.len()];
    let own = |node: u32| {
        let here = &register.nodes[node as usize];
        if here.acknowledged { here.completed } else { here.invoked }
    };
    // If a write may have hidden either of two branches, the branch that was seen last is assumed to have survived.
    let mut seen = vec![(0, 0); if register.has_writes { register.nodes.len() } else { 0 }];
    let seen_last = |seen: &[Moment], node: usize| seen.get(node).copied().unwrap_or_default();
    for &node in register.order.iter().rev() {
        let here = &register.nodes[node];
        let reads = here.reads.iter().map(|read| read.invoked);
        if register.has_writes {
            let below = here.children.iter().map(|&child| seen[child]);
            seen[node] = reads.chain(below).fold(here.invoked, Moment::max);
        }
        let child = here
            .children
            .iter()
            .copied()
            .max_by_key(|&child| (seen_last(&seen, child), best[child].0, own(best[child].1)));
        let (kept, latest) = child.map_or((0, node as u32), |child| best[child]);
        let latest = if own(latest) > own(node as u32) { latest } else { node as u32 };
        best[node] = (kept + u32::from(here.acknowledged && !doomed[node]), latest);
        next[node] = child.map(|child| child as u32);
    }
    let Some(last) = last else { return next };
    // No acknowledged update may follow the value of the final read.
    if last.is_final && next[last.node].is_some_and(|child| best[child as usize].0 > 0) {
        next[last.node] = None;
    }
    let mut node = last.node;
    while let Ok(parent) = register.nodes[node].parent() {
        next[parent] = Some(node as u32);
        node = parent;
    }
    next
}
