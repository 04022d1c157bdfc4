//! The near-linear checks against the truth: hand-written pairs, and small histories for which every order is tried.
//!
//! `REDJEPSEN_CASES` raises the number of random histories per object.

mod random;

use std::sync::atomic::{AtomicU32, Ordering};

use linearizability::history::OpFunction::{self, Cas, Read, Rmw, Write};
use linearizability::history::Outcome::{self, Fail, Info};
use linearizability::history::{self, NEVER, Op, Value};
use linearizability::{Answer, Conflict, FailedCas, Limits, ModelSpec, Options, linear_time, search_object};

use crate::support::naive::Naive;

const NIL: u32 = 0;
const UNKNOWN: u32 = u32::MAX;

fn op(f: OpFunction, a: u32, b: u32, invoked: u32, completed: u32) -> Op {
    let outcome = Outcome::Ok;
    Op { key: 0, process: 0, f, outcome, a: Value(a), b: Value(b), invoked, completed, line: invoked }
}

fn read(value: u32, invoked: u32, completed: u32) -> Op {
    op(Read, value, NIL, invoked, completed)
}

fn write(value: u32, invoked: u32, completed: u32) -> Op {
    op(Write, value, NIL, invoked, completed)
}

fn cas(from: u32, to: u32, invoked: u32, completed: u32) -> Op {
    op(Cas, from, to, invoked, completed)
}

fn rmw(from: u32, to: u32, invoked: u32, completed: u32) -> Op {
    op(Rmw, from, to, invoked, completed)
}

fn info(op: Op) -> Op {
    Op { outcome: Info, completed: NEVER, ..op }
}

fn fail(op: Op) -> Op {
    Op { outcome: Fail, ..op }
}

fn check(ops: &[Op], initial: Value) -> Answer {
    linear_time::register(ops, initial, FailedCas::Check)
}

/// Whether some order is legal; tries all of them.
fn truth(ops: &[Op], initial: Value, failed_cas: FailedCas) -> bool {
    let mut anything: Vec<Value> = ops.iter().flat_map(|op| [op.a, op.b]).collect();
    anything.retain(|value| *value != Value::UNKNOWN);
    // And a value that is none of these.
    anything.extend([initial, Value(u32::MAX - 1)]);
    anything.sort_unstable();
    anything.dedup();
    let values = history::Values::default();
    let naive = Naive { spec: ModelSpec::Rmw, initial, failed_cas, values: &values, anything: &anything };
    naive.is_linearizable(ops)
}

fn accepts(ops: &[Op]) {
    assert_eq!(check(ops, Value::NIL), Answer::Linearizable, "{ops:#?}");
    assert!(truth(ops, Value::NIL, FailedCas::Check));
}

/// Expects a rejection that names these operations.
fn rejects(ops: &[Op], conflict: &[u32]) {
    assert!(!truth(ops, Value::NIL, FailedCas::Check));
    match check(ops, Value::NIL) {
        Answer::NotLinearizable(found) => assert_eq!(found.operations, conflict, "{}", found.reason),
        answer => panic!("{answer:?}"),
    }
}

fn undecided(ops: &[Op], reason: &str) {
    assert_eq!(check(ops, Value::NIL), Answer::Undecided(reason.to_owned()));
}

#[test]
fn a_register_keeps_its_last_value() {
    accepts(&[]);
    accepts(&[read(NIL, 1, 2), write(1, 3, 4), read(1, 5, 6)]);
    rejects(&[read(NIL, 1, 2), write(1, 3, 4), read(NIL, 5, 6)], &[1, 2]);
    accepts(&[write(1, 1, 6), read(1, 2, 3), read(1, 4, 5)]);
    rejects(&[write(1, 1, 6), read(1, 2, 3), read(NIL, 4, 5)], &[0, 1, 2]);
}

#[test]
fn a_value_is_not_read_before_it_is_written() {
    accepts(&[read(1, 1, 4), write(1, 2, 3)]);
    rejects(&[read(1, 1, 2), write(1, 3, 4)], &[0, 1]);
    rejects(&[read(1, 1, 2)], &[0]);
    rejects(&[fail(write(1, 1, 2)), read(1, 3, 4)], &[0, 1]);
    accepts(&[fail(write(1, 1, 2)), write(1, 3, 4), read(1, 5, 6)]);
}

#[test]
fn values_do_not_come_back() {
    let (one, two) = (write(1, 1, 3), write(2, 2, 4));
    accepts(&[one, two, read(1, 5, 8), read(2, 6, 7)].map(|op| Op { completed: op.completed + 4, ..op }));
    rejects(&[one, two, read(1, 5, 7), read(2, 6, 8)], &[0, 1, 2, 3]);
    // A backward zone inside a forward one.
    rejects(&[write(1, 1, 2), write(2, 3, 4), read(1, 5, 6)], &[0, 1, 2]);
    accepts(&[write(1, 1, 2), write(2, 3, 7), read(1, 5, 6)]);
}

#[test]
fn an_indeterminate_write_happened_if_it_was_read() {
    accepts(&[info(write(1, 1, 2)), read(NIL, 3, 4), read(1, 5, 6)]);
    rejects(&[info(write(1, 1, 2)), read(1, 3, 4), read(NIL, 5, 6)], &[0, 1, 2]);
    accepts(&[info(write(1, 1, 2)), read(NIL, 3, 4)]);
    rejects(&[read(1, 1, 2), info(write(1, 3, 4))], &[0, 1]);
}

#[test]
fn an_update_is_not_lost() {
    accepts(&[rmw(NIL, 1, 1, 2), rmw(1, 2, 3, 4), read(2, 5, 6)]);
    rejects(&[rmw(NIL, 1, 1, 3), rmw(NIL, 2, 2, 4)], &[0, 1]);
    rejects(&[rmw(NIL, 1, 1, 2), rmw(1, 2, 3, 4), read(1, 5, 6)], &[0, 1, 2]);
    accepts(&[rmw(1, 2, 1, 4), rmw(NIL, 1, 2, 3)]);
    rejects(&[rmw(1, 2, 1, 2), rmw(NIL, 1, 3, 4)], &[0, 1]);
    // In a cycle.
    rejects(&[rmw(1, 2, 1, 4), rmw(2, 1, 2, 3)], &[0, 1]);
}

#[test]
fn an_indeterminate_update_counts_if_its_value_was_seen() {
    accepts(&[info(rmw(NIL, 1, 1, 2)), rmw(NIL, 2, 3, 4)]);
    rejects(&[info(rmw(NIL, 1, 1, 2)), rmw(NIL, 2, 3, 4), read(1, 5, 6)], &[0, 1, 2]);
    accepts(&[info(rmw(UNKNOWN, 1, 1, 2)), rmw(NIL, 2, 3, 4), read(1, 5, 6)]);
    // Seen through an indeterminate operation that was itself seen.
    rejects(&[info(rmw(NIL, 1, 1, 2)), info(rmw(1, 3, 2, 3)), rmw(NIL, 2, 4, 5), read(3, 6, 7)], &[0, 1, 2, 3]);
    accepts(&[info(rmw(NIL, 1, 1, 2)), info(rmw(1, 3, 2, 3)), rmw(NIL, 2, 4, 5)]);
}

#[test]
fn a_compare_and_set_follows_what_it_expected() {
    accepts(&[write(1, 1, 2), cas(1, 2, 3, 4), read(2, 5, 6)]);
    rejects(&[write(1, 1, 2), cas(1, 2, 3, 4), read(1, 5, 6)], &[0, 1, 2]);
    rejects(&[write(1, 1, 2), cas(1, 2, 3, 5), cas(1, 3, 4, 6)], &[0, 1, 2]);
    rejects(&[write(1, 1, 2), cas(5, 2, 3, 4)], &[1]);
    // A write cannot come between a value and its replacement.
    accepts(&[write(1, 1, 2), write(3, 3, 6), cas(1, 2, 4, 5), read(3, 7, 8)]);
    rejects(&[write(1, 1, 2), write(3, 3, 4), cas(1, 2, 5, 6)], &[0, 1, 2]);
    // Nor between the initial value and its replacement.
    rejects(&[write(3, 1, 2), cas(NIL, 2, 3, 4)], &[0, 1]);
    accepts(&[write(3, 1, 4), cas(NIL, 2, 2, 3)]);
    // Indeterminate operations.
    accepts(&[info(cas(5, 6, 1, 2)), read(NIL, 3, 4)]);
    rejects(&[info(cas(5, 6, 1, 2)), read(6, 3, 4)], &[0, 1]);
}

#[test]
fn a_compare_and_set_fails_where_something_else_was_there() {
    accepts(&[write(1, 1, 2), fail(cas(NIL, 2, 3, 4)), read(1, 5, 6)]);
    rejects(&[write(1, 1, 2), fail(cas(1, 2, 3, 4)), read(1, 5, 6)], &[0, 1, 2]);
    // Something else was there before the value, or after it.
    accepts(&[write(1, 1, 4), fail(cas(1, 2, 2, 3)), read(1, 5, 6)]);
    accepts(&[write(1, 1, 2), fail(cas(1, 2, 3, 6)), write(3, 4, 5)]);
    rejects(&[write(1, 1, 2), read(1, 3, 4), fail(cas(1, 2, 5, 6)), write(3, 7, 8)], &[0, 2]);
    // The initial value was there from the beginning.
    rejects(&[fail(cas(NIL, 2, 1, 2)), write(1, 3, 4)], &[0]);
    accepts(&[fail(cas(NIL, 2, 1, 3)), write(1, 2, 4)]);
    // Nothing fits between a value and its replacement, so either the first is late or the second is early.
    accepts(&[write(1, 1, 6), fail(cas(1, 9, 2, 3)), cas(1, 2, 4, 9), fail(cas(2, 9, 7, 10)), write(3, 8, 11)]);
    // Here 2 must be there before event 5, as 1 must be gone by then, but not before event 6.
    rejects(
        &[write(1, 1, 2), fail(cas(1, 9, 3, 5)), cas(1, 2, 4, 12), fail(cas(2, 9, 6, 7)), read(2, 8, 9)],
        &[0, 1, 2, 3, 4],
    );
}

#[test]
fn what_nobody_saw_may_come_in_between() {
    let (one, refusal, again) = (write(1, 1, 2), fail(cas(1, 2, 4, 5)), read(1, 6, 7));
    accepts(&[one, info(write(3, 3, 3)), refusal]);
    rejects(&[one, info(write(3, 3, 3)), refusal, again], &[0, 2, 3]);
    accepts(&[one, info(cas(1, 3, 3, 3)), refusal]);
    rejects(&[one, info(cas(4, 3, 3, 3)), refusal], &[0, 2]);
    // But only once.
    let twice = [one, info(write(3, 3, 3)), refusal, write(5, 8, 9), fail(cas(5, 6, 10, 11))];
    assert!(!truth(&twice, Value::NIL, FailedCas::Check));
    // A write in progress may be moved forward, even if another one returns first.
    accepts(&[one, write(3, 3, 10), refusal, write(4, 8, 9)]);
}

#[test]
fn a_value_is_replaced_as_often_as_it_was_there() {
    let lost = [rmw(NIL, 1, 1, 2), rmw(1, 2, 3, 6), rmw(1, 2, 4, 5), rmw(2, 3, 7, 8)];
    rejects(&lost, &[0, 1, 2]);
    // Another operation may have put the value back.
    rejects(&[&lost[..], &[write(1, 9, 10)]].concat(), &[0, 1, 2, 4]);
    undecided(&[&[info(write(1, 0, 0))], &lost[..]].concat(), "a value was written twice (line 1)");
    // But not one that replaced a value already used up.
    rejects(&[&[info(rmw(NIL, 1, 0, 0))], &lost[..]].concat(), &[0, 1, 2, 3]);
    // An operation that cannot have happened is no second writer.
    accepts(&[rmw(NIL, 1, 1, 2), info(rmw(NIL, 1, 3, 4)), rmw(1, 2, 5, 6)]);
    rejects(&[rmw(NIL, 1, 1, 2), info(rmw(NIL, 1, 3, 4)), rmw(1, 2, 5, 6), read(1, 7, 8)], &[0, 2, 3]);
}

#[test]
fn nobody_knows_what_an_operation_wrote() {
    let unknown = |invoked| info(rmw(UNKNOWN, UNKNOWN, invoked, 0));
    accepts(&[rmw(NIL, 1, 1, 2), unknown(3), read(1, 4, 5)]);
    accepts(&[rmw(NIL, 1, 1, 2), unknown(3), rmw(2, 3, 4, 5)]);
    // A lost update, unless the value was written again.
    accepts(&[rmw(NIL, 1, 1, 2), unknown(3), rmw(1, 2, 4, 5), rmw(1, 3, 6, 7)]);
    rejects(&[rmw(NIL, 1, 1, 2), rmw(1, 2, 4, 5), rmw(1, 3, 6, 7), unknown(8)], &[0, 1, 2]);
    undecided(&[unknown(1), rmw(2, 3, 4, 5), rmw(4, 5, 6, 7)], "nobody knows what an operation wrote (line 1)");
    // The operation that begins first is assigned to the value that is there first.
    accepts(&[unknown(1), rmw(2, 3, 2, 3), unknown(4), rmw(5, 6, 5, 6)]);
    accepts(&[unknown(1), rmw(5, 6, 2, 6), unknown(4), rmw(2, 3, 3, 5)].map(|op| Op { line: 0, ..op }));
}

#[test]
fn the_theory_has_limits() {
    undecided(&[write(1, 1, 2), write(1, 3, 4)], "a value was written twice (line 3)");
    undecided(&[write(NIL, 1, 2)], "the initial value was written again (line 1)");
    accepts(&[read(UNKNOWN, 1, 2)]);
    undecided(&[op(OpFunction::Add, 1, 2, 1, 2)], "an operation is none of a register (line 1)");
    undecided(&[cas(1, 1, 1, 2)], "an operation replaces a value with itself (line 1)");
    undecided(&[rmw(NIL, UNKNOWN, 1, 2)], "nobody knows what an operation wrote (line 1)");
    // A contradiction between repeated values counts only if no other occurrence can have been meant.
    rejects(&[write(1, 1, 2), cas(1, 2, 3, 4), cas(1, 3, 5, 6), write(1, 7, 8)], &[0, 1, 2, 3]);
    undecided(
        &[write(1, 1, 2), cas(1, 2, 3, 4), write(1, 5, 9), cas(1, 3, 6, 7)],
        "a value was written twice (line 5)",
    );
}

#[test]
fn registers_agree_with_every_order() {
    agrees(FailedCas::Check, &[Read, Read, Write], Values::Unique);
}

#[test]
fn compare_and_sets_agree_with_every_order() {
    agrees(FailedCas::Drop, &[Read, Write, Cas, Cas], Values::Unique);
}

#[test]
fn compare_and_sets_that_failed_agree_with_every_order() {
    agrees(FailedCas::Check, &[Read, Write, Cas, Cas], Values::Unique);
}

#[test]
fn updates_agree_with_every_order() {
    agrees(FailedCas::Check, &[Read, Rmw, Rmw], Values::Unique);
}

#[test]
fn all_of_a_register_agrees_with_every_order() {
    agrees(FailedCas::Check, &[Read, Write, Cas, Rmw], Values::Unique);
}

#[test]
fn values_that_repeat_agree_with_every_order() {
    agrees(FailedCas::Check, &[Read, Write, Cas, Rmw, Rmw], Values::Repeat);
}

#[derive(Clone, Copy, PartialEq)]
enum Values {
    Unique,
    /// Often repeated.
    Repeat,
}

#[test]
fn larger_histories_agree_with_the_search() {
    let (mut legal, mut illegal, mut outside, mut left_open) = (0, 0, 0, 0);
    for seed in 0..crate::cases(20_000) / 20 {
        let repeat = seed % 8 == 0;
        let functions: &[OpFunction] = if seed % 2 == 0 { &[Read, Write, Cas, Rmw] } else { &[Read, Write, Cas, Cas] };
        let random::Case { ops, initial, genuine } = random::case(seed, functions, repeat, true);
        let found = check(&ops, initial);
        assert!(!genuine || !matches!(found, Answer::NotLinearizable(_)), "seed {seed}:{}", told(&ops));
        let give_up = steps(2_000);
        let limits = Limits { give_up: &give_up, memory_bytes: 1 << 28 };
        let options = Options { initial, failed_cas: FailedCas::Check, limits };
        let truth = search_object(ModelSpec::Rmw, &ops, &history::Values::default(), &options);
        match (&found, &truth) {
            (Answer::Undecided(reason), _) if reason.starts_with("several") => left_open += 1,
            (Answer::Undecided(_), _) => outside += 1,
            (_, Answer::Undecided(_)) => {}
            (Answer::Linearizable, Answer::Linearizable) => legal += 1,
            (Answer::NotLinearizable(_), Answer::NotLinearizable(_)) => illegal += 1,
            _ => panic!("seed {seed}, initially {initial:?}: {found:?}, {truth:?}{}", told(&ops)),
        }
    }
    println!("{legal} linearizable, {illegal} not, {outside} outside, {left_open} left open");
    assert!(legal > 0 && illegal > 0 && left_open * 50 < legal + illegal);
}

/// Gives up after it has been asked this many times.
fn steps(most: u32) -> impl Fn() -> bool + Sync {
    let asked = AtomicU32::new(0);
    move || asked.fetch_add(1, Ordering::Relaxed) > most
}

fn agrees(failed_cas: FailedCas, functions: &[OpFunction], values: Values) {
    let cases = crate::cases(20_000);
    let (mut legal, mut illegal, mut left_open, mut undecided) = (0u64, 0u64, 0u64, 0u64);
    for seed in 0..cases {
        let random::Case { ops, initial, genuine } = random::case(seed, functions, values == Values::Repeat, false);
        let what = || format!("seed {seed}, initially {initial:?}:{}", told(&ops));
        let counts = |op: &Op| op.outcome != Fail || op.f != Cas || failed_cas == FailedCas::Check;
        let counted: Vec<Op> = ops.iter().copied().filter(counts).collect();
        let truth = truth(&ops, initial, failed_cas);
        assert!(truth || !genuine, "{}", what());
        match linear_time::register(&ops, initial, failed_cas) {
            Answer::Linearizable => {
                assert!(truth, "accepted: {}", what());
                legal += 1;
            }
            Answer::NotLinearizable(conflict) => {
                assert!(!truth, "rejected: {}", what());
                assert!(
                    stands_alone(&conflict, &ops, initial, failed_cas),
                    "{conflict:?} does not stand alone: {}",
                    what()
                );
                illegal += 1;
            }
            Answer::Undecided(reason) if outside(&counted, initial) => {
                assert!(values == Values::Repeat || !genuine || reason.starts_with("nobody knows"), "{}", what());
                undecided += 1;
            }
            Answer::Undecided(reason) => {
                assert!(counted.iter().any(|op| op.outcome == Fail && op.f == Cas), "{reason}: {}", what());
                left_open += 1;
            }
        }
    }
    println!("{cases} histories: {legal} linearizable, {illegal} not, {undecided} outside, {left_open} left open");
    assert!(legal * 5 > cases && illegal * 10 > cases, "{legal}, {illegal}");
    assert!(values == Values::Repeat || undecided * 5 < cases, "{undecided}");
    assert!(left_open * 200 < cases, "{left_open}");
}

fn told(ops: &[Op]) -> String {
    let tell = |op: &Op| {
        let Op { f, outcome, a, b, invoked, completed, .. } = op;
        format!("\n{f:?} {outcome:?} {a:?} {b:?} from {invoked} to {completed}")
    };
    ops.iter().map(tell).collect()
}

/// Whether the theory does not apply to the history.
fn outside(ops: &[Op], initial: Value) -> bool {
    let mut written = vec![initial];
    for op in ops {
        if !matches!(op.f, Read | Write | Cas | Rmw) {
            return true;
        }
        if op.outcome == Fail || op.f == Read {
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

/// Whether the operations have no order by themselves, and not just because a writer is missing.
fn stands_alone(conflict: &Conflict, ops: &[Op], initial: Value, failed_cas: FailedCas) -> bool {
    let set: Vec<Op> = conflict.operations.iter().map(|&place| ops[place as usize]).collect();
    let wrote = |ops: &[Op], value| ops.iter().any(|op| op.outcome != Fail && op.written() == Some(value));
    let observes = |op: &&Op| op.f != Write && op.outcome != Fail && (op.f != Read || op.outcome == Outcome::Ok);
    // As far as this set goes, what other operations wrote may have been the initial value.
    let observed = set.iter().filter(observes).map(|op| op.a).filter(|value| *value != Value::UNKNOWN);
    let mut elsewhere = observed.filter(|value| *value != initial && !wrote(&set, *value) && wrote(ops, *value));
    !truth(&set, initial, failed_cas) && elsewhere.all(|value| !truth(&set, value, failed_cas))
}
