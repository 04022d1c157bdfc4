//! A register that is read and written: the object that most histories are about.

use super::chains::{Meaning, decide};
use crate::checker::linear::Answer;
use crate::history::Outcome;
use crate::history::table::{Op, OpFunction, Value};

/// Decides reads and writes of one key, `ops` in the order of their invocations. Every written value must be unique.
///
/// Each write makes a chain of its own value, so [`super::chains`] is Gibbons and Korach's check to the letter: a write and
/// its reads are a cluster, f is the cluster's least completion, s its greatest invocation. There is no order iff two
/// forward zones (f < s) overlap, or a backward zone lies inside a forward one, or a read completed before its write
/// was invoked. The initial value's write came before everything, so its zone begins before the history.
///
/// Source: Gibbons and Korach (Testing shared memories, SIAM J. Comput. 1997), section 4.
/// Time and space: linear in the operations; where the numbers of the values lie far apart, n log n.
pub fn register(ops: &[Op], initial: Value) -> Answer {
    decide(ops, initial, meaning)
}

fn meaning(op: &Op) -> Meaning {
    match (op.f, op.outcome) {
        (OpFunction::Read | OpFunction::Write, Outcome::Fail) => Meaning::Nothing,
        (OpFunction::Read, outcome) => Meaning::of_read(op.a, outcome),
        (OpFunction::Write, _) => Meaning::of_write(op.a),
        _ => Meaning::Outside("an operation is neither a read nor a write"),
    }
}
