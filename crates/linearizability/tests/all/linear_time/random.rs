//! Random small histories: what a real object could have produced, then often corrupted.

use linearizability::history::{NEVER, Op, OpFunction, Outcome, Value};

use crate::support::Random;

/// A history, and whether it is uncorrupted.
pub struct Case {
    pub ops: Vec<Op>,
    pub initial: Value,
    pub genuine: bool,
}

/// `repeat`: values often recur. `large`: too many operations to try every order.
pub fn case(seed: u64, functions: &[OpFunction], repeat: bool, large: bool) -> Case {
    let mut random = Random(seed);
    let initial = Value(random.one_of(&[0, 0, 0, 3]));
    let count = if large { 8 + random.below(60) } else { random.one_of(&[1, 3, 4, 5, 6, 7, 7, 7]) };
    let mut ops = simulate(&mut random, functions, initial, count, repeat);
    let corruptions = random.one_of(&[0, 1, 2, 4, 8]);
    for _ in 0..corruptions {
        corrupt(&mut random, &mut ops, initial);
    }
    // Places and values may be sparse, as if most belonged to other keys.
    let (from, step) = (random.one_of(&[0, 1, 7]), random.one_of(&[1, 1, 3]));
    let apart = random.one_of(&[1, 1, 2, 1000]);
    for op in &mut ops {
        op.invoked = from + op.invoked * step;
        op.completed = if op.completed == NEVER { NEVER } else { from + op.completed * step };
        for value in [&mut op.a, &mut op.b] {
            *value = if *value == Value::UNKNOWN { *value } else { Value(value.0 * apart) };
        }
    }
    Case { ops, initial: Value(initial.0 * apart), genuine: corruptions == 0 }
}

/// Concurrent clients of one real object: each operation is invoked, usually takes effect and usually completes.
fn simulate(random: &mut Random, functions: &[OpFunction], initial: Value, count: usize, repeat: bool) -> Vec<Op> {
    let clients = random.one_of(&[1, 2, 2, 3, 3, 4, 5]);
    // The operation that each client has in flight, and whether it has taken effect.
    let mut under_way: Vec<Option<(usize, bool)>> = vec![None; clients];
    let mut ops: Vec<Op> = Vec::new();
    let mut state = initial;
    let mut fresh = 10;
    let indeterminate_in = random.one_of(&[4, 10, 30, 1000]);
    for place in 0.. {
        if ops.len() == count && under_way.iter().all(Option::is_none) {
            break;
        }
        let client = random.below(clients);
        match under_way[client] {
            None if ops.len() < count => {
                let f = random.one_of(functions);
                fresh = if repeat { 11 + random.below(4) as u32 } else { fresh + 1 };
                // Its values in case it never takes effect.
                let (a, b) = match f {
                    OpFunction::Read => (Value::UNKNOWN, Value::NIL),
                    OpFunction::Write => (Value(fresh), Value::NIL),
                    _ => (if random.one_in(3) { guess(random, &ops, initial) } else { state }, Value(fresh)),
                };
                under_way[client] = Some((ops.len(), false));
                let (process, line) = (client as u32, ops.len() as u32 + 1);
                let outcome = Outcome::Info;
                ops.push(Op { key: 0, process, f, outcome, a, b, invoked: place, completed: NEVER, line });
            }
            None => {}
            Some((at, false)) => {
                let op = &mut ops[at];
                if random.one_in(indeterminate_in) {
                    // Left open, and never takes effect.
                    forget(random, op);
                    under_way[client] = None;
                } else if op.f != OpFunction::Cas && random.one_in(12) {
                    (op.outcome, op.completed) = (Outcome::Fail, place);
                    under_way[client] = None;
                } else {
                    match op.f {
                        OpFunction::Write => state = op.a,
                        OpFunction::Read => op.a = state,
                        // It found something else.
                        OpFunction::Cas if op.a != state && random.one_in(2) => op.outcome = Outcome::Fail,
                        _ => {
                            op.a = state;
                            state = op.b;
                        }
                    }
                    under_way[client] = Some((at, true));
                }
            }
            Some((at, true)) => {
                let op = &mut ops[at];
                if random.one_in(indeterminate_in) {
                    op.outcome = Outcome::Info;
                    forget(random, op);
                } else {
                    let failed = op.outcome == Outcome::Fail;
                    (op.outcome, op.completed) = (if failed { Outcome::Fail } else { Outcome::Ok }, place);
                }
                under_way[client] = None;
            }
        }
    }
    ops
}

/// Nobody may know what an open operation found or wrote.
fn forget(random: &mut Random, op: &mut Op) {
    if op.f == OpFunction::Read || (op.f == OpFunction::Rmw && random.one_in(2)) {
        op.a = Value::UNKNOWN;
    }
    if op.f == OpFunction::Rmw && op.a == Value::UNKNOWN && random.one_in(2) {
        op.b = Value::UNKNOWN;
    }
}

/// A value that is, or might be, in the history.
fn guess(random: &mut Random, ops: &[Op], initial: Value) -> Value {
    let mut known = vec![initial];
    if random.one_in(8) {
        known.push(Value(99));
    }
    for op in ops {
        known.extend([op.a, op.b].into_iter().filter(|&value| value != Value::UNKNOWN));
    }
    random.one_of(&known)
}

fn corrupt(random: &mut Random, ops: &mut [Op], initial: Value) {
    let value = guess(random, ops, initial);
    let at = random.below(ops.len());
    match random.below(24) {
        // Changes what was seen.
        0..=6
            // With a value that it writes itself, the theory would not apply.
            if ops[at].f != OpFunction::Write && (ops[at].b != value || random.one_in(50)) =>
        {
            ops[at].a = value;
        }
        // Changes when: swaps neighbouring events of different operations.
        7..=14 => {
            let times = 1 + random.below(12);
            for _ in 0..times {
                exchange(random, ops);
            }
        }
        // Changes the outcome; an operation left open has no answer to change.
        15 if ops[at].completed != NEVER => {
            let failed = if ops[at].f == OpFunction::Cas && !random.one_in(8) { Outcome::Ok } else { Outcome::Fail };
            ops[at].outcome = random.one_of(&[Outcome::Ok, failed, Outcome::Info]);
            if ops[at].outcome == Outcome::Info {
                ops[at].completed = NEVER;
            }
        }
        // Moves the operation after everything else.
        18..=20 => {
            let end = ops.iter().map(|op| op.invoked.max(if op.completed == NEVER { 0 } else { op.completed })).max();
            let beyond = end.unwrap_or(0) + 1;
            ops[at].invoked = beyond;
            if ops[at].completed != NEVER {
                ops[at].completed = beyond + 1;
            }
            ops.sort_unstable_by_key(|op| op.invoked);
        }
        // Changes what was written; now and then the theory does not apply then.
        16 if random.one_in(6) => match ops[at].f {
            OpFunction::Write => ops[at].a = value,
            _ => ops[at].b = value,
        },
        17 if random.one_in(12) => ops[at].f = random.one_of(&[OpFunction::Add, OpFunction::Write, OpFunction::Cas]),
        17 if random.one_in(6) => ops[at].a = Value::UNKNOWN,
        _ => {}
    }
}

/// Swaps one event with the next, unless both belong to the same operation.
fn exchange(random: &mut Random, ops: &mut [Op]) {
    let mut events: Vec<(u32, usize, bool)> = Vec::new();
    for (at, op) in ops.iter().enumerate() {
        events.push((op.invoked, at, true));
        if op.completed != NEVER {
            events.push((op.completed, at, false));
        }
    }
    events.sort_unstable();
    if events.len() < 2 {
        return;
    }
    let first = random.below(events.len() - 1);
    let (one, two) = (events[first], events[first + 1]);
    if one.1 == two.1 {
        return;
    }
    for ((_, at, invocation), place) in [(one, two.0), (two, one.0)] {
        if invocation {
            ops[at].invoked = place;
        } else {
            ops[at].completed = place;
        }
    }
    ops.sort_unstable_by_key(|op| op.invoked);
}
