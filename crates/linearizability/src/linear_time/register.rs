//! A register with reads, writes and replacements, the object of most histories.

use std::collections::HashSet;

use super::balance::Scales;
use super::chain::Meaning;
use super::chains::Chains;
use crate::history::{Op, OpFunction, Outcome, Value};
use crate::search::before;
use crate::{Answer, Conflict, FailedCas};

/// Decides reads, writes, compare-and-sets and read-modify-writes of one key, `ops` in the order of invocation.
///
/// Exact if every written value is unique. There are two exceptions: compare-and-sets that failed and count (see the module
/// `refusals`), and indeterminate operations with unknown values (see `chains`). If these leave the question open, the answer is
/// undecided. If values repeat, only operations that fit in no order are found (see `balance`).
///
/// An operation that replaced a value links the two values; a read-modify-write that may have read any value counts as a write.
/// With only reads and writes, [`super::decide`] is exactly Gibbons and Korach's check. A write and its reads are a cluster, f is
/// its least completion, s its greatest invocation. There is no order iff two forward zones (f < s) overlap, or a backward zone
/// lies inside a forward one, or a read completed before its write was invoked. The initial value was written before everything,
/// so its zone begins before the history.
///
/// Source: Gibbons and Korach (Testing shared memories, SIAM J. Comput. 1997), section 4, over chains of replaced
/// values. Time and space: linear in the operations; n log n if the numbers of the values are sparse, for failed
/// compare-and-sets, and if values repeat.
pub fn register(ops: &[Op], initial: Value, failed_cas: FailedCas) -> Answer {
    if initial == Value::UNKNOWN {
        return Answer::Undecided("the initial value is unknown".to_owned());
    }
    let meaning = |op: &Op| meaning(op, failed_cas);
    let found = match Chains::build(ops, initial, meaning) {
        Ok(mut chains) => chains.check(),
        Err(reason) => {
            let scales = Scales::new(ops, initial, &meaning);
            let idle = scales.idle();
            match scales.overdrawn(&idle) {
                Some(conflict) => Err(conflict),
                None if scales.are_complete() && idle.contains(&true) => {
                    // Without the operations that cannot have happened, values may be unique.
                    let rest = (0..).zip(ops).filter(|(place, _)| !idle[*place as usize]);
                    let (places, rest): (Vec<u32>, Vec<Op>) = rest.unzip();
                    let answer = in_places(register(&rest, initial, failed_cas), &places);
                    return with_writers(answer, ops, initial, |place| scales.why_idle(place, &idle));
                }
                None => Ok(Answer::Undecided(reason)),
            }
        }
    };
    if found == Ok(Answer::Linearizable) {
        return Answer::Linearizable;
    }
    // An operation that may have written any value explains much of the later history, but nothing before it.
    let first = ops.iter().find(|op| meaning(op) == Meaning::Anything);
    match (found, first) {
        (Ok(answer), None) => answer,
        (Err(conflict), None) => Answer::NotLinearizable(conflict),
        (_, Some(first)) => {
            let (begun, places) = before(ops, first.invoked);
            match register(&begun, initial, failed_cas) {
                answer @ Answer::NotLinearizable(_) => {
                    with_writers(in_places(answer, &places), ops, initial, |_| Vec::new())
                }
                _ => Answer::Undecided(format!("the value that an operation wrote is unknown (line {})", first.line)),
            }
        }
    }
}

/// Extends an answer about some operations with other writers of the values observed there, and with the proof that these did not
/// write in time.
fn with_writers(mut answer: Answer, ops: &[Op], initial: Value, why: impl Fn(u32) -> Vec<u32>) -> Answer {
    if let Answer::NotLinearizable(conflict) = &mut answer {
        let set =
            || conflict.operations.iter().map(|place| &ops[*place as usize]).filter(|op| op.outcome != Outcome::Fail);
        let written: HashSet<Value> = set().filter_map(Op::written).chain([initial, Value::UNKNOWN]).collect();
        let observed = set().filter(|op| op.f != OpFunction::Write).map(|op| op.a);
        let missing: HashSet<Value> = observed.filter(|value| !written.contains(value)).collect();
        let writes = |op: &Op| op.outcome != Outcome::Fail && op.written().is_some_and(|to| missing.contains(&to));
        let others: Vec<u32> = (0u32..).zip(ops).filter(|(_, op)| writes(op)).map(|(place, _)| place).collect();
        if !others.is_empty() {
            let reason = "An operation observed a value that no operation can have written before.";
            let set = others.iter().flat_map(|place| why(*place)).chain(others.iter().copied());
            *conflict = Conflict::new(set.chain(conflict.operations.iter().copied()).collect(), reason);
        }
    }
    answer
}

/// Translates an answer about some of the operations to one about all of them.
fn in_places(answer: Answer, places: &[u32]) -> Answer {
    match answer {
        Answer::NotLinearizable(mut conflict) => {
            conflict.operations.iter_mut().for_each(|place| *place = places[*place as usize]);
            Answer::NotLinearizable(conflict)
        }
        answer => answer,
    }
}

// Called for each operation several times, and a call costs more than the body: a quarter of the check of a register.
#[inline(always)]
fn meaning(op: &Op, failed_cas: FailedCas) -> Meaning {
    use OpFunction::{Cas, Read, Rmw, Write};
    let unknown = |value| value == Value::UNKNOWN;
    match (op.f, op.outcome) {
        (Cas, Outcome::Fail) if failed_cas == FailedCas::Check && !unknown(op.a) => Meaning::Not(op.a),
        (Read | Write | Cas | Rmw, Outcome::Fail) | (Read, Outcome::Info) => Meaning::Nothing,
        (Read, Outcome::Ok) if unknown(op.a) => Meaning::Nothing,
        (Read, Outcome::Ok) => Meaning::Read(op.a),
        (Rmw, Outcome::Info) if unknown(op.a) && unknown(op.b) => Meaning::Anything,
        (Write, _) if unknown(op.a) => Meaning::Outside("some written values are unknown"),
        (Cas | Rmw, _) if unknown(op.b) => Meaning::Outside("the value that an operation wrote is unknown"),
        (Cas, _) if unknown(op.a) => Meaning::Outside("the value that a compare-and-set expected is unknown"),
        (Write, _) => Meaning::Write(op.a),
        (Rmw, _) if unknown(op.a) => Meaning::Write(op.b),
        (Cas | Rmw, _) => Meaning::Link(op.a, op.b),
        _ => Meaning::Outside("an operation does not belong to a register"),
    }
}
