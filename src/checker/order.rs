//! Whether the order that the values dictate agrees with real time.
//!
//! **On one line** the order of the operations is given: each write, then the reads of its value, then the next write. It
//! agrees with real time iff no operation completed before an earlier one of the line was invoked.
//!
//! **Between lines**: nothing fits inside a line, because values are unique and do not come back, so whole lines (blocks) are put
//! in order. Block A must come before block B iff something in A completed before something in B was invoked, that is
//! iff f(A) < s(B) with f the least completion and s the greatest invocation (Gibbons and Korach, 1997, over chains
//! instead of single writes). The block of the empty register comes first. The others may stand in any order, since a block
//! begins with an operation of which nobody knows what it read.
//!
//! An order exists iff no two blocks must each precede the other. Of a longer circle, take the block M with the
//! greatest s. Every block X of the circle precedes a next one, so f(X) < s(next) <= s(M): X must precede M. M itself
//! must precede its own next, N; and N is such an X. So M and N are a circle of two.

use std::collections::BTreeMap;

use super::lineage::{LineKind, Lineage};
use super::register::{Moment, NEVER, Observation, Register, Root, completed};
use super::verdict::{Anomaly, AnomalyKind};
use super::words::{Words, reading, seconds};
use crate::history::Outcome;

/// An operation at a moment that matters.
type Witness = (Moment, usize);

const NOBODY: Witness = (NEVER, usize::MAX);

/// Finds reads of values that could not be there. Sorts the readers of one value; linear otherwise.
///
/// Takes these readers' completions out of later comparisons, so that one cause is reported once.
pub(super) fn impossible_reads(register: &mut Register, words: Words) -> Vec<Anomaly> {
    let mut found = Vec::new();
    for (node, failed) in std::mem::take(&mut register.from_nowhere) {
        found.push(impossible_read(register, node, failed, |_| true, words));
    }
    for node in 0..register.nodes.len() {
        let Some(writer) = register.nodes[node].writer else { continue };
        let written_from = register.nodes[node].invoked;
        let children = register.nodes[node].children.iter();
        let reads = register.nodes[node].reads.iter();
        let too_early = children.map(|&child| register.nodes[child].completed).any(|done| done < written_from)
            || reads.map(|read| read.completed).any(|done| done < written_from);
        if too_early {
            found.push(impossible_read(register, node, Some(writer), |done| done < written_from, words));
        }
    }
    for circle in std::mem::take(&mut register.circles) {
        found.push(circular_reads(register, &circle, words));
    }
    found
}

/// One anomaly for all readers of one value, and the end of what their completions prove.
fn impossible_read(
    register: &mut Register,
    node: usize,
    writer: Option<usize>,
    concerns: impl Fn(Moment) -> bool,
    words: Words,
) -> Anomaly {
    let mut readers: Vec<Witness> = Vec::new();
    for child in register.nodes[node].children.clone() {
        let child = &mut register.nodes[child];
        if let Some(place) = child.writer.filter(|_| child.acknowledged && concerns(child.completed)) {
            readers.push((std::mem::replace(&mut child.completed, NEVER), place));
        }
    }
    for read in &mut register.nodes[node].reads {
        if concerns(read.completed) {
            readers.push((std::mem::replace(&mut read.completed, NEVER), read.place));
        }
    }
    readers.sort();
    let places: Vec<usize> = readers.iter().map(|&(_, place)| place).collect();
    let read = format!("{} read {}", words.clients(places.iter().copied()), seen(register, places[0]));
    let summary = match writer.map(|place| (place, &register.operations[place])) {
        None => format!("{read}, a value that nobody was ever asked to write to {}", register.key),
        Some((place, operation)) if operation.outcome == Outcome::Fail => {
            format!("{read}, although {} had reported that its write of that value failed", words.client(place))
        }
        Some((place, operation)) => {
            let began = seconds(operation.invoked);
            format!(
                "{read} by {}, before {} began to write it at {began}",
                seconds(readers[0].0.0),
                words.client(place)
            )
        }
    };
    let time = match readers[0].0 {
        NEVER => register.operations[places[0]].invoked,
        (time, _) => time,
    };
    let writer = writer.filter(|writer| !places.contains(writer));
    anomaly(register, AnomalyKind::ImpossibleRead, time, places.into_iter().chain(writer).collect(), summary)
}

fn circular_reads(register: &Register, circle: &[usize], words: Words) -> Anomaly {
    let places: Vec<usize> = circle.iter().filter_map(|&node| register.nodes[node].writer).collect();
    let time = places.iter().map(|&place| latest_known(register, place)).max().unwrap_or(0);
    if let &[place] = places.as_slice() {
        let summary = format!("{} read {} before writing it", words.client(place), seen(register, place));
        return anomaly(register, AnomalyKind::ImpossibleRead, time, places, summary);
    }
    let summary = format!(
        "the writes of {} to {} each follow from the other: there is no first",
        words.new_values(&places),
        register.key
    );
    anomaly(register, AnomalyKind::OrderViolation, time, places, summary)
}

/// Compares every line with real time, then the lines with each other. Sorts the lines; linear otherwise.
pub(super) fn check(register: &Register, lineage: &Lineage, words: Words) -> Vec<Anomaly> {
    let mut found = Vec::new();
    for line in &lineage.lines {
        let nodes: Vec<usize> = line.nodes.iter().copied().filter(|&node| !lineage.gone[node]).collect();
        check_line(register, &nodes, words, &mut found);
    }
    check_blocks(register, lineage, words, &mut found);
    found
}

/// Walks a line from its end with the operation of the later ones that completed first.
fn check_line(register: &Register, line: &[usize], words: Words, found: &mut Vec<Anomaly>) {
    let mut later = NOBODY;
    for (place, &node) in line.iter().enumerate().rev() {
        let here = &register.nodes[node];
        // What a writer read is part of its node, and checked there.
        for read in here.reads.iter().filter(|read| !read.by_writer && later.0 < read.invoked) {
            let replaced = line.get(place + 1).map(|&next| &register.nodes[next]);
            let replaced = replaced.filter(|next| next.completed < read.invoked).and_then(|next| next.writer);
            found.push(stale_read(register, read, replaced.unwrap_or(later.1), words));
        }
        for read in &here.reads {
            later = later.min((read.completed, read.place));
        }
        let Some(writer) = here.writer else { continue };
        if later.0 < here.invoked {
            let time = here.invoked.0;
            let summary = format!(
                "{} began to write {} to {} at {}, but {} had by {} seen or written a value that descends from it",
                words.client(writer),
                words.new_value(writer),
                register.key,
                seconds(time),
                words.client(later.1),
                seconds(later.0.0),
            );
            found.push(anomaly(register, AnomalyKind::OrderViolation, time, vec![writer, later.1], summary));
            // Whatever else contradicts the same operation has the same cause.
            later = NOBODY;
        }
        later = later.min((here.completed, writer));
    }
}

fn stale_read(register: &Register, read: &Observation, witness: usize, words: Words) -> Anomaly {
    let operation = &register.operations[witness];
    let evidence = if operation.f.writes() && operation.outcome == Outcome::Ok {
        format!("{}'s write of {}", words.client(witness), words.new_value(witness))
    } else {
        format!("{}'s read of {}", words.client(witness), seen(register, witness))
    };
    let summary = format!(
        "{} read {} after {}, but {evidence}, a later value, was over by {}",
        words.client(read.place),
        seen(register, read.place),
        seconds(read.invoked.0),
        seconds(latest_known(register, witness)),
    );
    let time = latest_known(register, read.place);
    anomaly(register, AnomalyKind::StaleRead, time, vec![read.place, witness], summary)
}

/// A line as its extent in real time.
#[derive(Clone, Copy)]
struct Block {
    /// Its place among the lines.
    line: usize,
    /// The least completion, with its operation.
    f: Witness,
    /// The greatest invocation, with its operation and whether that is but a read.
    s: Witness,
    s_reads: Option<Observation>,
}

impl Block {
    /// None where nothing of the line is left.
    fn new(register: &Register, lineage: &Lineage, line: usize) -> Option<Block> {
        let mut block = Block { line, f: NOBODY, s: ((0, 0), usize::MAX), s_reads: None };
        let line = &lineage.lines[line].nodes;
        for &node in line.iter().filter(|&&node| !lineage.gone[node]) {
            let here = &register.nodes[node];
            if let Some(writer) = here.writer {
                block.f = block.f.min((here.completed, writer));
                if here.invoked >= block.s.0 {
                    (block.s, block.s_reads) = ((here.invoked, writer), None);
                }
            }
            for read in &here.reads {
                block.f = block.f.min((read.completed, read.place));
                if read.invoked > block.s.0 {
                    (block.s, block.s_reads) = ((read.invoked, read.place), Some(*read));
                }
            }
        }
        line.iter().any(|&node| !lineage.gone[node]).then_some(block)
    }
}

fn check_blocks(register: &Register, lineage: &Lineage, words: Words, found: &mut Vec<Anomaly>) {
    let lines = || (0..lineage.lines.len()).filter(|&line| lineage.lines[line].lost.is_empty());
    let of_kind = |wanted: LineKind| lines().filter(move |&line| lineage.lines[line].kind == wanted);
    let blocks = of_kind(LineKind::Main(Root::Unknown));
    let mut blocks: Vec<Block> = blocks.filter_map(|line| Block::new(register, lineage, line)).collect();
    // By line: what must precede another one and does not, with the first part of such a one to be over.
    let mut late: BTreeMap<usize, (Block, Witness)> = BTreeMap::new();
    let mut misplaced = |before: Block, block: Block| {
        let (_, over) = late.entry(before.line).or_insert((before, block.f));
        *over = (*over).min(block.f);
    };
    // The empty register's block is first: whatever had completed before a part of it began contradicts that.
    let first = of_kind(LineKind::Main(Root::Empty)).next().and_then(|line| Block::new(register, lineage, line));
    if let Some(first) = first
        && let Some(other) = blocks.iter().filter(|block| block.f.0 < first.s.0).min_by_key(|block| block.f)
    {
        misplaced(first, *other);
    }
    // Between f and s, where f < s, a block must have the register to itself. Where s <= f it needs but one moment between them.
    blocks.sort_by_key(|block| block.f);
    let (must, may): (Vec<Block>, Vec<Block>) = blocks.into_iter().partition(|block| block.f.0 < block.s.0);
    let mut widest: Option<Block> = None;
    for &block in &must {
        match widest {
            Some(before) if block.f.0 < before.s.0 => {
                misplaced(before, block);
                widest = Some(if block.s > before.s { block } else { before });
            }
            _ => widest = Some(block),
        }
    }
    for block in may {
        let before = must[..must.partition_point(|other| other.f.0 < block.s.0)].last();
        if let Some(&before) = before.filter(|before| block.f.0 < before.s.0) {
            misplaced(before, block);
        }
    }
    for (before, over) in late.into_values() {
        told_late(register, lineage, before, over, words, found);
    }
}

/// `before` must precede a block of which a part was over by `over`, yet parts of it began after that: each read of them is
/// stale, and where it is a write, one sentence says it all.
fn told_late(
    register: &Register,
    lineage: &Lineage,
    before: Block,
    over: Witness,
    words: Words,
    found: &mut Vec<Anomaly>,
) {
    if before.s_reads.is_some_and(|read| !read.by_writer) {
        let nodes = lineage.lines[before.line].nodes.iter().filter(|&&node| !lineage.gone[node]);
        let reads = nodes.flat_map(|&node| &register.nodes[node].reads);
        let stale = reads.filter(|read| !read.by_writer && over.0 < read.invoked);
        found.extend(stale.map(|read| stale_read(register, read, over.1, words)));
        return;
    }
    let late = before.s;
    let summary = format!(
        "{}'s write of {} to {} began at {}, after {} had by {} seen or written a value of another lineage, which fits \
         neither before nor after it",
        words.client(late.1),
        words.new_value(late.1),
        register.key,
        seconds(late.0.0),
        words.client(over.1),
        seconds(over.0.0),
    );
    found.push(anomaly(register, AnomalyKind::OrderViolation, late.0.0, vec![late.1, over.1], summary));
}

/// What the operation at this place read, in words.
fn seen(register: &Register, place: usize) -> String {
    reading(register.key, &register.operations[place].old)
}

pub(super) fn latest_known(register: &Register, place: usize) -> u64 {
    let operation = &register.operations[place];
    if operation.completed.is_some() { completed(operation).0 } else { operation.invoked }
}

/// An anomaly of this register; operations are given as places in the history.
pub(super) fn anomaly(
    register: &Register,
    kind: AnomalyKind,
    time: u64,
    places: Vec<usize>,
    summary: String,
) -> Anomaly {
    let operations = places.iter().map(|&place| register.operations[place].index).collect();
    Anomaly { kind, key: register.key.to_string(), time, operations, fault: None, lost: Vec::new(), summary }
}
