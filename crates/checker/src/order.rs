//! Does the order that the values dictate agree with real time?
//!
//! The lines are those of [`super::lineage`], in real time as in [`linearizability::value_graph`]. Within a line the order is
//! given, and two lines clash if each must precede the other. The line of the empty register comes first. The others may come in
//! any order, because it is unknown what the first operation of such a line read.

use std::collections::BTreeMap;

use linearizability::value_graph::Zone;

use super::AnomalyKind;
use super::lineage::{LineKind, Lineage};
use super::register::{KeyValues, Moment, NEVER, Observation, Root, completed, invoked, written};
use super::verdict::Anomaly;
use super::words::{Words, reading, seconds};
use model::history::Outcome;

/// An operation, with the time that makes it a witness.
type Witness = (Moment, usize);

/// Finds reads of values that could not have been there. Takes linear time, except that it sorts the readers of each value.
///
/// Ignores the completions of these readers in later comparisons, so that each cause is reported once.
pub(super) fn impossible_reads(register: &mut KeyValues, words: Words) -> Vec<Anomaly> {
    let mut found = Vec::new();
    for (node, failed) in std::mem::take(&mut register.from_nowhere) {
        found.push(impossible_read(register, node, failed, |_| true, words));
    }
    for node in 0..register.nodes.len() {
        let Some(writer) = register.nodes[node].writer() else { continue };
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

/// Reports one anomaly for all readers of one value, and discards their completions as evidence.
fn impossible_read(
    register: &mut KeyValues,
    node: usize,
    writer: Option<usize>,
    concerns: impl Fn(Moment) -> bool,
    words: Words,
) -> Anomaly {
    let mut readers: Vec<Witness> = Vec::new();
    for child in register.nodes[node].children.clone() {
        let child = &mut register.nodes[child];
        if let Some(place) = child.writer().filter(|_| child.acknowledged && concerns(child.completed)) {
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
        None => format!("{read}, a value that no client was asked to write to {}", register.key),
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

fn circular_reads(register: &KeyValues, circle: &[usize], words: Words) -> Anomaly {
    let places: Vec<usize> = circle.iter().filter_map(|&node| register.nodes[node].writer()).collect();
    let time = places.iter().map(|&place| latest_known(register, place)).max().unwrap_or(0);
    if let &[place] = places.as_slice() {
        let summary = format!("{} read {} before writing it", words.client(place), seen(register, place));
        return anomaly(register, AnomalyKind::ImpossibleRead, time, places, summary);
    }
    let summary = format!(
        "the writes of {} to {} form a cycle, so none of them can be the first",
        words.new_values(&places),
        register.key
    );
    anomaly(register, AnomalyKind::OrderViolation, time, places, summary)
}

/// Compares every line with real time, then the lines with each other. Takes linear time, except that it sorts the lines.
pub(super) fn check(register: &KeyValues, lineage: &Lineage, words: Words) -> Vec<Anomaly> {
    let mut found = Vec::new();
    for line in &lineage.lines {
        if line.nodes.iter().any(|&node| lineage.gone[node]) {
            let nodes: Vec<usize> = line.nodes.iter().copied().filter(|&node| !lineage.gone[node]).collect();
            check_line(register, &nodes, words, &mut found);
        } else {
            check_line(register, &line.nodes, words, &mut found);
        }
    }
    check_blocks(register, lineage, words, &mut found);
    found
}

/// Walks a line from its end. Of the later operations, it keeps the one that completed first.
fn check_line(register: &KeyValues, line: &[usize], words: Words, found: &mut Vec<Anomaly>) {
    let mut later: Witness = (NEVER, usize::MAX);
    for (place, &node) in line.iter().enumerate().rev() {
        let here = &register.nodes[node];
        // A writer's own read is part of its node and is checked there.
        for read in here.reads.iter().filter(|read| !read.by_writer && later.0 < read.invoked) {
            let next = line.get(place + 1).map(|&next| &register.nodes[next]);
            let replaced = next.filter(|next| next.completed < read.invoked).and_then(|next| next.writer());
            let replacer = next.and_then(|next| next.writer());
            found.push(stale_read(register, (node, read), replaced.unwrap_or(later.1), replacer, words));
        }
        for read in &here.reads {
            later = later.min((read.completed, read.place));
        }
        let Some(writer) = here.writer() else { continue };
        if later.0 < here.invoked {
            let time = here.invoked.0;
            let summary = format!(
                "{} began to write {} to {} at {}, but {} had by {} seen or written a value that builds on it",
                words.client(writer),
                words.new_value(writer),
                register.key,
                seconds(time),
                words.client(later.1),
                seconds(later.0.0),
            );
            found.push(anomaly(register, AnomalyKind::OrderViolation, time, vec![writer, later.1], summary));
            // Further contradictions of the same operation have the same cause.
            later = (NEVER, usize::MAX);
        }
        later = later.min((here.completed, writer));
    }
}

/// A read of a node's value that was already replaced, as `witness` shows; `replacer` may have replaced it.
fn stale_read(
    register: &KeyValues,
    (node, read): (usize, &Observation),
    witness: usize,
    replacer: Option<usize>,
    words: Words,
) -> Anomaly {
    let operation = &register.operations[witness];
    let evidence = if operation.f.writes() && operation.outcome == Outcome::Ok {
        format!("{}'s write of {}", words.client(witness), words.new_value(witness))
    } else {
        format!("{}'s read of {}", words.client(witness), seen(register, witness))
    };
    let is_kept = register.operations[read.place].f.is_shared();
    // The end of the reader's hold, not the earliest time for it by the controller's clock.
    let held = register.operations[read.place].certain_hold().filter(|_| is_kept);
    let (when, at) = match held.and_then(|(_, end)| u64::try_from(end).ok()) {
        Some(end) => ("and still held the lock for reading at", end),
        None => ("after", read.invoked.0),
    };
    // A late compare-and-set, for example, may be sent after the witness.
    let is_older = comes_before(register, node, witness);
    let relation = match register.nodes[node].writer().filter(|_| !is_older) {
        Some(writer) => format!("on which {} does not build", words.new_value(writer)),
        None => "a later value".to_string(),
    };
    let summary = format!(
        "{} read {} {when} {}, but {evidence}, {relation}, had completed by {}",
        words.client(read.place),
        seen(register, read.place),
        seconds(at),
        seconds(latest_known(register, witness)),
    );
    let time = latest_known(register, read.place);
    // Perhaps the reader's lock failed; that depends on which client wrote during the hold.
    let replacer = replacer.filter(|replacer| is_kept && *replacer != witness);
    let places = [read.place, witness].into_iter().chain(replacer).collect();
    anomaly(register, AnomalyKind::StaleRead, time, places, summary)
}

/// How far [`comes_before`] follows the values that build on each other. Beyond that, the relation counts as unknown.
const LONGEST_DESCENT: usize = 1_000;

/// True if the value of a node certainly is older than the value that an operation wrote or read. Either the node's value was there
/// before the operation began, or the operation's value builds on it.
pub(super) fn comes_before(register: &KeyValues, node: usize, operation: usize) -> bool {
    let of = &register.operations[operation];
    let known = &register.nodes[node];
    if known.completed < invoked(of) || known.reads.iter().any(|read| read.completed < invoked(of)) {
        return true;
    }
    let value = written(of).and_then(|value| register.node_of_value(value)).or_else(|| register.node_of(&of.old));
    let descent = std::iter::successors(value, |value| register.nodes[*value].parent().ok());
    descent.skip(1).take(LONGEST_DESCENT).any(|ancestor| ancestor == node)
}

/// A line to be ordered against others: its index among the lines, and its extent in real time.
type LineExtent = (usize, Zone<Moment, usize>);

/// None if nothing of the line is left.
fn block(register: &KeyValues, lineage: &Lineage, line: usize) -> Option<LineExtent> {
    let mut nodes = lineage.lines[line].nodes.iter().filter(|&&node| !lineage.gone[node]).peekable();
    nodes.peek()?;
    let mut zone = Zone::empty((0, 0), NEVER, usize::MAX);
    nodes.for_each(|&node| register.nodes[node].extend(&mut zone));
    Some((line, zone))
}

fn check_blocks(register: &KeyValues, lineage: &Lineage, words: Words, found: &mut Vec<Anomaly>) {
    let lines = || (0..lineage.lines.len()).filter(|&line| lineage.lines[line].lost.is_empty());
    let of_kind = |wanted: LineKind| lines().filter(move |&line| lineage.lines[line].kind == wanted);
    let of_kind = |kind| of_kind(kind).filter_map(|line| block(register, lineage, line));
    let mut blocks: Vec<LineExtent> = of_kind(LineKind::Main(Root::Unknown)).collect();
    // By line: a line that must precede another line but does not, with the first completion on that other line.
    let mut late: BTreeMap<usize, (LineExtent, Witness)> = BTreeMap::new();
    let mut misplaced = |before: LineExtent, (_, zone): LineExtent| {
        let (_, over) = late.entry(before.0).or_insert((before, (zone.first, zone.first_by)));
        *over = (*over).min((zone.first, zone.first_by));
    };
    // The block of the empty register comes first. A block that completed before a part of it began contradicts that.
    if let Some(first) = of_kind(LineKind::Main(Root::Empty)).next()
        && let Some(other) =
            blocks.iter().filter(|other| other.1.must_precede(&first.1)).min_by_key(|other| other.1.first)
    {
        misplaced(first, *other);
    }
    blocks.sort_by_key(|(_, zone)| zone.first);
    let (forward, others): (Vec<LineExtent>, Vec<LineExtent>) =
        blocks.into_iter().partition(|(_, zone)| zone.is_forward());
    let mut widest: Option<LineExtent> = None;
    for &block in &forward {
        match widest {
            Some(before) if block.1.must_precede(&before.1) => {
                misplaced(before, block);
                widest = Some(if block.1.last > before.1.last { block } else { before });
            }
            _ => widest = Some(block),
        }
    }
    for block in others {
        let before = forward[..forward.partition_point(|other| other.1.must_precede(&block.1))].last();
        if let Some(&before) = before.filter(|before| block.1.must_precede(&before.1)) {
            misplaced(before, block);
        }
    }
    for (before, over) in late.into_values() {
        told_late(register, lineage, before, over, words, found);
    }
}

/// `before` must precede a block of which a part was over at `over`, yet parts of `before` began after that. Each read among
/// these parts is stale. If the last of them is a write, one anomaly covers everything.
fn told_late(
    register: &KeyValues,
    lineage: &Lineage,
    before: LineExtent,
    over: Witness,
    words: Words,
    found: &mut Vec<Anomaly>,
) {
    let (line, Zone { last: began, last_by: late, .. }) = before;
    let nodes = lineage.lines[line].nodes.iter().filter(|&&node| !lineage.gone[node]);
    let reads = nodes.flat_map(|&node| register.nodes[node].reads.iter().map(move |read| (node, read)));
    let stale: Vec<_> = reads.filter(|(_, read)| !read.by_writer && over.0 < read.invoked).collect();
    if stale.iter().any(|(_, read)| read.place == late) {
        let replacer = first_of_its_line(register, over.1);
        found.extend(stale.into_iter().map(|read| stale_read(register, read, over.1, replacer, words)));
        return;
    }
    let summary = format!(
        "{}'s write of {} to {} began at {}, after {} had by {} seen or written an unrelated value, which fits neither before \
         nor after it",
        words.client(late),
        words.new_value(late),
        register.key,
        seconds(began.0),
        words.client(over.1),
        seconds(over.0.0),
    );
    found.push(anomaly(register, AnomalyKind::OrderViolation, began.0, vec![late, over.1], summary));
}

/// The writer of the first value of the line that an operation is on.
fn first_of_its_line(register: &KeyValues, place: usize) -> Option<usize> {
    let operation = &register.operations[place];
    let own = written(operation).and_then(|value| register.node_of_value(value));
    let mut node = own.or_else(|| register.node_of(&operation.old))?;
    while let Ok(parent) = register.nodes[node].parent() {
        node = parent;
    }
    register.nodes[node].writer()
}

/// The value that the operation with this index read, in words.
fn seen(register: &KeyValues, place: usize) -> String {
    reading(register.key, &register.operations[place].old)
}

pub(super) fn latest_known(register: &KeyValues, place: usize) -> u64 {
    let operation = &register.operations[place];
    if operation.completed.is_some() { completed(operation).0 } else { operation.invoked }
}

/// An anomaly of this register; operations are given as indices in the history.
pub(super) fn anomaly(
    register: &KeyValues,
    kind: AnomalyKind,
    time: u64,
    places: Vec<usize>,
    summary: String,
) -> Anomaly {
    let operations = places.iter().map(|&place| register.operations[place].index).collect();
    Anomaly::new(kind, register.key, time, operations, summary)
}
