//! Random small histories of an object that works; then some times, outcomes and values are changed.

use linearizability::FailedCas;
use linearizability::ModelSpec::{self, Counter, FencedMutex, ListAppend, OwnerMutex, Set};
use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Value, Values};

use crate::support::Random;
use crate::support::naive::{Naive, State};

/// The number 0 among [`values`].
pub const ZERO: Value = Value(8);

/// The values that histories use: 1 to 7 are elements (the numbers 1 to 7), then 0; others are added as needed.
pub fn values() -> Values {
    let mut values = Values::default();
    for number in 1..=7 {
        values.intern(Content::Int(number));
    }
    values.intern(Content::Int(0));
    values
}

/// Tries all orders of operations on such an object; a counter starts at 0.
pub fn naive(spec: ModelSpec, values: &Values) -> Naive<'_> {
    Naive { spec, initial: ZERO, failed_cas: FailedCas::Check, values, anything: &[] }
}

/// A history of up to `most` operations by up to three clients. A client whose operation is left open continues as the
/// same process or as a new one.
pub fn history(kind: ModelSpec, most: usize, random: &mut Random, values: &mut Values) -> Vec<Op> {
    let count = 1 + random.below(most);
    let (amounts, lax) = (random.below(3), random.one_in(2));
    let mut clients: Vec<(u32, Option<usize>)> =
        (0..1 + random.below(3) as u32).map(|process| (process, None)).collect();
    let mut ops: Vec<Op> = Vec::new();
    let mut effective: Vec<bool> = Vec::new();
    let (mut state, mut event, mut token, mut processes) = (naive(kind, values).start(), 0, 0, clients.len() as u32);
    let mut elements = 0;
    for _ in 0..12 * most {
        event += 1;
        let client = random.below(clients.len());
        let (process, open) = clients[client];
        let Some(place) = open else {
            if ops.len() == count {
                continue;
            }
            let (f, a) = match kind {
                OwnerMutex | FencedMutex => {
                    let holds = matches!(state, State::Lock(owner, 1.., _) if owner == process);
                    let release = holds != random.one_in(8);
                    (if release { OpFunction::Release } else { OpFunction::Acquire }, Value::NIL)
                }
                _ if random.one_in(2) => (OpFunction::Read, Value::UNKNOWN),
                Counter if amounts > 0 => (OpFunction::Add, Value(1)),
                Counter => (OpFunction::Add, values.intern(Content::Int(random.below(5) as i64 - 1))),
                _ => {
                    elements += 1;
                    (if kind == Set { OpFunction::Add } else { OpFunction::Append }, Value(elements))
                }
            };
            clients[client].1 = Some(ops.len());
            effective.push(false);
            ops.push(Op {
                key: 0,
                process,
                f,
                outcome: Outcome::Info,
                a,
                b: Value::NIL,
                invoked: event,
                completed: NEVER,
                line: event,
            });
            continue;
        };
        match (effective[place], random.below(8)) {
            // Left open; it takes effect now or never.
            (_, 0) => {
                if random.one_in(2) && !effective[place] {
                    state = naive(kind, values).step(&state, &ops[place]).pop().unwrap_or(state);
                }
                if random.one_in(2) {
                    clients[client].0 = processes;
                    processes += 1;
                }
                clients[client].1 = None;
            }
            (true, _) => {
                ops[place].outcome = Outcome::Ok;
                ops[place].completed = event;
                clients[client].1 = None;
            }
            (false, 1) => {
                ops[place].outcome = Outcome::Fail;
                ops[place].completed = event;
                clients[client].1 = None;
            }
            (false, _) => {
                let mut op = ops[place];
                op.outcome = Outcome::Ok;
                if op.f == OpFunction::Read {
                    op.a = shown(&state, values);
                } else if kind == FencedMutex && op.f == OpFunction::Acquire {
                    op.a = values.intern(Content::Int(token + 1));
                }
                // A lock that fails to exclude: it obeys every request, whoever holds it.
                let broken = match state {
                    State::Lock(_, _, last) if lax && random.one_in(2) => {
                        Some(State::Lock(process, u32::from(op.f == OpFunction::Acquire), last))
                    }
                    _ => None,
                };
                if let Some(next) = naive(kind, values).step(&state, &op).pop().or(broken) {
                    token += i64::from(op.f == OpFunction::Acquire);
                    (state, effective[place], ops[place].a) = (next, true, op.a);
                }
            }
        }
    }
    let changes = random.below(6);
    for _ in 0..changes {
        change(kind, &mut ops, random, values);
    }
    for op in &mut ops {
        let known = op.outcome == Outcome::Ok || !matches!(op.f, OpFunction::Read | OpFunction::Acquire);
        op.a = if known { op.a } else { Value::UNKNOWN };
        op.completed = if op.outcome == Outcome::Info { NEVER } else { op.completed };
    }
    ops.sort_by_key(|op| op.invoked);
    ops
}

/// What a read of this state shows.
fn shown(state: &State, values: &mut Values) -> Value {
    let content = match state {
        State::Elements(set) => Content::List(set.iter().copied().collect()),
        State::List(list) => Content::List(list.clone()),
        State::Sum(sum) => Content::Int(*sum),
        state => panic!("nobody reads {state:?}"),
    };
    values.intern(content)
}

/// One change, as a broken object or a broken recorder would make it.
fn change(kind: ModelSpec, ops: &mut [Op], random: &mut Random, values: &mut Values) {
    let place = random.below(ops.len());
    let other = random.below(ops.len());
    match random.below(5) {
        // Swap two events.
        0 | 1 => {
            let events: Vec<u32> = ops.iter().flat_map(|op| [op.invoked, op.completed]).collect();
            let mut events: Vec<u32> = events.into_iter().filter(|at| *at != NEVER).collect();
            events.sort_unstable();
            let place = random.below(events.len());
            let next = (place + 1 + random.below(3)).min(events.len() - 1);
            let (first, second) = (events[place], events[next]);
            for op in ops.iter_mut() {
                for at in [&mut op.invoked, &mut op.completed] {
                    *at = if *at == first {
                        second
                    } else if *at == second {
                        first
                    } else {
                        *at
                    };
                }
            }
            for op in ops.iter_mut().filter(|op| op.completed < op.invoked) {
                std::mem::swap(&mut op.invoked, &mut op.completed);
            }
        }
        // Change an outcome.
        2 => {
            let latest = ops.iter().flat_map(|op| [op.invoked, op.completed]).filter(|at| *at != NEVER).max();
            let op = &mut ops[place];
            match (op.outcome, random.below(3)) {
                (Outcome::Ok, 0) => op.outcome = Outcome::Fail,
                (Outcome::Info, _) if op.a != Value::UNKNOWN && kind != FencedMutex => {
                    op.outcome = Outcome::Ok;
                    op.completed = latest.unwrap_or(0) + 1;
                }
                (Outcome::Fail, 0) if kind != FencedMutex && op.f != OpFunction::Read => op.outcome = Outcome::Ok,
                _ => op.outcome = Outcome::Info,
            }
        }
        // Swap two results.
        3 if ops[place].f == ops[other].f && ops[place].outcome == ops[other].outcome => {
            (ops[place].a, ops[other].a) = (ops[other].a, ops[place].a);
        }
        // Invent a result.
        4 if ops[place].f == OpFunction::Read && ops[place].outcome == Outcome::Ok => {
            let lists: [&[u32]; 6] = [&[1], &[1, 2], &[2, 1], &[1, 2, 3], &[1, 3], &[2]];
            let state = match kind {
                Set => {
                    let bits = random.below(32);
                    State::Elements((1..5).filter(|bit| bits >> bit & 1 == 1).map(Value).collect())
                }
                ListAppend => State::List(random.one_of(&lists).iter().copied().map(Value).collect()),
                _ => State::Sum(random.below(6) as i64),
            };
            ops[place].a = shown(&state, values);
        }
        4 if kind == FencedMutex && ops[place].f == OpFunction::Acquire && ops[place].outcome == Outcome::Ok => {
            ops[place].a = values.intern(Content::Int(1 + random.below(5) as i64));
        }
        _ => {
            let process = ops[other].process;
            if kind == OwnerMutex {
                ops[place].process = process;
            }
        }
    }
}
