//! Counters and lists. Amounts that agree with the updates are never reported; all others are. The reported losses are exactly
//! the losses that a simulation knows.

use checker::{AnomalyKind, Verdict};
use model::history::{Amount, Outcome, Process, ResourceKind};
use model::resource::ResourceValue;
use proptest::prelude::*;
use report::{Report, Subject};

use crate::kit::histories::Build;

impl Build {
    /// Sets the count that the operation invoked at this time read.
    fn count(&mut self, invoked: u64, count: u64) -> &mut Build {
        self.operation(invoked).amount = Some(Amount::Count(count));
        self
    }

    /// Sets the elements that the operation invoked at this time read.
    fn elements(&mut self, invoked: u64, elements: &[&str]) -> &mut Build {
        let elements = elements.iter().map(|element| element.to_string()).collect();
        self.operation(invoked).amount = Some(Amount::Elements(elements));
        self
    }
}

fn lost_update(verdict: &Verdict) -> Vec<&checker::Anomaly> {
    verdict.anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::LostUpdate).collect()
}

/// Three increments; the third overwrites the second.
fn overwritten() -> Build {
    let mut build = Build::new();
    build.ok(0, 10, 20, "-", "a").count(10, 0);
    build.ok(1, 30, 40, "a", "b").count(30, 1);
    build.ok(2, 32, 50, "a", "c").count(32, 1);
    build.final_read("c").count(10_000, 2);
    build
}

#[test]
fn the_end_of_a_key_is_told_with_what_it_lost() {
    let build = overwritten();
    assert_eq!(build.found(), [(AnomalyKind::LostUpdate, vec![30, 32], vec![30])]);
    let end = build.check().keys.remove(0);
    assert_eq!((end.key.as_str(), end.acknowledged, end.lost, end.unacknowledged), ("k0", 3, 1, 0));
    assert_eq!(end.amount, Some(2));

    let mut kept = Build::new();
    kept.ok(0, 10, 20, "-", "a").count(10, 0).info(1, 30, 40, "a", "b").count(30, 1);
    kept.ok(2, 42, 50, "b", "c").count(42, 2).fail(3, 52, 60, "c", "d").count(52, 3);
    kept.final_read("c").count(10_000, 3).accepted();
    let end = kept.check().keys.remove(0);
    assert_eq!(
        (end.acknowledged, end.lost, end.unacknowledged, end.amount),
        (2, 0, 1, Some(3)),
        "higher than acknowledged"
    );
}

#[test]
fn a_key_that_was_not_read_at_the_end_has_no_amount() {
    let mut build = Build::new();
    build.ok(0, 10, 20, "-", "a").count(10, 0).ok(1, 30, 40, "a", "b").count(30, 1);
    let end = build.check().keys.remove(0);
    assert_eq!((end.acknowledged, end.lost, end.amount), (2, 0, None));
}

#[test]
fn another_count_than_the_writer_left_is_an_impossible_read() {
    let found = |change: fn(&mut Build)| {
        let mut build = Build::new();
        build.ok(0, 10, 20, "-", "a").count(10, 0).ok(1, 30, 40, "a", "b").count(30, 1).final_read("b");
        change(build.count(10_000, 2));
        build.found()
    };
    let impossible = |operations: &[u64]| vec![(AnomalyKind::ImpossibleRead, operations.to_vec(), vec![])];
    assert_eq!(found(|_| {}), []);
    assert_eq!(found(|build| _ = build.count(10_000, 3)), impossible(&[10_000, 30]));
    assert_eq!(found(|build| _ = build.count(10_000, 1)), impossible(&[10_000, 30]));
    assert_eq!(found(|build| _ = build.count(10, 1)), [impossible(&[10]), impossible(&[30, 10])].concat());
    // A client need not report the amount that it read, but reported amounts must agree.
    assert_eq!(found(|build| build.operation(30).amount = None), []);
    let mut untold = Build::new();
    untold.ok(0, 10, 20, "-", "a").read(1, 30, 40, "a").count(30, 1).final_read("a").count(10_000, 2);
    assert_eq!(untold.found(), impossible(&[10_000, 30]));
    assert!(untold.check().anomalies[0].summary.contains("c1 had read it with a count of 1"));
}

#[test]
fn what_a_failed_operation_read_counts_as_well() {
    let mut build = Build::new();
    build.ok(0, 10, 20, "-", "a").count(10, 0).fail(1, 30, 40, "a", "b").count(30, 1);
    build.final_read("a").count(10_000, 1).accepted();
    build.count(30, 2);
    assert_eq!(build.found(), [(AnomalyKind::ImpossibleRead, vec![30, 10], vec![])]);
}

#[test]
fn a_list_shows_every_update_in_its_place_or_is_impossible() {
    let mut build = Build::new();
    build.ok(0, 10, 20, "-", "a").count(10, 0).ok(1, 30, 40, "a", "b").count(30, 1).fail(2, 50, 60, "b", "f");
    build.final_read("b").elements(10_000, &["a", "b"]).accepted();
    for (elements, operations, words) in [
        (&["a", "a", "b"][..], vec![10_000], "found a twice"),
        (&["a", "x", "b"], vec![10_000], "found x in the list of k0, but no client was asked to append x"),
        (&["a", "f", "b"], vec![10_000, 50], "c2 had reported that appending it failed"),
        (
            &["b"],
            vec![10_000, 30],
            "found b at the wrong position in the list of k0: c1 had appended it after reading k0 = a",
        ),
        (&["b", "a"], vec![10_000, 30], "found b at the wrong position"),
        (&["b"], vec![10_000, 30], "after reading k0 = a; 1 acknowledged element is not in it"),
        (&["a"], vec![10_000], "does not end with its last update; 1 acknowledged element is not in it"),
        (&[], vec![10_000], "does not end with its last update; 2 acknowledged elements are not in it"),
    ] {
        build.elements(10_000, elements);
        let verdict = build.check();
        let flaws = verdict.anomalies.iter().filter(|anomaly| anomaly.summary.contains(words));
        let found: Vec<_> = flaws.map(|anomaly| (anomaly.kind, anomaly.operations.clone())).collect();
        assert_eq!(found, [(AnomalyKind::ImpossibleRead, operations)], "{elements:?}: {:#?}", verdict.anomalies);
    }
    // An unknown last update is reported once.
    build.final_read_again("x", &["a", "b", "x"]);
    assert_eq!(build.found()[0], (AnomalyKind::ImpossibleRead, vec![10_000], vec![]));
    assert_eq!(build.check().anomalies.iter().filter(|one| one.kind == AnomalyKind::ImpossibleRead).count(), 1);
}

/// b's client did not report its read value, and c was acknowledged before b began. Either c was there before b, or it is lost.
fn untold() -> Build {
    let mut build = Build::new();
    build.ok(0, 10, 20, "-", "c").count(10, 0).info(1, 30, 40, "?", "b").ok(2, 50, 60, "b", "d");
    build.final_read("d");
    build
}

#[test]
fn a_list_tells_what_an_indeterminate_writer_had_read() {
    untold().accepted();
    untold().elements(10_000, &["c", "b", "d"]).accepted();
    let mut gone = untold();
    gone.elements(10_000, &["b", "d"]);
    assert_eq!(gone.found(), [(AnomalyKind::LostUpdate, vec![10, 30], vec![10])]);
    assert_eq!(gone.check().lost_updates.count, 1);
}

#[test]
fn a_counter_has_no_room_for_more_updates_than_its_number() {
    untold().count(50, 2).count(10_000, 3).accepted();
    let mut gone = untold();
    gone.count(50, 1).count(10_000, 2);
    let verdict = gone.check();
    assert_eq!((verdict.lost_updates.count, verdict.keys[0].lost_unnamed), (1, 1));
    let found = lost_update(&verdict);
    assert!(found[0].lost.is_empty() && found[0].summary.contains("too small by 1 acknowledged update"), "{found:#?}");
    let facts = Default::default();
    let subject = Subject { scenario: None, history: &gone.history, verdict: &verdict, facts: &facts };
    let report = Report::new(subject, None);
    assert!(report::html(&report).contains("too small by 1 acknowledged update"));
    // Of two updates that may have been there before, one was.
    let mut one = untold();
    one.ok(3, 22, 28, "c", "e").count(22, 1).count(50, 2).count(10_000, 3);
    assert_eq!(one.check().lost_updates.count, 1);
    one.count(50, 3).count(10_000, 4).accepted();
}

impl Build {
    fn final_read_again(&mut self, old: &str, elements: &[&str]) -> &mut Build {
        self.operation(10_000).old = crate::kit::histories::reading(old);
        self.elements(10_000, elements)
    }
}

/// The course of one operation of a simulated run.
#[derive(Clone, Debug)]
struct Step {
    key: u8,
    outcome: Outcome,
    /// True if the write of an indeterminate operation takes effect.
    happens: bool,
    /// True if the client reports the value that it read if its operation does not succeed.
    told: bool,
    /// How many other operations begin before it writes; with a lock, none.
    late: u8,
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![6 => Just(Outcome::Ok), 2 => Just(Outcome::Info), 1 => Just(Outcome::Fail)];
    (0..2u8, outcome, any::<bool>(), any::<bool>(), prop_oneof![3 => Just(0), 1 => 1..4u8])
        .prop_map(|(key, outcome, happens, told, late)| Step { key, outcome, happens, told, late })
}

/// The history of a simulated run; for each key, its final content and its acknowledged updates.
struct Simulated {
    build: Build,
    kept: [Vec<String>; 2],
    acknowledged: [Vec<String>; 2],
}

/// Carries out the steps on a store of texts in the way that clients work: read, build, write.
fn simulate(kind: ResourceKind, steps: &[Step], locked: bool) -> Simulated {
    let mut build = Build::new();
    build.header().resource = kind;
    build.header().clients = 1_000;
    let mut store: [Option<String>; 2] = Default::default();
    // The contents of each key, which the simulation knows for every kind of resource.
    let mut kept: [Vec<String>; 2] = Default::default();
    let mut acknowledged: [Vec<String>; 2] = Default::default();
    // Reads happen at even times. Writes happen at odd times: right after the read, or `late` steps later.
    let mut moments: Vec<(usize, bool, usize)> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let late = if locked { 0 } else { usize::from(step.late) };
        moments.extend([(2 * number, false, number), (2 * (number + late) + 1, true, number)]);
    }
    moments.sort_unstable();
    let mut read: Vec<Option<(ResourceValue, Vec<String>)>> = vec![None; steps.len()];
    for (turn, &(_, writes, number)) in moments.iter().enumerate() {
        let (step, at) = (&steps[number], 10 * turn as u64 + 100);
        let (slot, key, new) = (usize::from(step.key), format!("k{}", step.key), format!("c{number}:0"));
        if !writes {
            let stored = ResourceValue::read(kind, store[slot].clone()).unwrap();
            let told =
                if step.outcome == Outcome::Ok || step.told { stored.value.as_deref().unwrap_or("-") } else { "?" };
            build.rmw(&key, step.outcome, number as u32, at, None, told, &new);
            build.operation(at).amount = stored.count().filter(|_| told != "?").map(Amount::Count);
            read[number] = Some((stored, kept[slot].clone()));
            continue;
        }
        let (stored, before) = read[number].take().unwrap();
        if step.outcome == Outcome::Ok || (step.outcome == Outcome::Info && step.happens) {
            store[slot] = Some(stored.updated(&new));
            kept[slot] = before.into_iter().chain([new.clone()]).collect();
        }
        if step.outcome == Outcome::Ok {
            acknowledged[slot].push(new.clone());
        }
        let operation = build.history.operations.iter_mut().find(|one| one.new.as_deref() == Some(&new)).unwrap();
        operation.completed = Some(at * crate::kit::histories::MS);
        operation.completed_index = Some(at);
    }
    for (slot, text) in store.into_iter().enumerate() {
        let (stored, at) = (ResourceValue::read(kind, text).unwrap(), 900_000 + 10 * slot as u64);
        build.read_on(&format!("k{slot}"), Process::Controller, at, at + 1, stored.value.as_deref().unwrap_or("-"));
        build.operation(at).amount = stored.amount;
    }
    Simulated { build, kept, acknowledged }
}

fn kind() -> impl Strategy<Value = ResourceKind> {
    prop_oneof![Just(ResourceKind::Counter), Just(ResourceKind::List)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::kit::cases(300)))]

    #[test]
    fn a_locked_counter_or_list_is_never_accused(kind in kind(), steps in prop::collection::vec(step(), 1..60)) {
        let Simulated { build, kept, .. } = simulate(kind, &steps, true);
        let verdict = build.check();
        prop_assert_eq!(&verdict.anomalies, &vec![]);
        prop_assert_eq!(verdict.lost_updates.count, 0);
        for end in &verdict.keys {
            let slot = usize::from(end.key == "k1");
            prop_assert_eq!(end.amount, Some(kept[slot].len() as u64));
            prop_assert_eq!(end.acknowledged + end.unacknowledged, kept[slot].len() as u64);
        }
    }

    /// The number of losses is exact for a list, even if clients did not report reads. It is exact for a counter too, if every
    /// writer whose value was seen reported its read.
    #[test]
    fn what_an_unlocked_one_loses_is_known_to_the_last(kind in kind(), steps in prop::collection::vec(step(), 1..60)) {
        let Simulated { build, kept, acknowledged } = simulate(kind, &steps, false);
        let verdict = build.check();
        let silent = steps.iter().any(|step| step.outcome == Outcome::Info && step.happens && !step.told);
        let exact = kind == ResourceKind::List || !silent;
        let mut all = 0;
        for end in &verdict.keys {
            let slot = usize::from(end.key == "k1");
            let is_lost = |value: &&String| !kept[slot].contains(value);
            let lost: Vec<&String> = acknowledged[slot].iter().filter(is_lost).collect();
            let shown = || format!("{}: {lost:?} lost, {:?} kept\n{:#?}", end.key, kept[slot], verdict.anomalies);
            prop_assert!(end.lost <= lost.len() as u64, "{}", shown());
            prop_assert!(end.lost > 0 || lost.is_empty() || !exact, "{}", shown());
            if exact {
                prop_assert_eq!(end.lost, lost.len() as u64, "{}", shown());
                prop_assert_eq!(end.acknowledged + end.unacknowledged - end.lost, kept[slot].len() as u64, "{}", shown());
                let accused = verdict.anomalies.iter().flat_map(|anomaly| &anomaly.lost);
                let named: Vec<&str> = (build.history.operations.iter())
                    .filter(|operation| operation.key == end.key && accused.clone().any(|&index| index == operation.index))
                    .filter_map(|operation| operation.new.as_deref())
                    .collect();
                prop_assert!(lost.iter().all(|value| named.contains(&value.as_str())) && named.len() == lost.len(), "{}", shown());
            }
            // The count leaves no room for more updates: acknowledged updates beyond it are always reported lost.
            let beyond = end.acknowledged.saturating_sub(end.amount.unwrap_or_default());
            prop_assert!(end.lost >= beyond, "{}", shown());
            all += end.lost;
        }
        prop_assert_eq!(verdict.lost_updates.count, all);
        let impossible = verdict.anomalies.iter().any(|anomaly| anomaly.kind == AnomalyKind::ImpossibleRead);
        prop_assert!(!impossible, "{:#?}", verdict.anomalies);
    }

    /// A client that writes back a wrong amount, or a list without one of its elements, is always found.
    #[test]
    fn a_number_that_is_changed_is_always_found(
        kind in kind(),
        locked in any::<bool>(),
        steps in prop::collection::vec(step(), 5..40),
        which: prop::sample::Index,
        off in prop_oneof![Just(-1i64), Just(1), Just(5)],
    ) {
        let Simulated { mut build, .. } = simulate(kind, &steps, locked);
        let reads: Vec<u64> = (build.history.operations.iter())
            .filter(|operation| operation.process == Process::Controller)
            .filter(|operation| operation.amount.as_ref().is_some_and(|amount| amount.count() > 1))
            .map(|operation| operation.index)
            .collect();
        prop_assume!(!reads.is_empty());
        let read = build.operation(*which.get(&reads));
        let value = read.old.clone();
        match &mut read.amount {
            Some(Amount::Count(count)) => *count = count.checked_add_signed(off).unwrap(),
            Some(Amount::Elements(elements)) => _ = elements.remove(which.index(elements.len())),
            None => unreachable!(),
        }
        let silent = build.history.operations.iter().any(|operation| {
            let wrote = operation.new.clone().map(model::history::Reading::Value);
            wrote == Some(value.clone()) && operation.amount.is_none()
        });
        let verdict = build.check();
        let found = verdict.anomalies.iter().any(|anomaly| anomaly.kind == AnomalyKind::ImpossibleRead);
        let untold = steps.iter().any(|step| step.outcome != Outcome::Ok && !step.told);
        prop_assert!(found || silent || (kind == ResourceKind::List && untold), "{:#?}", build.history.operations);
    }
}
