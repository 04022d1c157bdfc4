//! Operations in a compact form, whatever file they came from: what the linearizability checks work on.
//!
//! Values are numbers into one table ([`Values`]), times are places in the order of events, so an operation takes a few
//! tens of bytes, comparing values is comparing numbers, and nothing needs sorting.

use std::collections::HashMap;

use super::Outcome;

/// A history of operations on any number of objects.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// In the order of their invocations.
    pub operations: Vec<Op>,
    pub values: Values,
    /// Names of the keys that [`Op::key`] counts; one without a name where the history has no keys.
    pub keys: Vec<String>,
}

/// One operation on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Place of its key in [`Table::keys`].
    pub key: u32,
    /// Who performed it; of `acquire` and `release` the owner.
    pub process: u32,
    pub f: OpFunction,
    pub outcome: Outcome,
    /// See [`OpFunction`] for what `a` and `b` are.
    pub a: Value,
    pub b: Value,
    /// Place of its invocation in the order of events.
    pub invoked: u32,
    /// Place of its completion; [`NEVER`] of an indeterminate operation, which may take effect at any later time.
    pub completed: u32,
    /// Line or position of its invocation in the file, from 1, for messages.
    pub line: u32,
}

/// The place of a completion that never came.
pub const NEVER: u32 = u32::MAX;

/// What an operation does, and what [`Op::a`] and [`Op::b`] mean for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpFunction {
    /// `a`: what was read ([`Value::UNKNOWN`] unless `ok`); of a set or list, a list value.
    Read,
    /// `a`: what was written.
    Write,
    /// `a`: what was expected, `b`: what was to replace it. `ok` replaced it, `fail` found something else.
    Cas,
    /// `a`: what was read ([`Value::UNKNOWN`] where nobody knows), `b`: what replaced it.
    Rmw,
    /// `a`: the fencing token, [`Value::NIL`] where there is none, [`Value::UNKNOWN`] of an indeterminate one.
    Acquire,
    Release,
    /// `a`: the element that joins a set, or the number that is added to a counter.
    Add,
    /// `a`: the element that is put at the end of a list.
    Append,
}

/// A value, as its number in [`Values`]. Equal values have equal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

impl Value {
    /// Nothing: an empty register, an absent token.
    pub const NIL: Value = Value(0);
    /// It is not known.
    pub const UNKNOWN: Value = Value(u32::MAX);
}

/// What the numbers of values stand for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    Nil,
    Int(i64),
    Text(String),
    List(Vec<Value>),
}

/// Every value of a history, once.
#[derive(Clone, Debug)]
pub struct Values {
    contents: Vec<Content>,
    numbers: HashMap<Content, Value>,
}

impl Default for Values {
    fn default() -> Values {
        Values { contents: vec![Content::Nil], numbers: HashMap::from([(Content::Nil, Value::NIL)]) }
    }
}

impl Values {
    /// The number of a value, a new one if it has not been seen.
    pub fn intern(&mut self, content: Content) -> Value {
        if let Some(value) = self.numbers.get(&content) {
            return *value;
        }
        let value = Value(self.contents.len() as u32);
        self.contents.push(content.clone());
        self.numbers.insert(content, value);
        value
    }

    /// What a number stands for; none for [`Value::UNKNOWN`].
    pub fn content(&self, value: Value) -> Option<&Content> {
        self.contents.get(value.0 as usize)
    }

    /// The value as a number, if it is one.
    pub fn int(&self, value: Value) -> Option<i64> {
        match self.content(value) {
            Some(Content::Int(number)) => Some(*number),
            _ => None,
        }
    }

    pub fn len(&self) -> usize {
        self.contents.len()
    }

    pub fn is_empty(&self) -> bool {
        false
    }
}
