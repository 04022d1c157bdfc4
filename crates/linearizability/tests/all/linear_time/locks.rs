//! Small histories: for each rule, one history that follows it and one that breaks it, with the proof.

use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Value, Values};
use linearizability::{Answer, linear_time};

/// An operation of a process with its invocation and completion; indeterminate without a completion.
fn op(process: u32, f: OpFunction, a: Value, invoked: u32, completed: Option<u32>) -> Op {
    let outcome = if completed.is_some() { Outcome::Ok } else { Outcome::Info };
    Op { key: 0, process, f, outcome, a, b: Value::NIL, invoked, completed: completed.unwrap_or(NEVER), line: invoked }
}

fn acquire(process: u32, invoked: u32, completed: impl Into<Option<u32>>) -> Op {
    op(process, OpFunction::Acquire, Value::NIL, invoked, completed.into())
}

fn release(process: u32, invoked: u32, completed: impl Into<Option<u32>>) -> Op {
    op(process, OpFunction::Release, Value::NIL, invoked, completed.into())
}

fn proof(answer: Answer) -> Vec<u32> {
    match answer {
        Answer::NotLinearizable(conflict) => conflict.operations,
        other => panic!("{other:?}"),
    }
}

#[test]
fn holds_that_only_may_overlap_are_fine_and_holds_that_did_are_not() {
    let good = [acquire(0, 1, 4), acquire(1, 2, 7), release(0, 5, 8), release(1, 9, 10)];
    assert_eq!(linear_time::owner_mutex(&good), Answer::Linearizable);
    let bad = [acquire(0, 1, 3), acquire(1, 2, 4), release(0, 5, 8), release(1, 9, 10)];
    assert_eq!(proof(linear_time::owner_mutex(&bad)), [0, 1, 2, 3]);
}

#[test]
fn a_lock_that_was_never_released_is_held_for_good_unless_a_release_got_lost() {
    let bad = [acquire(0, 1, 2), acquire(1, 5, 6)];
    assert_eq!(proof(linear_time::owner_mutex(&bad)), [0, 1]);
    let good = [acquire(0, 1, 2), release(0, 3, None), acquire(1, 5, 6)];
    assert_eq!(linear_time::owner_mutex(&good), Answer::Linearizable);
    let too_late = [acquire(0, 1, 2), acquire(1, 5, 6), release(0, 7, None)];
    assert_eq!(proof(linear_time::owner_mutex(&too_late)), [0, 1, 2]);
}

#[test]
fn only_the_owner_releases_and_acquires_once() {
    assert_eq!(proof(linear_time::owner_mutex(&[acquire(0, 1, 2), release(1, 3, 4)])), [1]);
    assert_eq!(proof(linear_time::owner_mutex(&[acquire(0, 1, 2), acquire(0, 3, 4)])), [0, 1]);
    assert_eq!(proof(linear_time::owner_mutex(&[acquire(0, 1, 2), release(0, 3, 4), release(0, 5, 6)])), [1, 2]);
    // The indeterminate acquire explains the release.
    assert_eq!(linear_time::owner_mutex(&[acquire(0, 1, None), release(0, 3, 4)]), Answer::Linearizable);
    assert_eq!(linear_time::owner_mutex(&[]), Answer::Linearizable);
}

#[test]
fn operations_that_did_not_happen_do_not_count() {
    let mut refused = acquire(1, 3, 4);
    refused.outcome = Outcome::Fail;
    assert_eq!(linear_time::owner_mutex(&[acquire(0, 1, 2), refused, release(0, 5, 6)]), Answer::Linearizable);
}

#[test]
fn a_lost_release_and_a_lost_acquire_let_another_process_in_between() {
    let lost = [release(0, 3, None), acquire(0, 7, None)];
    let between = [acquire(0, 1, 2), lost[0], acquire(1, 4, 5), release(1, 6, 8), release(0, 9, 12)];
    assert_eq!(proof(linear_time::owner_mutex(&between)), [0, 2, 3, 4]);
    let between = [acquire(0, 1, 2), lost[0], acquire(1, 4, 5), release(1, 6, 8), lost[1], release(0, 9, 12)];
    assert_eq!(linear_time::owner_mutex(&between), Answer::Linearizable);
}

#[test]
fn a_hold_that_fits_anywhere_hides_no_overlap() {
    let anywhere = [acquire(2, 1, None), release(2, 9, 20)];
    let overlap = [anywhere[0], acquire(0, 2, 3), acquire(1, 4, 5), release(0, 7, 8), anywhere[1], release(1, 15, 16)];
    assert_eq!(proof(linear_time::owner_mutex(&overlap)), [1, 2, 3, 5]);
}

#[test]
fn what_was_lost_explains_one_thing_only() {
    let other = |from| [acquire(1, from, from + 1), release(1, from + 2, from + 3)];
    let twice = |lost: &[Op]| {
        let first = [&[acquire(0, 1, 2)], lost, &other(10), &[release(0, 14, 15)]].concat();
        let second = [&[acquire(0, 16, 17)], &other(20)[..], &[release(0, 24, 25)]].concat();
        linear_time::owner_mutex(&[first, second].concat())
    };
    let lost = [release(0, 3, None), acquire(0, 4, None), release(0, 5, None), acquire(0, 6, None)];
    assert_eq!(twice(&lost), Answer::Linearizable);
    // It is undecided which of the two holds the single pair splits; either choice fails.
    assert!(matches!(twice(&lost[..2]), Answer::Undecided(_)));
    assert_eq!(proof(twice(&[])), [0, 1, 2, 3]);
    // The oldest release ends the hold, whatever happened later.
    let [locked, unlocked] = other(4);
    let oldest = [acquire(0, 1, 2), release(0, 3, None), locked, unlocked, release(0, 8, None), acquire(0, 9, 10)];
    assert_eq!(linear_time::owner_mutex(&oldest), Answer::Linearizable);
}

#[test]
fn a_process_that_does_two_things_at_once_is_not_judged() {
    assert!(matches!(linear_time::owner_mutex(&[acquire(0, 1, 4), release(0, 2, 5)]), Answer::Undecided(_)));
}

#[test]
fn tokens_rise_from_hold_to_hold() {
    let mut values = Values::default();
    let (five, six) = (values.intern(Content::Int(5)), values.intern(Content::Int(6)));
    let with = |mut ops: [Op; 4], tokens: [Value; 2]| {
        let acquires = ops.iter_mut().filter(|op| op.f == OpFunction::Acquire);
        acquires.zip(tokens).for_each(|(op, token)| op.a = token);
        linear_time::fenced_mutex(&ops, &values)
    };
    let in_turn = [acquire(0, 1, 3), release(0, 4, 5), acquire(1, 6, 7), release(1, 8, 9)];
    assert_eq!(with(in_turn, [five, six]), Answer::Linearizable);
    assert_eq!(proof(with(in_turn, [six, five])), [0, 1, 2, 3]);
    assert_eq!(proof(with(in_turn, [five, five])), [0, 1, 2, 3]);
    assert!(matches!(with(in_turn, [Value::NIL, five]), Answer::Undecided(_)));
    // Old releases may take effect at any time, so it stays undecided which hold was first.
    let either = [release(0, 1, None), release(1, 2, None), acquire(0, 3, 5), acquire(1, 4, 6)];
    assert_eq!(with(either, [five, six]), Answer::Linearizable);
    assert_eq!(with(either, [six, five]), Answer::Linearizable);
    assert_eq!(proof(with(either, [five, five])), [0, 1, 2, 3]);
}

#[test]
fn a_counter_shows_what_was_added_by_then() {
    let mut values = Values::default();
    let number = |number| Content::Int(number);
    let [zero, one, two, three] = [0, 1, 2, 3].map(|n| values.intern(number(n)));
    let add = |a, from, to: Option<u32>| op(0, OpFunction::Add, a, from, to);
    let read = |a, from, to| op(1, OpFunction::Read, a, from, Some(to));
    let check = |ops: &[Op]| linear_time::counter(ops, &values, zero);
    assert_eq!(check(&[add(two, 1, Some(2)), add(one, 3, Some(4)), read(three, 5, 6)]), Answer::Linearizable);
    assert_eq!(proof(check(&[add(two, 1, Some(2)), read(zero, 3, 4)])), [0, 1]);
    assert_eq!(proof(check(&[add(two, 1, Some(2)), read(three, 3, 4)])), [1]);
    // If different numbers overlap a read, only the bounds are known.
    let undecided = check(&[add(two, 1, None), add(one, 2, None), read(three, 5, 6)]);
    assert!(matches!(undecided, Answer::Undecided(_)));
    // Each read is within its bounds, yet an addition between the two is not shown.
    let between =
        |shown| [add(one, 1, None), read(one, 2, 3), op(2, OpFunction::Add, one, 4, Some(5)), read(shown, 6, 7)];
    assert_eq!(check(&between(two)), Answer::Linearizable);
    assert_eq!(proof(check(&between(one))), [1, 2, 3]);
    // Without an initial number it starts at 0.
    assert_eq!(linear_time::counter(&[read(zero, 1, 2)], &values, Value::NIL), Answer::Linearizable);
    assert_eq!(proof(linear_time::counter(&[read(one, 1, 2)], &values, Value::NIL)), [0]);
    assert_eq!(linear_time::counter(&[read(one, 1, 2)], &values, one), Answer::Linearizable);
    // Not a counter at all.
    assert!(matches!(check(&[op(0, OpFunction::Write, one, 1, Some(2))]), Answer::Undecided(_)));
}

#[test]
fn a_set_keeps_what_joined_and_a_list_its_order() {
    let mut values = Values::default();
    let [one, two] = [1, 2].map(|n| values.intern(Content::Int(n)));
    let lists = [vec![], vec![one], vec![two], vec![one, two], vec![two, one]];
    let [none, only_one, only_two, both, turned] = lists.map(|list| values.intern(Content::List(list)));
    for f in [OpFunction::Add, OpFunction::Append] {
        let put = |a, from, to: Option<u32>| op(0, f, a, from, to);
        let read = |a, from, to| op(1, OpFunction::Read, a, from, Some(to));
        let check = |ops: &[Op]| match f {
            OpFunction::Add => linear_time::set(ops, &values),
            _ => linear_time::list_append(ops, &values),
        };
        assert_eq!(check(&[put(one, 1, None), read(only_one, 2, 3)]), Answer::Linearizable);
        assert_eq!(check(&[put(one, 1, None), read(none, 2, 3)]), Answer::Linearizable);
        // Lost, unknown, too early, and gone again.
        assert_eq!(proof(check(&[put(one, 1, Some(2)), read(none, 3, 4)])), [0, 1]);
        assert_eq!(proof(check(&[put(one, 1, Some(2)), read(both, 3, 4)])), [1]);
        assert_eq!(proof(check(&[read(only_one, 1, 2), put(one, 3, Some(4))])), [0, 1]);
        assert_eq!(proof(check(&[put(one, 1, None), read(only_one, 2, 3), read(none, 4, 5)])), [1, 2]);
        // Two reads saw the elements in different orders.
        let two_puts = [put(one, 1, None), put(two, 2, None)];
        let apart = [two_puts[0], two_puts[1], read(only_one, 3, 5), op(2, OpFunction::Read, only_two, 4, Some(6))];
        assert_eq!(proof(check(&apart)), [0, 1, 2, 3]);
        assert!(matches!(check(&[put(one, 1, None), put(one, 2, None)]), Answer::Undecided(_)));
        // A set has no order; a list does.
        let in_turn = [put(one, 1, Some(2)), put(two, 3, Some(4)), read(both, 5, 6), read(both, 7, 8)];
        assert_eq!(check(&in_turn), Answer::Linearizable);
        let turned = check(&[in_turn[0], in_turn[1], read(turned, 5, 6)]);
        assert_eq!(turned == Answer::Linearizable, f == OpFunction::Add);
    }
}
