//! Compares the near-linear checks, as the dispatch uses them, with all orders. If a history is too large for that, compares them
//! with the general search.
//!
//! `REDJEPSEN_CASES` raises the number of histories per check.

use linearizability::history::{Op, OpFunction, Outcome, Table, Value};
use linearizability::models::FailedCas;
use linearizability::{Answer, Conflict, How, Limits, ModelSpec, Options, check, linear_time, search_object};

use crate::support::generate::{Case, history};
use crate::support::naive::Naive;

/// For more operations than this, not all orders are tried.
const FEW: usize = 9;

/// True if these operations of a history are linearizable; None if the search does not decide it.
fn truth(case: &Case, operations: &[Op], initial: Value) -> Option<bool> {
    if operations.len() <= FEW {
        return Some(Naive { initial, ..case.naive() }.is_linearizable(operations));
    }
    let limits = Limits { memory_bytes: 32 << 20, ..Limits::default() };
    let options = Options { initial, failed_cas: case.failed_cas, limits };
    match search_object(case.spec, operations, &case.values, &options) {
        Answer::Undecided(_) => None,
        answer => Some(answer == Answer::Linearizable),
    }
}

/// The near-linear check alone, with its reason if it is undecided.
fn directly(case: &Case) -> Answer {
    let Case { spec, initial, failed_cas, operations: ops, values, .. } = case;
    match spec {
        ModelSpec::OwnerMutex => linear_time::owner_mutex(ops),
        ModelSpec::FencedMutex => linear_time::fenced_mutex(ops, values),
        ModelSpec::Set => linear_time::set(ops, values),
        ModelSpec::ListAppend => linear_time::list_append(ops, values),
        ModelSpec::Counter => linear_time::counter(ops, values, *initial),
        _ => linear_time::register(ops, *initial, *failed_cas),
    }
}

/// Compares the two on random histories, and counts the near-linear check's answers.
fn agrees(spec: ModelSpec, failed_cas: FailedCas) {
    let cases = crate::cases(20_000);
    let (mut linearizable, mut not, mut undecided, mut left_open, mut unanswered) = (0, 0, 0, 0, 0);
    for seed in 0..cases {
        let case = history(seed, spec, failed_cas);
        let table =
            Table { operations: case.operations.clone(), values: case.values.clone(), keys: vec![String::new()] };
        let options = Options { initial: case.initial, failed_cas, ..Options::default() };
        let answer = directly(&case);
        let told = |what: &str| format!("seed {seed}: {what}, {answer:?}\n{case}");
        if let Answer::Undecided(reason) = &answer {
            if is_register(spec) && !is_outside(&case) {
                let is_refusal = |op: &Op| (op.f, op.outcome) == (OpFunction::Cas, Outcome::Fail);
                assert!(case.operations.iter().any(is_refusal), "{reason}: {}", told("it applies"));
                left_open += 1;
            }
            undecided += 1;
            continue;
        }
        let object = check(&table, spec, &options).remove(0);
        assert_eq!((object.how, &object.answer), (How::LinearTime, &answer), "{}", told("the dispatch differs"));
        match (&answer, truth(&case, &case.operations, case.initial)) {
            (Answer::Linearizable, Some(true)) => linearizable += 1,
            (Answer::NotLinearizable(conflict), Some(false)) => {
                assert!(conflict.operations.is_sorted_by(|one, next| one < next), "{}", told("not in order"));
                assert!(stands_alone(conflict, &case), "{}", told("no proof"));
                not += 1;
            }
            // Many concurrent additions have too many orders.
            (_, None) => unanswered += 1,
            (_, truth) => panic!("{}", told(&format!("in truth {truth:?}"))),
        }
    }
    println!(
        "{spec}, {failed_cas:?}: {cases} histories, {linearizable} linearizable, {not} not, {undecided} undecided, {left_open} of \
         them left open, {unanswered} too much for the search"
    );
    assert!(unanswered <= cases / 1000, "{spec}: {unanswered} of {cases} too much for the search");
    assert!(left_open * 200 < cases, "{spec}: {left_open} of {cases} left open");
    assert!(
        linearizable > cases / 4 && not > cases / 10 && undecided > cases / 100 && undecided < cases / 2,
        "{spec} hardly tested: {linearizable} linearizable, {not} not, {undecided} undecided"
    );
}

fn is_register(spec: ModelSpec) -> bool {
    matches!(spec, ModelSpec::Register | ModelSpec::CasRegister | ModelSpec::Rmw)
}

/// True if the theory of registers does not apply to the history.
fn is_outside(case: &Case) -> bool {
    use OpFunction::{Cas, Read, Rmw};
    let mut written = vec![case.initial];
    for op in &case.operations {
        if op.outcome == Outcome::Fail || op.f == Read {
            continue;
        }
        if op.a == Value::UNKNOWN && op.f != Rmw || matches!(op.f, Cas | Rmw) && op.a == op.b {
            return true;
        }
        if op.written().is_some_and(|value| value == Value::UNKNOWN || written.contains(&value)) {
            return true;
        }
        written.extend(op.written());
    }
    false
}

/// True if these operations have no legal order by themselves. For a register, a missing writer does not count.
fn stands_alone(conflict: &Conflict, case: &Case) -> bool {
    let set: Vec<Op> = conflict.operations.iter().map(|place| case.operations[*place as usize]).collect();
    let is_refuted = |initial| truth(case, &set, initial) != Some(true);
    let wrote = |ops: &[Op], value| ops.iter().any(|op| op.outcome != Outcome::Fail && op.written() == Some(value));
    let observes = |op: &&Op| match op.f {
        OpFunction::Write => false,
        OpFunction::Read => op.outcome == Outcome::Ok,
        _ => op.outcome != Outcome::Fail,
    };
    // For this set alone, a value that other operations wrote may have been the initial value.
    let observed = set.iter().filter(observes).map(|op| op.a).filter(|value| *value != Value::UNKNOWN);
    let is_elsewhere =
        |value: &Value| *value != case.initial && !wrote(&set, *value) && wrote(&case.operations, *value);
    is_refuted(case.initial) && (!is_register(case.spec) || observed.filter(is_elsewhere).all(is_refuted))
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
