//! A lock that gives its owner a fencing token, greater than every token before.

use super::holds::{HoldPeriod, Holds, conflict, decide, in_words};
use crate::history::{Op, OpFunction, Outcome, Value, Values};
use crate::{Answer, Conflict};

/// Decides an owner-aware mutex with fencing tokens, given its operations in the order of their invocations.
///
/// A token is the `a` of an `ok` acquire, and must increase strictly from hold to hold. The token of an indeterminate acquire is
/// unknown and constrains nothing. The check is that of [`super::owner_mutex`], but the tokens dictate the order of the holds, so
/// that order is checked against real time. Linear, plus a sort of the tokens, which are nearly in order. Undecided in the same
/// cases, and if a token is not a number.
pub fn fenced_mutex(ops: &[Op], values: &Values) -> Answer {
    let readable = |op: &Op| match op.outcome {
        Outcome::Ok => values.int(op.a).is_some(),
        _ => op.a == Value::UNKNOWN || op.a == Value::NIL,
    };
    let acquires = ops.iter().filter(|op| op.f == OpFunction::Acquire && op.outcome != Outcome::Fail);
    if let Some(op) = acquires.into_iter().find(|op| !readable(op)) {
        return Answer::Undecided(format!("the acquire of line {} has no number for a token", op.line));
    }
    decide(ops, |holds| out_of_order(ops, values, holds))
}

/// Holds whose tokens contradict real time or one another.
fn out_of_order(ops: &[Op], values: &Values, holds: &Holds) -> Option<Conflict> {
    let mut with_token: Vec<(i64, &HoldPeriod)> = Vec::with_capacity(holds.list.len());
    // Holds of indeterminate acquires are uncertain, so a chain of them proves no order beyond that of its ends.
    let mut without: Vec<&HoldPeriod> = Vec::new();
    for hold in &holds.list {
        let acquire = &ops[hold.lock as usize];
        match values.int(acquire.a) {
            Some(token) if acquire.outcome == Outcome::Ok => with_token.push((token, hold)),
            _ => without.push(hold),
        }
    }
    with_token.sort_by_key(|(token, _)| *token);

    let mut latest: Option<(i64, &HoldPeriod)> = None;
    for (place, (token, hold)) in with_token.iter().enumerate() {
        if let Some((before, other)) = place.checked_sub(1).map(|before| with_token[before])
            && before == *token
        {
            let reason = format!("{} and {} got the same token {token}", in_words(ops, other), in_words(ops, hold));
            return Some(conflict(&[other, hold], reason));
        }
        if let Some((lower, other)) = latest
            && hold.zone.first < other.zone.last
        {
            let reason = format!(
                "{} with token {lower} held the lock no earlier than {} with token {token}",
                in_words(ops, other),
                in_words(ops, hold)
            );
            return Some(conflict(&[other, hold], reason));
        }
        if latest.is_none_or(|(_, other)| other.zone.last < hold.zone.last) {
            latest = Some((*token, hold));
        }
    }
    if without.is_empty() { None } else { no_place(ops, &with_token, &without) }
}

/// A hold without a token that real time puts after one token and before another that is not greater. Binary search.
fn no_place(ops: &[Op], with_token: &[(i64, &HoldPeriod)], without: &[&HoldPeriod]) -> Option<Conflict> {
    // For each index: the hold with the greatest `zone.last` up to it, and the hold with the least `zone.first` from it on.
    let mut latest: Vec<&HoldPeriod> = with_token.iter().map(|(_, hold)| *hold).collect();
    let mut earliest = latest.clone();
    for place in 1..latest.len() {
        if latest[place - 1].zone.last > latest[place].zone.last {
            latest[place] = latest[place - 1];
        }
    }
    for place in (1..earliest.len()).rev() {
        if earliest[place].zone.first < earliest[place - 1].zone.first {
            earliest[place - 1] = earliest[place];
        }
    }
    for hold in without {
        let before = earliest.partition_point(|other| other.zone.first < hold.zone.last);
        let after = latest.partition_point(|other| other.zone.last < hold.zone.first);
        if after < before {
            let (one, other) = (earliest[before - 1], latest[after]);
            let reason = format!(
                "{} held the lock after {} and before {}, but the earlier of these two holds has the greater token",
                in_words(ops, hold),
                in_words(ops, one),
                in_words(ops, other)
            );
            return Some(conflict(&[one, other, hold], reason));
        }
    }
    None
}
