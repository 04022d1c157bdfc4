//! A lock that knows its owner: acquired only when free, released only by the process that holds it.

use super::NONE;
use super::holds::{HoldPeriod, Holds, conflict, decide, in_words};
use crate::history::Op;
use crate::value_graph::clashes;
use crate::{Answer, Conflict};

/// Decides an owner-aware mutex, initially free, given its operations in the order of their invocations.
///
/// Linear: one pass pairs acquires with releases, another compares neighbours. The theory is Gibbons and Korach's zones (1997)
/// with a hold as a cluster. No order exists exactly if two holds were certain at the same time, or an uncertain one lies inside
/// a certain one. For indeterminate operations, see the module `holds`. Undecided if a process ran two operations at once and,
/// rarely, if indeterminate operations leave several ways to split holds.
pub fn owner_mutex(ops: &[Op]) -> Answer {
    decide(ops, |holds| overlap(ops, holds))
}

/// Two holds that cannot come one after the other.
fn overlap(ops: &[Op], holds: &Holds) -> Option<Conflict> {
    let mut endless = holds.list.iter().filter(|hold| hold.unlock == NONE);
    let last = endless.next();
    if let (Some(one), Some(other)) = (last, endless.next()) {
        return Some(both_held(ops, one, other));
    }
    let others = holds.by_last.iter().rev().filter_map(|number| holds.list.get(*number as usize));
    // Take the earliest pair, because the search for the cause begins there.
    let found = clashes(last.into_iter().chain(others), |hold| &hold.zone).last();
    found.map(|(hold, later)| both_held(ops, hold, later))
}

fn both_held(ops: &[Op], one: &HoldPeriod, other: &HoldPeriod) -> Conflict {
    let reason = format!("{} and {} held the lock at the same time", in_words(ops, one), in_words(ops, other));
    conflict(&[one, other], reason)
}
