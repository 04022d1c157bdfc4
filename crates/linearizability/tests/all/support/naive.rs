//! Linearizability by the book: all subsets of the indeterminate operations, all orders that agree with real time.
//!
//! The objects are specified here a second time, as plainly as possible.

use std::collections::BTreeSet;

use linearizability::ModelSpec;
use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Value, Values};
use linearizability::models::FailedCas;

#[derive(Clone, Debug, PartialEq)]
pub enum State {
    Value(Value),
    Sum(i64),
    Elements(BTreeSet<Value>),
    List(Vec<Value>),
    Text(String),
    /// Owner, hold count, last token.
    Lock(u32, u32, i64),
    /// For a lock that any process may release: true if it is held.
    Held(bool),
    /// The owner of each held place.
    Owners(Vec<u32>),
}

pub struct Naive<'a> {
    pub spec: ModelSpec,
    pub initial: Value,
    pub failed_cas: FailedCas,
    pub values: &'a Values,
    /// The possible values of a write whose value is unknown.
    pub anything: &'a [Value],
}

impl Naive<'_> {
    pub fn start(&self) -> State {
        match self.spec {
            ModelSpec::Register | ModelSpec::CasRegister | ModelSpec::Rmw => State::Value(self.initial),
            ModelSpec::Counter => State::Sum(self.values.int(self.initial).unwrap_or(0)),
            ModelSpec::Set => State::Elements(BTreeSet::new()),
            ModelSpec::ListAppend => State::List(Vec::new()),
            ModelSpec::TextAppend => State::Text(String::new()),
            ModelSpec::Mutex => State::Held(false),
            ModelSpec::Semaphore(_) => State::Owners(Vec::new()),
            _ => State::Lock(0, 0, i64::MIN),
        }
    }

    fn says_nothing(&self, op: &Op) -> bool {
        op.outcome == Outcome::Fail && !(op.f == OpFunction::Cas && self.failed_cas == FailedCas::Check)
    }

    /// The states after writing a value that may be unknown.
    fn written(&self, value: Value) -> Vec<State> {
        let written = std::slice::from_ref(&value);
        let written = if value == Value::UNKNOWN { self.anything } else { written };
        written.iter().copied().map(State::Value).collect()
    }

    /// Every state that the operation can lead to.
    pub fn step(&self, state: &State, op: &Op) -> Vec<State> {
        if self.says_nothing(op) {
            return vec![state.clone()];
        }
        let fits = |known: bool, state: State| if known { vec![state] } else { Vec::new() };
        let text = |value: Value| match self.values.content(value) {
            Some(Content::Text(text)) => text.to_string(),
            _ => String::new(),
        };
        let list = |value: Value| match self.values.content(value) {
            Some(Content::List(list)) => list.clone(),
            _ => Vec::new(),
        };
        let unknown = op.a == Value::UNKNOWN;
        match (op.f, state.clone()) {
            (OpFunction::Read, state) if unknown => vec![state],
            (OpFunction::Read, State::Value(value)) => fits(value == op.a, State::Value(value)),
            (OpFunction::Write, State::Value(_)) => self.written(op.a),
            (OpFunction::Cas, State::Value(value)) if op.outcome == Outcome::Fail => {
                fits(value != op.a, State::Value(value))
            }
            (OpFunction::Cas | OpFunction::Rmw, State::Value(value)) if !unknown && value != op.a => Vec::new(),
            (OpFunction::Cas | OpFunction::Rmw, State::Value(_)) => self.written(op.b),
            // Not a register operation; it changes nothing.
            (OpFunction::Add, state @ State::Value(_)) => vec![state],
            (OpFunction::Read, State::Sum(sum)) => fits(self.values.int(op.a) == Some(sum), State::Sum(sum)),
            (OpFunction::Add, State::Sum(sum)) => vec![State::Sum(sum + self.values.int(op.a).unwrap())],
            (OpFunction::Read, State::Elements(set)) => {
                fits(list(op.a).into_iter().collect::<BTreeSet<_>>() == set, State::Elements(set))
            }
            (OpFunction::Add, State::Elements(mut set)) => {
                set.insert(op.a);
                vec![State::Elements(set)]
            }
            (OpFunction::Read, State::List(elements)) => fits(list(op.a) == elements, State::List(elements)),
            (OpFunction::Append, State::List(mut elements)) => {
                elements.push(op.a);
                vec![State::List(elements)]
            }
            (OpFunction::Read, State::Text(now)) => fits(text(op.a) == now, State::Text(now)),
            (OpFunction::Write, State::Text(_)) => vec![State::Text(text(op.a))],
            (OpFunction::Append, State::Text(now)) => vec![State::Text(now + &text(op.a))],
            (OpFunction::Acquire, State::Held(held)) => fits(!held, State::Held(true)),
            (OpFunction::Release, State::Held(held)) => fits(held, State::Held(false)),
            (OpFunction::Acquire, State::Owners(mut owners)) => {
                let free = self.spec != ModelSpec::Semaphore(owners.len() as u32);
                owners.push(op.process);
                // The order of owners does not matter.
                owners.sort_unstable();
                fits(free, State::Owners(owners))
            }
            (OpFunction::Release, State::Owners(mut owners)) => {
                let own = owners.iter().position(|owner| *owner == op.process);
                fits(own.map(|own| owners.remove(own)).is_some(), State::Owners(owners))
            }
            (OpFunction::Acquire, State::Lock(owner, count, last)) => {
                let again = self.spec == ModelSpec::ReentrantMutex && owner == op.process;
                let token = match self.spec {
                    ModelSpec::FencedMutex => self.values.int(op.a),
                    _ => None,
                };
                let rises = token.is_none_or(|token| token > last);
                fits((count == 0 || again) && rises, State::Lock(op.process, count + 1, token.unwrap_or(last)))
            }
            (OpFunction::Release, State::Lock(owner, count, last)) => {
                let mine = count > 0 && owner == op.process;
                if mine { vec![State::Lock(owner, count - 1, last)] } else { Vec::new() }
            }
            (f, state) => panic!("{f:?} of {state:?}"),
        }
    }

    pub fn is_linearizable(&self, operations: &[Op]) -> bool {
        let mut left: Vec<&Op> = operations.iter().filter(|op| !self.says_nothing(op)).collect();
        self.go_on(&[self.start()], &mut left)
    }

    fn go_on(&self, states: &[State], left: &mut Vec<&Op>) -> bool {
        let Some(deadline) = left.iter().filter(|op| op.completed != NEVER).map(|op| op.completed).min() else {
            return true;
        };
        for at in 0..left.len() {
            if left[at].invoked > deadline {
                continue;
            }
            let op = left.remove(at);
            let mut next: Vec<State> = Vec::new();
            for state in states.iter().flat_map(|state| self.step(state, op)) {
                if !next.contains(&state) {
                    next.push(state);
                }
            }
            let goes = !next.is_empty() && self.go_on(&next, left);
            left.insert(at, op);
            if goes {
                return true;
            }
        }
        false
    }

    /// True if an order is legal, agrees with real time, and contains all operations that certainly happened.
    pub fn is_legal_order(&self, operations: &[Op], order: &[u32]) -> bool {
        let chosen: BTreeSet<u32> = order.iter().copied().collect();
        let must = |op: &Op| op.outcome == Outcome::Ok && !(op.f == OpFunction::Read && op.a == Value::UNKNOWN);
        let complete = (0..).zip(operations).all(|(place, op)| !must(op) || chosen.contains(&place));
        let timely = (0..order.len()).all(|at| {
            let op = &operations[order[at] as usize];
            order[at + 1..].iter().all(|later| operations[*later as usize].completed > op.invoked)
        });
        let mut states = vec![self.start()];
        for place in order {
            states = states.iter().flat_map(|state| self.step(state, &operations[*place as usize])).collect();
        }
        complete && timely && chosen.len() == order.len() && !states.is_empty()
    }
}
