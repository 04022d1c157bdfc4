//! Time and memory of the general search on hard histories: many clients, indeterminate operations, repeated values, a
//! violation at the end. `cargo bench --bench search [-- WORD]` runs the rows that contain WORD.

#[path = "../tests/all/support/mod.rs"]
#[allow(dead_code)]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Value};
use linearizability::search::{Finding, Limits, Strategy};
use linearizability::{FailedCas, ModelSpec, Options, examine_object};
use support::generate::{Case, Shape, shaped};

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

const SEED: u64 = 50;
const GIVE_UP: Duration = Duration::from_secs(20);

fn main() {
    let word = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    for spec in [ModelSpec::Register, ModelSpec::CasRegister, ModelSpec::Rmw, ModelSpec::Mutex, ModelSpec::Counter] {
        for (clients, count) in [(20, 1_000), (20, 10_000), (50, 10_000), (10, 100_000)] {
            for unique in [true, false] {
                for indeterminate in [0, 5] {
                    for ends_badly in [false, true] {
                        let valued = matches!(spec, ModelSpec::Register | ModelSpec::CasRegister | ModelSpec::Rmw);
                        if valued || !unique {
                            let shape = Shape { clients, count, indeterminate, spoiled: 0, unique };
                            row(&word, spec, shape, ends_badly);
                        }
                    }
                }
            }
        }
    }
}

fn row(word: &str, spec: ModelSpec, shape: Shape, ends_badly: bool) {
    let Shape { clients, count, indeterminate, unique, .. } = shape;
    let values_are = if unique { "unique" } else { "few" };
    let end = if ends_badly { "bad" } else { "ok" };
    let name = format!("{spec} {clients} clients {count} ops {values_are} {indeterminate}% {end}");
    if !name.contains(word) {
        return;
    }
    let Case { operations, values, initial, .. } = history(spec, shape, ends_badly);
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
            &Options { initial, failed_cas: FailedCas::Check, limits },
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

/// Clients take random turns on a correct object. A bad end is a last read of a value from long before.
fn history(spec: ModelSpec, shape: Shape, ends_badly: bool) -> Case {
    // With this seed, "few values" means four values.
    let mut case = shaped(SEED, spec, shape);
    let Case { operations, values, .. } = &mut case;
    let ends = operations.iter().flat_map(|op| [op.invoked, op.completed]).filter(|event| *event != NEVER);
    let mut place = ends.max().unwrap_or(0) + 1;
    if ends_badly {
        // Once no operation is in progress, the history reads a value that was there only once again, after another one. For a
        // mutex or a counter, the last operation does not fit; only an indeterminate release may explain the mutex.
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
    case
}
