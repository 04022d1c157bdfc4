//! The parts of chains: values with their writers and readers, and the effects of operations on them.

use super::NONE;
use crate::history::{NEVER, Value};
use crate::value_graph::Zone;

/// The index of the initial value among the nodes.
pub(super) const INITIAL: u32 = 0;

/// The effect of an operation on a register, as far as chains are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It did not happen, or proves nothing.
    Nothing,
    Read(Value),
    /// It wrote this value, whatever was there before.
    Write(Value),
    /// It replaced the first value with the second.
    Link(Value, Value),
    /// At some time the register did not have this value.
    Not(Value),
    /// It may have written any value, whatever was there before.
    Anything,
    /// The theory does not apply, with the reason.
    Outside(&'static str),
}

impl Meaning {
    /// The values in it.
    pub(super) fn values(self) -> impl Iterator<Item = Value> {
        let (one, other) = match self {
            Meaning::Nothing | Meaning::Anything | Meaning::Outside(_) => (None, None),
            Meaning::Read(value) | Meaning::Write(value) | Meaning::Not(value) => (Some(value), None),
            Meaning::Link(from, to) => (Some(from), Some(to)),
        };
        one.into_iter().chain(other)
    }
}

/// A value and the known facts about it. Operations and values are indices here, [`NONE`] if absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChainValue {
    pub writer: u32,
    /// The value that replaced this one.
    pub next: u32,
    /// The read of this value that completed first, and when.
    pub first_read: u32,
    pub first_read_completed: u32,
    /// The read of this value that was invoked last.
    pub last_read: u32,
}

pub(super) const UNSEEN: ChainValue =
    ChainValue { writer: NONE, next: NONE, first_read: NONE, first_read_completed: NEVER, last_read: NONE };

impl ChainValue {
    pub(super) fn observed(&self) -> bool {
        self.first_read != NONE || self.next != NONE
    }
}

/// A chain, with the facts that other chains need.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChainBlock {
    /// The value that it starts with.
    pub root: u32,
    /// The zone of the initial value's chain starts at -1, and no operation stands for that.
    pub zone: Zone<i64, u32>,
}

impl ChainBlock {
    /// A chain with only its start.
    pub(super) fn empty(root: u32) -> ChainBlock {
        ChainBlock { root, zone: Zone::empty(-1, i64::MAX, NONE) }
    }
}
