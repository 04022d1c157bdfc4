//! The one argument behind the checks of registers: every value is written once, so values order operations.
//!
//! [`Chains`] collects the facts in the operations. This module decides the questions that they leave open, and compares the
//! result with real time.

use super::NONE;
use super::chain::{ChainBlock, ChainValue, INITIAL, Meaning, UNSEEN};
use super::chains::Chains;
use super::{conflict, refusals};
use crate::history::{NEVER, Op, Outcome};
use crate::value_graph::clashes;
use crate::{Answer, Conflict};

impl<F: Fn(&Op) -> Meaning> Chains<'_, F> {
    /// Finds out if there is a legal order. Undecided only if compare-and-sets failed.
    pub(super) fn check(&mut self) -> Result<Answer, Conflict> {
        self.part_forks()?;
        self.count_the_indeterminate()?;
        self.fill_gaps();
        self.all_written()?;
        let blocks = self.walk()?;
        self.put_in_order(&blocks)?;
        refusals::check(self, blocks)
    }

    /// If a value was replaced twice, an operation that may have written any value must have written it again. The chains treat
    /// that as another value, which no other operation wrote.
    fn part_forks(&mut self) -> Result<(), Conflict> {
        for second in std::mem::take(&mut self.forks) {
            // A refusal of the value would have to consider both occurrences.
            let may_part = !self.anything.is_empty() && self.refusals.is_empty();
            let Some((_, to)) = self.ends(second).filter(|_| may_part) else {
                return Err(conflict::fork(self, second));
            };
            self.parted.push((second, self.nodes.len() as u32));
            self.nodes.push(ChainValue { next: to, ..UNSEEN });
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
                // The operations linked before this one counted are now observed too.
                place = self.nodes[from as usize].writer;
                if place == NONE {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Assigns the values without a writer to operations that may have written any value.
    ///
    /// These operations differ only in their invocation times, and a value only requires that its writer was invoked before its
    /// chain first completed. So the earliest operations go to the chains that complete first.
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

    fn all_written(&self) -> Result<(), Conflict> {
        let unwritten = |node: &ChainValue| node.writer == NONE && node.observed();
        match self.nodes.iter().skip(1).position(unwritten) {
            None => Ok(()),
            Some(place) => Err(conflict::unwritten(self, place as u32 + 1)),
        }
    }

    /// Compares every chain with real time.
    fn walk(&self) -> Result<Vec<ChainBlock>, Conflict> {
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

    /// Walks one chain and adds its block. The initial value's block is added only if an operation observed it.
    fn walk_from(&self, root: u32, blocks: &mut Vec<ChainBlock>, passed: &mut u32) -> Result<(), Conflict> {
        let mut block = ChainBlock::empty(root);
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

    /// Compares one operation's completion with the operations before it on its chain.
    fn pass(&self, block: &mut ChainBlock, place: u32, completed: u32) -> Result<(), Conflict> {
        let completed = i64::from(completed);
        if completed < block.zone.last {
            return Err(conflict::inside(self, block.zone.last_by, place));
        }
        block.zone.complete(completed, place);
        Ok(())
    }

    /// Checks that the chains can follow one another.
    fn put_in_order(&self, blocks: &[ChainBlock]) -> Result<(), Conflict> {
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
}
