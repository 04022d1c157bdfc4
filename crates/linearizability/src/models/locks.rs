//! Locks: with and without owners, reentrant, with fencing tokens; and semaphores.
//!
//! Nothing here expires: a lease counts as a lock only as long as it lasts. A failed acquire did not happen, and proves nothing
//! about the holder: it may have failed because there was no majority.

use std::collections::HashMap;

use crate::history::{NEVER, Op, OpFunction, Outcome, Value, Values};
use crate::model::{Model, Transition};
use crate::words::Words;

/// A lock that anyone may release. `acquire`: it was free and is now held; `release`: it was held and is now free.
pub struct Mutex;

impl Model for Mutex {
    /// True if it is held.
    type State = bool;

    fn initial(&self) -> bool {
        false
    }

    fn step(&self, held: &bool, op: &Op) -> Transition<bool> {
        match op.f {
            _ if op.outcome == Outcome::Fail => Transition::Same,
            OpFunction::Acquire if !held => Transition::To(true),
            OpFunction::Release if *held => Transition::To(false),
            _ => Transition::Illegal,
        }
    }

    fn has_owners(&self) -> bool {
        false
    }

    /// Failed operations. Also everything between two times without an operation in flight, if it leaves the lock in its previous
    /// state. An acquire and release of one process are not enough: another process may rely on them.
    fn omissible(&self, operations: &[Op]) -> Vec<Vec<u32>> {
        let mut sets = failed(operations);
        let (mut block, mut balance, mut quiet_from) = (Vec::new(), 0, 0);
        for (place, op) in (0..).zip(operations) {
            if op.outcome == Outcome::Fail {
                continue;
            }
            // Unbalanced blocks are joined with the next one.
            if op.invoked > quiet_from && balance == 0 && !block.is_empty() {
                sets.push(std::mem::take(&mut block));
            }
            quiet_from = quiet_from.max(op.completed);
            balance += if op.f == OpFunction::Acquire { 1 } else { -1 };
            block.push(place);
        }
        if balance == 0 && quiet_from != NEVER && !block.is_empty() {
            sets.push(block);
        }
        sets
    }

    fn describe(&self, held: &bool, _: &Words) -> Option<String> {
        Some(if *held { "held" } else { "free" }.into())
    }
}

/// `limit` places, each of which only its owner can release. `acquire`: a place was free, and the process owns it now, besides
/// earlier ones; `release`: the process owned a place, and it is now free.
pub struct Semaphore {
    /// The number of places.
    pub limit: u32,
}

impl Model for Semaphore {
    /// The sorted owners of the held places; an owner of several places appears several times.
    type State = Box<[u32]>;

    fn initial(&self) -> Self::State {
        Box::default()
    }

    fn step(&self, owners: &Self::State, op: &Op) -> Transition<Self::State> {
        let (at, is_owner) = match owners.binary_search(&op.process) {
            Ok(at) => (at, true),
            Err(at) => (at, false),
        };
        match op.f {
            _ if op.outcome == Outcome::Fail => Transition::Same,
            OpFunction::Acquire if owners.len() < self.limit as usize => {
                Transition::To([&owners[..at], &[op.process], &owners[at..]].concat().into())
            }
            OpFunction::Release if is_owner => Transition::To([&owners[..at], &owners[at + 1..]].concat().into()),
            _ => Transition::Illegal,
        }
    }

    fn omissible(&self, operations: &[Op]) -> Vec<Vec<u32>> {
        holds(operations)
    }

    fn describe(&self, owners: &Self::State, words: &Words) -> Option<String> {
        let owners: Vec<String> = owners.iter().map(|process| (words.process)(*process)).collect();
        Some(match owners.as_slice() {
            [] => format!("all {} places free", self.limit),
            owners => format!("{} of {} places taken, by {}", owners.len(), self.limit, owners.join(", ")),
        })
    }
}

/// A lock that only its owner can release. `acquire`: it was free, and the process owns it now (`reentrant`: or the
/// process owned it, and owns it once more); `release`: the process owned it, and owns it once less.
pub struct OwnerMutex {
    /// True if the owner can acquire it again.
    pub reentrant: bool,
}

/// The owner of a lock, and how many times it holds the lock; no process if the count is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owned {
    process: u32,
    count: u32,
}

impl Owned {
    fn step(self, op: &Op, reentrant: bool) -> Transition<Owned> {
        let mine = self.count > 0 && self.process == op.process;
        match op.f {
            OpFunction::Acquire if self.count == 0 || mine && reentrant => {
                Transition::To(Owned { process: op.process, count: self.count + 1 })
            }
            OpFunction::Release if mine && self.count == 1 => Transition::To(Owned::default()),
            OpFunction::Release if mine => Transition::To(Owned { count: self.count - 1, ..self }),
            _ => Transition::Illegal,
        }
    }

    fn describe(self, words: &Words) -> String {
        match self.count {
            0 => "free".into(),
            1 => format!("held by {}", (words.process)(self.process)),
            count => format!("held {count} times by {}", (words.process)(self.process)),
        }
    }
}

impl Model for OwnerMutex {
    type State = Owned;

    fn initial(&self) -> Owned {
        Owned::default()
    }

    fn step(&self, state: &Owned, op: &Op) -> Transition<Owned> {
        if op.outcome == Outcome::Fail { Transition::Same } else { state.step(op, self.reentrant) }
    }

    fn omissible(&self, operations: &[Op]) -> Vec<Vec<u32>> {
        holds(operations)
    }

    fn describe(&self, state: &Owned, words: &Words) -> Option<String> {
        Some(state.describe(words))
    }
}

/// A lock that only its owner can release, and whose acquires return strictly increasing tokens. Unknown and missing
/// tokens always fit.
pub struct FencedMutex {
    /// The number of each value, if it is one.
    numbers: Vec<Option<i64>>,
}

impl FencedMutex {
    /// A lock that is free; `values` holds the tokens.
    pub fn new(values: &Values) -> FencedMutex {
        FencedMutex { numbers: (0..values.len() as u32).map(|value| values.int(Value(value))).collect() }
    }
}

impl Model for FencedMutex {
    /// The owner and the last token.
    type State = (Owned, Option<i64>);

    fn initial(&self) -> Self::State {
        (Owned::default(), None)
    }

    fn step(&self, (owned, last): &Self::State, op: &Op) -> Transition<Self::State> {
        if op.outcome == Outcome::Fail {
            return Transition::Same;
        }
        let token = match op.f {
            OpFunction::Acquire => self.numbers.get(op.a.0 as usize).copied().flatten(),
            _ => None,
        };
        if token.is_some() && token <= *last {
            return Transition::Illegal;
        }
        match owned.step(op, false) {
            Transition::To(owned) => Transition::To((owned, token.or(*last))),
            _ => Transition::Illegal,
        }
    }

    fn omissible(&self, operations: &[Op]) -> Vec<Vec<u32>> {
        holds(operations)
    }

    fn weaken(&self, op: &Op) -> Option<Op> {
        (op.f == OpFunction::Acquire && op.a != Value::NIL).then_some(Op { a: Value::NIL, ..*op })
    }

    fn describe(&self, (owned, last): &Self::State, words: &Words) -> Option<String> {
        let last = last.map(|token| format!(", and the last token was {token}")).unwrap_or_default();
        Some(owned.describe(words) + &last)
    }
}

fn failed(operations: &[Op]) -> Vec<Vec<u32>> {
    let places = (0..).zip(operations).filter(|(_, op)| op.outcome == Outcome::Fail);
    places.map(|(place, _)| vec![place]).collect()
}

/// Failed operations, and whole holds: an acquire with the release that is its process's next operation, or an acquire that is
/// its process's last. Never a release alone, because other processes may have acquired after it. If one of the two is
/// indeterminate, only if no other operation of the process can have relied on it.
fn holds(operations: &[Op]) -> Vec<Vec<u32>> {
    let mut sets = failed(operations);
    let mut acquired: HashMap<u32, Vec<u32>> = HashMap::new();
    for (place, op) in (0..).zip(operations).filter(|(_, op)| op.outcome != Outcome::Fail) {
        let before = acquired.remove(&op.process).filter(|hold| hold.len() == 1);
        match (op.f, before) {
            (OpFunction::Acquire, _) => {
                acquired.insert(op.process, vec![place]);
            }
            (_, Some(mut hold)) if operations[hold[0] as usize].outcome == Outcome::Ok => {
                hold.push(place);
                match op.outcome {
                    Outcome::Ok => sets.push(hold),
                    // It may have happened later than the process's next operation.
                    _ => drop(acquired.insert(op.process, hold)),
                }
            }
            _ => {}
        }
    }
    sets.extend(acquired.into_values());
    sets.sort_unstable();
    sets
}
