//! A free lock is available: stuck locks are found for each key, and a lock that is kept for good reasons is not at fault.

use checker::AnomalyKind::{KeptOut, NotObtained};
use checker::{STUCK_AFTER_TTLS, Validity};
use model::history::{
    Claim, ClientEvent, ClientStep, Fact, FactName, FaultKind, Outcome, Phase, Promotion, SeenPromotion,
};

use crate::kit::histories::{Build, MS};

const PATIENCE: u64 = STUCK_AFTER_TTLS * 1000;

fn live() -> Build {
    let mut build = Build::new();
    build.history.facts.push(Fact { name: FactName::NodesHealthy, holds: true, text: String::new() });
    build.header().claims = vec![Claim::Liveness];
    build
}

/// The keys reported as stuck.
fn stuck(build: &Build) -> Vec<String> {
    let anomalies = build.check().anomalies.into_iter();
    anomalies.filter(|anomaly| anomaly.kind == NotObtained).map(|anomaly| anomaly.key).collect()
}

/// After a fault healed at 100 ms, an attempt that takes this many milliseconds.
fn after_the_heal(tried_for: u64, acquires: bool) -> Build {
    let mut build = live();
    build.hold(0, 10, 20).fault(0, "n0", 30, 100).fail_on("k0", 1, 110, 100 + tried_for);
    if acquires {
        build.phase(110, Phase::Acquired, 150);
    }
    build
}

/// A lock that no client can acquire any more.
pub fn never_back() -> Build {
    after_the_heal(PATIENCE + 1, false)
}

/// Two clients ask for the lock for 6 s, while a key that never ends blocks it.
pub fn kept_out() -> Build {
    let mut build = live();
    let text = "`lock:k0` on n0, which never ends".to_string();
    build.history.facts.push(Fact { name: FactName::NothingEndless, holds: false, text });
    build.fail_on("k0", 0, 10, 6_000).fail_on("k0", 1, 20, 6_100);
    build
}

/// The messages about clients that never acquired a lock.
fn refused(build: &Build) -> Vec<String> {
    let anomalies = build.check().anomalies.into_iter();
    anomalies.filter(|anomaly| anomaly.kind == KeptOut).map(|anomaly| anomaly.summary).collect()
}

#[test]
fn clients_that_never_acquire_a_lock_are_a_finding_and_no_violation() {
    let build = kept_out();
    assert_eq!(build.check().valid, Validity::Unknown);
    let all = "all 2 clients asked for the lock of k0 for 5.99 s, without any fault, and never acquired it: the key `lock:k0` \
    on n0, which has no TTL, is in the way";
    assert_eq!(refused(&build), [all]);
    // Without such a key, the clients' own error says what happened.
    let mut without = kept_out();
    without.history.facts.retain(|fact| fact.name != FactName::NothingEndless);
    assert_eq!(refused(&without), [""; 0], "nor does an error");
    for asked in [10, 20] {
        without.operation(asked).fails(Some("not-acquired".into()), None);
    }
    assert_eq!(without.check().valid, Validity::Unknown);
    let said = refused(&without).pop().unwrap_or_default();
    assert!(said.ends_with("without any fault, and never acquired it: 2 attempts ended with: not-acquired"), "{said}");
    let spared: [fn(&mut Build); 3] = [
        |build| build.history.stalls.push((1_000 * MS, 4_000 * MS)),
        |build| _ = build.fault(0, "n0", 30, 100),
        |build| build.operation(10).outcome = Outcome::Info,
    ];
    for (number, change) in spared.into_iter().enumerate() {
        let mut build = kept_out();
        change(&mut build);
        assert_eq!(refused(&build), [""; 0], "{number}");
    }
    // A client that asked for a shorter time is not reported.
    let mut shorter = kept_out();
    shorter.operation(10).completed = Some(4_000 * MS);
    assert!(refused(&shorter)[0].starts_with("c1 asked for the lock of k0 for 6.08 s"), "{:?}", refused(&shorter));
}

#[test]
fn a_client_that_has_no_turn_while_others_have_many_is_told() {
    let asks = |grants: u64| {
        let mut build = live();
        build.header().clients = 3;
        build.fail_on("k0", 2, 5, 6_000);
        for turn in 0..grants * 3 {
            build.hold((turn % 2) as u32, 20 + turn * 100, 100 + turn * 100);
        }
        build
    };
    assert_eq!(
        refused(&asks(10)),
        [
            "c2 asked for the lock of k0 for 6 s, without any fault, and never acquired it: other clients acquired it 30 times meanwhile"
        ]
    );
    assert_eq!(refused(&asks(9)), [""; 0]);
}

#[test]
fn a_lock_must_come_back_after_the_faults() {
    let back = after_the_heal(2 * PATIENCE, true);
    assert_eq!(stuck(&back), [""; 0]);
    assert_eq!(back.check().lock.reacquired_after_ns, Some(50 * MS));

    let never = after_the_heal(PATIENCE + 1, false);
    assert_eq!(stuck(&never), ["k0"]);
    let verdict = never.check();
    assert_eq!((verdict.valid, verdict.lock.reacquired_after_ns), (Validity::Invalid, None));
    assert_eq!(
        verdict.reasons,
        [
            "no client acquired the lock of k0 for 3 s from 0.100 s, though no client had a valid lock: 1 attempt failed, and no fault was in effect"
        ]
    );
    assert_eq!(stuck(&after_the_heal(PATIENCE, false)), [""; 0], "what an expiry explains is not held against it");
}

#[test]
fn five_attempts_however_short_show_that_a_lock_was_asked_for() {
    let asked = |times: &[u64]| {
        let mut build = live();
        build.hold(0, 10, 20);
        for at in times {
            build.fail_on("k0", 1, *at, at + 10);
        }
        stuck(&build)
    };
    assert_eq!(asked(&[100, 900, 1_700, 2_500, 3_900]), ["k0"]);
    assert_eq!(asked(&[100, 900, 1_700, 3_900]), [""; 0]);
}

#[test]
fn what_the_lock_can_do_nothing_about_is_not_held_against_it() {
    let mut sick = after_the_heal(PATIENCE + 1, false);
    sick.history.facts.pop();
    assert_eq!(stuck(&sick), [""; 0], "nodes that did not come back");
    let mut unhealed = after_the_heal(PATIENCE + 1, false);
    unhealed.history.faults[0].healed = None;
    assert_eq!(stuck(&unhealed), [""; 0], "a fault without a heal");
    unhealed.history.faults[0].healed = Some((100 * MS, false));
    assert_eq!(stuck(&unhealed), [""; 0], "a heal that nobody saw");
    let mut unseen = after_the_heal(PATIENCE + 1, false);
    unseen.history.faults[0].injected = Some((30 * MS, false));
    assert_eq!(stuck(&unseen), ["k0"], "one that was not seen to begin, and seen to be over");
    let mut stalled = after_the_heal(PATIENCE + 1, false);
    stalled.history.stalls.push((2_000 * MS, 2_600 * MS));
    assert_eq!(stuck(&stalled), [""; 0], "a machine that stood still meanwhile");
    stalled.history.stalls[0] = (20 * MS, 90 * MS);
    assert_eq!(stuck(&stalled), ["k0"], "and one that stood still before");
    let mut silent = after_the_heal(PATIENCE + 1, false);
    silent.operation(110).phases.edit(Vec::clear);
    assert_eq!(stuck(&silent), [""; 0], "nobody is known to have asked");
    let mut second = after_the_heal(PATIENCE + 1, false);
    second.fault(1, "n0", 2_000, 2_100);
    assert_eq!(stuck(&second), [""; 0], "another fault came in between");
}

/// Keys expire by their node's clock, so they outlive a heal by as much as this clock was ahead.
#[test]
fn a_clock_that_was_ahead_keeps_the_lock_after_its_heal() {
    let after = |aftermath_ns: Option<u64>, tried_for: u64| {
        let mut build = after_the_heal(tried_for, false);
        let fault = &mut build.history.faults[0];
        (fault.kind, fault.aftermath_ns) = (FaultKind::Clock, aftermath_ns);
        stuck(&build)
    };
    for ahead in [0, 200, 2_000] {
        assert_eq!(after(Some(ahead * MS), PATIENCE + ahead), [""; 0], "{ahead}");
        assert_eq!(after(Some(ahead * MS), PATIENCE + ahead + 1), ["k0"], "{ahead}");
    }
    assert_eq!(after(Some(u64::MAX), 10 * PATIENCE), [""; 0]);
    assert_eq!(after(None, 10 * PATIENCE), [""; 0], "for how long is not known");
}

#[test]
fn a_key_is_stuck_while_another_goes_on() {
    let mut build = live();
    for turn in 0..40 {
        let at = 100 * turn + 10;
        build.hold(0, at + 1, at + 50).fail_on("k1", 1, at + 2, at + 90);
    }
    build.rmw("k1", Outcome::Ok, 2, 1, Some(5), "-", "first").phase(1, Phase::Acquired, 2).phase(
        1,
        Phase::Releasing,
        4,
    );
    assert_eq!(stuck(&build), ["k1"]);
    assert_eq!(build.check().valid, Validity::Invalid);
    // Only a few attempts, with long gaps in between.
    build.history.operations.retain(|one| one.key != "k1" || one.index == 1 || one.index % 1_000 == 12);
    assert_eq!(stuck(&build), [""; 0]);
}

#[test]
fn whoever_lives_and_holds_keeps_the_lock() {
    /// c1's attempts fail for four seconds from 100 ms on, while c0 holds from 10 ms on.
    fn held(validity: Option<u64>, change: impl FnOnce(&mut Build)) -> Vec<String> {
        let mut build = live();
        build.rmw("k0", Outcome::Info, 0, 5, None, "?", "held").phase(5, Phase::Acquired, 10);
        build.operation(5).phases.edit(|stamps| stamps[0].validity_ms = validity);
        for turn in 1..41 {
            build.fail_on("k0", 1, 100 * turn, 100 * turn + 90);
        }
        change(&mut build);
        stuck(&build)
    }
    assert_eq!(held(None, |_| {}), [""; 0], "a lock that does not expire");
    assert_eq!(held(Some(900), |_| {}), ["k0"], "one that has run out");
    let renewed = |build: &mut Build| {
        for turn in 1..8 {
            build.phase(5, Phase::Extended, 500 * turn + 3);
            build.operation(5).phases.edit(|stamps| stamps.last_mut().unwrap().validity_ms = Some(900));
        }
    };
    assert_eq!(held(Some(900), renewed), [""; 0], "one that is renewed");
    let died = |build: &mut Build| {
        let event = ClientEvent { process: 0, step: ClientStep::Ended, text: "killed".into(), nodes: Vec::new() };
        build.history.clients.push((50 * MS, event));
    };
    assert_eq!(held(None, died), ["k0"], "a dead holder keeps nothing");
    let in_doubt = |build: &mut Build| {
        let operation = build.operation(5);
        (operation.completed, operation.completed_index) = (Some(70 * MS), Some(70));
    };
    assert_eq!(held(None, in_doubt), [""; 0], "it never said that it gave the lock back");
    let gave_back = |build: &mut Build| _ = build.phase(5, Phase::Releasing, 60).phase(5, Phase::Released, 61);
    assert_eq!(held(None, gave_back), ["k0"]);
}

#[test]
fn a_run_without_faults_can_be_stuck_too() {
    let mut build = live();
    build.hold(0, 10, 20);
    for turn in 1..41 {
        build.fail_on("k0", 1, 100 * turn, 100 * turn + 90);
    }
    assert_eq!(stuck(&build), ["k0"]);
}

#[test]
fn liveness_is_unknown_where_nobody_asked_after_the_heal_or_nobody_got_it() {
    let missing = |build: &Build| {
        let claims = build.check().claims;
        claims.into_iter().find(|claim| claim.claim == Claim::Liveness).and_then(|claim| claim.missing)
    };
    assert_eq!(missing(&after_the_heal(500, true)), None);
    let reason = missing(&after_the_heal(500, false)).unwrap();
    assert!(
        reason.starts_with("no client acquired the lock of k0 (1 attempt) after the last heal at 0.100 s"),
        "{reason}"
    );
    let mut silent = after_the_heal(500, false);
    silent.history.operations.retain(|operation| operation.index != 110);
    let reason = missing(&silent).unwrap();
    assert!(reason.starts_with("no client certainly asked for the lock after the last heal"), "{reason}");
    let mut unhealed = after_the_heal(500, true);
    unhealed.history.faults[0].healed = Some((100 * MS, false));
    assert!(missing(&unhealed).unwrap().contains("may still be in effect"));
}

/// c1's attempts at k0 all end in the same way, for five seconds after c0 released it.
fn in_vain(outcome: Outcome, error: &str, phases: &[Phase]) -> Build {
    let mut build = live();
    build.hold(0, 10, 20);
    for turn in 1..51 {
        build.fail_on("k0", 1, 100 * turn, 100 * turn + 90);
        for phase in phases {
            build.phase(100 * turn, *phase, 100 * turn + 2);
        }
        let operation = build.operation(100 * turn);
        operation.outcome = outcome;
        operation.fails(Some(error.into()), None);
    }
    build
}

#[test]
fn an_attempt_without_the_lock_is_in_vain_whatever_its_word_and_one_in_doubt_shows_nothing() {
    for error in ["not-acquired", "unavailable", "unsupported"] {
        assert_eq!(stuck(&in_vain(Outcome::Fail, error, &[])), ["k0"], "{error}");
        assert_eq!(stuck(&in_vain(Outcome::Fail, error, &[Phase::HalfAcquired])), ["k0"], "{error}");
        assert_eq!(stuck(&in_vain(Outcome::Fail, error, &[Phase::Acquired])), [""; 0], "it had the lock");
    }
    let missing = |build: &Build| {
        let claims = build.check().claims;
        claims.into_iter().find(|claim| claim.claim == Claim::Liveness).and_then(|claim| claim.missing)
    };
    for in_doubt in [in_vain(Outcome::Info, "timeout", &[]), in_vain(Outcome::Fail, "lock-lost", &[])] {
        assert_eq!(stuck(&in_doubt), [""; 0], "it may have had the lock");
        let reason = missing(&in_doubt).unwrap();
        assert!(reason.starts_with("it is unknown whether a client held the lock of k0 for 5"), "{reason}");
    }
    let mut brief = in_vain(Outcome::Info, "timeout", &[]);
    brief.history.operations.retain(|operation| operation.index < 2_000);
    assert_eq!(missing(&brief), None, "nothing could have been stuck for so short a time");
}

#[test]
fn an_operation_in_doubt_keeps_the_lock_until_it_runs_out() {
    let freed = |validity: u64| {
        let mut build = live();
        build.rmw("k0", Outcome::Info, 0, 5, Some(70), "?", "held").phase(5, Phase::Acquired, 10);
        build.operation(5).phases.edit(|stamps| stamps[0].validity_ms = Some(validity));
        for turn in 1..36 {
            build.fail_on("k0", 1, 100 * turn, 100 * turn + 90);
        }
        stuck(&build)
    };
    assert_eq!(freed(900), [""; 0]);
    assert_eq!(freed(300), ["k0"]);
}

#[test]
fn a_lock_that_two_may_hold_is_free_while_one_has_it() {
    let stuck_beside = |holders: u32| {
        let mut build = live();
        build.header().permits = 2;
        build.hold(5, 5, 8);
        for holder in 0..holders {
            build.hold(holder, 10 + u64::from(holder), 3 * PATIENCE);
        }
        build.fail_on("k0", 3, 110, 100 + PATIENCE + 100);
        stuck(&build)
    };
    assert_eq!(stuck_beside(1), ["k0"]);
    assert_eq!(stuck_beside(2), [""; 0]);
}

#[test]
fn a_failover_in_progress_is_no_time_without_faults() {
    let run = |seen: u64| {
        let mut build = after_the_heal(PATIENCE + 1, false);
        let promotion = Promotion { key: "k0".into(), node: "n1".into(), instead_of: "n0".into(), after_ns: 90 * MS };
        build.history.promotions.push(SeenPromotion { index: 9, time: seen * MS, promotion });
        stuck(&build)
    };
    assert_eq!(run(95), ["k0"], "it was over when the fault was healed");
    assert!(run(700).is_empty(), "clients had the new primary for less than the limit");
}
