//! Small random histories: of an object that works, with times, outcomes and values then changed here and there.

use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Value, Values};

use super::brute::{Kind, initial, step};

/// SplitMix64: enough, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// The number 0 among [`values`].
pub const ZERO: Value = Value(8);

/// Values that histories use: 1 to 7 are elements (the numbers 1 to 7), then 0, further ones as they come.
pub fn values() -> Values {
    let mut values = Values::default();
    for number in 1..=7 {
        values.intern(Content::Int(number));
    }
    values.intern(Content::Int(0));
    values
}

/// A history of up to `most` operations by up to three clients. A client whose operation is left open goes on, as the same
/// process or as a new one.
pub fn history(kind: Kind, most: u64, random: &mut Random, values: &mut Values) -> Vec<Op> {
    let count = 1 + random.below(most);
    let (amounts, lax) = (random.below(3), random.once_in(2));
    let mut clients: Vec<(u32, Option<usize>)> =
        (0..1 + random.below(3) as u32).map(|process| (process, None)).collect();
    let mut ops: Vec<Op> = Vec::new();
    let mut effective: Vec<bool> = Vec::new();
    let (mut state, mut event, mut token, mut processes) = (initial(kind), 0, 0, clients.len() as u32);
    let mut elements = 0;
    for _ in 0..12 * most {
        event += 1;
        let client = random.below(clients.len() as u64) as usize;
        let (process, open) = clients[client];
        let Some(place) = open else {
            if ops.len() as u64 == count {
                continue;
            }
            let (f, a) = match kind {
                Kind::Owner | Kind::Fenced => {
                    let holds = state & 0xff == u64::from(process) + 1;
                    let release = holds != random.once_in(8);
                    (if release { OpFunction::Release } else { OpFunction::Acquire }, Value::NIL)
                }
                _ if random.once_in(2) => (OpFunction::Read, Value::UNKNOWN),
                Kind::Counter if amounts > 0 => (OpFunction::Add, Value(1)),
                Kind::Counter => (OpFunction::Add, values.intern(Content::Int(random.below(5) as i64 - 1))),
                Kind::Set | Kind::List => {
                    elements += 1;
                    (if kind == Kind::Set { OpFunction::Add } else { OpFunction::Append }, Value(elements))
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
            // Left open, and it takes effect now or never.
            (_, 0) => {
                if random.once_in(2) && !effective[place] {
                    state = step(kind, state, &ops[place], values).unwrap_or(state);
                }
                if random.once_in(2) {
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
                    op.a = shown(kind, state, values);
                } else if kind == Kind::Fenced && op.f == OpFunction::Acquire {
                    op.a = values.intern(Content::Int(token + 1));
                }
                // A lock that fails to exclude: it does what it is asked, whoever holds it.
                let broken = lax && matches!(kind, Kind::Owner | Kind::Fenced) && random.once_in(2);
                let asked = if op.f == OpFunction::Acquire { u64::from(process) + 1 } else { 0 };
                if let Some(next) = step(kind, state, &op, values).or(broken.then_some(state & !0xff | asked)) {
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
fn shown(kind: Kind, state: u64, values: &mut Values) -> Value {
    let content = match kind {
        Kind::Set => Content::List((0..32).filter(|bit| state >> bit & 1 == 1).map(Value).collect()),
        Kind::List => {
            let digits = (0..16).rev().map(|digit| Value((state >> (4 * digit) & 0xf) as u32));
            Content::List(digits.filter(|value| *value != Value::NIL).collect())
        }
        _ => Content::Int(state as i64),
    };
    values.intern(content)
}

/// One change that a broken object or a broken recorder would make.
fn change(kind: Kind, ops: &mut [Op], random: &mut Random, values: &mut Values) {
    let place = random.below(ops.len() as u64) as usize;
    let other = random.below(ops.len() as u64) as usize;
    match random.below(5) {
        // Two events change places.
        0 | 1 => {
            let events: Vec<u32> = ops.iter().flat_map(|op| [op.invoked, op.completed]).collect();
            let mut events: Vec<u32> = events.into_iter().filter(|at| *at != NEVER).collect();
            events.sort_unstable();
            let place = random.below(events.len() as u64) as usize;
            let next = (place + 1 + random.below(3) as usize).min(events.len() - 1);
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
        // An outcome that was another.
        2 => {
            let latest = ops.iter().flat_map(|op| [op.invoked, op.completed]).filter(|at| *at != NEVER).max();
            let op = &mut ops[place];
            match (op.outcome, random.below(3)) {
                (Outcome::Ok, 0) => op.outcome = Outcome::Fail,
                (Outcome::Info, _) if op.a != Value::UNKNOWN && kind != Kind::Fenced => {
                    op.outcome = Outcome::Ok;
                    op.completed = latest.unwrap_or(0) + 1;
                }
                (Outcome::Fail, 0) if kind != Kind::Fenced && op.f != OpFunction::Read => op.outcome = Outcome::Ok,
                _ => op.outcome = Outcome::Info,
            }
        }
        // Two results change places.
        3 if ops[place].f == ops[other].f && ops[place].outcome == ops[other].outcome => {
            (ops[place].a, ops[other].a) = (ops[other].a, ops[place].a);
        }
        // A result that nobody gave.
        4 if ops[place].f == OpFunction::Read && ops[place].outcome == Outcome::Ok => {
            let state = match kind {
                Kind::Set => random.below(32) & !1,
                Kind::List => [0x1, 0x12, 0x21, 0x123, 0x13, 0x2][random.below(6) as usize],
                _ => random.below(6),
            };
            ops[place].a = shown(kind, state, values);
        }
        4 if kind == Kind::Fenced && ops[place].f == OpFunction::Acquire && ops[place].outcome == Outcome::Ok => {
            ops[place].a = values.intern(Content::Int(1 + random.below(5) as i64));
        }
        _ => {
            let process = ops[other].process;
            if kind == Kind::Owner {
                ops[place].process = process;
            }
        }
    }
}
