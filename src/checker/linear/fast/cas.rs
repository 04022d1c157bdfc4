//! A register with compare-and-set: chains of replaced values, each begun by a plain write.

use super::chains::{Meaning, decide};
use crate::checker::linear::Answer;
use crate::history::Outcome;
use crate::history::table::{Op, OpFunction, Value};

/// Decides reads, writes and compare-and-sets of one key, `ops` in the order of their invocations. Every written value must
/// be unique.
///
/// A compare-and-set that happened links the value that it expected to the value that replaced it. A failed one says which
/// value was *not* there, and chains cannot tell: with one of those the answer is undecided. Whoever wants the weaker
/// check, which takes failed compare-and-sets for nothing (as Knossos does), leaves them out of `ops`.
///
/// Source: Gibbons and Korach (Testing shared memories, 1997), over chains instead of single writes.
/// Time and space: linear in the operations; where the numbers of the values lie far apart, n log n.
pub fn cas_register(ops: &[Op], initial: Value) -> Answer {
    decide(ops, initial, meaning)
}

fn meaning(op: &Op) -> Meaning {
    match (op.f, op.outcome) {
        (OpFunction::Cas, Outcome::Fail) => Meaning::Outside("a compare-and-set failed"),
        (OpFunction::Read | OpFunction::Write, Outcome::Fail) => Meaning::Nothing,
        (OpFunction::Read, outcome) => Meaning::of_read(op.a, outcome),
        (OpFunction::Write, _) => Meaning::of_write(op.a),
        (OpFunction::Cas, _) if op.a == Value::UNKNOWN || op.b == Value::UNKNOWN => {
            Meaning::Outside("nobody knows what a compare-and-set expected or wrote")
        }
        (OpFunction::Cas, _) if op.a == op.b => Meaning::Outside("a compare-and-set replaces a value with itself"),
        (OpFunction::Cas, _) => Meaning::Link(op.a, op.b),
        _ => Meaning::Outside("an operation is neither a read nor a write nor a compare-and-set"),
    }
}
