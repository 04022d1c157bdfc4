//! An object: its states, and the effects of operations on them.
//!
//! A model needs [`Model::initial`] and [`Model::step`]. The rest are hints that make the search faster or the
//! counterexamples smaller; their defaults are right for every model. The built-in models are in [`super::models`].
//!
//! ```
//! use linearizability::{Answer, Model, Transition, check_object};
//! use linearizability::history::Outcome;
//! use linearizability::history::{Op, OpFunction, Value};
//!
//! /// A cell that can be written once.
//! struct Once;
//!
//! impl Model for Once {
//!     type State = Option<Value>;
//!
//!     fn initial(&self) -> Option<Value> {
//!         None
//!     }
//!
//!     fn step(&self, state: &Option<Value>, operation: &Op) -> Transition<Option<Value>> {
//!         match (operation.f, state) {
//!             (OpFunction::Write, None) => Transition::To(Some(operation.a)),
//!             (OpFunction::Read, state) if state.unwrap_or(Value::NIL) == operation.a => Transition::Same,
//!             _ => Transition::Illegal,
//!         }
//!     }
//! }
//!
//! let op = |process, f, a, invoked, completed| Op {
//!     key: 0, process, f, outcome: Outcome::Ok, a, b: Value::NIL, invoked, completed, line: 0,
//! };
//! let write = op(0, OpFunction::Write, Value(7), 0, 3);
//! let early = op(1, OpFunction::Read, Value(7), 1, 2);
//! let late = op(1, OpFunction::Read, Value::NIL, 4, 5);
//! assert_eq!(check_object(&Once, &[write, early], &Default::default()), Answer::Linearizable);
//! assert!(matches!(check_object(&Once, &[write, early, late], &Default::default()), Answer::NotLinearizable(_)));
//! ```

use std::collections::HashSet;
use std::hash::Hash;

use super::words::Words;
use crate::history::{NEVER, Op, Outcome};

/// A sequential specification. Deterministic: an operation leads from a state to at most one state.
///
/// An operation whose outcome is `info` is stepped as if it had happened; if its result is unknown, every result fits. A failed
/// operation is stepped too: [`Transition::Same`] if the object may refuse it in this state, else [`Transition::Illegal`]. A step
/// may depend on the operation and its process, but not on its times, nor on whether it is `ok` or `info`. The search treats
/// operations with the same `f`, `a`, `b` and `process` as identical.
pub trait Model: Sync {
    /// The complete state of the object at one time.
    type State: Clone + Eq + Hash + Send;

    /// The state before the first operation.
    fn initial(&self) -> Self::State;

    /// The effect of the operation in this state.
    fn step(&self, state: &Self::State, operation: &Op) -> Transition<Self::State>;

    /// A fact about an operation in every state. By default a failed operation changes nothing.
    fn effect(&self, operation: &Op) -> Effect {
        if operation.outcome == Outcome::Fail { Effect::Nothing } else { Effect::Any }
    }

    /// True if it matters which process performs an operation. If not, more operations are identical.
    fn has_owners(&self) -> bool {
        true
    }

    /// Removes operations that cannot matter, and makes operations equal if their differences do not matter. The rest must have a
    /// legal order if and only if all the operations had.
    fn simplify(&self, _operations: &mut Vec<Candidate>) {}

    /// True if operations other than overwrites ([`Effect::Overwrites`]) could lead from the state to one that fits a read
    /// ([`Effect::Nothing`]). If not, and the read is about to return, the search backtracks at once.
    fn leads_to(&self, _state: &Self::State, _read: &Op) -> bool {
        true
    }

    /// The index of an operation that fits no state after any order of these operations, such as a read of an unwritten value. If
    /// there are several, the one that returned first.
    fn absurd(&self, _operations: &[Op]) -> Option<u32> {
        None
    }

    /// Sets of indices into `operations`. Removing any one of the sets from a legal order of these operations leaves a legal
    /// order. So the search for a small counterexample may delete them.
    fn omissible(&self, operations: &[Op]) -> Vec<Vec<u32>> {
        let idle = |op: &Op| op.outcome == Outcome::Fail || self.effect(op) == Effect::Nothing;
        (0..operations.len() as u32)
            .filter(|place| idle(&operations[*place as usize]))
            .map(|place| vec![place])
            .collect()
    }

    /// Indeterminate operations that stand for others that may have happened, if that matters. With them at the start of
    /// `operations`, more of those are [`Model::omissible`].
    fn bystanders(&self, _operations: &[Op]) -> Vec<Op> {
        Vec::new()
    }

    /// The other operations that must stay. Without them, those in `kept` could be illegal merely because operations are missing.
    /// None if that is unknown.
    fn needed(&self, operations: &[Op], kept: &[u32]) -> Option<Vec<u32>> {
        if operations.len() > MANY {
            return None;
        }
        let mut stays = vec![true; operations.len()];
        let kept: HashSet<u32> = kept.iter().copied().collect();
        for set in self.omissible(operations) {
            if set.iter().all(|place| !kept.contains(place)) {
                set.iter().for_each(|place| stays[*place as usize] = false);
            }
        }
        Some((0..operations.len() as u32).filter(|place| stays[*place as usize] && !kept.contains(place)).collect())
    }

    /// A weaker operation, which fits wherever the original did and has the same effect: a compare-and-set becomes a write. None
    /// if there is no weaker one.
    fn weaken(&self, _operation: &Op) -> Option<Op> {
        None
    }

    /// The state in words, as the end of "the object holds ...".
    fn describe(&self, _state: &Self::State, _words: &Words) -> Option<String> {
        None
    }
}

/// With more operations, finding out which can be left out costs more time than it saves.
const MANY: usize = 100_000;

/// The effect of an operation in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition<S> {
    /// The operation is legal, and changes nothing.
    Same,
    /// The operation is legal, and leads to another state.
    To(S),
    /// The operation is illegal.
    Illegal,
}

/// A fact about an operation in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It never changes the state: a read.
    Nothing,
    /// It is legal in every state, and always leads to the same one: a write.
    Overwrites,
    /// It is legal in every state, and two such operations can be swapped without changing the result: an addition.
    Commutes,
    /// Nothing is known.
    Any,
}

/// An operation before it enters the search.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its index in the list of operations being checked.
    pub place: u32,
    /// The operation.
    pub op: Op,
    /// Operations that could notice this one are pending only from this event on, up to `until`. So an indeterminate operation is
    /// useful only in between.
    pub from: u32,
    /// See `from`.
    pub until: u32,
}

impl Candidate {
    /// An operation that may be useful at any time after its invocation.
    pub fn new(place: u32, op: Op) -> Candidate {
        Candidate { place, op, from: op.invoked, until: NEVER }
    }
}
