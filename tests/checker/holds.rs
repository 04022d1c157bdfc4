//! Overlapping belief: what is certain from the clients' stamps, and what is not.

use redjepsen::checker::{AnomalyKind::OverlappingHolders, Validity};
use redjepsen::history::{Claim, Outcome, Phase};

use crate::build::Build;

fn overlaps(build: &Build) -> (u64, Vec<Vec<u64>>) {
    let verdict = build.check();
    let pairs = verdict.anomalies.into_iter().filter(|anomaly| anomaly.kind == OverlappingHolders);
    (verdict.mutual_exclusion.violations, pairs.map(|anomaly| anomaly.operations).collect())
}

#[test]
fn holds_may_touch_and_must_not_overlap() {
    let mut build = Build::new();
    build.hold(0, 10, 20).hold(1, 30, 40);
    assert_eq!(overlaps(&build), (0, vec![]));
    let mut touching = build.clone();
    touching.hold(2, 15, 20).operation(14).key = "k1".into();
    assert_eq!(overlaps(&touching), (0, vec![]), "locks of two keys have nothing to do with each other");
    build.hold(2, 19, 22);
    assert_eq!(overlaps(&build), (1, vec![vec![9, 18]]));
    let verdict = build.check();
    assert_eq!(verdict.mutual_exclusion.comparable_holds, 3);
    assert_eq!(verdict.valid, Validity::Invalid);
    assert_eq!(verdict.reasons, ["two clients held one lock at once 1 time, in 3 comparable holds"]);
    assert_eq!(verdict.anomalies[0].time, 19_000_000);
    assert_eq!(
        verdict.anomalies[0].summary,
        "c0 and c2 both held the lock of k0 for 1 ms from 0.019 s: c0 acquired it at 0.010 s and still acted as its \
         holder at 0.020 s"
    );
}

#[test]
fn stamps_compare_to_the_nanosecond() {
    let with_end = |end: i64| {
        let mut build = Build::new();
        build.hold(0, 10, 20).hold(1, 30, 40);
        build.operation(9).phases[1].stamped = Some(end);
        overlaps(&build).0
    };
    assert_eq!((with_end(29_999_999), with_end(30_000_000), with_end(30_000_001)), (0, 0, 1));
}

#[test]
fn a_paused_holder_overlaps_with_each_hold_that_it_slept_through() {
    let mut build = Build::new();
    build.hold(0, 10, 1_000).hold(1, 100, 200).hold(2, 300, 400).hold(3, 500, 1_200);
    assert_eq!(overlaps(&build), (3, vec![vec![9, 99], vec![9, 299], vec![9, 499]]));
}

#[test]
fn the_list_is_bounded_and_the_count_is_not() {
    let mut build = Build::new();
    for client in 0..60 {
        build.hold(client, 10 + 10 * u64::from(client), 5_000 + 10 * u64::from(client));
    }
    let (violations, listed) = overlaps(&build);
    assert_eq!((violations, listed.len()), (60 * 59 / 2, 1000));
}

#[test]
fn a_hold_counts_however_the_operation_ended() {
    for outcome in [Outcome::Ok, Outcome::Fail, Outcome::Info] {
        let mut build = Build::new();
        build.hold(0, 10, 20).hold(1, 15, 25);
        build.operation(9).outcome = outcome;
        assert_eq!(overlaps(&build).0, 1, "{outcome:?}");
    }
}

#[test]
fn a_hold_ends_with_the_last_act_of_a_holder() {
    // c1 holds from 50 to 60. Does c0, which acquired at 10, hold for longer than that?
    let violations = |phases: &[(Phase, u64)]| {
        let mut build = Build::new();
        build.rmw("k0", Outcome::Info, 0, 1, None, "?", "a").hold(1, 50, 60);
        for &(phase, at) in phases {
            build.phase(1, phase, at);
        }
        overlaps(&build).0
    };
    use Phase::*;
    assert_eq!(violations(&[(Acquired, 10)]), 0, "never heard of again");
    for act in [Read, BeforeWrite, Written, Extended, Releasing] {
        assert_eq!(violations(&[(Acquired, 10), (act, 45)]), 0, "{act:?}");
        assert_eq!(violations(&[(Acquired, 10), (act, 55)]), 1, "{act:?}");
    }
    assert_eq!(violations(&[(Acquired, 10), (Released, 55)]), 0, "the release had left long before");
    assert_eq!(violations(&[(Acquired, 10), (Lost, 55)]), 0, "told that the lock is gone");
    assert_eq!(violations(&[(Acquired, 10), (Lost, 20), (Written, 55)]), 0, "no longer as a holder");
    assert_eq!(violations(&[(Acquired, 10), (Releasing, 20), (Extended, 55)]), 0, "let go");
    assert_eq!(violations(&[(Acquiring, 10), (Read, 55)]), 0, "never acquired");
}

#[test]
fn without_a_trusted_stamp_nothing_is_compared() {
    let mut build = Build::new();
    build.hold(0, 10, 20).hold(1, 15, 25);
    build.operation(9).phases[0].stamped = None;
    let verdict = build.check();
    assert_eq!((verdict.mutual_exclusion.violations, verdict.mutual_exclusion.comparable_holds), (0, 1));
}

#[test]
fn whether_exclusion_is_claimed_decides_whether_an_overlap_does() {
    let mut build = Build::sound();
    build.hold(0, 4_010, 4_020).hold(1, 4_015, 4_025);
    assert_eq!(build.check().valid, Validity::Invalid);
    build.header().claims = vec![Claim::Updates];
    let verdict = build.check();
    assert_eq!((verdict.valid, verdict.mutual_exclusion.violations), (Validity::Valid, 1));
    assert!(!verdict.mutual_exclusion.claimed);
    build.history.run = None;
    assert!(build.check().mutual_exclusion.claimed, "a foreign history is held to everything");
}

#[test]
fn the_fault_on_the_earlier_holder_explains() {
    let mut build = Build::new();
    build.hold(0, 10, 1_000).hold(1, 100, 200).fault(0, "c1", 110, 120).fault(1, "c0", 20, 900);
    assert_eq!(build.check().anomalies[0].fault, Some(1));
}
