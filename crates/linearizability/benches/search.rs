//! Time and memory of the general search on hard histories: many clients, indeterminate operations, repeated values, a
//! violation at the end. `cargo bench --bench search [-- WORD]` runs the rows that contain WORD.

#[path = "histories/random.rs"]
mod random;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Value, Values};
use linearizability::search::{Finding, Limits, Strategy};
use linearizability::{FailedCas, ModelSpec, Options, examine_object};
use random::Random;

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const GIVE_UP: Duration = Duration::from_secs(20);

fn main() {
    let word = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    for spec in [ModelSpec::Register, ModelSpec::CasRegister, ModelSpec::Rmw, ModelSpec::Mutex, ModelSpec::Counter] {
        for (clients, count) in [(20, 1_000), (20, 10_000), (50, 10_000), (10, 100_000)] {
            for distinct in [u32::MAX, 5] {
                for indeterminate in [0, 5] {
                    for ends_badly in [false, true] {
                        let valued = matches!(spec, ModelSpec::Register | ModelSpec::CasRegister | ModelSpec::Rmw);
                        if valued || distinct == 5 {
                            row(&word, spec, clients, count, distinct, indeterminate, ends_badly);
                        }
                    }
                }
            }
        }
    }
}

fn row(word: &str, spec: ModelSpec, clients: u32, count: u32, distinct: u32, indeterminate: u64, ends_badly: bool) {
    let values_are = if distinct == u32::MAX { "unique" } else { "few" };
    let end = if ends_badly { "bad" } else { "ok" };
    let name = format!("{spec} {clients} clients {count} ops {values_are} {indeterminate}% {end}");
    if !name.contains(word) {
        return;
    }
    let (operations, values) = history(spec, clients, count, distinct, indeterminate, ends_badly);
    print!("{name:<58}");
    for strategy in [Strategy::Race, Strategy::Depth, Strategy::Breadth] {
        let before = NOW.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let begun = Instant::now();
        let give_up = || begun.elapsed() > GIVE_UP;
        let limits = Limits { give_up: &give_up, memory_bytes: 2 << 30 };
        let finding = examine_object(
            spec,
            &operations,
            &values,
            &Options { limits, failed_cas: FailedCas::Check, ..Options::default() },
            strategy,
        );
        let took = begun.elapsed();
        let peak = (PEAK.load(Ordering::Relaxed) - before) as f64 / 1e6;
        let answer = match finding {
            Finding::Legal { .. } => "legal",
            Finding::Illegal { .. } => "illegal",
            Finding::Unknown { .. } => "?",
        };
        print!(" | {strategy:?} {answer} {:.1} ms {peak:.1} MB", took.as_secs_f64() * 1e3);
    }
    println!();
}

enum Phase {
    Idle,
    Begun(usize),
    Happened(usize),
}

/// Clients take random turns on a correct object. A bad end is a last read of a value from long before.
fn history(
    spec: ModelSpec,
    clients: u32,
    count: u32,
    distinct: u32,
    indeterminate: u64,
    ends_badly: bool,
) -> (Vec<Op>, Values) {
    let mut random = Random(7);
    let mut values = Values::default();
    let mut operations: Vec<Op> = Vec::new();
    let mut phases: Vec<(u32, Phase)> = (0..clients).map(|process| (process, Phase::Idle)).collect();
    let (mut place, mut state, mut held, mut sum) = (0u32, Value::NIL, false, 0);
    loop {
        let at = random.below(clients.into()) as usize;
        let (process, phase) = &mut phases[at];
        match *phase {
            Phase::Idle if operations.len() < count as usize => {
                let next = random.below(u64::from(distinct.min(1 << 30))) as i64;
                let next = if distinct == u32::MAX { operations.len() as i64 } else { next };
                let next = values.intern(Content::Int(next));
                let draw = random.below(4);
                let (f, a, b) = match spec {
                    ModelSpec::Mutex if held => (OpFunction::Release, Value::NIL, Value::NIL),
                    ModelSpec::Mutex => (OpFunction::Acquire, Value::NIL, Value::NIL),
                    ModelSpec::Counter if draw < 2 => (OpFunction::Add, next, Value::NIL),
                    ModelSpec::Rmw => (OpFunction::Rmw, Value::UNKNOWN, next),
                    ModelSpec::CasRegister if draw == 0 => (OpFunction::Cas, state, next),
                    ModelSpec::Register | ModelSpec::CasRegister if draw < 2 => (OpFunction::Write, next, Value::NIL),
                    _ => (OpFunction::Read, Value::UNKNOWN, Value::NIL),
                };
                let (outcome, completed) = (Outcome::Info, NEVER);
                *phase = Phase::Begun(operations.len());
                let line = operations.len() as u32 + 1;
                operations.push(Op { key: 0, process: *process, f, outcome, a, b, invoked: place, completed, line });
                place += 1;
            }
            Phase::Idle => {
                if phases.iter().all(|(_, phase)| matches!(phase, Phase::Idle)) {
                    break;
                }
            }
            Phase::Begun(index) => {
                *phase = Phase::Happened(index);
                let op = &mut operations[index];
                op.outcome = Outcome::Ok;
                match op.f {
                    OpFunction::Read if spec == ModelSpec::Counter => op.a = values.intern(Content::Int(sum)),
                    OpFunction::Read => op.a = state,
                    OpFunction::Write => state = op.a,
                    OpFunction::Cas if state == op.a => state = op.b,
                    OpFunction::Cas => op.outcome = Outcome::Fail,
                    OpFunction::Rmw => op.a = std::mem::replace(&mut state, op.b),
                    OpFunction::Add => sum += values.int(op.a).unwrap_or(0),
                    OpFunction::Acquire | OpFunction::Release => {
                        let fits = held == (op.f == OpFunction::Release);
                        op.outcome = if fits { Outcome::Ok } else { Outcome::Fail };
                        held = if fits { !held } else { held };
                    }
                    OpFunction::Append => {}
                }
                if random.below(100) < indeterminate {
                    op.outcome = Outcome::Info;
                    if op.f == OpFunction::Read || op.f == OpFunction::Rmw {
                        op.a = Value::UNKNOWN;
                    }
                    *process += clients;
                    *phase = Phase::Idle;
                }
            }
            Phase::Happened(index) => {
                operations[index].completed = place;
                place += 1;
                *phase = Phase::Idle;
            }
        }
    }
    if ends_badly {
        // Once all is quiet, a value that was there only once is read again after another one. For a mutex or a
        // counter, the last operation does not fit; only an indeterminate release may explain the mutex.
        let mut number = |number| values.intern(Content::Int(number));
        let (once, then) = (number(1 << 40), number(1 << 41));
        let end = match spec {
            ModelSpec::Mutex => vec![(OpFunction::Acquire, Value::NIL); 2],
            ModelSpec::Counter => vec![(OpFunction::Add, number(1)), (OpFunction::Read, number(0))],
            _ => vec![(OpFunction::Write, once), (OpFunction::Write, then), (OpFunction::Read, once)],
        };
        for (f, a) in end {
            let line = operations.len() as u32 + 1;
            let (key, process, outcome, b) = (0, 0, Outcome::Ok, Value::NIL);
            operations.push(Op { key, process, f, outcome, a, b, invoked: place, completed: place + 1, line });
            place += 2;
        }
    }
    (operations, values)
}
