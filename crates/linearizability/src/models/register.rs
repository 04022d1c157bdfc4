//! Registers: read, write, compare-and-set, read-modify-write.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

use crate::history::{NEVER, Op, OpFunction, Outcome, Value};
use crate::model::{Candidate, Effect, Model, Transition};
use crate::search::FastHasher;
use crate::words::{self, Words};

/// The meaning of a failed compare-and-set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailedCas {
    /// The register did not have the expected value, as the operation's contract says.
    Check,
    /// Nothing, as in Knossos: it did not happen, for any reason.
    #[default]
    Drop,
}

/// A register with all the operations that registers have. The state is a value.
///
/// - `read`: returns the value.
/// - `write`: replaces it.
/// - `cas` from, to: replaces the value if it is `from`; fails if it is not ([`FailedCas`]).
/// - `rmw` old, new: the value was `old`, and `new` replaces it. An unknown `old` fits every value; after an unknown `new` the
///   register may have any value, until an operation reads it.
///
/// Any other failed operation did not happen and proves nothing.
pub struct Register {
    /// The initial value.
    pub initial: Value,
    /// The meaning of a failed compare-and-set.
    pub failed_cas: FailedCas,
    /// True if an operation leaves an unknown value; a read may then determine it.
    pub wildcards: bool,
}

/// Stands for any value that no operation observes.
const OTHER: Value = Value(u32::MAX - 1);

impl Register {
    /// A register that starts with `initial`; `operations` will be checked.
    pub fn new(initial: Value, failed_cas: FailedCas, operations: &[Op]) -> Register {
        Register { initial, failed_cas, wildcards: operations.iter().any(|op| produces(op) == Some(Value::UNKNOWN)) }
    }

    fn says_nothing(&self, op: &Op) -> bool {
        op.outcome == Outcome::Fail && (op.f != OpFunction::Cas || self.failed_cas == FailedCas::Drop)
            || op.f == OpFunction::Read && op.a == Value::UNKNOWN
    }
}

/// The value in the register after the operation.
fn produces(op: &Op) -> Option<Value> {
    match op.f {
        _ if op.outcome == Outcome::Fail => None,
        OpFunction::Write => Some(op.a),
        OpFunction::Cas | OpFunction::Rmw => Some(op.b),
        _ => None,
    }
}

/// The value that the operation finds.
fn observes(op: &Op) -> Option<Value> {
    match op.f {
        _ if op.outcome == Outcome::Fail => None,
        OpFunction::Cas => Some(op.a),
        OpFunction::Read | OpFunction::Rmw if op.a != Value::UNKNOWN => Some(op.a),
        _ => None,
    }
}

impl Model for Register {
    type State = Value;

    fn initial(&self) -> Value {
        self.initial
    }

    fn step(&self, state: &Value, op: &Op) -> Transition<Value> {
        let to = |value: Value| {
            if value == *state && value != Value::UNKNOWN { Transition::Same } else { Transition::To(value) }
        };
        if self.says_nothing(op) {
            return Transition::Same;
        }
        let fits = |found: Value| found == *state || *state == Value::UNKNOWN;
        match op.f {
            OpFunction::Read if fits(op.a) => to(op.a),
            OpFunction::Write => to(op.a),
            OpFunction::Cas if op.outcome == Outcome::Fail => match op.a == *state {
                true => Transition::Illegal,
                false => Transition::Same,
            },
            OpFunction::Cas if fits(op.a) => to(op.b),
            OpFunction::Rmw if op.a == Value::UNKNOWN || fits(op.a) => to(op.b),
            _ => Transition::Illegal,
        }
    }

    fn effect(&self, op: &Op) -> Effect {
        match op.f {
            OpFunction::Write => Effect::Overwrites,
            OpFunction::Cas if op.outcome == Outcome::Fail => Effect::Nothing,
            OpFunction::Rmw if op.a == Value::UNKNOWN => Effect::Overwrites,
            OpFunction::Read if self.wildcards && op.outcome == Outcome::Ok && op.a != Value::UNKNOWN => Effect::Any,
            OpFunction::Read => Effect::Nothing,
            _ => Effect::Any,
        }
    }

    fn has_owners(&self) -> bool {
        false
    }

    fn simplify(&self, operations: &mut Vec<Candidate>) {
        operations.retain(|candidate| {
            !self.says_nothing(&candidate.op)
                && (candidate.op.outcome != Outcome::Info || produces(&candidate.op).is_some())
        });
        if self.wildcards {
            return;
        }
        let observed = Observed::of(operations);
        operations.retain_mut(|candidate| {
            let Some(value) = produces(&candidate.op) else { return true };
            let window = observed.after(value);
            if !observed.values.contains_key(&value) {
                match candidate.op.f {
                    OpFunction::Write => candidate.op.a = OTHER,
                    _ => candidate.op.b = OTHER,
                }
            }
            (candidate.from, candidate.until) = (candidate.from.max(window.from), window.until);
            candidate.op.outcome != Outcome::Info || candidate.from < candidate.until
        });
    }

    fn absurd(&self, operations: &[Op]) -> Option<u32> {
        if self.wildcards {
            return None;
        }
        let mut written: HashSet<Value, BuildHasherDefault<FastHasher>> =
            operations.iter().filter_map(produces).collect();
        written.insert(self.initial);
        let found = |op: &Op| op.outcome == Outcome::Ok && observes(op).is_some_and(|value| !written.contains(&value));
        let places = (0..).zip(operations).filter(|(_, op)| found(op));
        places.min_by_key(|(_, op)| op.completed).map(|(place, _)| place)
    }

    fn omissible(&self, operations: &[Op]) -> Vec<Vec<u32>> {
        let mut observers: HashMap<Value, u32> = HashMap::new();
        let mut refused = false;
        for op in operations.iter().filter(|op| !self.says_nothing(op)) {
            if let Some(value) = observes(op) {
                *observers.entry(value).or_default() += 1;
            }
            refused |= op.outcome == Outcome::Fail;
        }
        let something_else = operations.first().is_some_and(|op| produces(op) == Some(OTHER));
        let may_go = |op: &Op| match produces(op) {
            // Without this write, a failed compare-and-set might find the very value that it must not find.
            Some(_) if refused && !something_else => false,
            Some(Value::UNKNOWN) => observers.is_empty(),
            Some(value) => observers.get(&value).copied().unwrap_or(0) == u32::from(observes(op) == Some(value)),
            None => true,
        };
        let singles = (0..operations.len() as u32).filter(|place| may_go(&operations[*place as usize]));
        singles.map(|place| vec![place]).collect()
    }

    /// Each failed compare-and-set needs a moment with some other value.
    fn bystanders(&self, operations: &[Op]) -> Vec<Op> {
        let refused = |op: &&Op| op.outcome == Outcome::Fail && !self.says_nothing(op) && !self.wildcards;
        let other = |op: &Op| Op {
            f: OpFunction::Write,
            outcome: Outcome::Info,
            a: OTHER,
            b: Value::NIL,
            invoked: 0,
            completed: NEVER,
            ..*op
        };
        operations.iter().filter(refused).map(other).collect()
    }

    /// All other operations that wrote the values found. Writes of other values do not matter.
    fn needed(&self, operations: &[Op], kept: &[u32]) -> Option<Vec<u32>> {
        let ops = || kept.iter().map(|place| &operations[*place as usize]);
        if self.wildcards {
            return None;
        }
        let found: HashSet<Value> = ops().filter_map(observes).collect();
        let kept: HashSet<u32> = kept.iter().copied().collect();
        let wrote = |op: &Op| produces(op).is_some_and(|value| found.contains(&value));
        let others = (0..).zip(operations).filter(|(place, op)| wrote(op) && !kept.contains(place));
        Some(others.map(|(place, _)| place).collect())
    }

    fn weaken(&self, op: &Op) -> Option<Op> {
        let value = produces(op).filter(|value| op.f != OpFunction::Write && *value != Value::UNKNOWN)?;
        Some(Op { f: OpFunction::Write, a: value, b: Value::NIL, ..*op })
    }

    fn describe(&self, state: &Value, words: &Words) -> Option<String> {
        match *state {
            OTHER => Some("a value that no operation saw".into()),
            Value::UNKNOWN => Some("an unknown value".into()),
            value => Some(words::value(words.values, value)),
        }
    }
}

/// When an operation could notice that the register has a given value.
struct Observed {
    values: HashMap<Value, Window, BuildHasherDefault<FastHasher>>,
    /// When a failed compare-and-set notices that the register has another value.
    otherwise: Window,
}

/// From the first observer's invocation to the last one's completion.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Window {
    from: u32,
    until: u32,
}

const EMPTY: Window = Window { from: NEVER, until: 0 };

impl Window {
    fn with(self, other: Window) -> Window {
        Window { from: self.from.min(other.from), until: self.until.max(other.until) }
    }
}

/// After this many rounds, an indeterminate compare-and-set in a chain counts as useful at any time.
const ROUNDS: usize = 8;

impl Observed {
    fn of(operations: &[Candidate]) -> Observed {
        let mut observed = Observed { values: HashMap::default(), otherwise: EMPTY };
        for Candidate { op, .. } in operations.iter().filter(|candidate| candidate.op.outcome != Outcome::Info) {
            let window = Window { from: op.invoked, until: op.completed };
            if op.outcome == Outcome::Fail {
                observed.otherwise = observed.otherwise.with(window);
                // It notices this value too.
                observed.add(op.a, EMPTY);
            } else if let Some(value) = observes(op) {
                observed.add(value, window);
            }
        }
        // An indeterminate operation is an observer if the value that it leaves is observed.
        let links = || operations.iter().filter(|c| c.op.outcome == Outcome::Info && observes(&c.op).is_some());
        for round in 0.. {
            let mut changed = false;
            for Candidate { op, .. } in links() {
                let (Some(from), Some(to)) = (observes(op), produces(op)) else { continue };
                let after = observed.after(to);
                if after.until <= op.invoked {
                    continue;
                }
                let window = match round < ROUNDS {
                    true => Window { from: after.from.max(op.invoked), until: after.until },
                    false => Window { from: 0, until: NEVER },
                };
                changed |= observed.add(from, window);
            }
            if !changed {
                break;
            }
        }
        observed
    }

    fn add(&mut self, value: Value, window: Window) -> bool {
        let known = self.values.entry(value).or_insert(EMPTY);
        let wider = known.with(window);
        std::mem::replace(known, wider) != wider
    }

    /// When an operation could distinguish a register with this value from one without it.
    fn after(&self, value: Value) -> Window {
        self.values.get(&value).map_or(self.otherwise, |window| window.with(self.otherwise))
    }
}
