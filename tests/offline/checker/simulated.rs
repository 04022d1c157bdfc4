//! Simulated runs of a lock: a correct lock is never accused, and a single lost update is always found.

use proptest::prelude::*;
use redjepsen::checker::AnomalyKind;
use redjepsen::history::{Outcome, Process};

use super::build::Build;

/// What happens to one operation of a simulated run.
#[derive(Clone, Debug)]
struct Step {
    key: u8,
    read: bool,
    outcome: Outcome,
    happens: bool,
    told: bool,
    ends: bool,
    before: u64,
    after: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![6 => Just(Outcome::Ok), 2 => Just(Outcome::Info), 1 => Just(Outcome::Fail)];
    let (happens, told, ends) = (any::<bool>(), any::<bool>(), any::<bool>());
    (0..2u8, prop::bool::weighted(0.2), outcome, happens, told, ends, 0..8u64, 0..8u64).prop_map(
        |(key, read, outcome, happens, told, ends, before, after)| Step {
            key,
            read,
            outcome,
            happens,
            told,
            ends,
            before,
            after,
        },
    )
}

/// An acknowledged update, and the update right after it.
struct Pair {
    first: u64,
    second: u64,
    old: String,
}

/// One register per key. The steps take effect one by one, each somewhere between its invocation and completion.
fn simulate(steps: &[Step]) -> (Build, Vec<Pair>) {
    let mut build = Build::new();
    let mut state = ["-".to_string(), "-".to_string()];
    // For each key the last update: its invocation, whether it was acknowledged, and what it replaced.
    let mut last: [Option<(u64, bool, String)>; 2] = [None, None];
    let mut pairs = Vec::new();
    // Each step has a thousand moments of its own, so that it can overlap its neighbours on both sides.
    for (number, step) in steps.iter().enumerate() {
        let unique = number as u64;
        let moment = 10_000 + 1_000 * unique;
        let (invoked, completed) =
            (moment - 1_000 * step.before - 2 * unique - 1, moment + 1_000 * step.after + 2 * unique);
        let (key, slot) = (format!("k{}", step.key), usize::from(step.key));
        let new = format!("v{number}");
        let old = state[slot].clone();
        if step.read {
            build.read_on(&key, Process::Client(number as u32), invoked, completed, &old);
            continue;
        }
        let ok = step.outcome == Outcome::Ok;
        let told = if ok || step.told { old.as_str() } else { "?" };
        // The write of an indeterminate operation may have arrived long after its client gave up.
        let completed = match step.outcome {
            Outcome::Info if !step.ends => None,
            Outcome::Info if !step.told => Some(invoked + 1),
            _ => Some(completed),
        };
        build.rmw(&key, step.outcome, number as u32, invoked, completed, told, &new);
        if ok || (step.outcome == Outcome::Info && step.happens) {
            if let Some((first, true, before)) = last[slot].take().filter(|_| ok) {
                pairs.push(Pair { first, second: invoked, old: before });
            }
            last[slot] = Some((invoked, ok, old));
            state[slot] = new;
        }
    }
    for (slot, value) in state.iter().enumerate() {
        let at = 900_000 + 10 * slot as u64;
        build.read_on(&format!("k{slot}"), Process::Controller, at, at + 1, value);
    }
    (build, pairs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases(300)))]

    #[test]
    fn a_correct_lock_is_never_accused(steps in prop::collection::vec(step(), 1..60)) {
        let (build, _) = simulate(&steps);
        let verdict = build.check();
        prop_assert_eq!(&verdict.anomalies, &vec![]);
        prop_assert_eq!(verdict.lost_updates.count, 0);
    }

    #[test]
    fn a_lost_update_is_always_found(steps in prop::collection::vec(step(), 20..60), which: prop::sample::Index) {
        let (mut build, pairs) = simulate(&steps);
        prop_assume!(!pairs.is_empty());
        let pair = which.get(&pairs);
        build.operation(pair.second).old = super::build::reading(&pair.old);
        let verdict = build.check();
        let found = verdict.anomalies.iter().any(|anomaly| {
            anomaly.kind == AnomalyKind::LostUpdate
                && anomaly.operations.contains(&pair.first)
                && anomaly.operations.contains(&pair.second)
        });
        prop_assert!(found && verdict.lost_updates.count > 0, "{:#?}", verdict.anomalies);
    }
}

/// Every operation builds on the one before, two hundred thousand in all: minutes if anything were quadratic.
#[test]
fn long_histories_are_checked_in_one_go() {
    let mut build = Build::new();
    let template = build.ok(0, 1, 5, "-", "v0").history.operations.remove(0);
    let number = 200_000u64;
    for turn in 0..number {
        let mut operation = template.clone();
        operation.index = 4 * turn;
        operation.completed_index = Some(4 * turn + 6);
        (operation.invoked, operation.completed) = (4 * turn, Some(4 * turn + 6));
        // Every tenth is lost: the next operation reads the same value.
        let before = if turn % 10 == 5 { turn - 2 } else { turn - u64::from(turn > 0) };
        operation.old = super::build::reading(&if turn == 0 { "-".to_string() } else { format!("v{before}") });
        operation.new = Some(format!("v{turn}"));
        build.history.operations.push(operation);
    }
    let verdict = build.check();
    assert_eq!(verdict.lost_updates.count, number / 10);
    assert_eq!(verdict.anomalies.len() as u64, number / 10);
}
