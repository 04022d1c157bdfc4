//! Operations in a compact form, the same for every file format. The linearizability checks work on these.
//!
//! Values are indices into one table ([`Values`]), times are places in the order of events. So an operation takes a few tens of
//! bytes, values compare as numbers, and nothing needs sorting.

mod values;

pub use values::{Content, Text, Value, Values};

/// A history of operations on any number of objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// In the order of their invocations.
    pub operations: Vec<Op>,
    /// The contents of the operations' values.
    pub values: Values,
    /// Names of the keys that [`Op::key`] refers to; a single empty name if the history has no keys.
    pub keys: Vec<String>,
}

/// One operation on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Index of its key in [`Table::keys`].
    pub key: u32,
    /// The process that performed it. For `acquire` and `release`, the owner.
    pub process: u32,
    /// Its function.
    pub f: OpFunction,
    /// How it ended.
    pub outcome: Outcome,
    /// See [`OpFunction`] for the meaning of `a` and `b`.
    pub a: Value,
    /// See `a`.
    pub b: Value,
    /// Place of its invocation in the order of events.
    pub invoked: u32,
    /// Place of its completion; [`NEVER`] for an indeterminate operation, which may take effect at any later time.
    pub completed: u32,
    /// Line or position of its invocation in the file, from 1, for messages.
    pub line: u32,
}

impl Op {
    /// The place in the order of events by which it had certainly happened; [`NEVER`] unless it is `ok`.
    #[inline]
    pub fn happened_by(&self) -> u32 {
        if self.outcome == Outcome::Ok { self.completed } else { NEVER }
    }

    /// The value that it leaves in a register, if it takes effect; None if it writes nothing.
    pub fn written(&self) -> Option<Value> {
        match self.f {
            OpFunction::Write => Some(self.a),
            OpFunction::Cas | OpFunction::Rmw => Some(self.b),
            _ => None,
        }
    }
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It happened.
    Ok,
    /// It certainly did not happen.
    Fail,
    /// Unknown: it may have happened, may still happen, or never will.
    Info,
}

/// The place of a completion that never came.
pub const NEVER: u32 = u32::MAX;

/// The kind of an operation, and the meaning of [`Op::a`] and [`Op::b`] for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpFunction {
    /// `a`: the value that was read ([`Value::UNKNOWN`] unless `ok`); a list value for a set or list.
    Read,
    /// `a`: the value that was written.
    Write,
    /// `a`: the expected value, `b`: its replacement. `ok` replaced it, `fail` found another value.
    Cas,
    /// `a`: the value that was read ([`Value::UNKNOWN`] if unknown), `b`: its replacement.
    Rmw,
    /// `a`: the fencing token; [`Value::NIL`] if there is none, [`Value::UNKNOWN`] if the acquire is indeterminate.
    Acquire,
    /// No values.
    Release,
    /// `a`: the element added to a set, or the number added to a counter.
    Add,
    /// `a`: the element appended to a list.
    Append,
}
