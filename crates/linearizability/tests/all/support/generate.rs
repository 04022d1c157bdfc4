//! Random small histories of every model: from an object that works, then perhaps spoiled. Values are either few, so
//! that they repeat, or all unique.

use std::fmt;

use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Value, Values};
use linearizability::models::FailedCas;
use linearizability::{ModelSpec, words};

use super::Random;
use super::naive::{Naive, State};

pub struct Case {
    pub spec: ModelSpec,
    pub initial: Value,
    pub failed_cas: FailedCas,
    pub operations: Vec<Op>,
    pub values: Values,
    anything: Vec<Value>,
}

impl Case {
    pub fn naive(&self) -> Naive<'_> {
        let Case { spec, initial, failed_cas, ref values, ref anything, .. } = *self;
        Naive { spec, initial, failed_cas, values, anything }
    }
}

pub const SPECS: [ModelSpec; 13] = [
    ModelSpec::Register,
    ModelSpec::CasRegister,
    ModelSpec::CasRegister,
    ModelSpec::Rmw,
    ModelSpec::Counter,
    ModelSpec::Set,
    ModelSpec::ListAppend,
    ModelSpec::TextAppend,
    ModelSpec::Mutex,
    ModelSpec::OwnerMutex,
    ModelSpec::ReentrantMutex,
    ModelSpec::FencedMutex,
    ModelSpec::Semaphore(2),
];

/// How a history is generated.
pub struct Shape {
    pub clients: usize,
    pub count: usize,
    /// Percentages of operations that are indeterminate, and that are not reported truthfully.
    pub indeterminate: usize,
    pub spoiled: usize,
    /// Whether each operation writes or adds a value of its own (a counter: always the same number), and every token is
    /// known.
    pub unique: bool,
}

/// A history of at most this many operations. The same seed gives the same history.
pub fn case(seed: u64, spec: ModelSpec, most: usize) -> Case {
    let mut random = Random(!seed);
    let clients = 1 + random.below(5);
    let count = 1 + random.below(most);
    let indeterminate = [0, 10, 30, 60][random.below(4)];
    let spoiled = [0, 20, 50, 80][random.below(4)];
    shaped(seed, spec, Shape { clients, count, indeterminate, spoiled, unique: false })
}

/// A history of this shape.
pub fn shaped(seed: u64, spec: ModelSpec, shape: Shape) -> Case {
    let Shape { clients, count, indeterminate, spoiled, unique } = shape;
    let mut random = Random(seed);
    let mut values = Values::default();
    let distinct = if unique && spec == ModelSpec::Counter { 1 } else { 1 + random.below(4) };
    let plain: Vec<Value> = (0..distinct)
        .map(|n| match spec {
            ModelSpec::TextAppend => values.intern(Content::Text(["a", "b", "ab", ""][n].into())),
            ModelSpec::Counter => values.intern(Content::Int([1, 2, -1, 0][n])),
            _ => values.intern(Content::Int(n as i64)),
        })
        .collect();
    let initial = match random.chance(50) {
        true if spec != ModelSpec::TextAppend => plain[0],
        _ => Value::NIL,
    };
    let failed_cas = if random.chance(75) { FailedCas::Check } else { FailedCas::Drop };
    // And a value that no operation has.
    let anything = plain.iter().copied().chain([Value::NIL, Value(u32::MAX - 1)]).collect();
    let mut case = Case { spec, initial, failed_cas, operations: Vec::new(), values, anything };
    let mut run = Run { state: case.naive().start(), token: 0, plain, unique, unknown: random.chance(30) && !unique };
    let mut processes: Vec<(u32, Option<usize>, bool)> =
        (0..clients as u32).map(|process| (process, None, false)).collect();
    let (mut place, mut begun) = (0, 0);
    loop {
        let at = random.below(clients);
        let (process, open, done) = processes[at];
        match open {
            None if begun < count => {
                begun += 1;
                let (f, a, b) = run.invoke(&mut random, &mut case);
                let op =
                    Op { key: 0, process, f, outcome: Outcome::Info, a, b, invoked: place, completed: NEVER, line: 1 };
                processes[at] = (process, Some(case.operations.len()), false);
                case.operations.push(op);
                place += 1;
            }
            None => {
                if processes.iter().all(|(_, open, _)| open.is_none()) {
                    break;
                }
            }
            Some(index) if !done => {
                if random.chance(50) {
                    run.happen(&mut random, &mut case, index);
                }
                processes[at].2 = true;
            }
            Some(index) if random.chance(indeterminate) => {
                // Its process retires, as in Jepsen, or continues.
                let op = &mut case.operations[index];
                op.outcome = Outcome::Info;
                if op.f == OpFunction::Read
                    || op.f == OpFunction::Acquire
                    || op.f == OpFunction::Rmw && random.chance(50)
                {
                    op.a = Value::UNKNOWN;
                }
                if op.f == OpFunction::Rmw && run.unknown {
                    op.b = Value::UNKNOWN;
                }
                let next = if random.chance(80) { process + clients as u32 } else { process };
                processes[at] = (next, None, false);
            }
            Some(index) => {
                if case.operations[index].outcome == Outcome::Info {
                    run.happen(&mut random, &mut case, index);
                }
                if random.chance(spoiled) {
                    run.spoil(&mut random, &mut case, index);
                }
                case.operations[index].completed = place;
                place += 1;
                processes[at] = (process, None, false);
            }
        }
    }
    case
}

/// The object while the history is generated.
struct Run {
    state: State,
    token: i64,
    plain: Vec<Value>,
    unique: bool,
    /// Whether indeterminate read-modify-writes hide what they wrote.
    unknown: bool,
}

impl Run {
    /// A value that is or may be in the history.
    fn any(&self, random: &mut Random, case: &Case) -> Value {
        if !self.unique {
            return self.plain[random.below(self.plain.len())];
        }
        let known = case.operations.iter().flat_map(|op| [op.a, op.b]).filter(|value| *value != Value::UNKNOWN);
        let known: Vec<Value> = known.chain([case.initial, self.plain[0]]).collect();
        known[random.below(known.len())]
    }

    /// What an operation writes or adds.
    fn fresh(&self, random: &mut Random, case: &mut Case) -> Value {
        match self.unique && case.spec != ModelSpec::Counter {
            true => case.values.intern(Content::Int(100 + case.operations.len() as i64)),
            false => self.plain[random.below(self.plain.len())],
        }
    }

    /// What a compare-and-set expects.
    fn expected(&self, random: &mut Random, case: &Case) -> Value {
        match self.state {
            State::Value(value) if self.unique && random.chance(90) => value,
            _ => self.any(random, case),
        }
    }

    fn invoke(&self, random: &mut Random, case: &mut Case) -> (OpFunction, Value, Value) {
        let value = self.fresh(random, case);
        let read = (OpFunction::Read, Value::UNKNOWN, Value::NIL);
        match (case.spec, random.below(6)) {
            (ModelSpec::Mutex | ModelSpec::OwnerMutex | ModelSpec::ReentrantMutex, 0..3) => {
                (OpFunction::Acquire, Value::NIL, Value::NIL)
            }
            (ModelSpec::Semaphore(_) | ModelSpec::FencedMutex, 0..3) => (OpFunction::Acquire, Value::NIL, Value::NIL),
            (
                ModelSpec::Mutex
                | ModelSpec::OwnerMutex
                | ModelSpec::ReentrantMutex
                | ModelSpec::Semaphore(_)
                | ModelSpec::FencedMutex,
                _,
            ) => (OpFunction::Release, Value::NIL, Value::NIL),
            (ModelSpec::Register, 0..3) => (OpFunction::Write, value, Value::NIL),
            (ModelSpec::CasRegister, 0..1) => (OpFunction::Write, value, Value::NIL),
            (ModelSpec::CasRegister, 1..4) => (OpFunction::Cas, self.expected(random, case), self.fresh(random, case)),
            (ModelSpec::Rmw, 0) if !self.unique => (OpFunction::Write, value, Value::NIL),
            (ModelSpec::Rmw, 1) if !self.unknown && !self.unique => {
                (OpFunction::Cas, self.any(random, case), self.fresh(random, case))
            }
            (ModelSpec::Rmw, 2..5) => (OpFunction::Rmw, Value::UNKNOWN, self.fresh(random, case)),
            (ModelSpec::Counter | ModelSpec::Set, 0..4) => (OpFunction::Add, value, Value::NIL),
            (ModelSpec::ListAppend, 0..3) => (OpFunction::Append, value, Value::NIL),
            (ModelSpec::TextAppend, 0..3) => (OpFunction::Append, value, Value::NIL),
            (ModelSpec::TextAppend, 3) => (OpFunction::Write, value, Value::NIL),
            _ => read,
        }
    }

    /// Lets the operation take effect now, as far as the object allows.
    fn happen(&mut self, random: &mut Random, case: &mut Case, index: usize) {
        let mut op = case.operations[index];
        op.outcome = Outcome::Ok;
        match (op.f, &self.state) {
            (OpFunction::Read | OpFunction::Rmw, State::Value(value)) => op.a = *value,
            (OpFunction::Read, State::Sum(sum)) => op.a = case.values.intern(Content::Int(*sum)),
            (OpFunction::Read, State::Elements(set)) => {
                op.a = case.values.intern(Content::List(set.iter().copied().collect()));
            }
            (OpFunction::Read, State::List(list)) => op.a = case.values.intern(Content::List(list.clone())),
            (OpFunction::Read, State::Text(text)) => op.a = case.values.intern(Content::Text(text.as_str().into())),
            (OpFunction::Acquire, _) if case.spec == ModelSpec::FencedMutex && (random.chance(80) || self.unique) => {
                self.token += 1 + random.below(2) as i64;
                op.a = case.values.intern(Content::Int(self.token));
            }
            _ => {}
        }
        match case.naive().step(&self.state, &op).pop() {
            Some(state) => self.state = state,
            None => op.outcome = Outcome::Fail,
        }
        case.operations[index] = op;
    }

    /// Makes the history report something other than what happened.
    fn spoil(&mut self, random: &mut Random, case: &mut Case, index: usize) {
        let value = self.any(random, case);
        let others: Vec<Value> = case.operations.iter().filter(|op| op.f == OpFunction::Read).map(|op| op.a).collect();
        let op = &mut case.operations[index];
        match op.f {
            _ if random.chance(40) => op.outcome = if op.outcome == Outcome::Ok { Outcome::Fail } else { Outcome::Ok },
            OpFunction::Read => {
                let other = others[random.below(others.len())];
                let plain = matches!(case.spec, ModelSpec::Register | ModelSpec::CasRegister | ModelSpec::Rmw);
                op.a = if plain { value } else { other };
            }
            OpFunction::Rmw | OpFunction::Cas => op.a = value,
            OpFunction::Acquire if case.spec == ModelSpec::FencedMutex => op.a = value,
            _ => op.outcome = Outcome::Ok,
        }
        if op.outcome == Outcome::Ok && op.f == OpFunction::Rmw && op.b == Value::UNKNOWN {
            op.b = value;
        }
    }
}

impl Case {
    /// What had happened before an event, or up to and including it.
    pub fn until(&self, event: u32, inclusive: bool) -> Vec<Op> {
        let begun = self.operations.iter().filter(|op| op.invoked < event);
        begun
            .map(|op| match op.completed < event || inclusive && op.completed == event || op.completed == NEVER {
                true => *op,
                false if op.outcome == Outcome::Fail => Op { f: OpFunction::Read, a: Value::UNKNOWN, ..*op },
                false => Op { outcome: Outcome::Info, completed: NEVER, ..*op },
            })
            .collect()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let initial = words::value(&self.values, self.initial);
        writeln!(out, "{}, at first {initial}, failed compare-and-sets: {:?}", self.spec, self.failed_cas)?;
        for (place, op) in self.operations.iter().enumerate() {
            let completed = if op.completed == NEVER { "never".into() } else { op.completed.to_string() };
            writeln!(out, "{place}: {} to {completed}: {}", op.invoked, words::label(&self.values, op))?;
        }
        Ok(())
    }
}
