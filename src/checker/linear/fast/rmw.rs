//! A register that is only read and replaced: the object under a lock, where a second successor is a lost update.

use super::chains::{Meaning, decide};
use crate::checker::linear::Answer;
use crate::history::Outcome;
use crate::history::table::{Op, OpFunction, Value};

/// Decides reads and read-modify-writes of one key, `ops` in the order of their invocations. Every written value must be
/// unique.
///
/// An rmw links the value that it read to the value that it wrote. Where nobody knows what it read, it may follow
/// whatever was there, as a plain write does, and begins a chain. The rest is as [`super::chains`] says.
///
/// Source: Gibbons and Korach (Testing shared memories, 1997), over chains instead of single writes.
/// Time and space: linear in the operations; where the numbers of the values lie far apart, n log n.
pub fn rmw(ops: &[Op], initial: Value) -> Answer {
    decide(ops, initial, meaning)
}

fn meaning(op: &Op) -> Meaning {
    match (op.f, op.outcome) {
        (OpFunction::Read | OpFunction::Rmw, Outcome::Fail) => Meaning::Nothing,
        (OpFunction::Read, outcome) => Meaning::of_read(op.a, outcome),
        (OpFunction::Rmw, _) if op.b == Value::UNKNOWN => Meaning::Outside("nobody knows what an operation wrote"),
        (OpFunction::Rmw, _) if op.a == Value::UNKNOWN => Meaning::Write(op.b),
        (OpFunction::Rmw, _) if op.a == op.b => Meaning::Outside("an operation wrote the value that it read"),
        (OpFunction::Rmw, _) => Meaning::Link(op.a, op.b),
        _ => Meaning::Outside("an operation is neither a read nor a read-modify-write"),
    }
}
