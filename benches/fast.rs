//! How long the checks without a search take.

#[path = "histories/mod.rs"]
mod histories;

use divan::Bencher;
use divan::counter::ItemsCount;
use histories::{Object, Shape, Violation, history};
use redjepsen::checker::linear::{Answer, fast};

const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

fn main() {
    divan::main();
}

/// Measures a check on one shape of history, after a look whether its answer is right.
fn measure(bencher: Bencher, shape: Shape) {
    let (ops, values) = history(shape);
    let check = || match shape.object {
        Object::Owner => fast::owner_mutex(&ops),
        Object::Fenced => fast::fenced_mutex(&ops, &values),
        Object::Register | Object::Cas | Object::Rmw => Answer::Undecided("not measured yet".into()),
    };
    let answer = check();
    match shape.violation {
        Violation::None => assert_eq!(answer, Answer::Linearizable, "{shape:?}"),
        _ => assert!(matches!(answer, Answer::NotLinearizable(_)), "{shape:?}: {answer:?}"),
    }
    bencher.counter(ItemsCount::new(ops.len())).bench(check);
}

const TWENTY_CLIENTS: Shape =
    Shape { object: Object::Owner, operations: 0, clients: 20, info_percent: 1, violation: Violation::None, seed: 7 };

#[divan::bench(args = SIZES)]
fn owner_mutex(bencher: Bencher, operations: usize) {
    measure(bencher, Shape { operations, ..TWENTY_CLIENTS });
}

#[divan::bench(args = SIZES)]
fn fenced_mutex(bencher: Bencher, operations: usize) {
    measure(bencher, Shape { object: Object::Fenced, operations, ..TWENTY_CLIENTS });
}

#[divan::bench(args = [5, 20, 50])]
fn owner_mutex_by_clients(bencher: Bencher, clients: usize) {
    measure(bencher, Shape { operations: 1_000_000, clients, ..TWENTY_CLIENTS });
}

#[divan::bench(args = [0, 1, 5])]
fn fenced_mutex_by_info_percent(bencher: Bencher, info_percent: u64) {
    measure(bencher, Shape { object: Object::Fenced, operations: 1_000_000, info_percent, ..TWENTY_CLIENTS });
}

#[divan::bench(args = [Violation::Start, Violation::Middle, Violation::End])]
fn owner_mutex_by_violation(bencher: Bencher, violation: Violation) {
    measure(bencher, Shape { operations: 1_000_000, violation, ..TWENTY_CLIENTS });
}

/// What a history costs to make, to tell it from what is measured; and every object is made once.
#[divan::bench(args = [Object::Register, Object::Cas, Object::Rmw, Object::Owner, Object::Fenced])]
fn making_a_history(bencher: Bencher, object: Object) {
    bencher.bench(|| history(Shape { object, operations: 10_000, ..TWENTY_CLIENTS }));
}
