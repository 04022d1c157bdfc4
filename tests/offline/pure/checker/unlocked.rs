//! Writes and compare-and-sets without a lock: some are only overwritten, others are lost.

use checker::{AnomalyKind::*, check};
use linearizability::history::{Content, NEVER, Op, OpFunction, Value, Values};
use linearizability::{Answer, FailedCas, ModelSpec, Options, search_object};
use model::history::{Function, History, Outcome, Process, Reading};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::brute::{is_legal, random_history};
use crate::kit::histories::Build;

#[test]
fn what_is_overwritten_is_not_lost() {
    Build::new().write(0, 1, 5, "a").write(1, 6, 9, "b").final_read("b").accepted();
    Build::new()
        .write(0, 1, 5, "a")
        .read(2, 6, 7, "a")
        .write(1, 8, 9, "b")
        .cas(2, 10, 12, "b", "c")
        .final_read("c")
        .accepted();
    // Two concurrent writes, which a client may see in either order.
    Build::new().write(0, 1, 9, "a").write(1, 2, 8, "b").read(2, 10, 11, "a").final_read("a").accepted();
    Build::new().write(0, 1, 9, "a").write(1, 2, 8, "b").read(2, 10, 11, "b").final_read("b").accepted();
}

#[test]
fn a_write_of_which_an_older_value_is_the_successor_is_lost() {
    let mut build = Build::new();
    build.write(0, 1, 5, "a").write(1, 6, 9, "b").read(2, 10, 12, "a").write(3, 13, 15, "c").final_read("c");
    assert_eq!(build.found(), [(LostUpdate, vec![6, 1, 10], vec![6])]);
    assert_eq!(build.check().reasons, ["1 of 3 acknowledged updates lost (33.3%)"]);
    assert_eq!(
        build.check().anomalies[0].summary,
        "b had been acknowledged, but after 0.010 s c2 found the older value k0 = a, and no client saw it again: b is lost"
    );
    // The nearest legal neighbours: the write was still in progress, or may have come first.
    Build::new().write(0, 1, 5, "a").write(1, 6, 11, "b").read(2, 10, 12, "a").final_read("b").accepted();
    Build::new().write(0, 1, 7, "a").write(1, 6, 9, "b").read(2, 10, 12, "a").final_read("a").accepted();
    // It is unknown whether the write ever took effect.
    let mut build = Build::new();
    build.write(0, 1, 5, "a").unlocked(Function::Write, Outcome::Info, 1, (6, 9), "?", "b").read(2, 10, 12, "a");
    build.final_read("a").accepted();
}

#[test]
fn that_nobody_ever_saw_a_lost_value_again_is_said_only_where_nobody_did() {
    let summary = |build: &Build| {
        assert_eq!(build.found()[0].0, LostUpdate);
        build.check().anomalies[0].summary.clone()
    };
    // Two primaries take turns.
    let mut build = Build::new();
    build.write(0, 1, 5, "a").write(1, 6, 9, "b").read(2, 10, 12, "a").read(3, 13, 15, "b").read(2, 16, 18, "a");
    build.final_read("a");
    let expected = "b had been acknowledged, but after 0.010 s c2 found the older value k0 = a: b is lost";
    assert_eq!(summary(&build), expected);
    // Another client had seen the value before.
    let mut build = Build::new();
    build.write(0, 1, 5, "a").write(1, 6, 20, "b").read(3, 7, 8, "b").read(2, 10, 12, "a").final_read("a");
    assert_eq!(
        summary(&build),
        "b had been acknowledged or read, but after 0.010 s c2 found the older value k0 = a, and no client saw it again: b is lost"
    );
}

#[test]
fn a_read_that_is_merely_stale_loses_nothing() {
    let mut build = Build::new();
    build.write(0, 1, 5, "a").write(1, 6, 9, "b").read(2, 10, 12, "a").read(3, 13, 15, "b").final_read("b");
    assert_eq!(build.found(), [(StaleRead, vec![10, 6], vec![])]);
    assert_eq!(build.check().lost_updates.count, 0);
}

#[test]
fn all_that_came_since_is_lost_once_in_one_anomaly() {
    let mut build = Build::new();
    build.write(0, 1, 5, "a").cas(1, 6, 9, "a", "b").write(2, 10, 12, "c").cas(1, 13, 16, "c", "d");
    // Three clients see the old value, and the register continues from there.
    build.read(3, 20, 22, "a").read(0, 21, 23, "a").cas(4, 24, 26, "a", "e").write(2, 27, 28, "f").final_read("f");
    let lost: Vec<u64> = build.check().anomalies.iter().flat_map(|anomaly| anomaly.lost.clone()).collect();
    assert_eq!(lost.len(), 3, "{:#?}", build.check().anomalies);
    assert_eq!(build.check().lost_updates.count, 3);
    // The resource lost everything.
    let mut build = Build::new();
    build.write(0, 1, 5, "a").write(1, 6, 9, "b").read(2, 10, 12, "-").write(3, 13, 15, "c").final_read("c");
    assert_eq!(build.found(), [(LostUpdate, vec![1, 10], vec![1, 6])]);
    let mut build = Build::new();
    build.write(0, 1, 5, "a").final_read("-");
    assert_eq!(build.check().lost_updates.count, 1);
}

#[test]
fn the_side_that_is_thrown_away_accuses_nobody() {
    // c0 stays with the old primary, c1 moves to the new primary; in the end c0's write is gone.
    let mut build = Build::new();
    build.write(2, 1, 5, "a").write(0, 6, 9, "x").read(1, 10, 12, "a").write(1, 13, 16, "b").write(1, 17, 19, "c");
    build.read(0, 20, 22, "x").read(1, 23, 25, "c").final_read("c");
    let lost: Vec<u64> = build.check().anomalies.iter().flat_map(|anomaly| anomaly.lost.clone()).collect();
    assert_eq!(lost, [6], "{:#?}", build.check().anomalies);
}

#[test]
fn a_compare_and_set_links_its_values_and_a_refused_one_only_read() {
    let mut build = Build::new();
    build.write(0, 1, 5, "a").cas(1, 6, 9, "a", "b").cas(2, 10, 12, "a", "c").final_read("c");
    assert_eq!(build.found(), [(LostUpdate, vec![6, 10], vec![6])]);
    let refused = |old: &str| {
        let mut build = Build::new();
        build.write(0, 1, 5, "a").unlocked(Function::Cas, Outcome::Fail, 1, (6, 9), old, "b").final_read("a");
        build
    };
    refused("a").accepted();
    refused("?").accepted();
    let found = refused("nowhere").found();
    assert_eq!(found, [(ImpossibleRead, vec![6], vec![])]);
    let mut build = refused("a");
    build.read(2, 10, 11, "b");
    assert_eq!(build.found(), [(ImpossibleRead, vec![10, 6], vec![])]);
}

/// The operations for the general search. The value read by an unsuccessful operation becomes a separate read.
fn table(history: &History) -> (Vec<Op>, Values) {
    let (mut operations, mut values) = (Vec::new(), Values::default());
    let places = history.operations.iter().map(|one| one.completed_index.unwrap_or(0).max(one.index));
    let end = 2 * places.max().unwrap_or(0) as u32 + 2;
    for operation in &history.operations {
        let mut value = |value: Option<&str>| match value {
            Some(text) => values.intern(Content::Text(text.into())),
            None => Value::NIL,
        };
        let read = match &operation.old {
            Reading::Unknown => Value::UNKNOWN,
            Reading::Empty => Value::NIL,
            Reading::Value(text) => value(Some(text)),
        };
        let new = value(operation.new.as_deref());
        let (f, a, b) = match operation.f {
            Function::Read | Function::Hold | Function::Shared => (OpFunction::Read, read, Value::NIL),
            Function::Write => (OpFunction::Write, new, Value::NIL),
            Function::Cas if read != Value::UNKNOWN => (OpFunction::Cas, read, new),
            Function::Cas | Function::Rmw => (OpFunction::Rmw, read, new),
        };
        let completed = operation.completed_index.map(|index| 2 * index as u32);
        let op = Op {
            key: 0,
            process: operations.len() as u32,
            f,
            outcome: operation.outcome,
            a,
            b,
            invoked: 2 * operation.index as u32,
            completed: completed.filter(|_| operation.outcome != Outcome::Info).unwrap_or(NEVER),
            line: 1,
        };
        operations.push(op);
        if read != Value::UNKNOWN && operation.outcome != Outcome::Ok {
            let (process, completed) = (operations.len() as u32, completed.map_or(end + op.invoked, |at| at + 1));
            let read =
                Op { process, f: OpFunction::Read, outcome: Outcome::Ok, invoked: op.invoked + 1, completed, ..op };
            operations.push(read);
        }
    }
    operations.sort_by_key(|op| op.invoked);
    (operations, values)
}

#[test]
fn agrees_with_the_general_search() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let (mut legal, mut illegal) = (0, 0);
    let cases = crate::kit::cases(5_000);
    for _ in 0..cases {
        let history = random_history(&mut rng, &[Function::Write, Function::Cas, Function::Cas]);
        let (operations, values) = table(&history);
        let options = Options { failed_cas: FailedCas::Drop, ..Options::default() };
        let answer = search_object(ModelSpec::Rmw, &operations, &values, &options);
        let accepted = check(&history).anomalies.is_empty();
        match answer {
            Answer::Linearizable => assert!(accepted, "{:#?}", history.operations),
            Answer::NotLinearizable(_) => assert!(!accepted, "{:#?}", history.operations),
            Answer::Undecided(reason) => panic!("{reason}"),
        }
        assert_eq!(accepted, is_legal(&history), "{:#?}", history.operations);
        if accepted { legal += 1 } else { illegal += 1 }
    }
    assert!(legal > cases / 5 && illegal > cases / 5, "{legal} legal, {illegal} illegal");
}

/// A register with sequential operations that sometimes forgets its latest operations; then a read follows. Returns the history
/// and the number of forgotten acknowledged updates. With `uncertain`, some writes have no certain end.
fn forgetful(rng: &mut ChaCha8Rng, uncertain: bool) -> (Build, u64) {
    let mut build = Build::new();
    // The values so far, and whether each was acknowledged; the first stands for the empty register.
    let mut values = vec![("-".to_string(), false)];
    let (mut lost, mut time) = (0, 1);
    for number in 0..rng.random_range(5..60) {
        let client = rng.random_range(0..5);
        let new = format!("v{number}");
        let old = values.last().unwrap().0.clone();
        match rng.random_range(0..10) {
            0 if values.len() > 1 => {
                let kept = rng.random_range(1..values.len());
                lost += values.drain(kept..).filter(|(_, acknowledged)| *acknowledged).count() as u64;
                build.read(client, time, time + 2, &values.last().unwrap().0.clone());
            }
            0..4 => drop(build.read(client, time, time + 2, &old)),
            4..6 if uncertain => {
                build.unlocked(Function::Write, Outcome::Info, client, (time, time + 2), "?", &new);
                if rng.random() {
                    values.push((new, false));
                }
            }
            6..8 => {
                build.cas(client, time, time + 2, &old, &new);
                values.push((new, true));
            }
            _ => {
                build.write(client, time, time + 2, &new);
                values.push((new, true));
            }
        }
        time += 4;
    }
    let last = values.last().unwrap().0.clone();
    build.read_on("k0", Process::Controller, time, time + 2, &last);
    (build, lost)
}

#[test]
fn exactly_what_was_forgotten_is_lost_and_no_more_where_something_is_uncertain() {
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    let mut some = 0;
    let cases = crate::kit::cases(2_000);
    for round in 0..cases {
        let uncertain = round % 2 == 0;
        let (build, lost) = forgetful(&mut rng, uncertain);
        let verdict = build.check();
        let count = verdict.lost_updates.count;
        let shown = || format!("{count} of {lost}: {:#?}\n{:#?}", build.history.operations, verdict.anomalies);
        // A write without a certain end may have taken effect after the updates that seem forgotten.
        assert!(count == lost || (uncertain && count < lost), "{}", shown());
        let mut each: Vec<u64> = verdict.anomalies.iter().flat_map(|anomaly| anomaly.lost.clone()).collect();
        each.sort_unstable();
        each.dedup();
        assert_eq!(each.len() as u64, count, "each is lost once: {}", shown());
        some += u32::from(lost > 0);
    }
    assert!(some > cases / 3, "{some}");
}

/// Two hundred thousand operations, a fifth of them lost. A quadratic algorithm would take minutes.
#[test]
fn long_histories_are_checked_in_one_go() {
    let mut build = Build::new();
    let template = build.write(0, 1, 5, "v0").history.operations.remove(0);
    let number = 200_000u64;
    for turn in 0..number {
        let mut operation = template.clone();
        operation.index = 4 * turn;
        operation.completed_index = Some(4 * turn + 2);
        (operation.invoked, operation.completed) = (4 * turn, Some(4 * turn + 2));
        operation.new = Some(format!("v{turn}").into());
        // The last of every ten operations reads the seventh's value: two are lost.
        if turn % 10 == 9 {
            (operation.f, operation.new) = (Function::Read, None);
            operation.old = Reading::Value(format!("v{}", turn - 3).into());
        }
        build.history.operations.push(operation);
    }
    let verdict = build.check();
    assert_eq!(verdict.lost_updates.count, 2 * number / 10);
    assert_eq!(verdict.anomalies.len() as u64, number / 10);
}
