//! The one argument behind the checks of registers: every value is written once, so values put operations in order.
//!
//! The theory is in [`crate::value_graph`], whose lines are called chains here. If an indeterminate operation counts,
//! what it expected must have been there. Operations are in the order of invocation, so nothing is sorted.

use super::NONE;
use super::places::Places;
use super::{conflict, refusals};
use crate::history::{NEVER, Op, Outcome, Value};
use crate::value_graph::{Zone, clashes};
use crate::{Answer, Conflict};

/// The index of the initial value among the nodes.
pub(super) const INITIAL: u32 = 0;

/// What an operation does to a register, as far as chains are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It did not happen, or tells nothing.
    Nothing,
    Read(Value),
    /// It wrote this, whatever was there before.
    Write(Value),
    /// It replaced the first value with the second.
    Link(Value, Value),
    /// At some moment the register did not hold this value.
    Not(Value),
    /// It may have written anything, whatever was there before.
    Anything,
    /// The theory does not apply, with the reason.
    Outside(&'static str),
}

/// A value and what is known about it. Operations and values are indices here, [`NONE`] if absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub writer: u32,
    /// The value that replaced this one.
    pub next: u32,
    /// The read of this value that completed first, and when.
    pub first_read: u32,
    pub first_read_completed: u32,
    /// The read of this value that was invoked last.
    pub last_read: u32,
}

const UNSEEN: Node = Node { writer: NONE, next: NONE, first_read: NONE, first_read_completed: NEVER, last_read: NONE };

impl Node {
    pub(super) fn observed(&self) -> bool {
        self.first_read != NONE || self.next != NONE
    }
}

/// A chain, as other chains see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// The value that it starts with.
    pub root: u32,
    /// The zone of the initial value's chain starts at -1, and no operation is named for that.
    pub zone: Zone<i64, u32>,
}

/// Everything known about one key.
pub(super) struct Chains<'o, F> {
    pub ops: &'o [Op],
    meaning: F,
    places: Places,
    pub nodes: Vec<Node>,
    /// Indeterminate operations that may be links.
    indeterminate: Vec<u32>,
    /// Operations that may have written any value.
    anything: Vec<u32>,
    /// Values that such an operation must have written.
    gaps: Vec<u32>,
    /// Operations that tell what was not there, with that value.
    pub refusals: Vec<(u32, u32)>,
    /// How many values were replaced.
    links: u32,
    /// Operations that certainly happened and replaced a value after another one had.
    forks: Vec<u32>,
    /// Such operations, once resolved, each with the node that it replaced instead.
    parted: Vec<(u32, u32)>,
}

impl<'o, F: Fn(&Op) -> Meaning> Chains<'o, F> {
    /// Fails if the theory does not apply, and says why.
    pub(super) fn build(ops: &'o [Op], initial: Value, meaning: F) -> Result<Chains<'o, F>, String> {
        let places = Places::of(ops, initial, &meaning);
        let nodes = vec![UNSEEN; places.count()];
        let mut chains = Chains {
            ops,
            meaning,
            places,
            nodes,
            indeterminate: Vec::new(),
            anything: Vec::new(),
            gaps: Vec::new(),
            refusals: Vec::new(),
            links: 0,
            forks: Vec::new(),
            parted: Vec::new(),
        };
        for (place, op) in (0u32..).zip(ops) {
            match (chains.meaning)(op) {
                Meaning::Nothing => {}
                Meaning::Anything => chains.anything.push(place),
                Meaning::Not(value) => chains.refusals.push((place, chains.places.of_value(value))),
                Meaning::Outside(why) => return Err(format!("{why} (line {})", op.line)),
                Meaning::Read(value) => {
                    let value = chains.places.of_value(value);
                    let node = &mut chains.nodes[value as usize];
                    if node.first_read == NONE || op.completed < node.first_read_completed {
                        (node.first_read, node.first_read_completed) = (place, op.completed);
                    }
                    node.last_read = place;
                }
                Meaning::Write(value) => {
                    let value = chains.places.of_value(value);
                    chains.written(value, place)?;
                }
                Meaning::Link(from, to) if from == to => {
                    return Err(format!("an operation replaces a value with itself (line {})", op.line));
                }
                Meaning::Link(from, to) => {
                    let (from, to) = (chains.places.of_value(from), chains.places.of_value(to));
                    chains.written(to, place)?;
                    if op.outcome != Outcome::Ok {
                        chains.indeterminate.push(place);
                    } else if !chains.link(from, to) {
                        // Reported only once we know that no value was written twice.
                        chains.forks.push(place);
                    }
                }
            }
        }
        Ok(chains)
    }

    fn written(&mut self, value: u32, place: u32) -> Result<(), String> {
        let node = &mut self.nodes[value as usize];
        if value == INITIAL || node.writer != NONE {
            let what =
                if value == INITIAL { "the initial value was written again" } else { "a value was written twice" };
            return Err(format!("{what} (line {})", self.ops[place as usize].line));
        }
        node.writer = place;
        Ok(())
    }

    /// Links two values. False if another value has already replaced the first.
    fn link(&mut self, from: u32, to: u32) -> bool {
        let free = self.nodes[from as usize].next == NONE;
        if free {
            self.nodes[from as usize].next = to;
            self.links += 1;
        }
        free
    }

    /// Whether there is a legal order. Undecided only if compare-and-sets failed.
    pub(super) fn check(&mut self) -> Result<Answer, Conflict> {
        self.part_forks()?;
        self.count_the_indeterminate()?;
        self.fill_gaps();
        self.all_written()?;
        let blocks = self.walk()?;
        self.put_in_order(&blocks)?;
        refusals::check(self, blocks)
    }

    /// If a value was replaced twice, an operation that may have written anything must have written it again. To the
    /// chains that is another value, which nobody else wrote.
    fn part_forks(&mut self) -> Result<(), Conflict> {
        for second in std::mem::take(&mut self.forks) {
            // A refusal of the value would have to know of both occurrences.
            let may_part = !self.anything.is_empty() && self.refusals.is_empty();
            let Some((_, to)) = self.ends(second).filter(|_| may_part) else {
                return Err(conflict::fork(self, second));
            };
            self.parted.push((second, self.nodes.len() as u32));
            self.nodes.push(Node { next: to, ..UNSEEN });
            self.links += 1;
        }
        Ok(())
    }

    /// Links the indeterminate operations that were observed, and then those that they in turn observed.
    fn count_the_indeterminate(&mut self) -> Result<(), Conflict> {
        for place in std::mem::take(&mut self.indeterminate) {
            let mut place = place;
            while let Some((from, to)) = self.ends(place) {
                let linked = self.nodes[from as usize].next == to;
                if linked || !self.nodes[to as usize].observed() {
                    break;
                }
                if !self.link(from, to) {
                    return Err(conflict::fork(self, place));
                }
                // What was linked before this operation counted is now observed too.
                place = self.nodes[from as usize].writer;
                if place == NONE {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Assigns the values that nobody else wrote to operations that may have written anything.
    ///
    /// Those operations differ only in their invocation times, and a value only requires that its writer was invoked
    /// before its chain first completed. So the earliest operations go to the chains that complete first.
    fn fill_gaps(&mut self) {
        if self.anything.is_empty() {
            return;
        }
        let mut gaps: Vec<(u32, u32)> = Vec::new();
        for value in 1..self.nodes.len() as u32 {
            let node = &self.nodes[value as usize];
            if node.writer == NONE && node.observed() {
                let completed = self.values_from(value).map(|value| self.first_completed(value)).min();
                gaps.push((completed.unwrap_or(NEVER), value));
            }
        }
        gaps.sort_unstable();
        for ((completed, value), place) in gaps.into_iter().zip(std::mem::take(&mut self.anything)) {
            if self.ops[place as usize].invoked <= completed {
                self.nodes[value as usize].writer = place;
                self.gaps.push(value);
            }
        }
    }

    /// The values of a chain, starting at this one.
    pub(super) fn values_from(&self, value: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(value), |value| Some(self.nodes[*value as usize].next).filter(|next| *next != NONE))
    }

    /// When somebody who wrote or read the value first completed.
    pub(super) fn first_completed(&self, value: u32) -> u32 {
        let node = &self.nodes[value as usize];
        let written = if node.writer == NONE { NEVER } else { self.ops[node.writer as usize].happened_by() };
        written.min(node.first_read_completed)
    }

    fn all_written(&self) -> Result<(), Conflict> {
        let unwritten = |node: &Node| node.writer == NONE && node.observed();
        match self.nodes.iter().skip(1).position(unwritten) {
            None => Ok(()),
            Some(place) => Err(conflict::unwritten(self, place as u32 + 1)),
        }
    }

    /// Compares every chain with real time.
    fn walk(&self) -> Result<Vec<Block>, Conflict> {
        let mut blocks = Vec::new();
        let mut passed = 0;
        self.walk_from(INITIAL, &mut blocks, &mut passed)?;
        for value in &self.gaps {
            self.walk_from(*value, &mut blocks, &mut passed)?;
        }
        for op in self.ops {
            if let Meaning::Write(value) = (self.meaning)(op) {
                let value = self.places.of_value(value);
                if op.outcome == Outcome::Ok || self.nodes[value as usize].observed() {
                    self.walk_from(value, &mut blocks, &mut passed)?;
                }
            }
        }
        // A value on no chain with a beginning is on a cycle: it has one predecessor, which is on no such chain either.
        if passed < self.links { Err(conflict::circle(self)) } else { Ok(blocks) }
    }

    /// Walks one chain and adds its block; that of the initial value only if somebody observed it.
    fn walk_from(&self, root: u32, blocks: &mut Vec<Block>, passed: &mut u32) -> Result<(), Conflict> {
        let mut block = Block::empty(root);
        let mut value = root;
        loop {
            let node = &self.nodes[value as usize];
            if node.writer != NONE {
                let op = &self.ops[node.writer as usize];
                self.pass(&mut block, node.writer, op.happened_by())?;
                block.zone.invoke(op.invoked.into(), node.writer);
            }
            if node.first_read != NONE {
                self.pass(&mut block, node.first_read, node.first_read_completed)?;
                block.zone.invoke(self.ops[node.last_read as usize].invoked.into(), node.last_read);
            }
            if node.next == NONE {
                break;
            }
            *passed += 1;
            value = node.next;
        }
        if root == INITIAL {
            (block.zone.first, block.zone.first_by) = (-1, NONE);
        }
        if block.zone.last_by != NONE {
            blocks.push(block);
        }
        Ok(())
    }

    /// Compares one operation's completion with what precedes it on its chain.
    fn pass(&self, block: &mut Block, place: u32, completed: u32) -> Result<(), Conflict> {
        let completed = i64::from(completed);
        if completed < block.zone.last {
            return Err(conflict::inside(self, block.zone.last_by, place));
        }
        block.zone.complete(completed, place);
        Ok(())
    }

    /// Checks that the chains can follow one another.
    fn put_in_order(&self, blocks: &[Block]) -> Result<(), Conflict> {
        let mut ends_with = vec![NONE; self.ops.len()];
        for (number, block) in (0u32..).zip(blocks) {
            ends_with[block.zone.last_by as usize] = number;
        }
        let by_falling_end = ends_with.iter().rev().filter_map(|number| blocks.get(*number as usize));
        match clashes(by_falling_end, |block| &block.zone).next() {
            Some((block, later)) => Err(conflict::between(self, block, later)),
            None => Ok(()),
        }
    }

    /// The two values that a link connects.
    pub(super) fn ends(&self, place: u32) -> Option<(u32, u32)> {
        match (self.meaning)(&self.ops[place as usize]) {
            Meaning::Link(from, to) => {
                let parted = self.parted.binary_search_by_key(&place, |(place, _)| *place);
                let from = parted.map_or_else(|_| self.places.of_value(from), |at| self.parted[at].1);
                Some((from, self.places.of_value(to)))
            }
            _ => None,
        }
    }

    /// The value that the operation leaves in the register.
    pub(super) fn leaves(&self, place: u32) -> u32 {
        match (self.meaning)(&self.ops[place as usize]) {
            Meaning::Read(value) | Meaning::Write(value) | Meaning::Link(_, value) => self.places.of_value(value),
            Meaning::Nothing | Meaning::Not(_) | Meaning::Anything | Meaning::Outside(_) => NONE,
        }
    }
}

impl Block {
    /// A chain of which only the start is known.
    pub(super) fn empty(root: u32) -> Block {
        Block { root, zone: Zone::empty(-1, i64::MAX, NONE) }
    }
}
