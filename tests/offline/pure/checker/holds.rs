//! Overlapping holds: what is certain from the clients' timestamps, and what is not.

use checker::{AnomalyKind::OverlappingHolders, Validity};
use linearizability::{Answer, ModelSpec};
use model::history::{Claim, Function, Outcome, Phase, Reading, ResourceKind, lock_table};
use proptest::prelude::*;

use crate::kit::histories::Build;

fn overlaps(build: &Build) -> (u64, Vec<Vec<u64>>) {
    let verdict = build.check();
    let pairs = verdict.anomalies.into_iter().filter(|anomaly| anomaly.kind == OverlappingHolders);
    (verdict.mutual_exclusion.violations, pairs.map(|anomaly| anomaly.operations).collect())
}

fn claimed(verdict: &checker::Verdict) -> bool {
    verdict.claims.iter().any(|claim| claim.claim == Claim::MutualExclusion && claim.claimed)
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
    assert_eq!(verdict.reasons, ["two clients held one lock at once: 1 overlap among 3 holds"]);
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
        build.operation(9).phases.edit(|stamps| stamps[1].stamped = Some(end));
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
fn a_hold_ends_with_the_release_with_the_word_that_it_is_lost_or_with_the_last_act() {
    // c1 holds from 50 to 60. The question is whether c0, which acquired at 10, still held then.
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
    assert_eq!(violations(&[(Acquired, 10), (Lost, 45)]), 0, "it learnt of the loss before anybody else came");
    assert_eq!(violations(&[(Acquired, 10), (Lost, 55)]), 1, "until then it counts on the lock");
    assert_eq!(violations(&[(Acquired, 10), (Lost, 20), (Written, 55)]), 0, "no longer as a holder");
    assert_eq!(violations(&[(Acquired, 10), (Releasing, 20), (Extended, 55)]), 0, "let go");
    assert_eq!(violations(&[(Acquiring, 10), (Read, 55)]), 0, "never acquired");
}

#[test]
fn a_holder_that_stood_still_and_learnt_of_its_loss_first_did_no_harm_to_a_resource() {
    let violations = |resource: ResourceKind, stopped: Option<(&str, u64, u64)>| {
        let mut build = Build::new();
        build.header().resource = resource;
        build.rmw("k0", Outcome::Fail, 0, 1, Some(57), "?", "a").hold(1, 50, 60);
        build.phase(1, Phase::Acquired, 10).phase(1, Phase::Read, 20).phase(1, Phase::Lost, 55);
        if let Some((target, from, to)) = stopped {
            build.fault(0, target, from, to);
        }
        overlaps(&build).0
    };
    assert_eq!(violations(ResourceKind::Register, Some(("c0", 30, 54))), 0);
    assert_eq!(violations(ResourceKind::Register, None), 1, "it went on, and counted on the lock");
    assert_eq!(violations(ResourceKind::Register, Some(("c1", 30, 54))), 1, "another client stood still");
    assert_eq!(violations(ResourceKind::Register, Some(("c0", 5, 15))), 1, "it acted after that");
    assert_eq!(violations(ResourceKind::None, Some(("c0", 30, 54))), 1, "the lock protects nothing but the belief");
}

#[test]
fn without_a_trusted_stamp_nothing_is_compared() {
    let mut build = Build::new();
    build.hold(0, 10, 20).hold(1, 15, 25);
    build.operation(9).phases.edit(|stamps| stamps[0].stamped = None);
    let verdict = build.check();
    assert_eq!((verdict.mutual_exclusion.violations, verdict.mutual_exclusion.comparable_holds), (0, 1));
}

#[test]
fn a_loss_without_a_stamp_leaves_the_end_of_its_hold_unknown() {
    let valid = |is_stamped: bool| {
        let mut build = Build::sound();
        build.rmw("k0", Outcome::Fail, 0, 4_001, Some(4_057), "?", "a");
        build.phase(4_001, Phase::Acquired, 4_010).phase(4_001, Phase::Lost, 4_012);
        if !is_stamped {
            build.operation(4_001).phases.edit(|stamps| stamps[1].stamped = None);
        }
        let verdict = build.check();
        (verdict.valid, verdict.mutual_exclusion.violations)
    };
    assert_eq!(valid(true), (Validity::Valid, 0));
    assert_eq!(valid(false), (Validity::Unknown, 0));
}

#[test]
fn whether_exclusion_is_claimed_decides_whether_an_overlap_does() {
    let mut build = Build::sound();
    build.hold(0, 4_010, 4_020).hold(1, 4_015, 4_025);
    assert_eq!(build.check().valid, Validity::Invalid);
    build.header().claims = vec![Claim::Updates];
    let verdict = build.check();
    assert_eq!((verdict.valid, verdict.mutual_exclusion.violations), (Validity::Valid, 1));
    assert!(!claimed(&verdict));
    build.history.run = None;
    assert!(claimed(&build.check()), "a foreign history is held to everything");
}

#[test]
fn the_fault_on_the_earlier_holder_explains() {
    let mut build = Build::new();
    build.hold(0, 10, 2_000).hold(1, 1_100, 1_200).fault(0, "c1", 1_110, 1_120).fault(1, "c0", 20, 1_900);
    assert_eq!(build.check().anomalies[0].fault, Some(1));
}

/// True if the lock of a run was a mutex, according to the general model of one.
fn is_mutex(build: &Build, model: ModelSpec) -> bool {
    let (table, _) = lock_table(&build.history);
    let objects = linearizability::check(&table, model, &linearizability::Options::default());
    objects.iter().all(|object| match object.answer {
        Answer::Linearizable => true,
        Answer::NotLinearizable(_) => false,
        Answer::Undecided(ref why) => panic!("{why:?}"),
    })
}

#[test]
fn a_run_is_checked_against_the_models_of_locks() {
    let mut build = Build::new();
    build.hold(0, 10, 20).hold(1, 30, 40).hold(2, 40, 50);
    assert!(is_mutex(&build, ModelSpec::OwnerMutex), "holds may touch");
    assert!(is_mutex(&build, ModelSpec::Mutex));
    let with_tokens = |tokens: [u64; 3]| {
        let mut build = build.clone();
        for (operation, token) in build.history.operations.iter_mut().zip(tokens) {
            operation.phases.edit(|stamps| stamps[0].token = Some(token));
        }
        is_mutex(&build, ModelSpec::FencedMutex)
    };
    assert!(with_tokens([1, 2, 7]));
    assert!(!with_tokens([1, 7, 2]), "a token went back");
    build.hold(3, 45, 55);
    assert!(!is_mutex(&build, ModelSpec::OwnerMutex));
}

/// A client's hold: when it began and ended, and how it ended.
#[derive(Clone, Debug)]
struct Had {
    client: u32,
    asks: u64,
    waits: u64,
    holds: u64,
    end: u8,
}

#[test]
fn the_lock_alone_is_held_to_exclusion_and_to_nothing_that_it_does_not_do() {
    let mut build = Build::sound();
    for operation in build.history.operations.iter_mut().filter(|operation| operation.f == Function::Rmw) {
        (operation.f, operation.old, operation.new) = (Function::Hold, Reading::Unknown, None);
    }
    build.history.operations.last_mut().unwrap().old = Reading::Empty;
    build.header().resource = model::history::ResourceKind::None;
    let verdict = build.check();
    assert_eq!((verdict.valid, verdict.lost_updates.acknowledged), (Validity::Valid, 0), "{:?}", verdict.reasons);
    // The second client acquires before the first releases.
    build.operation(101).phases.edit(|stamps| stamps[0].stamped = Some(130_000_000));
    let verdict = build.check();
    assert_eq!((verdict.valid, verdict.mutual_exclusion.violations), (Validity::Invalid, 1));
}

proptest! {
    /// Two checks that share nothing: a sweep over certain holds, and the model of a mutex.
    #[test]
    fn two_hold_at_once_exactly_where_the_lock_is_no_mutex(
        had in prop::collection::vec(
            (0..4_u32, 0..6_u64, 0..6_u64, 0..12_u64, 0..4_u8)
                .prop_map(|(client, asks, waits, holds, end)| Had { client, asks, waits, holds, end }),
            1..9,
        )
    ) {
        let mut build = Build::new();
        // The time at which each client is free for its next operation. No two events of the test may share a time.
        let mut free = [0_u64; 4];
        for (number, had) in had.iter().enumerate() {
            let unit = 10;
            let at = |steps: u64| 20 + steps * unit + number as u64;
            let asked = free[had.client as usize] + had.asks;
            let (acquired, gave_up) = (asked + 1 + had.waits, asked + 2 + had.waits + had.holds);
            let new = format!("v{number}");
            build.rmw("k0", Outcome::Info, had.client, at(asked), None, "?", &new);
            build.phase(at(asked), Phase::Acquiring, at(asked)).phase(at(asked), Phase::Acquired, at(acquired));
            match had.end {
                // The client acts as the holder and then sends nothing more.
                0 => build.phase(at(asked), Phase::BeforeWrite, at(gave_up)),
                1 => build.phase(at(asked), Phase::Written, at(gave_up)).phase(at(asked), Phase::Lost, at(gave_up + 1)),
                _ => {
                    build.phase(at(asked), Phase::Releasing, at(gave_up));
                    build.phase(at(asked), Phase::Released, at(gave_up + 1))
                }
            };
            free[had.client as usize] = gave_up + 2;
        }
        prop_assert_eq!(overlaps(&build).0 == 0, is_mutex(&build, ModelSpec::OwnerMutex));
    }
}

/// Three clients use a lock that two may hold: from 10, 20 and `third` on, the first two until 100 and 90.
fn of_two(third: u64) -> Build {
    let mut build = Build::new();
    build.header().permits = 2;
    build.hold(0, 10, 100).hold(1, 20, 90).hold(2, third, 200);
    build
}

#[test]
fn of_a_lock_that_two_may_hold_a_third_is_one_too_many() {
    let kept = of_two(90);
    assert_eq!(overlaps(&kept), (0, vec![]), "two overlap, and the third comes as one of them goes");
    let broken = of_two(89);
    // The first holder, the holder that was one too many, and the others.
    assert_eq!(overlaps(&broken), (1, vec![vec![9, 88, 19]]));
    let verdict = broken.check();
    assert_eq!(verdict.valid, Validity::Invalid);
    assert_eq!(verdict.reasons, ["more than 2 clients held one lock at once: 1 hold too many among 3 holds"]);
    assert_eq!(
        verdict.anomalies[0].summary,
        "3 clients held the lock of k0 at once for 1 ms from 0.089 s, but at most 2 may: c2 acquired it at 0.089 s, when c0 and c1 still held it"
    );
    let mut other_keys = of_two(50);
    other_keys.operation(49).key = "k1".into();
    assert_eq!(overlaps(&other_keys), (0, vec![]));
    let mut alone = of_two(90);
    alone.header().permits = 1;
    assert_eq!(overlaps(&alone).0, 2, "for one the same history is broken");
    let mut more = of_two(50);
    more.hold(3, 60, 70);
    assert_eq!(overlaps(&more).0, 2, "each that comes while two have it, or more");
}

#[test]
fn a_lock_that_two_may_hold_is_shown_by_those_who_asked_while_two_had_it() {
    let evidence = |asked: u64, waiters: u64| {
        let mut build = of_two(100);
        for waiter in 0..waiters {
            let at = asked + waiter;
            build.fail_on("k0", 3, at, at + 5);
        }
        let verdict = build.check();
        let claim = verdict.claims.into_iter().find(|claim| claim.claim == Claim::MutualExclusion).unwrap();
        (claim.valid, claim.evidence, claim.text)
    };
    assert_eq!(evidence(30, 5), (Validity::Valid, 5, "5 attempts at a lock that 2 clients held".into()));
    assert_eq!(evidence(30, 4).0, Validity::Unknown, "too few");
    assert_eq!(evidence(110, 5).1, 0, "only one had it then");
}

#[test]
fn readers_may_have_a_lock_side_by_side_and_nobody_beside_a_writer() {
    let mut build = Build::new();
    build
        .shared(0, 10, 100, "-")
        .shared(1, 20, 90, "-")
        .shared(2, 30, 40, "-")
        .hold(3, 100, 110)
        .shared(0, 110, 120, "-");
    assert_eq!(overlaps(&build), (0, vec![]), "three read, and the writers come as they go");
    let mut beside = build.clone();
    beside.hold(4, 85, 87);
    assert_eq!(overlaps(&beside), (2, vec![vec![9, 84], vec![19, 84]]), "a writer beside the two who still read");
    let summary = &beside.check().anomalies[0].summary;
    assert!(
        summary.starts_with("c0 and c4 both held the lock of k0, the first for reading, for 2 ms from 0.085 s"),
        "{summary}"
    );
    assert_eq!(beside.check().reasons, ["a writer and another client held one lock at once: 2 overlaps among 6 holds"]);
    build.shared(4, 105, 107, "-");
    assert_eq!(overlaps(&build), (1, vec![vec![99, 104]]), "a reader beside a writer");
    let summary = &build.check().anomalies[0].summary;
    assert!(summary.starts_with("c3 and c4 both held the lock of k0, the second for reading, for"), "{summary}");
    // The models of mutexes do not know readers.
    assert!(is_mutex(&build, ModelSpec::OwnerMutex));
}

#[test]
fn two_who_read_are_no_evidence_of_exclusion() {
    let evidence = |writers: u32| {
        let mut build = Build::new();
        for client in 0..4 {
            let at = 10 + 100 * u64::from(client);
            if client < writers {
                build.hold(client, at, at + 50)
            } else {
                build.shared(client, at, at + 150, "-")
            };
        }
        let claim = build.check().claims.into_iter().find(|claim| claim.claim == Claim::MutualExclusion).unwrap();
        (claim.evidence, claim.text)
    };
    assert_eq!(evidence(0), (0, "0 comparable pairs of holds; readers held the lock side by side 3 times".into()));
    assert_eq!(evidence(1), (3, "3 comparable pairs of holds; readers held the lock side by side 2 times".into()));
    assert_eq!(evidence(4), (6, "6 comparable pairs of holds".into()));
}
