//! Random small histories of every model: from an object that works, then perhaps spoiled. Values are either few, so
//! that they repeat, or all unique.

use std::fmt;

use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Value, Values};
use linearizability::models::FailedCas;
use linearizability::{ModelSpec, words};

use super::Random;
use super::naive::{Naive, State};

#[derive(Clone)]
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
    let anything = plain.iter().copied().chain([Value::NIL]).collect();
    let mut case = Case { spec, initial, failed_cas, operations: Vec::new(), values, anything };
    // No search decides a large history of which some written values are unknown.
    let unknown = random.chance(if unique { 10 } else { 30 }) && (!unique || count < 10);
    let mixed = !unique || random.chance(60);
    let mut run = Run { state: case.naive().start(), token: 0, plain, unique, mixed, unknown };
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
    case.knows_its_values();
    case
}

/// A history for the near-linear checks, perhaps spoiled further: usually of few operations, and in nine of ten with unique values.
pub fn history(seed: u64, spec: ModelSpec, failed_cas: FailedCas) -> Case {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let large = random.chance(5);
    let shape = Shape {
        clients: 1 + random.below(if large { 10 } else { 3 }),
        count: if large { 3 + random.below(38) } else { 1 + random.below(9) },
        indeterminate: [0, 5, 20, 50][random.below(4)],
        spoiled: if large { [0, 1, 3][random.below(3)] } else { [0, 25, 50, 80][random.below(4)] },
        unique: random.chance(90),
    };
    let mut case = shaped(seed, spec, shape);
    case.failed_cas = failed_cas;
    if failed_cas == FailedCas::Check && random.chance(70) {
        // The theory cannot decide these.
        case.operations.retain(|op| (op.f, op.outcome) != (OpFunction::Cas, Outcome::Fail));
    }
    for _ in 0..[0, 0, 2, 6][random.below(4)] {
        match random.below(12) {
            0 if !case.operations.is_empty() => put_last(&mut case.operations, &mut random),
            _ => exchange(&mut case.operations, &mut random),
        }
    }
    if spec == ModelSpec::Counter {
        begin_elsewhere(&mut case, &mut random);
    }
    spread(&mut case, &mut random);
    case
}

/// Swaps two events that are close together, unless an operation would then end before it began.
fn exchange(operations: &mut [Op], random: &mut Random) {
    let count = operations.iter().map(|op| if op.completed == NEVER { 1 } else { 2 }).sum();
    let one = random.below(count) as u32;
    let other = one + 1 + random.below(4) as u32;
    let moved = |at: u32| {
        if at == one {
            other
        } else if at == other {
            one
        } else {
            at
        }
    };
    if operations.iter().all(|op| moved(op.invoked) < moved(op.completed)) {
        for op in operations.iter_mut() {
            (op.invoked, op.completed) = (moved(op.invoked), moved(op.completed));
        }
        operations.sort_unstable_by_key(|op| op.invoked);
    }
}

/// Moves an operation after everything else.
fn put_last(operations: &mut [Op], random: &mut Random) {
    let events = operations.iter().flat_map(|op| [op.invoked, op.completed]);
    let end = events.filter(|event| *event != NEVER).max().unwrap_or(0);
    let op = &mut operations[random.below(operations.len())];
    (op.invoked, op.completed) = (end + 1, if op.completed == NEVER { NEVER } else { end + 2 });
    operations.sort_unstable_by_key(|op| op.invoked);
}

/// Starts a counter at another number, or at nil.
fn begin_elsewhere(case: &mut Case, random: &mut Random) {
    let first = case.values.int(case.initial).unwrap_or(0);
    let (number, initial) = match random.below(4) {
        0 => (0, Value::NIL),
        number => (number as i64 * 3 - 5, case.values.intern(Content::Int(number as i64 * 3 - 5))),
    };
    case.initial = initial;
    for op in &mut case.operations {
        if op.f == OpFunction::Read
            && let Some(sum) = case.values.int(op.a)
        {
            op.a = case.values.intern(Content::Int(sum - first + number));
        }
    }
}

/// Makes places sparse, and the values of a register, as if most belonged to other keys.
fn spread(case: &mut Case, random: &mut Random) {
    let (from, step) = (random.one_of(&[0, 1, 7]), random.one_of(&[1, 1, 3]));
    let is_register = matches!(case.spec, ModelSpec::Register | ModelSpec::CasRegister | ModelSpec::Rmw);
    let apart = if is_register { random.one_of(&[1, 1, 2, 1000]) } else { 1 };
    let far = |value: Value| if value == Value::UNKNOWN { value } else { Value(value.0 * apart) };
    for op in &mut case.operations {
        op.invoked = from + op.invoked * step;
        op.completed = if op.completed == NEVER { NEVER } else { from + op.completed * step };
        (op.a, op.b) = (far(op.a), far(op.b));
    }
    case.initial = far(case.initial);
    case.knows_its_values();
}

/// The object while the history is generated.
struct Run {
    state: State,
    token: i64,
    plain: Vec<Value>,
    unique: bool,
    /// Whether a register is also written and compared, and not only updated.
    mixed: bool,
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
            (ModelSpec::Rmw, 0) if self.mixed => (OpFunction::Write, value, Value::NIL),
            (ModelSpec::Rmw, 1) if !self.unknown && self.mixed => {
                (OpFunction::Cas, self.expected(random, case), self.fresh(random, case))
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
    /// Lets an unknown value be any that is there, or one that no operation has.
    fn knows_its_values(&mut self) {
        let known = self.operations.iter().flat_map(|op| [op.a, op.b]).chain([self.initial, Value(u32::MAX - 1)]);
        self.anything.extend(known.filter(|value| *value != Value::UNKNOWN));
        self.anything.sort_unstable();
        self.anything.dedup();
    }

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
