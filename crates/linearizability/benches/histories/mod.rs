//! Generates histories of any size for measuring checks: histories of one correct object, or with a violation on request.
//!
//! Clients take random turns, and each operation takes effect between its invocation and completion. So histories
//! without a violation are linearizable by construction.

mod random;

use std::fmt;

use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Table, Value, Values};
use random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    Register,
    /// A compare-and-set may fail, and then shows a value that was not there.
    Cas,
    Rmw,
    /// Operations without an answer do not report what they read or wrote.
    Unknown,
    /// Read-modify-writes that add one, so a lost update makes a number appear twice.
    Increments,
    Owner,
    Fenced,
    /// Every addition adds one.
    Counter,
    /// Sets and lists are read only twenty times, since their reads grow longer and longer.
    Set,
    List,
}

/// Where a history stops being linearizable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    None,
    Start,
    Middle,
    End,
}

/// The kind of history to generate.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub object: Object,
    pub operations: usize,
    pub clients: usize,
    /// Percentage of operations that never get an answer; half of them take effect.
    pub info_percent: u64,
    pub violation: Violation,
    pub seed: u64,
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let Shape { operations, clients, info_percent, violation, .. } = self;
        write!(out, "{operations} ops, {clients} clients, {info_percent} % info")?;
        match violation {
            Violation::None => Ok(()),
            place => write!(out, ", violated at the {}", format!("{place:?}").to_lowercase()),
        }
    }
}

/// A client between two events.
#[derive(Clone, Copy)]
struct Client {
    process: u32,
    holds: bool,
    /// The operation it waits for, its end, and whether it has taken effect.
    open: Option<(usize, Fate, bool)>,
}

/// How an operation ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered,
    /// No answer, and no effect.
    Lost,
    /// No answer, but an effect.
    Unheard,
}

/// The state of the object.
struct State {
    value: Value,
    holder: Option<u32>,
    token: i64,
    sum: i64,
    elements: Vec<Value>,
}

const EMPTY: State = State { value: Value::NIL, holder: None, token: 0, sum: 0, elements: Vec::new() };

/// Generates a history in the order of its invocations. The object is initially empty; every value is written once.
pub fn history(shape: Shape) -> Table {
    let mut random = Random(shape.seed);
    let mut values = Values::default();
    let mut ops: Vec<Op> = Vec::with_capacity(shape.operations + 4);
    let mut clients: Vec<Client> =
        (0..shape.clients as u32).map(|process| Client { process, holds: false, open: None }).collect();
    let (mut state, mut processes, mut event) = (EMPTY, shape.clients as u32, 0);
    let violated_at = match shape.violation {
        Violation::None => usize::MAX,
        Violation::Start => shape.operations / 20,
        Violation::Middle => shape.operations / 2,
        Violation::End => shape.operations - shape.operations / 20,
    };
    // One wrong read is a violation. But one of two lock holders may be about to release, so a broken lock lets in several
    // clients.
    let mut wrong_ones = if matches!(shape.object, Object::Owner | Object::Fenced) { 20 } else { 1 };
    while ops.len() < shape.operations || clients.iter().any(|client| client.open.is_some()) {
        if shape.object == Object::Cas && wrong_ones > 0 && ops.len() >= violated_at {
            refuse_without_reason(&mut ops, &mut event, processes, &mut state, &mut values);
            processes += 1;
            wrong_ones = 0;
        }
        let number = random.below(clients.len() as u64) as usize;
        let client = &mut clients[number];
        let Some((place, fate, effective)) = client.open else {
            if ops.len() >= shape.operations {
                continue;
            }
            let (f, a, b) = asked(&shape, ops.len(), &state, client.holds, &mut random, &mut values);
            let fate = match random.below(200) {
                // A lock whose release is lost would be held forever.
                chance if chance < shape.info_percent && f != OpFunction::Release => Fate::Lost,
                chance if chance < 2 * shape.info_percent => Fate::Unheard,
                _ => Fate::Answered,
            };
            event += 1;
            client.open = Some((ops.len(), fate, false));
            let (process, invoked) = (client.process, event);
            let outcome = Outcome::Info;
            ops.push(Op { key: 0, process, f, outcome, a, b, invoked, completed: NEVER, line: event });
            continue;
        };
        if !effective && fate != Fate::Lost {
            let broken = wrong_ones > 0 && place >= violated_at && fate == Fate::Answered;
            if ops[place].f == OpFunction::Cas && random.below(8) > 0 {
                // Usually no other operation came in between.
                ops[place].a = state.value;
            }
            let (done, wrong) = effect(shape.object, &mut ops[place], &mut state, broken, &mut values);
            wrong_ones -= u32::from(wrong);
            // A held lock makes its client wait, until the client gives up or no more operations follow.
            let patient = ops[place].f == OpFunction::Acquire && ops.len() < shape.operations;
            if done {
                client.open = Some((place, fate, true));
                client.holds = ops[place].f == OpFunction::Acquire;
            } else if !patient || random.below(2_000) == 0 {
                event += 1;
                (ops[place].outcome, ops[place].completed) = (Outcome::Fail, event);
                client.open = None;
            }
            continue;
        }
        client.open = None;
        if fate == Fate::Answered {
            event += 1;
            (ops[place].outcome, ops[place].completed) = (Outcome::Ok, event);
            continue;
        }
        if client.holds {
            // A holder that never learned that it has the lock must not keep it forever.
            event += 1;
            let mut release = Op { f: OpFunction::Release, a: Value::NIL, invoked: event, line: event, ..ops[place] };
            effect(shape.object, &mut release, &mut state, false, &mut values);
            ops.push(release);
        }
        *client = Client { process: processes, holds: false, open: None };
        processes += 1;
    }
    // An increment knows in advance which values it should read and write.
    let forgets = |op: &&mut Op| op.outcome == Outcome::Info && shape.object != Object::Increments;
    for op in ops.iter_mut().filter(forgets) {
        if matches!(op.f, OpFunction::Read | OpFunction::Rmw | OpFunction::Acquire) {
            op.a = Value::UNKNOWN;
        }
        if shape.object == Object::Unknown {
            op.b = Value::UNKNOWN;
        }
    }
    Table { operations: ops, values, keys: vec![String::new()] }
}

/// While all other processes are idle, one process writes a value, fails to replace it, and still reads it.
fn refuse_without_reason(ops: &mut Vec<Op>, event: &mut u32, process: u32, state: &mut State, values: &mut Values) {
    let (here, never) = (values.len() as i64, values.len() as i64 + 1);
    let (here, never) = (values.intern(Content::Int(here)), values.intern(Content::Int(never)));
    state.value = here;
    for (f, outcome, b) in [
        (OpFunction::Write, Outcome::Ok, Value::NIL),
        (OpFunction::Cas, Outcome::Fail, never),
        (OpFunction::Read, Outcome::Ok, Value::NIL),
    ] {
        let (invoked, completed) = (*event + 1, *event + 2);
        ops.push(Op { key: 0, process, f, outcome, a: here, b, invoked, completed, line: invoked });
        *event += 2;
    }
}

/// A number of increments as a value; zero is nil.
fn counted(number: i64, values: &mut Values) -> Value {
    if number == 0 { Value::NIL } else { values.intern(Content::Int(number)) }
}

/// The next operation of a client.
fn asked(
    shape: &Shape,
    place: usize,
    state: &State,
    holds: bool,
    random: &mut Random,
    values: &mut Values,
) -> (OpFunction, Value, Value) {
    let mut fresh = || {
        let number = values.len() as i64;
        values.intern(Content::Int(number))
    };
    let read = (OpFunction::Read, Value::UNKNOWN, Value::NIL);
    let twentieth = (shape.operations / 20).max(1);
    match shape.object {
        Object::Owner | Object::Fenced if holds => (OpFunction::Release, Value::NIL, Value::NIL),
        Object::Owner | Object::Fenced => (OpFunction::Acquire, Value::NIL, Value::NIL),
        Object::Rmw | Object::Unknown => (OpFunction::Rmw, Value::UNKNOWN, fresh()),
        Object::Increments => {
            let [now, then] = [state.sum, state.sum + 1].map(|number| counted(number, values));
            (OpFunction::Rmw, now, then)
        }
        Object::Set | Object::List if place % twentieth == twentieth / 2 => read,
        Object::Set => (OpFunction::Add, fresh(), Value::NIL),
        Object::List => (OpFunction::Append, fresh(), Value::NIL),
        _ if random.below(2) == 0 => read,
        Object::Counter => (OpFunction::Add, values.intern(Content::Int(1)), Value::NIL),
        Object::Cas if random.below(4) > 0 => (OpFunction::Cas, state.value, fresh()),
        _ => (OpFunction::Write, fresh(), Value::NIL),
    }
}

/// Applies an operation, if possible. Returns whether it took effect, and whether that violated the object's rules. A broken lock
/// lets in every client that asks; any other broken object returns nothing.
fn effect(object: Object, op: &mut Op, state: &mut State, broken: bool, values: &mut Values) -> (bool, bool) {
    let value = state.value;
    match op.f {
        OpFunction::Read if object == Object::Counter => {
            let wrong = broken && state.sum > 0;
            op.a = values.intern(Content::Int(if wrong { 0 } else { state.sum }));
            return (true, wrong);
        }
        OpFunction::Read if matches!(object, Object::Set | Object::List) => {
            let wrong = broken && !state.elements.is_empty();
            op.a = values.intern(Content::List(if wrong { Vec::new() } else { state.elements.clone() }));
            return (true, wrong);
        }
        OpFunction::Add if object == Object::Counter => state.sum += 1,
        OpFunction::Add | OpFunction::Append => state.elements.push(op.a),
        OpFunction::Acquire => {
            let taken = state.holder.is_some();
            if taken && !broken {
                return (false, false);
            }
            (state.holder, state.token) = (Some(op.process), state.token + 1);
            op.a = values.intern(Content::Int(state.token));
            return (true, taken);
        }
        OpFunction::Release => {
            if state.holder == Some(op.process) {
                state.holder = None;
            }
        }
        OpFunction::Rmw if object == Object::Increments => {
            // A lost update read the value before the last one.
            let wrong = broken && state.sum > 0;
            state.sum += i64::from(!wrong);
            [op.a, op.b] = [state.sum - 1, state.sum].map(|number| counted(number, values));
            return (true, wrong);
        }
        OpFunction::Read | OpFunction::Rmw => {
            let wrong = broken && value != Value::NIL;
            op.a = if wrong { Value::NIL } else { value };
            if op.f == OpFunction::Rmw {
                state.value = op.b;
            }
            return (true, wrong);
        }
        OpFunction::Cas => {
            if op.a != value {
                return (false, false);
            }
            state.value = op.b;
        }
        _ => state.value = op.a,
    }
    (true, false)
}
