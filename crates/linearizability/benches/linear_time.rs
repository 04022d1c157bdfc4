//! How long the near-linear checks take, from operations in memory to an answer, and their memory.

#[path = "histories/mod.rs"]
mod histories;

use std::time::Duration;

use divan::counter::ItemsCount;
use divan::{Bencher, Divan};
use histories::{Object, Shape, Violation, history};
use linearizability::history::{Op, Table};
use linearizability::{Answer, FailedCas, How, ModelSpec, Options, check};

const OBJECTS: [Object; 10] = [
    Object::Register,
    Object::Cas,
    Object::Rmw,
    Object::Unknown,
    Object::Increments,
    Object::Owner,
    Object::Fenced,
    Object::Counter,
    Object::Set,
    Object::List,
];

fn main() {
    Divan::default().max_time(Duration::from_secs(1)).config_with_args().main();
    print_memory();
}

fn model(object: Object) -> ModelSpec {
    match object {
        Object::Register => ModelSpec::Register,
        Object::Cas => ModelSpec::CasRegister,
        Object::Rmw | Object::Unknown | Object::Increments => ModelSpec::Rmw,
        Object::Owner => ModelSpec::OwnerMutex,
        Object::Fenced => ModelSpec::FencedMutex,
        Object::Counter => ModelSpec::Counter,
        Object::Set => ModelSpec::Set,
        Object::List => ModelSpec::ListAppend,
    }
}

/// The answer, which must come from the near-linear check.
fn answer(table: &Table, object: Object) -> Answer {
    let options = Options { failed_cas: FailedCas::Check, ..Options::default() };
    let object = check(table, model(object), &options).remove(0);
    assert_eq!(object.how, How::LinearTime, "{:?}", object.answer);
    object.answer
}

/// Measures one kind of history, after verifying the answer.
fn measure(bencher: Bencher, shape: Shape) {
    let table = history(shape);
    match (shape.violation, answer(&table, shape.object)) {
        (Violation::None, Answer::Linearizable) => {}
        // An operation that may have written any value can explain the violation.
        (_, Answer::Linearizable) if shape.object == Object::Unknown && shape.info_percent > 0 => {}
        (Violation::Start | Violation::Middle | Violation::End, Answer::NotLinearizable(_)) => {}
        (_, answer) => panic!("{shape}: {answer:?}"),
    }
    bencher.counter(ItemsCount::new(table.operations.len())).bench(|| answer(&table, shape.object));
}

/// By size and number of clients; by share of indeterminate operations; by position of the violation.
fn shapes(object: Object) -> Vec<Shape> {
    let usual =
        Shape { object, operations: 1_000_000, clients: 50, info_percent: 5, violation: Violation::None, seed: 7 };
    let sizes = [1_000, 10_000, 100_000, 1_000_000];
    let mut shapes = Vec::new();
    for clients in [10, 50] {
        shapes.extend(sizes.map(|operations| Shape { operations, clients, ..usual }));
    }
    shapes.extend([0, 1].map(|info_percent| Shape { info_percent, ..usual }));
    let places = [Violation::Start, Violation::Middle, Violation::End];
    shapes.extend(places.map(|violation| Shape { violation, ..usual }));
    shapes
}

#[divan::bench(args = shapes(Object::Register))]
fn register(bencher: Bencher, shape: Shape) {
    measure(bencher, shape);
}

#[divan::bench(args = shapes(Object::Cas))]
fn cas_register(bencher: Bencher, shape: Shape) {
    measure(bencher, shape);
}

#[divan::bench(args = shapes(Object::Rmw))]
fn rmw(bencher: Bencher, shape: Shape) {
    measure(bencher, shape);
}

#[divan::bench(args = shapes(Object::Unknown))]
fn rmw_of_unknown_values(bencher: Bencher, shape: Shape) {
    measure(bencher, shape);
}

#[divan::bench(args = shapes(Object::Increments))]
fn rmw_of_values_that_repeat(bencher: Bencher, shape: Shape) {
    measure(bencher, shape);
}

#[divan::bench(args = shapes(Object::Owner))]
fn owner_mutex(bencher: Bencher, shape: Shape) {
    measure(bencher, shape);
}

#[divan::bench(args = shapes(Object::Fenced))]
fn fenced_mutex(bencher: Bencher, shape: Shape) {
    measure(bencher, shape);
}

#[divan::bench(args = shapes(Object::Counter))]
fn counter(bencher: Bencher, shape: Shape) {
    measure(bencher, shape);
}

#[divan::bench(args = shapes(Object::Set))]
fn set(bencher: Bencher, shape: Shape) {
    measure(bencher, shape);
}

#[divan::bench(args = shapes(Object::List))]
fn list_append(bencher: Bencher, shape: Shape) {
    measure(bencher, shape);
}

/// The memory of a million operations, and the additional memory to check them. Only if the system reports it.
fn print_memory() {
    println!("\nresident memory, a million operations:");
    for object in OBJECTS {
        let shape = shapes(object)[7];
        let table = history(shape);
        let held = table.operations.len() * size_of::<Op>();
        // On Linux this resets the peak.
        let Ok(before) = std::fs::write("/proc/self/clear_refs", "5").map(|()| resident("VmRSS:")) else { return };
        let answer = answer(&table, object);
        let peak = resident("VmHWM:");
        let name = format!("{object:?}");
        println!(
            "{name:<14} operations {:>4} MiB, while checked {:>4} MiB more ({})",
            held >> 20,
            peak.saturating_sub(before) >> 10,
            if answer == Answer::Linearizable { "linearizable" } else { "not linearizable" }
        );
    }
}

/// A memory field of this process, in KiB.
fn resident(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
}
