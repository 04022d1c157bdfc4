//! The near-linear checks, as the dispatch uses them, against the general search: two independent ways to one answer,
//! including histories too large for trying all orders.
//!
//! `REDJEPSEN_CASES` raises the number of histories per check.

use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Table, Value};
use linearizability::models::FailedCas;
use linearizability::{Answer, How, Limits, ModelSpec, Options, check, search_object};

use crate::support::Random;
use crate::support::generate::{Case, Shape, shaped};

/// Compares the two on random histories, and counts the near-linear check's answers.
fn agrees(spec: ModelSpec, failed_cas: FailedCas) {
    let cases = crate::cases(4_000);
    let (mut linearizable, mut not, mut undecided, mut unanswered) = (0, 0, 0, 0);
    for seed in 0..cases {
        let case = history(seed, spec, failed_cas);
        let Case { initial, ref operations, ref values, .. } = case;
        let limits = Limits { memory_bytes: 32 << 20, ..Limits::default() };
        let options = Options { initial, failed_cas, limits };
        let search = |operations: &[Op]| search_object(spec, operations, values, &options);
        let table = Table { operations: operations.clone(), values: values.clone(), keys: vec![String::new()] };
        let object = check(&table, spec, &options).remove(0);
        if object.how == How::Search {
            undecided += 1;
            continue;
        }
        let told = || {
            let truth = if operations.len() <= 9 { Some(case.naive().is_linearizable(operations)) } else { None };
            format!("seed {seed}: {:?}, all orders say {truth:?}\n{case}", object.answer)
        };
        match (&object.answer, search(operations)) {
            (Answer::Linearizable, Answer::Linearizable) => linearizable += 1,
            (Answer::NotLinearizable(conflict), Answer::NotLinearizable(_)) => {
                let part: Vec<Op> = conflict.operations.iter().map(|place| operations[*place as usize]).collect();
                assert_ne!(search(&part), Answer::Linearizable, "no proof: {}", told());
                not += 1;
            }
            // Many concurrent additions have too many orders.
            (_, Answer::Undecided(_)) => unanswered += 1,
            (_, answer) => panic!("the search says {answer:?}, {}", told()),
        }
    }
    println!(
        "{spec}, {failed_cas:?}: {cases} histories, {linearizable} linearizable, {not} not, {undecided} undecided, \
         {unanswered} too much for the search"
    );
    assert!(unanswered <= cases / 1000, "{spec}: {unanswered} of {cases} too much for the search");
    assert!(
        linearizable > cases / 4 && not > cases / 12 && undecided > cases / 100 && undecided < cases / 2,
        "{spec} hardly tested: {linearizable} linearizable, {not} not, {undecided} undecided"
    );
}

/// Usually few operations; in nine of ten histories all values are unique.
fn history(seed: u64, spec: ModelSpec, failed_cas: FailedCas) -> Case {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let large = random.chance(5);
    let shape = Shape {
        clients: 1 + random.below(if large { 10 } else { 3 }),
        count: 3 + random.below(if large { 38 } else { 7 }),
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
        exchange(&mut case.operations, &mut random);
    }
    if spec == ModelSpec::Counter {
        begin_elsewhere(&mut case, &mut random);
    }
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

#[test]
fn registers() {
    agrees(ModelSpec::Register, FailedCas::Check);
}

#[test]
fn compare_and_sets() {
    agrees(ModelSpec::CasRegister, FailedCas::Check);
}

#[test]
fn compare_and_sets_whose_failures_say_nothing() {
    agrees(ModelSpec::CasRegister, FailedCas::Drop);
}

#[test]
fn updates() {
    agrees(ModelSpec::Rmw, FailedCas::Check);
}

#[test]
fn mutexes() {
    agrees(ModelSpec::OwnerMutex, FailedCas::Check);
}

#[test]
fn fenced_mutexes() {
    agrees(ModelSpec::FencedMutex, FailedCas::Check);
}

#[test]
fn counters() {
    agrees(ModelSpec::Counter, FailedCas::Check);
}

#[test]
fn sets() {
    agrees(ModelSpec::Set, FailedCas::Check);
}

#[test]
fn lists() {
    agrees(ModelSpec::ListAppend, FailedCas::Check);
}
