//! All values of one key and the operations that connect them, as far as they are known.
//!
//! The theory is in [`crate::value_graph`], whose lines are called chains here. If an indeterminate operation counts, the value
//! that it expected must have been there. Operations are in the order of invocation, so nothing is sorted.

use super::NONE;
use super::chain::{ChainValue, INITIAL, Meaning, UNSEEN};
use super::places::Places;
use crate::history::{NEVER, Op, Outcome, Value};

/// Everything known about one key.
pub(super) struct Chains<'o, F> {
    pub ops: &'o [Op],
    pub meaning: F,
    pub places: Places,
    pub nodes: Vec<ChainValue>,
    /// Indeterminate operations that may be links.
    pub indeterminate: Vec<u32>,
    /// Operations that may have written any value.
    pub anything: Vec<u32>,
    /// Values that such an operation must have written.
    pub gaps: Vec<u32>,
    /// Operations that prove that a value was not there, each with that value.
    pub refusals: Vec<(u32, u32)>,
    /// The number of values that were replaced.
    pub links: u32,
    /// Operations that certainly happened and replaced a value that another operation had also replaced.
    pub forks: Vec<u32>,
    /// These operations, once resolved, each with the node that it replaced instead.
    pub parted: Vec<(u32, u32)>,
}

impl<'o, F: Fn(&Op) -> Meaning> Chains<'o, F> {
    /// Fails with a reason if the theory does not apply.
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
    pub(super) fn link(&mut self, from: u32, to: u32) -> bool {
        let free = self.nodes[from as usize].next == NONE;
        if free {
            self.nodes[from as usize].next = to;
            self.links += 1;
        }
        free
    }

    /// The values of a chain, starting at this one.
    pub(super) fn values_from(&self, value: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(value), |value| Some(self.nodes[*value as usize].next).filter(|next| *next != NONE))
    }

    /// The first completion of an operation that wrote or read the value.
    pub(super) fn first_completed(&self, value: u32) -> u32 {
        let node = &self.nodes[value as usize];
        let written = if node.writer == NONE { NEVER } else { self.ops[node.writer as usize].happened_by() };
        written.min(node.first_read_completed)
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
