//! What an object is: its states, and what an operation does to one.

use std::hash::Hash;

use crate::history::table::Op;

/// A sequential specification. Deterministic: an operation leads from a state to one state at most.
///
/// An operation whose outcome is `info` is stepped as if it had happened; where its result is unknown, every result fits.
pub trait Model: Sync {
    type State: Clone + Eq + Hash + Send;

    fn initial(&self) -> Self::State;

    /// What the operation does in this state.
    fn step(&self, state: &Self::State, operation: &Op) -> Step<Self::State>;
}

/// What an operation does in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<S> {
    /// It fits and changes nothing.
    Same,
    /// It fits and leads to another state.
    To(S),
    /// It does not fit.
    Illegal,
}
