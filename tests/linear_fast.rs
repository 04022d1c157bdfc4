//! The near-linear checks against the truth: hand-written pairs, and small histories of which every order is tried.
//!
//! `REDJEPSEN_CASES` raises the number of random histories an object.

#[path = "linear_fast/brute.rs"]
mod brute;
#[path = "linear_fast/random.rs"]
mod random;

use redjepsen::checker::linear::{Answer, Conflict, fast};
use redjepsen::history::Outcome::{self, Fail, Info};
use redjepsen::history::table::OpFunction::{self, Cas, Read, Rmw, Write};
use redjepsen::history::table::{NEVER, Op, Value};

type Check = fn(&[Op], Value) -> Answer;

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

fn accepts(check: Check, ops: &[Op]) {
    assert_eq!(check(ops, Value::NIL), Answer::Linearizable, "{ops:#?}");
    assert!(brute::linearizable(ops, Value::NIL));
}

/// Says which operations contradict each other.
fn rejects(check: Check, ops: &[Op], conflict: &[u32]) {
    assert!(!brute::linearizable(ops, Value::NIL));
    match check(ops, Value::NIL) {
        Answer::NotLinearizable(found) => assert_eq!(found.operations, conflict, "{}", found.reason),
        answer => panic!("{answer:?}"),
    }
}

fn undecided(check: Check, ops: &[Op], reason: &str) {
    assert_eq!(check(ops, Value::NIL), Answer::Undecided(reason.to_owned()));
}

#[test]
fn a_register_keeps_its_last_value() {
    accepts(fast::register, &[]);
    accepts(fast::register, &[read(NIL, 1, 2), write(1, 3, 4), read(1, 5, 6)]);
    rejects(fast::register, &[read(NIL, 1, 2), write(1, 3, 4), read(NIL, 5, 6)], &[1, 2]);
    accepts(fast::register, &[write(1, 1, 6), read(1, 2, 3), read(1, 4, 5)]);
    rejects(fast::register, &[write(1, 1, 6), read(1, 2, 3), read(NIL, 4, 5)], &[0, 1, 2]);
}

#[test]
fn a_value_is_not_read_before_it_is_written() {
    accepts(fast::register, &[read(1, 1, 4), write(1, 2, 3)]);
    rejects(fast::register, &[read(1, 1, 2), write(1, 3, 4)], &[0, 1]);
    rejects(fast::register, &[read(1, 1, 2)], &[0]);
    rejects(fast::register, &[fail(write(1, 1, 2)), read(1, 3, 4)], &[0, 1]);
    accepts(fast::register, &[fail(write(1, 1, 2)), write(1, 3, 4), read(1, 5, 6)]);
}

#[test]
fn values_do_not_come_back() {
    let (one, two) = (write(1, 1, 3), write(2, 2, 4));
    accepts(
        fast::register,
        &[one, two, read(1, 5, 8), read(2, 6, 7)].map(|op| Op { completed: op.completed + 4, ..op }),
    );
    rejects(fast::register, &[one, two, read(1, 5, 7), read(2, 6, 8)], &[0, 1, 2, 3]);
    // A backward zone inside a forward one.
    rejects(fast::register, &[write(1, 1, 2), write(2, 3, 4), read(1, 5, 6)], &[0, 1, 2]);
    accepts(fast::register, &[write(1, 1, 2), write(2, 3, 7), read(1, 5, 6)]);
}

#[test]
fn an_indeterminate_write_happened_if_it_was_read() {
    accepts(fast::register, &[info(write(1, 1, 2)), read(NIL, 3, 4), read(1, 5, 6)]);
    rejects(fast::register, &[info(write(1, 1, 2)), read(1, 3, 4), read(NIL, 5, 6)], &[0, 1, 2]);
    accepts(fast::register, &[info(write(1, 1, 2)), read(NIL, 3, 4)]);
    rejects(fast::register, &[read(1, 1, 2), info(write(1, 3, 4))], &[0, 1]);
}

#[test]
fn an_update_is_not_lost() {
    accepts(fast::rmw, &[rmw(NIL, 1, 1, 2), rmw(1, 2, 3, 4), read(2, 5, 6)]);
    rejects(fast::rmw, &[rmw(NIL, 1, 1, 3), rmw(NIL, 2, 2, 4)], &[0, 1]);
    rejects(fast::rmw, &[rmw(NIL, 1, 1, 2), rmw(1, 2, 3, 4), read(1, 5, 6)], &[0, 1, 2]);
    accepts(fast::rmw, &[rmw(1, 2, 1, 4), rmw(NIL, 1, 2, 3)]);
    rejects(fast::rmw, &[rmw(1, 2, 1, 2), rmw(NIL, 1, 3, 4)], &[0, 1]);
    // In a circle.
    rejects(fast::rmw, &[rmw(1, 2, 1, 4), rmw(2, 1, 2, 3)], &[0, 1]);
}

#[test]
fn an_indeterminate_update_counts_if_its_value_was_seen() {
    accepts(fast::rmw, &[info(rmw(NIL, 1, 1, 2)), rmw(NIL, 2, 3, 4)]);
    rejects(fast::rmw, &[info(rmw(NIL, 1, 1, 2)), rmw(NIL, 2, 3, 4), read(1, 5, 6)], &[0, 1, 2]);
    accepts(fast::rmw, &[info(rmw(UNKNOWN, 1, 1, 2)), rmw(NIL, 2, 3, 4), read(1, 5, 6)]);
    // Seen through another one that was seen.
    rejects(
        fast::rmw,
        &[info(rmw(NIL, 1, 1, 2)), info(rmw(1, 3, 2, 3)), rmw(NIL, 2, 4, 5), read(3, 6, 7)],
        &[0, 1, 2, 3],
    );
    accepts(fast::rmw, &[info(rmw(NIL, 1, 1, 2)), info(rmw(1, 3, 2, 3)), rmw(NIL, 2, 4, 5)]);
}

#[test]
fn a_compare_and_set_follows_what_it_expected() {
    accepts(fast::cas_register, &[write(1, 1, 2), cas(1, 2, 3, 4), read(2, 5, 6)]);
    rejects(fast::cas_register, &[write(1, 1, 2), cas(1, 2, 3, 4), read(1, 5, 6)], &[0, 1, 2]);
    rejects(fast::cas_register, &[write(1, 1, 2), cas(1, 2, 3, 5), cas(1, 3, 4, 6)], &[0, 1, 2]);
    rejects(fast::cas_register, &[write(1, 1, 2), cas(5, 2, 3, 4)], &[1]);
    // A write cannot stand between a value and what replaced it.
    accepts(fast::cas_register, &[write(1, 1, 2), write(3, 3, 6), cas(1, 2, 4, 5), read(3, 7, 8)]);
    rejects(fast::cas_register, &[write(1, 1, 2), write(3, 3, 4), cas(1, 2, 5, 6)], &[0, 1, 2]);
    // Nor between the initial value and what replaced it.
    rejects(fast::cas_register, &[write(3, 1, 2), cas(NIL, 2, 3, 4)], &[0, 1]);
    accepts(fast::cas_register, &[write(3, 1, 4), cas(NIL, 2, 2, 3)]);
    // Indeterminate ones.
    accepts(fast::cas_register, &[info(cas(5, 6, 1, 2)), read(NIL, 3, 4)]);
    rejects(fast::cas_register, &[info(cas(5, 6, 1, 2)), read(6, 3, 4)], &[0, 1]);
}

#[test]
fn the_theory_has_limits() {
    undecided(fast::register, &[write(1, 1, 2), write(1, 3, 4)], "a value was written twice (line 3)");
    undecided(fast::register, &[write(NIL, 1, 2)], "the initial value was written again (line 1)");
    undecided(fast::register, &[read(UNKNOWN, 1, 2)], "nobody knows what a successful read returned (line 1)");
    undecided(fast::register, &[cas(1, 2, 1, 2)], "an operation is neither a read nor a write (line 1)");
    undecided(fast::rmw, &[write(1, 1, 2)], "an operation is neither a read nor a read-modify-write (line 1)");
    undecided(fast::cas_register, &[fail(cas(1, 2, 1, 2))], "a compare-and-set failed (line 1)");
    undecided(fast::cas_register, &[cas(1, 1, 1, 2)], "a compare-and-set replaces a value with itself (line 1)");
    // A contradiction among values that repeat is none.
    undecided(
        fast::cas_register,
        &[write(1, 1, 2), cas(1, 2, 3, 4), cas(1, 3, 5, 6), write(1, 7, 8)],
        "a value was written twice (line 7)",
    );
}

#[test]
fn registers_agree_with_every_order() {
    agrees(fast::register, &[Read, Read, Write]);
}

#[test]
fn compare_and_sets_agree_with_every_order() {
    agrees(fast::cas_register, &[Read, Write, Cas, Cas]);
}

#[test]
fn updates_agree_with_every_order() {
    agrees(fast::rmw, &[Read, Rmw, Rmw]);
}

fn agrees(check: Check, functions: &[OpFunction]) {
    let cases = std::env::var("REDJEPSEN_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100_000);
    let (mut legal, mut illegal, mut undecided) = (0u64, 0u64, 0u64);
    for seed in 0..cases {
        let random::Case { ops, initial, genuine } = random::case(seed, functions);
        let what = || format!("seed {seed}, initially {initial:?}: {ops:#?}");
        let truth = brute::linearizable(&ops, initial);
        assert!(truth || !genuine, "{}", what());
        match check(&ops, initial) {
            Answer::Linearizable => {
                assert!(truth && !outside(&ops, initial, functions), "accepted: {}", what());
                legal += 1;
            }
            Answer::NotLinearizable(conflict) => {
                assert!(!truth && !outside(&ops, initial, functions), "rejected: {}", what());
                assert!(stands_alone(&conflict, &ops, initial), "{conflict:?} does not stand alone: {}", what());
                illegal += 1;
            }
            Answer::Undecided(reason) => {
                assert!(!genuine && outside(&ops, initial, functions), "{reason}: {}", what());
                undecided += 1;
            }
        }
    }
    println!("{cases} histories: {legal} linearizable, {illegal} not, {undecided} undecided");
    assert!(legal * 5 > cases && illegal * 10 > cases && undecided * 5 < cases, "{legal}, {illegal}, {undecided}");
}

/// Whether the theory does not apply to the history.
fn outside(ops: &[Op], initial: Value, functions: &[OpFunction]) -> bool {
    let mut written = vec![initial];
    for op in ops {
        if !functions.contains(&op.f) || (op.f == Cas && op.outcome == Fail) {
            return true;
        }
        if op.outcome == Fail || (op.f == Read && op.outcome == Info) {
            continue;
        }
        let unknown = op.a == Value::UNKNOWN && op.f != Rmw;
        if unknown || brute::written(op).is_some_and(|value| value == Value::UNKNOWN || written.contains(&value)) {
            return true;
        }
        if matches!(op.f, Cas | Rmw) && op.a == op.b {
            return true;
        }
        written.extend(brute::written(op));
    }
    false
}

/// Whether the operations have no order by themselves, and not just because a writer was left out.
fn stands_alone(conflict: &Conflict, ops: &[Op], initial: Value) -> bool {
    let mut set: Vec<Op> = conflict.operations.iter().map(|&place| ops[place as usize]).collect();
    set.retain(|op| op.outcome != Fail);
    let wrote = |ops: &[Op], value| ops.iter().any(|op| op.outcome != Fail && brute::written(op) == Some(value));
    let closed = set
        .iter()
        .filter_map(brute::observed)
        .all(|value| value == initial || wrote(&set, value) || !wrote(ops, value));
    let mut others: Vec<Value> = set.iter().filter_map(brute::observed).collect();
    others.retain(|&value| !wrote(&set, value));
    !brute::linearizable(&set, initial) && (closed || others.into_iter().all(|value| !brute::linearizable(&set, value)))
}
