//! A counter.

use crate::history::{Op, OpFunction, Outcome, Value, Values};
use crate::model::{Effect, Model, Transition};
use crate::words::Words;

/// A number that starts at `initial`. `add` n adds n, which may be negative; `read` returns the sum. A failed operation
/// did not happen.
pub struct Counter {
    initial: i64,
    /// The number of each value. A value that is not a number is never read and adds nothing.
    numbers: Vec<Option<i64>>,
    /// True if no negative number is ever added.
    rises: bool,
}

impl Counter {
    /// A counter that starts at `initial`; `operations` will be checked.
    pub fn new(initial: i64, values: &Values, operations: &[Op]) -> Counter {
        let numbers = (0..values.len() as u32).map(|value| values.int(Value(value))).collect();
        let mut counter = Counter { initial, numbers, rises: false };
        let falls = |op: &Op| op.f == OpFunction::Add && counter.number(op.a).is_some_and(|number| number < 0);
        counter.rises = !operations.iter().any(falls);
        counter
    }

    fn number(&self, value: Value) -> Option<i64> {
        self.numbers.get(value.0 as usize).copied().flatten()
    }
}

impl Model for Counter {
    type State = i64;

    fn initial(&self) -> i64 {
        self.initial
    }

    fn step(&self, state: &i64, op: &Op) -> Transition<i64> {
        if op.outcome == Outcome::Fail {
            return Transition::Same;
        }
        match op.f {
            OpFunction::Add => match self.number(op.a) {
                Some(0) | None => Transition::Same,
                Some(number) => Transition::To(state.wrapping_add(number)),
            },
            OpFunction::Read if op.a == Value::UNKNOWN || self.number(op.a) == Some(*state) => Transition::Same,
            _ => Transition::Illegal,
        }
    }

    fn effect(&self, op: &Op) -> Effect {
        match op.f {
            OpFunction::Add if op.outcome != Outcome::Fail => Effect::Commutes,
            _ => Effect::Nothing,
        }
    }

    fn has_owners(&self) -> bool {
        false
    }

    fn leads_to(&self, state: &i64, read: &Op) -> bool {
        !self.rises || self.number(read.a).is_none_or(|number| *state <= number)
    }

    fn describe(&self, state: &i64, _: &Words) -> Option<String> {
        Some(state.to_string())
    }
}
