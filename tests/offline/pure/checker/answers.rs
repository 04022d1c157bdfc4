//! Promises of a lock library besides the lock: waits end, and locks expire.

use checker::AnomalyKind::{self, LeftBehind, Unavailable, WaitedTooLong};
use checker::Validity;
use model::history::{Claim, Fact, FactName, FaultKind, Outcome, Phase};

use crate::kit::histories::{Build, MS};

fn found(build: &Build, kind: AnomalyKind) -> Vec<String> {
    let anomalies = build.check().anomalies.into_iter();
    anomalies.filter(|anomaly| anomaly.kind == kind).map(|anomaly| anomaly.summary).collect()
}

/// One client holds the lock for ten seconds; another client gives up after `waited` milliseconds.
pub fn waits(waited: u64) -> Build {
    let mut build = Build::new();
    build.header().claims = vec![Claim::Timeouts];
    build.header().acquire_timeout_ms = Some(1_000);
    build.hold(0, 10, 10_000);
    build.rmw("k0", Outcome::Fail, 1, 100, Some(100 + waited), "?", "v1").phase(100, Phase::Acquiring, 100);
    build
}

#[test]
fn a_wait_ends_when_it_was_to_end() {
    assert_eq!(found(&waits(1_000), WaitedTooLong), Vec::<String>::new());
    assert_eq!(found(&waits(1_900), WaitedTooLong), Vec::<String>::new(), "clients look only now and then");
    let late = found(&waits(5_000), WaitedTooLong);
    assert_eq!(late, ["c1 asked for the lock at 0.100 s and gave up 5 s later, past its timeout of 1 s"]);
    let mut paused = waits(5_000);
    paused.fault(4, "c1", 200, 4_900);
    assert_eq!(found(&paused, WaitedTooLong), Vec::<String>::new(), "nobody gives up who is stopped");
    let mut other = waits(5_000);
    other.fault(4, "c0", 200, 4_900);
    assert_eq!(found(&other, WaitedTooLong).len(), 1, "another one's pause keeps nobody from giving up");
    let mut silent = waits(5_000);
    silent.fault(4, "n0", 200, 2_400);
    assert_eq!(found(&silent, WaitedTooLong), Vec::<String>::new(), "it may wait for the answer to what it has asked");
    let mut answered = waits(5_000);
    answered.fault(4, "n0", 200, 1_200);
    assert_eq!(found(&answered, WaitedTooLong).len(), 1, "it was answered long ago");
    let mut brief = waits(5_000);
    brief.fault(4, "c1", 200, 900);
    assert_eq!(found(&brief, WaitedTooLong).len(), 1, "it was stopped for a part of that time only");
    let mut threads = waits(5_000);
    threads.fault(4, "c1", 200, 4_900).history.faults[0].kind = FaultKind::PauseBackground;
    assert_eq!(found(&threads, WaitedTooLong), Vec::<String>::new(), "threads that wait are stopped as well");
    let mut clock = waits(5_000);
    clock.fault(4, "c1", 200, 4_900).history.faults[0].kind = FaultKind::Clock;
    assert_eq!(found(&clock, WaitedTooLong).len(), 1, "a clock that is wrong stops nobody");
    for (kept, clock_off_ns) in [(false, Some(2_999 * MS)), (true, Some(3_000 * MS)), (true, None)] {
        let mut by_wall_clock = clock.clone();
        by_wall_clock.header().waits_by_wall_clock = true;
        by_wall_clock.history.faults[0].clock_off_ns = clock_off_ns;
        let found = found(&by_wall_clock, WaitedTooLong);
        assert_eq!(found.is_empty(), kept, "as much as the clock was wrong: {clock_off_ns:?}, {found:?}");
        by_wall_clock.history.faults[0].targets = vec!["c0".into()];
        assert_eq!(self::found(&by_wall_clock, WaitedTooLong).len(), 1, "another one's clock");
    }
    for (overran, late) in [(200, 0), (201, 1)] {
        let mut stated = waits(1_000 + overran);
        stated.header().longest_overrun_ms = Some(200);
        assert_eq!(found(&stated, WaitedTooLong).len(), late, "{overran}");
        stated.fault(4, "c1", 500, 502);
        assert_eq!(found(&stated, WaitedTooLong), Vec::<String>::new(), "it was stopped for that long");
    }
    // The client's own stamps count, whenever the controller read them.
    for (acquired, late) in [(1_300, 0), (1_301, 1)] {
        let mut stated = waits(5_000);
        stated.header().longest_overrun_ms = Some(200);
        stated.operation(100).outcome = Outcome::Ok;
        stated.phase(100, Phase::Acquired, acquired);
        stated.operation(100).phases.edit(|stamps| stamps[1].received = 1_900 * MS);
        assert_eq!(found(&stated, WaitedTooLong).len(), late, "{acquired}");
    }
    let mut in_doubt = waits(5_000);
    in_doubt.operation(100).outcome = Outcome::Info;
    let told =
        "c1 asked for the lock at 0.100 s and had neither acquired it nor given up 5 s later, past its timeout of 1 s";
    assert_eq!(found(&in_doubt, WaitedTooLong), [told]);
    in_doubt.phase(100, Phase::Read, 200);
    assert_eq!(found(&in_doubt, WaitedTooLong), Vec::<String>::new(), "it had the lock, without saying so");
    let mut other_limit = waits(3_000);
    assert_eq!(found(&other_limit, WaitedTooLong).len(), 1);
    other_limit.history.acquire_timeouts.insert(100, 2_000);
    assert_eq!(found(&other_limit, WaitedTooLong), Vec::<String>::new(), "the limit is that of the call");
    let mut hasty = waits(1_900);
    hasty.history.acquire_timeouts.insert(100, 300);
    assert_eq!(found(&hasty, WaitedTooLong).len(), 1);
    let mut untold = waits(5_000);
    untold.header().acquire_timeout_ms = None;
    assert_eq!(found(&untold, WaitedTooLong), Vec::<String>::new());
    let claim = untold.check().claims.into_iter().find(|claim| claim.claim == Claim::Timeouts).unwrap();
    assert_eq!(claim.valid, Validity::Unknown, "nothing could have shown it");
}

#[test]
fn promises_decide_only_where_they_are_claimed_and_are_told_where_they_are_broken() {
    let claim = |build: &Build| build.check().claims.into_iter().find(|claim| claim.claim == Claim::Timeouts);
    let mut build = waits(5_000);
    assert!(claim(&build).is_some_and(|claim| claim.claimed && claim.valid == Validity::Invalid));
    build.header().claims = vec![Claim::MutualExclusion];
    assert!(claim(&build).is_some_and(|claim| !claim.claimed && claim.valid == Validity::Invalid));
    let mut kept = waits(900);
    kept.header().claims = vec![Claim::MutualExclusion];
    assert_eq!(claim(&kept), None);
    // The check looks at the leftovers of a library's run, and reports them.
    kept.history.facts.push(Fact { name: FactName::NothingEndless, holds: true, text: String::new() });
    assert!(claim(&kept).is_some_and(|claim| !claim.claimed && claim.valid == Validity::Valid));
}

#[test]
fn a_lock_that_outlasts_its_ttl_is_not_left_behind() {
    for (name, holds, expected) in [
        (FactName::NothingEndless, true, 0),
        (FactName::NothingEndless, false, 1),
        (FactName::NothingTooLong, false, 1),
    ] {
        let mut build = waits(900);
        let text = "`lock:k0` on n0, which never ends".to_string();
        build.history.facts.push(Fact { name, holds, text });
        let left = found(&build, LeftBehind);
        assert_eq!(left.len(), expected, "{left:?}");
        assert!(
            left.iter().all(|summary| summary.ends_with("outlasts its TTL: `lock:k0` on n0, which never ends")),
            "{left:?}"
        );
    }
}

#[test]
fn the_longest_time_without_a_lock_that_was_free_and_asked_for_is_told_and_limited() {
    // The lock is held until 1 s, and requested from 0.5 s to 3 s. At 4 s, a client acquires it that requested it at 2.9 s.
    let mut build = Build::new();
    build.header().claims = vec![Claim::Liveness];
    build.hold(0, 10, 1_000);
    build.rmw("k0", Outcome::Fail, 1, 500, Some(3_000), "?", "v1").phase(500, Phase::Acquiring, 500);
    build.rmw("k0", Outcome::Ok, 2, 2_900, Some(4_100), "?", "v2");
    build.phase(2_900, Phase::Acquired, 4_000).phase(2_900, Phase::Releasing, 4_050);
    let gap = build.check().lock.longest_gap.unwrap();
    assert_eq!((gap.key.as_str(), gap.to), ("k0", 4_000 * MS));
    assert!((950 * MS..=1_050 * MS).contains(&gap.from), "{gap:?}");
    assert_eq!(found(&build, Unavailable), Vec::<String>::new());
    build.header().longest_gap_ms = Some(3_500);
    assert_eq!(found(&build, Unavailable), Vec::<String>::new());
    build.header().longest_gap_ms = Some(2_500);
    assert_eq!(found(&build, Unavailable).len(), 1);
    // No client asks for the lock, so nothing is missed.
    let mut idle = Build::new();
    idle.hold(0, 10, 1_000).hold(1, 9_000, 9_500);
    assert!(idle.check().lock.longest_gap.is_none_or(|gap| gap.to - gap.from < 500 * MS));
}
