//! Finds operations that contradict each other: a set that alone has no legal order.
//!
//! A set without the writer of a value that it observes trivially has no order, which proves nothing about the history. So each
//! set here contains the writer of every value that it observes. Otherwise it has no order for any initial value (unless the set
//! writes that value). An indeterminate operation is listed with the operations that show that it happened.

use super::NONE;
use super::chain::{ChainBlock, INITIAL, Meaning};
use super::chains::Chains;
use crate::Conflict;
use crate::history::{Op, Outcome};
use crate::value_graph::circles;

/// Why a value comes too late: refusals of consecutive values of a chain, each of which constrains the next value.
pub(super) struct Trace {
    /// The first value, which is constrained by the completion of operations.
    pub from: u32,
    /// The last value, which must be gone too soon.
    pub last: u32,
    /// The value that should replace it, if it is on the chain.
    pub late: u32,
    pub refusals: Vec<u32>,
}

/// An operation replaced a value that another operation had already replaced.
pub(super) fn fork<F: Fn(&Op) -> Meaning>(chains: &Chains<'_, F>, second: u32) -> Conflict {
    let mut set = vec![second];
    if let Some((from, to)) = chains.ends(second) {
        let from = chains.nodes[from as usize];
        set.extend([from.writer, writer(chains, from.next)]);
        show(chains, from.next, &mut set);
        show(chains, to, &mut set);
    }
    Conflict::new(set, "Two operations replaced the same value, which existed only once.")
}

/// An operation observed a value that no operation wrote.
pub(super) fn unwritten<F: Fn(&Op) -> Meaning>(chains: &Chains<'_, F>, value: u32) -> Conflict {
    let node = chains.nodes[value as usize];
    let mut set = Vec::new();
    let seen = if node.first_read != NONE {
        set.push(node.first_read);
        chains.ops[node.first_read as usize].a
    } else {
        let observer = writer(chains, node.next);
        set.push(observer);
        show(chains, node.next, &mut set);
        chains.ops[observer as usize].a
    };
    let failed = |op: &Op| op.outcome == Outcome::Fail && op.written() == Some(seen);
    match chains.ops.iter().position(failed) {
        None => Conflict::new(set, "An operation observed a value that no operation wrote."),
        Some(place) => {
            set.push(place as u32);
            Conflict::new(set, "An operation observed a value that only a failed operation tried to write.")
        }
    }
}

/// Operations that each replaced the value of the previous one, in a cycle. There must be such a cycle.
pub(super) fn circle<F: Fn(&Op) -> Meaning>(chains: &Chains<'_, F>) -> Conflict {
    let mut replaced = vec![NONE; chains.nodes.len()];
    for (value, node) in (0u32..).zip(&chains.nodes).filter(|(_, node)| node.next != NONE) {
        replaced[node.next as usize] = value;
    }
    let before = |value: usize| Some(replaced[value] as usize).filter(|value| *value < replaced.len());
    let mut set = Vec::new();
    if let Some(circle) = circles(replaced.len(), before).first() {
        set.extend(circle.iter().map(|value| chains.nodes[*value].writer));
        show(chains, circle.iter().copied().min().map_or(NONE, |value| value as u32), &mut set);
    }
    Conflict::new(set, "Several operations form a cycle: each replaced the value of the previous operation.")
}

/// `later` completed before `earlier` was invoked, but on their chain it comes after.
pub(super) fn inside<F: Fn(&Op) -> Meaning>(chains: &Chains<'_, F>, earlier: u32, later: u32) -> Conflict {
    let (from, to) = (chains.leaves(earlier), chains.leaves(later));
    let mut set = vec![earlier, later];
    // `later` is certain and observes the end of the path, so everything on the path happened.
    path(chains, from, to, &mut set);
    let begins = chains.nodes[from as usize];
    if begins.writer == earlier && (from == to || begins.next == to) {
        return Conflict::new(set, "A value was observed before the operation that wrote it began.");
    }
    Conflict::new(
        set,
        "An operation completed before another operation began, although the values put the other operation first.",
    )
}

/// Each of two chains must come before the other.
pub(super) fn between<F: Fn(&Op) -> Meaning>(chains: &Chains<'_, F>, one: &ChainBlock, other: &ChainBlock) -> Conflict {
    let mut set = Vec::new();
    for block in [one, other] {
        let ends = [block.zone.first_by, block.zone.last_by];
        set.extend(ends);
        for place in ends.into_iter().filter(|&place| place != NONE) {
            show(chains, chains.leaves(place), &mut set);
            // Goes back to the beginning of the chain, or to the path of the other operation.
            let mut value = chains.leaves(place);
            loop {
                let place = writer(chains, value);
                if place == NONE {
                    break;
                }
                set.push(place);
                match chains.ends(place) {
                    Some((from, _)) => value = from,
                    None => break,
                }
            }
        }
    }
    let reason = if one.zone.first_by == NONE || other.zone.first_by == NONE {
        "A value was observed or written that cannot have led to the initial value or its successors. \
         After that, the initial value or one of its successors was still there."
    } else {
        "Of two values, each was there before and after the other, and neither led to the other."
    };
    Conflict::new(set, reason)
}

/// Compare-and-sets failed although their expected value was there all the time.
pub(super) fn refused<F: Fn(&Op) -> Meaning>(chains: &Chains<'_, F>, trace: &Trace) -> Conflict {
    let mut set = trace.refusals.clone();
    path(chains, trace.from, trace.last, &mut set);
    // The proof that the first value came this early: the first operation to complete with it or a later value.
    if trace.from != INITIAL
        && let Some(value) = chains.values_from(trace.from).min_by_key(|value| chains.first_completed(*value))
    {
        let node = &chains.nodes[value as usize];
        let read = chains.first_completed(value) == node.first_read_completed;
        set.push(if read { node.first_read } else { node.writer });
        path(chains, trace.from, value, &mut set);
        show(chains, value, &mut set);
    }
    // The proof that the last value was there this long, unless the reason is that no value followed.
    let mut later: Vec<u32> = chains.values_from(trace.from).collect();
    let end = later.iter().position(|value| *value == trace.last).map_or(later.len(), |at| at + 1);
    later.truncate(end);
    let mut shows: Vec<u32> = later
        .iter()
        .map(|value| &chains.nodes[*value as usize])
        .flat_map(|node| [node.writer, node.last_read])
        .chain([writer(chains, trace.late)])
        .collect();
    shows.retain(|place| *place != NONE);
    let gone = trace.refusals.last().map_or(0, |refusal| chains.ops[*refusal as usize].completed);
    let last = shows.into_iter().max_by_key(|place| chains.ops[*place as usize].invoked);
    if let Some(last) = last.filter(|place| chains.ops[*place as usize].invoked > gone) {
        set.push(last);
        show(chains, chains.leaves(last), &mut set);
    }
    Conflict::new(set, "Compare-and-sets failed, although the value that they expected was there.")
}

/// The writers of the values between two values of a chain, both included.
fn path<F: Fn(&Op) -> Meaning>(chains: &Chains<'_, F>, from: u32, to: u32, set: &mut Vec<u32>) {
    let mut value = from;
    while value != NONE {
        set.push(writer(chains, value));
        if value == to {
            break;
        }
        value = chains.nodes[value as usize].next;
    }
}

/// Adds the proof that the value's writer happened. Nothing if it is `ok`; otherwise an observer, which may need a proof too.
fn show<F: Fn(&Op) -> Meaning>(chains: &Chains<'_, F>, value: u32, set: &mut Vec<u32>) {
    let mut value = value;
    while value != NONE {
        let node = chains.nodes[value as usize];
        if node.writer == NONE || chains.ops[node.writer as usize].outcome == Outcome::Ok {
            break;
        }
        if node.first_read != NONE {
            set.push(node.first_read);
            break;
        }
        set.push(writer(chains, node.next));
        value = node.next;
    }
}

fn writer<F: Fn(&Op) -> Meaning>(chains: &Chains<'_, F>, value: u32) -> u32 {
    chains.nodes.get(value as usize).map_or(NONE, |node| node.writer)
}
