//! The fast checks of mutexes, counters, sets and lists, against brute force and against hand-written histories.

mod by_hand;
mod random;

use linearizability::history::{Op, Values};
use linearizability::{Answer, ModelSpec, linear_time};
use random::{history, naive, values};

use crate::support::Random;

fn answer(kind: ModelSpec, ops: &[Op], values: &Values) -> Answer {
    match kind {
        ModelSpec::OwnerMutex => linear_time::owner_mutex(ops),
        ModelSpec::FencedMutex => linear_time::fenced_mutex(ops, values),
        ModelSpec::Set => linear_time::set(ops, values),
        ModelSpec::ListAppend => linear_time::list_append(ops, values),
        _ => linear_time::counter(ops, values, random::ZERO),
    }
}

/// Compares with brute force and prints the counts; `REDJEPSEN_CASES` sets the number of histories.
fn compare(kind: ModelSpec, most: usize) {
    let cases = crate::cases(20_000);
    let (mut linear, mut not, mut undecided, mut largest) = (0_u64, 0_u64, 0_u64, 0);
    let base = values();
    for seed in 0..cases {
        let mut values = base.clone();
        let ops = history(kind, most, &mut Random(seed * 0x1234_5679 + 7), &mut values);
        match answer(kind, &ops, &values) {
            Answer::Linearizable => {
                assert!(naive(kind, &values).is_linearizable(&ops), "seed {seed}: accepted\n{}", listed(&ops, &values));
                linear += 1;
            }
            Answer::NotLinearizable(conflict) => {
                let listing = listed(&ops, &values);
                assert!(!naive(kind, &values).is_linearizable(&ops), "seed {seed}: refused, {conflict:?}\n{listing}");
                assert!(conflict.operations.is_sorted_by(|one, next| one < next), "seed {seed}: {conflict:?}");
                let part: Vec<Op> = conflict.operations.iter().map(|place| ops[*place as usize]).collect();
                assert!(
                    !naive(kind, &values).is_linearizable(&part),
                    "seed {seed}: {conflict:?} is no proof\n{listing}"
                );
                largest = largest.max(part.len());
                not += 1;
            }
            Answer::Undecided(_) => undecided += 1,
        }
    }
    println!("{kind:?}: {linear} linearizable, {not} not (largest proof {largest}), {undecided} undecided");
    assert!(
        linear > cases / 5 && not > cases / 10,
        "one-sided: {linear} linearizable, {not} not, {undecided} undecided"
    );
}

fn listed(ops: &[Op], values: &Values) -> String {
    let line = |(place, op): (usize, &Op)| {
        let (a, completed) = (values.content(op.a), op.completed as i32);
        format!("{place}: p{} {:?} {:?} {a:?} {}..{completed}\n", op.process, op.f, op.outcome, op.invoked)
    };
    ops.iter().enumerate().map(line).collect()
}

#[test]
fn owner_mutex_agrees_with_brute_force() {
    compare(ModelSpec::OwnerMutex, 7);
}

#[test]
fn fenced_mutex_agrees_with_brute_force() {
    compare(ModelSpec::FencedMutex, 7);
}

#[test]
fn set_agrees_with_brute_force() {
    compare(ModelSpec::Set, 7);
}

#[test]
fn list_agrees_with_brute_force() {
    compare(ModelSpec::ListAppend, 7);
}

#[test]
fn counter_agrees_with_brute_force() {
    compare(ModelSpec::Counter, 7);
}
