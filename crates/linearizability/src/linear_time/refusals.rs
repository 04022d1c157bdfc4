//! Compare-and-sets that failed and count: at some time between invocation and return the value was not there.
//!
//! **In one order of the chains** (see the module `chains`) the values follow one another. Value k is there from its write, t(k),
//! to t(k+1). t(k) lies after the invocations of its writer and all earlier operations, and before the completions of its writer,
//! its reads and all later operations. A refusal of value k from i to c requires t(k) > i or t(k+1) < c. The later t(k), the
//! fewer refusals constrain t(k+1), which may follow at once: so the latest t(k) is best for all later values. Walking the values
//! this way decides in linear time whether this order works.
//!
//! **Which order.** By the greater of f and s of each chain: if f(A) < s(B), so that A must come before B, then the same holds of
//! these maxima, since B need not come before A. So each chain comes as late as it can. If a refusal needs a value sooner, a
//! later chain that had begun is moved forward, or an unobserved indeterminate operation is used. An order found this way proves
//! that one exists.
//!
//! **No order** is proved by a chain alone. Its own operations bound t(k) whatever the order of the chains, and also the chain's
//! end if no other chain can follow in time. If neither is proved, the answer is undecided.

use super::NONE;
use super::chain::{ChainBlock, INITIAL, Meaning};
use super::chains::Chains;
use super::conflict::{self, Trace};
use crate::history::{Op, Outcome};
use crate::value_graph::Zone;
use crate::{Answer, Conflict};

/// The current value, the latest time at which it can appear, and the invocation after which another can follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub value: u32,
    pub latest: i64,
    pub begun: i64,
}

struct RefusedOperation {
    value: u32,
    invoked: u32,
    /// Among this and the later refusals of the same value, the one that completed first, and its completion.
    first: u32,
    completed: u32,
}

/// An operation that need not have happened, and can be placed between chains.
#[derive(Clone, Copy)]
struct Optional {
    /// The value that it replaces; [`NONE`] if it replaces any.
    from: u32,
    place: u32,
    value: u32,
}

/// If another chain must come sooner, how many of the next chains are tried, and the limit on all tries together.
const TRIED: usize = 256;
const TRIED_IN_ALL: usize = 100_000;

/// Finds out if the chains, which can be ordered, have an order that explains all refusals.
pub(super) fn check<F: Fn(&Op) -> Meaning>(
    chains: &Chains<F>,
    mut blocks: Vec<ChainBlock>,
) -> Result<Answer, Conflict> {
    if chains.refusals.is_empty() {
        return Ok(Answer::Linearizable);
    }
    if blocks.first().is_none_or(|block| block.root != INITIAL) {
        // No operation observed the initial value, but it was there.
        blocks.insert(0, ChainBlock { root: INITIAL, zone: Zone::empty(-1, -1, NONE) });
    }
    let line = ChainTimeline::new(chains, &blocks);
    let mut ends = Vec::with_capacity(blocks.len());
    for block in &blocks {
        ends.push(line.alone(block)?);
    }
    let mut sequence = Sequence::new(&line, &blocks, ends[0]);
    if sequence.run() {
        return Ok(Answer::Linearizable);
    }
    sequence.nothing_follows(&ends)?;
    Ok(Answer::Undecided("several compare-and-sets that failed depend on the order of other operations".into()))
}

/// The facts that each chain determines alone.
pub(super) struct ChainTimeline<'c, 'o, F> {
    chains: &'c Chains<'o, F>,
    /// Sorted by value, then by invocation.
    refusals: Vec<RefusedOperation>,
    /// The first refusal of each value.
    refused: Vec<u32>,
    /// For each value, the earliest completion of it and of the later values on its chain.
    done: Vec<u32>,
}

impl<'c, 'o, F: Fn(&Op) -> Meaning> ChainTimeline<'c, 'o, F> {
    fn new(chains: &'c Chains<'o, F>, blocks: &[ChainBlock]) -> Self {
        let mut by_value: Vec<(u32, u32)> = chains.refusals.iter().map(|(place, value)| (*value, *place)).collect();
        by_value.sort_unstable();
        let mut refused = vec![NONE; chains.nodes.len()];
        let mut refusals: Vec<RefusedOperation> = Vec::with_capacity(by_value.len());
        for (value, place) in by_value.into_iter().rev() {
            let op = &chains.ops[place as usize];
            let (mut first, mut completed) = (place, op.completed);
            if let Some(later) = refusals.last().filter(|later| later.value == value && later.completed < completed) {
                (first, completed) = (later.first, later.completed);
            }
            refusals.push(RefusedOperation { value, invoked: op.invoked, first, completed });
        }
        refusals.reverse();
        for (place, refusal) in refusals.iter().enumerate().rev() {
            refused[refusal.value as usize] = place as u32;
        }
        let mut done = vec![0; chains.nodes.len()];
        let mut values = Vec::new();
        for block in blocks {
            values.extend(chains.values_from(block.root));
            let mut least = u32::MAX;
            for value in values.drain(..).rev() {
                least = least.min(chains.first_completed(value));
                done[value as usize] = least;
            }
        }
        ChainTimeline { chains, refusals, refused, done }
    }

    /// When the value must be gone because of refusals that began after it came, and the refusal that requires it.
    fn deadline(&self, at: Reach) -> Option<(u32, u32)> {
        let from = self.refused[at.value as usize];
        let refusals = self.refusals.get(from as usize..)?;
        let over = |refusal: &RefusedOperation| refusal.value == at.value && i64::from(refusal.invoked) <= at.latest;
        let next = refusals.get(refusals.partition_point(over)).filter(|next| next.value == at.value)?;
        Some((next.completed, next.first))
    }

    fn invoked(&self, place: u32) -> i64 {
        self.chains.ops.get(place as usize).map_or(-1, |op| op.invoked.into())
    }

    /// A value at the beginning of a chain.
    fn begin(&self, root: u32) -> Reach {
        let node = &self.chains.nodes[root as usize];
        let latest = if root == INITIAL { -1 } else { self.done[root as usize].into() };
        Reach { value: root, latest, begun: self.invoked(node.writer).max(self.invoked(node.last_read)) }
    }

    /// The next value, which must be there before `limit`. None if it comes too late.
    fn follow(&self, at: Reach, value: u32, limit: i64) -> Option<Reach> {
        let node = &self.chains.nodes[value as usize];
        let deadline = self.deadline(at).map_or(i64::MAX, |(completed, _)| completed.into());
        let latest = limit.min(deadline).min(self.done[value as usize].into());
        let begun = at.begun.max(self.invoked(node.writer));
        (begun <= latest).then(|| Reach { value, latest, begun: begun.max(self.invoked(node.last_read)) })
    }

    /// Walks a whole chain.
    fn follow_all(&self, at: Reach, root: u32, limit: i64) -> Option<Reach> {
        self.chains.values_from(root).try_fold(at, |at, value| self.follow(at, value, limit))
    }

    /// Walks a chain as if there were no others: the result is valid in every order.
    fn alone(&self, block: &ChainBlock) -> Result<Reach, Conflict> {
        let mut at = self.begin(block.root);
        for value in self.chains.values_from(block.root).skip(1) {
            match self.follow(at, value, i64::MAX) {
                Some(next) => at = next,
                None => return Err(conflict::refused(self.chains, &self.trace(block.root, value))),
            }
        }
        match self.deadline(at) {
            Some((completed, _)) if i64::from(completed) < at.begun => {
                Err(conflict::refused(self.chains, &self.trace(block.root, NONE)))
            }
            _ => Ok(at),
        }
    }

    /// Returns the refusals that bound the values of a chain, up to the value `late` ([`NONE`]: the value after the chain).
    fn trace(&self, root: u32, late: u32) -> Trace {
        let mut at = self.begin(root);
        let mut trace = Trace { from: root, late, last: root, refusals: Vec::new() };
        for value in self.chains.values_from(root).skip(1).chain([NONE]) {
            trace.last = at.value;
            match self.deadline(at) {
                Some((_, by)) if value == late => {
                    trace.refusals.push(by);
                    break;
                }
                Some((completed, by)) if completed < self.done[value as usize] => trace.refusals.push(by),
                // Its own operations constrain this value more.
                _ => (trace.from, trace.refusals) = (value, Vec::new()),
            }
            match self.follow(at, value, i64::MAX) {
                Some(next) => at = next,
                None => break,
            }
        }
        trace
    }
}

/// The chains in sequence.
struct Sequence<'l, 'b, 'c, 'o, F> {
    line: &'l ChainTimeline<'c, 'o, F>,
    blocks: &'b [ChainBlock],
    at: Reach,
    /// The chains, without the initial one, by the greater of f and s.
    order: Vec<u32>,
    /// The same by f, and the index up to which all are placed.
    by_first: Vec<u32>,
    all_placed: usize,
    placed: Vec<bool>,
    /// Operations that replace any value, in the order of their invocations; then the others, by the value that they replace.
    optional: Vec<Optional>,
    links: Vec<Optional>,
    used: usize,
    tried: usize,
}

impl<'l, 'b, 'c, 'o, F: Fn(&Op) -> Meaning> Sequence<'l, 'b, 'c, 'o, F> {
    fn new(line: &'l ChainTimeline<'c, 'o, F>, blocks: &'b [ChainBlock], at: Reach) -> Self {
        let mut order: Vec<u32> = (1..blocks.len() as u32).collect();
        let mut by_first = order.clone();
        order.sort_by_key(|number| blocks[*number as usize].ends());
        by_first.sort_by_key(|number| blocks[*number as usize].zone.first);
        let placed = vec![false; blocks.len()];
        let (mut optional, mut links) = (Vec::new(), Vec::new());
        let unseen = line.chains.indeterminate_unseen();
        for (place, from, value) in unseen {
            let op = Optional { from, place, value };
            if from == NONE { optional.push(op) } else { links.push(op) }
        }
        links.sort_by_key(|op: &Optional| op.from);
        Sequence { line, blocks, at, order, by_first, all_placed: 0, placed, optional, links, used: 0, tried: 0 }
    }

    /// Puts all chains in sequence. False if it gets stuck.
    fn run(&mut self) -> bool {
        for next in 0..self.order.len() {
            let number = self.order[next] as usize;
            while !self.placed[number] {
                self.placed[number] = true;
                if let Some(at) = self.enter(self.at, number) {
                    self.at = at;
                } else {
                    self.placed[number] = false;
                    if !self.put_before(next) {
                        return false;
                    }
                }
                while self.by_first.get(self.all_placed).is_some_and(|number| self.placed[*number as usize]) {
                    self.all_placed += 1;
                }
            }
        }
        while self.line.deadline(self.at).is_some() {
            let Some(at) = self.optional(|_, _| true) else { return false };
            self.at = at;
        }
        true
    }

    /// The earliest completion in the remaining chains.
    fn rest(&self) -> i64 {
        let left = self.by_first[self.all_placed..].iter().find(|number| !self.placed[**number as usize]);
        left.map_or(i64::MAX, |number| self.blocks[*number as usize].zone.first)
    }

    /// Enters a chain, which then no longer counts as remaining.
    fn enter(&self, at: Reach, number: usize) -> Option<Reach> {
        let (block, rest) = (&self.blocks[number], self.rest());
        if block.zone.last > rest {
            return None;
        }
        self.line.follow_all(at, block.root, rest)
    }

    /// Puts another chain or operation before a chain that comes too late.
    fn put_before(&mut self, next: usize) -> bool {
        let late = self.order[next] as usize;
        for place in next + 1..self.order.len().min(next + TRIED) {
            let number = self.order[place] as usize;
            if self.placed[number] {
                continue;
            }
            self.tried += 1;
            if self.tried > TRIED_IN_ALL {
                return false;
            }
            self.placed[number] = true;
            if let Some(at) = self.enter(self.at, number) {
                self.placed[late] = true;
                let fits = self.enter(at, late).is_some();
                self.placed[late] = false;
                if fits {
                    self.at = at;
                    return true;
                }
            }
            self.placed[number] = false;
        }
        let found = self.optional(|sequence, at| {
            sequence.placed[late] = true;
            let fits = sequence.enter(at, late).is_some();
            sequence.placed[late] = false;
            fits
        });
        self.at = found.unwrap_or(self.at);
        found.is_some()
    }

    /// The value after an optional operation that passes the test.
    fn optional(&mut self, will_do: impl Fn(&mut Self, Reach) -> bool) -> Option<Reach> {
        let here = self.at.value;
        let from = self.links.partition_point(|op| op.from < here);
        let link = self.links.get(from).filter(|op| op.from == here).copied();
        for (op, any) in [(link, false), (self.optional.get(self.used).copied(), true)] {
            let Some(op) = op else { continue };
            let Some(at) = self.line.follow_one(self.at, op, self.rest()) else { continue };
            if will_do(self, at) {
                self.used += usize::from(any);
                return Some(at);
            }
        }
        None
    }

    /// Fails if a chain's last value must be gone and no other value could replace it in time.
    fn nothing_follows(&self, ends: &[Reach]) -> Result<(), Conflict> {
        let line = self.line;
        let firsts: Vec<i64> = self.by_first.iter().map(|number| self.blocks[*number as usize].zone.first).collect();
        let invoked = |value: u32| line.invoked(line.chains.nodes[value as usize].writer);
        let mut begins: Vec<i64> = self.blocks[1..].iter().map(|block| invoked(block.root)).collect();
        begins.sort_unstable();
        for (block, end) in self.blocks.iter().zip(ends) {
            let Some((deadline, _)) = line.deadline(*end) else { continue };
            let deadline = i64::from(deadline);
            // Chains that must come before are among those that begin in time.
            let begun = begins.partition_point(|begin| *begin <= deadline);
            let before = firsts.partition_point(|first| *first < block.zone.last);
            let itself = block.root != INITIAL && !block.zone.is_forward();
            let in_time = |op: &Optional| line.invoked(op.place) <= deadline;
            let optional =
                self.optional.iter().any(in_time) || self.links.iter().any(|op| op.from == end.value && in_time(op));
            if begun <= before + usize::from(itself) && !optional {
                return Err(conflict::refused(line.chains, &line.trace(block.root, NONE)));
            }
        }
        Ok(())
    }
}

impl<F: Fn(&Op) -> Meaning> ChainTimeline<'_, '_, F> {
    fn follow_one(&self, at: Reach, op: Optional, limit: i64) -> Option<Reach> {
        let deadline = self.deadline(at).map_or(i64::MAX, |(completed, _)| completed.into());
        let (begun, latest) = (at.begun.max(self.invoked(op.place)), limit.min(deadline));
        (begun <= latest).then_some(Reach { value: op.value, latest, begun })
    }
}

impl ChainBlock {
    fn ends(&self) -> i64 {
        self.zone.first.max(self.zone.last)
    }
}

impl<F: Fn(&Op) -> Meaning> Chains<'_, F> {
    /// Indeterminate operations that no operation observed: the index, the value that it replaces ([`NONE`] for any), and the
    /// value that it writes.
    fn indeterminate_unseen(&self) -> Vec<(u32, u32, u32)> {
        let ops = (0u32..).zip(self.ops).filter(|(_, op)| op.outcome == Outcome::Info);
        let unseen = ops.filter_map(|(place, _)| {
            let value = self.leaves(place);
            let node = self.nodes.get(value as usize).filter(|node| node.writer == place && !node.observed())?;
            debug_assert_eq!(node.next, NONE);
            Some((place, self.ends(place).map_or(NONE, |(from, _)| from), value))
        });
        unseen.collect()
    }
}
