//! The near-linear checks against the truth: hand-written pairs, and random histories.

mod locks;
mod random;

use linearizability::history::OpFunction::{self, Cas, Read, Rmw, Write};
use linearizability::history::Outcome::{self, Fail, Info};
use linearizability::history::{self, NEVER, Op, Value};
use linearizability::{Answer, FailedCas, ModelSpec, linear_time};

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

/// True if some order is legal; tries all of them.
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
    // Another value was there before it, or after it.
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
    // But it explains only one refusal.
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
    // But not an operation that replaced a value already used up.
    rejects(&[&[info(rmw(NIL, 1, 0, 0))], &lost[..]].concat(), &[0, 1, 2, 3]);
    // An operation that cannot have happened is not a second writer.
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
    undecided(&[unknown(1), rmw(2, 3, 4, 5), rmw(4, 5, 6, 7)], "the value that an operation wrote is unknown (line 1)");
    // The operation that begins first is assigned to the value that is there first.
    accepts(&[unknown(1), rmw(2, 3, 2, 3), unknown(4), rmw(5, 6, 5, 6)]);
    accepts(&[unknown(1), rmw(5, 6, 2, 6), unknown(4), rmw(2, 3, 3, 5)].map(|op| Op { line: 0, ..op }));
}

#[test]
fn the_theory_has_limits() {
    undecided(&[write(1, 1, 2), write(1, 3, 4)], "a value was written twice (line 3)");
    undecided(&[write(NIL, 1, 2)], "the initial value was written again (line 1)");
    accepts(&[read(UNKNOWN, 1, 2)]);
    undecided(&[op(OpFunction::Add, 1, 2, 1, 2)], "an operation does not belong to a register (line 1)");
    undecided(&[cas(1, 1, 1, 2)], "an operation replaces a value with itself (line 1)");
    undecided(&[rmw(NIL, UNKNOWN, 1, 2)], "the value that an operation wrote is unknown (line 1)");
    // A contradiction between repeated values counts only if no other occurrence is possible.
    rejects(&[write(1, 1, 2), cas(1, 2, 3, 4), cas(1, 3, 5, 6), write(1, 7, 8)], &[0, 1, 2, 3]);
    undecided(
        &[write(1, 1, 2), cas(1, 2, 3, 4), write(1, 5, 9), cas(1, 3, 6, 7)],
        "a value was written twice (line 5)",
    );
}
