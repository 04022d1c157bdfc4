//! The checker against every possible order: on small random histories, there is an anomaly if and only if no order is legal.
//!
//! This code shares only the meaning of a register with the checker. It tries the operations one by one, each only after all
//! operations that had completed before its invocation.

use checker::{AnomalyKind, LostUpdates, check};
use model::history::{Function, History, Operation, Outcome, Process, Reading, Text};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::kit::histories;

/// A step that must, or may, be in the order.
struct Step {
    invoked: u64,
    completed: u64,
    must: bool,
    sees: Reading,
    writes: Option<Text>,
}

fn steps(history: &History) -> Vec<Step> {
    let mut steps = Vec::new();
    for operation in &history.operations {
        let completed = operation.completed_index.unwrap_or(u64::MAX);
        let writes = operation.new.clone().filter(|_| operation.f.writes());
        let ok = operation.outcome == Outcome::Ok;
        // An operation read its value before it ended, whether or not its write ever takes effect.
        if operation.old != Reading::Unknown && !(ok && writes.is_some()) {
            let sees = operation.old.clone();
            steps.push(Step { invoked: operation.index, completed, must: true, sees, writes: None });
        }
        if writes.is_some() && operation.outcome != Outcome::Fail {
            let completed = if ok { completed } else { u64::MAX };
            steps.push(Step { invoked: operation.index, completed, must: ok, sees: operation.old.clone(), writes });
        }
    }
    steps
}

fn some_order_is_legal(steps: &[Step], placed: &mut Vec<bool>, state: &Option<Text>) -> bool {
    let waiting = |placed: &[bool]| (0..steps.len()).filter(|&step| !placed[step]).collect::<Vec<_>>();
    let left = waiting(placed);
    if left.iter().all(|&step| !steps[step].must) {
        return true;
    }
    for &step in &left {
        let next = &steps[step];
        let too_early = left.iter().any(|&other| steps[other].must && steps[other].completed < next.invoked);
        let fits = match (&next.sees, state) {
            (Reading::Unknown, _) | (Reading::Empty, None) => true,
            (Reading::Value(seen), Some(state)) => seen == state,
            _ => false,
        };
        if too_early || !fits {
            continue;
        }
        placed[step] = true;
        let after = next.writes.clone().or_else(|| state.clone());
        if some_order_is_legal(steps, placed, &after) {
            return true;
        }
        placed[step] = false;
    }
    false
}

pub fn is_legal(history: &History) -> bool {
    let steps = steps(history);
    some_order_is_legal(&steps, &mut vec![false; steps.len()], &None)
}

/// A small history on one key, with reads and these kinds of updates. Usually a legal run of a register, then altered.
pub fn random_history(rng: &mut ChaCha8Rng, updates: &[Function]) -> History {
    let count = rng.random_range(1..=6);
    let width = rng.random_range(1..=8u32);
    // Each operation takes effect at its own time; its invocation and completion are some time before and after.
    let mut moments: Vec<(u32, bool, usize)> = Vec::new();
    for operation in 0..count {
        let moment = 10 + 4 * operation as u32;
        moments.push((moment.saturating_sub(rng.random_range(0..=4 * width)), false, operation));
        moments.push((moment + rng.random_range(1..=4 * width), true, operation));
    }
    moments.sort_by_key(|&(moment, ..)| (moment, rng.random::<u32>()));
    let coarse = rng.random_range(1..=3);
    let times: Vec<(u64, bool, usize)> =
        moments.iter().enumerate().map(|(index, &(_, end, operation))| (index as u64, end, operation)).collect();
    let at = |operation: usize, end: bool| times.iter().find(|at| (at.1, at.2) == (end, operation)).unwrap().0;

    let mut state = Reading::Empty;
    let mut operations: Vec<Operation> = Vec::new();
    for operation in 0..count {
        let f = match rng.random_ratio(1, 4) {
            true => Function::Read,
            false => *updates.choose(rng).unwrap(),
        };
        let outcome = match rng.random_range(0..10) {
            0..6 => Outcome::Ok,
            6..9 => Outcome::Info,
            _ => Outcome::Fail,
        };
        let new = f.writes().then(|| Text::from(format!("v{operation}")));
        let happened = outcome == Outcome::Ok || (outcome == Outcome::Info && rng.random_bool(0.7));
        let told = f != Function::Write && (outcome == Outcome::Ok || rng.random_bool(0.4));
        let old = if told { state.clone() } else { Reading::Unknown };
        if happened && let Some(new) = &new {
            state = Reading::Value(new.clone());
        }
        let (invoked, completed) = (at(operation, false), at(operation, true));
        let ends = outcome == Outcome::Ok || outcome == Outcome::Fail || rng.random_bool(0.5);
        operations.push(Operation {
            completed_index: ends.then_some(completed),
            completed: ends.then_some(completed / coarse),
            outcome,
            old,
            new,
            ..histories::operation(Process::Client(operation as u32), f, "k", invoked, invoked / coarse)
        });
    }
    for _ in 0..rng.random_range(0..=2) {
        let value = match rng.random_range(0..=count + 1) {
            empty if empty == count => Reading::Empty,
            nowhere => Reading::Value(format!("v{nowhere}").into()),
        };
        let changed = rng.random_range(0..count);
        let tells = operations[changed].old != Reading::Unknown || operations[changed].outcome != Outcome::Ok;
        if tells && operations[changed].f != Function::Write {
            operations[changed].old = value;
        }
    }
    if rng.random_bool(0.3) {
        let end = times.len() as u64;
        let mut read = operations[0].clone();
        (read.index, read.completed_index) = (end, Some(end + 1));
        (read.invoked, read.completed) = (end / coarse, Some((end + 1) / coarse));
        (read.process, read.f, read.outcome) = (Process::Controller, Function::Read, Outcome::Ok);
        (read.old, read.new) = (state, None);
        operations.push(read);
    }
    operations.sort_by_key(|operation| operation.index);
    History { operations, ..History::default() }
}

#[test]
fn agrees_with_every_order_there_is() {
    agrees_on(&[Function::Rmw]);
}

#[test]
fn agrees_where_some_updates_say_nothing_of_what_they_replace() {
    agrees_on(&[Function::Write, Function::Cas]);
    agrees_on(&[Function::Write, Function::Cas, Function::Rmw]);
}

fn agrees_on(updates: &[Function]) {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (mut legal, mut illegal) = (0, 0);
    let mut kinds = std::collections::HashMap::new();
    let cases = crate::kit::cases(4_000);
    for _ in 0..cases {
        let history = random_history(&mut rng, updates);
        let verdict = check(&history);
        let expected = is_legal(&history);
        let shown = || format!("{:#?}\n{:#?}", history.operations, verdict.anomalies);
        assert_eq!(verdict.anomalies.is_empty(), expected, "legal: {expected}\n{}", shown());
        let losses = verdict.anomalies.iter().any(|anomaly| anomaly.kind == AnomalyKind::LostUpdate);
        assert_eq!(verdict.lost_updates.count > 0, losses, "{}", shown());
        assert!(verdict.lost_updates.count <= verdict.lost_updates.acknowledged, "{}", shown());
        for anomaly in &verdict.anomalies {
            *kinds.entry(anomaly.kind).or_insert(0) += 1;
            assert!(!anomaly.operations.is_empty() && !anomaly.summary.contains("18446744073"), "{}", shown());
        }
        if expected { legal += 1 } else { illegal += 1 }
    }
    // The generator must produce enough of both sides, and of every kind of anomaly.
    assert!(legal > cases / 6 && illegal > cases / 6, "{legal} legal, {illegal} illegal");
    for kind in
        [AnomalyKind::LostUpdate, AnomalyKind::StaleRead, AnomalyKind::ImpossibleRead, AnomalyKind::OrderViolation]
    {
        assert!(kinds.get(&kind).is_some_and(|&count| count > cases / 300), "{kinds:?}");
    }
}

/// The most acknowledged updates in any legal order that ends with the final read, whatever else is left out.
fn most_that_survive(steps: &[Step], order: &mut Vec<usize>, state: &Option<Text>, last: &Reading) -> Option<usize> {
    let ends_here = match (last, state) {
        (Reading::Empty, None) => true,
        (Reading::Value(last), Some(state)) => last == state,
        _ => false,
    };
    let mut most = ends_here.then(|| order.iter().filter(|&&step| steps[step].must).count());
    for step in 0..steps.len() {
        let next = &steps[step];
        let Some(writes) = &next.writes else { continue };
        let fits = match (&next.sees, state) {
            (Reading::Unknown, _) | (Reading::Empty, None) => true,
            (Reading::Value(seen), Some(state)) => seen == state,
            _ => false,
        };
        if !fits || order.contains(&step) || order.iter().any(|&before| next.completed < steps[before].invoked) {
            continue;
        }
        order.push(step);
        most = most.max(most_that_survive(steps, order, &Some(writes.clone()), last));
        order.pop();
    }
    most
}

/// A write had completed by the time an operation read its value, if not earlier.
fn known_ends(mut steps: Vec<Step>) -> Vec<Step> {
    for step in 0..steps.len() {
        let Some(value) = steps[step].writes.clone().map(Reading::Value) else { continue };
        let seen = steps.iter().filter(|other| other.must && other.sees == value).map(|other| other.completed).min();
        steps[step].completed = steps[step].completed.min(seen.unwrap_or(u64::MAX));
    }
    steps
}

/// The count never exceeds the losses. It is exact if every old value is known and nothing else is wrong.
#[test]
fn the_count_of_lost_updates_is_a_lower_bound_and_exact_where_nothing_is_indeterminate() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let (mut bounded, mut exact) = (0, 0);
    let cases = crate::kit::cases(4_000);
    for _ in 0..cases {
        let history = random_history(&mut rng, &[Function::Rmw]);
        let Some(read) = history.operations.iter().find(|operation| operation.process == Process::Controller) else {
            continue;
        };
        let verdict = check(&history);
        let Some(most) = most_that_survive(&known_ends(steps(&history)), &mut Vec::new(), &None, &read.old) else {
            continue;
        };
        let LostUpdates { count, acknowledged, .. } = verdict.lost_updates;
        let lost = acknowledged - most as u64;
        assert!(count <= lost, "{count} of {lost}: {:#?} {:#?}", history.operations, verdict.anomalies);
        bounded += u32::from(lost > 0);
        let known = history.operations.iter().all(|operation| operation.old != Reading::Unknown);
        let in_order = verdict
            .anomalies
            .iter()
            .all(|anomaly| matches!(anomaly.kind, AnomalyKind::LostUpdate | AnomalyKind::StaleRead));
        if known && in_order {
            assert_eq!(count, lost, "{:#?} {:#?}", history.operations, verdict.anomalies);
            exact += u32::from(lost > 0);
        }
    }
    assert!(bounded > cases / 60 && exact > cases / 300, "{bounded} {exact}");
}
