//! Each claim needs evidence: if too few facts could have contradicted it, the claim is unknown, and so is the run.

use checker::{AnomalyKind, ClaimVerdict, LEAST_EVIDENCE, Validity};
use model::history::{Amount, Claim, Outcome, Phase, Process, Reading, ResourceKind};

use crate::kit::histories::{Build, MS};

fn claim(build: &Build, claim: Claim) -> ClaimVerdict {
    build.check().claims.into_iter().find(|verdict| verdict.claim == claim).expect("a claim")
}

/// Expects that a sound run becomes unknown because one claim lacks evidence, and that the reason says what is missing.
fn lacks(of: Claim, reason: &str, change: impl FnOnce(&mut Build)) {
    let mut build = Build::sound();
    change(&mut build);
    let verdict = build.check();
    assert_eq!(verdict.valid, Validity::Unknown, "{:#?}", verdict.claims);
    let missing = claim(&build, of).missing.unwrap_or_default();
    assert!(missing.contains(reason), "{missing}");
    assert!(verdict.reasons.contains(&format!("{}: {missing}", of.name())), "{:?}", verdict.reasons);
}

#[test]
fn a_sound_run_says_how_much_could_have_falsified_each_claim() {
    let verdict = Build::sound().check();
    let told: Vec<_> = verdict.claims.iter().map(|one| (one.claim, one.claimed, one.valid, one.evidence)).collect();
    assert_eq!(
        told,
        [
            (Claim::Updates, true, Validity::Valid, 30),
            // Ten holds by each of three clients.
            (Claim::MutualExclusion, true, Validity::Valid, 300),
            (Claim::Liveness, false, Validity::Valid, 30),
        ]
    );
    assert_eq!(verdict.claims[1].text, "300 comparable pairs of holds");
}

fn unstamped(build: &mut Build, which: impl Fn(usize) -> bool) {
    for (place, operation) in build.history.operations.iter_mut().enumerate().filter(|(place, _)| which(*place)) {
        let _ = place;
        operation.phases.each(|phase| phase.stamped = None);
    }
}

#[test]
fn exclusion_takes_stamps_of_every_client() {
    let what = "clients must send `mono_ns`";
    lacks(Claim::MutualExclusion, what, |build| unstamped(build, |_| true));
    lacks(Claim::MutualExclusion, "; c1 never does this", |build| unstamped(build, |place| place % 3 == 1));
    lacks(Claim::MutualExclusion, "c2 does this in only 9 of 10 cases", |build| unstamped(build, |place| place == 17));
    lacks(Claim::MutualExclusion, what, |build| {
        build.history.operations.iter_mut().for_each(|operation| operation.phases.edit(Vec::clear));
    });
    // If only the start of each hold is known, no overlap can be seen.
    lacks(Claim::MutualExclusion, what, |build| {
        build.history.operations.iter_mut().for_each(|operation| operation.phases.edit(|stamps| stamps.truncate(1)));
    });
    let mut unclaimed = Build::sound();
    unstamped(&mut unclaimed, |_| true);
    unclaimed.header().claims.pop();
    assert_eq!(unclaimed.check().valid, Validity::Valid, "exclusion is not claimed");
    // A client that crashes cannot report the end of its hold.
    let mut died = Build::sound();
    let last = died.operation(2_901);
    last.outcome = Outcome::Info;
    last.phases.edit(|stamps| stamps.truncate(1));
    died.operation(9_990).old = crate::kit::histories::reading("base:28");
    assert_eq!(died.check().valid, Validity::Valid, "{:?}", died.check().reasons);
}

#[test]
fn updates_take_what_they_replaced() {
    let untold = |build: &mut Build, which: fn(usize) -> bool| {
        for (place, operation) in build.history.operations.iter_mut().enumerate() {
            if operation.new.is_some() && which(place) {
                operation.old = Reading::Unknown;
            }
        }
    };
    let what = "each update that took effect must say what it replaced";
    lacks(Claim::Updates, what, |build| untold(build, |_| true));
    lacks(Claim::Updates, "; c1 never does this", |build| untold(build, |place| place % 3 == 1));
    lacks(Claim::Updates, "c2 does this in only 9 of 10 cases", |build| untold(build, |place| place == 20));
    // Another client saw its value, but it is still in doubt: the write may have overwritten any value.
    lacks(Claim::Updates, what, |build| {
        untold(build, |place| place == 20);
        build.operation(2_001).outcome = Outcome::Info;
    });
}

#[test]
fn blind_writes_take_readers() {
    let written = |readers: u64| {
        let mut build = Build::sound();
        build.history.operations.retain(|operation| operation.process == Process::Controller);
        build.history.operations.clear();
        build.header().claims = vec![Claim::Updates];
        for turn in 0..12 {
            build.write(turn as u32 % 3, 100 * turn + 1, 100 * turn + 120, &format!("v{turn}"));
        }
        for turn in 0..readers {
            build.read(turn as u32 % 3, 2_000 + 10 * turn, 2_005 + 10 * turn, "v11");
        }
        build.final_read("v11");
        build.check()
    };
    assert_eq!(written(LEAST_EVIDENCE).valid, Validity::Valid);
    let verdict = written(LEAST_EVIDENCE - 1);
    assert_eq!(verdict.valid, Validity::Unknown);
    assert!(verdict.reasons[0].starts_with("updates: 0 updates with a known predecessor, and 4 reads"));
}

#[test]
fn tokens_take_tokens() {
    let granted = |build: &mut Build, which: fn(usize) -> bool| {
        build.header().claims = vec![Claim::Updates, Claim::Tokens];
        let invoked: Vec<u64> =
            build.history.operations.iter().filter(|one| one.new.is_some()).map(|one| one.index).collect();
        for (place, invoked) in invoked.into_iter().enumerate() {
            build.operation(invoked).phases.edit(|stamps| stamps[0].token = which(place).then_some(place as u64 + 1));
            let mut acquiring = build.operation(invoked).phases.get(0).unwrap();
            acquiring.phase = Phase::Acquiring;
            (acquiring.token, acquiring.stamped) = (None, Some((invoked * MS) as i64));
            build.operation(invoked).phases.edit(|stamps| stamps.insert(0, acquiring));
        }
    };
    let mut sound = Build::sound();
    granted(&mut sound, |_| true);
    assert_eq!(sound.check().valid, Validity::Valid);
    // The first grants have no predecessor; the next grant began while the previous one was in progress.
    assert_eq!(claim(&sound, Claim::Tokens).evidence, 29);
    lacks(
        Claim::Tokens,
        "each grant must carry its token, and `mono_ns` where it begins and ends; c0 never does this",
        |build| granted(build, |_| false),
    );
    lacks(Claim::Tokens, "; c1 never does this", |build| granted(build, |place| place % 3 != 1));
    lacks(Claim::Tokens, "each grant must carry", |build| {
        granted(build, |_| true);
        build.history.operations.iter_mut().for_each(|one| {
            one.phases.each(|phase| phase.stamped = None);
        });
    });
}

#[test]
fn amounts_take_a_line_that_goes_back_to_the_empty_key() {
    let counted = |end: u64| {
        let mut build = Build::sound();
        build.header().resource = ResourceKind::Counter;
        build.operation(9_990).amount = Some(Amount::Count(end));
        build
    };
    let sound = counted(30);
    assert_eq!((sound.check().valid, claim(&sound, Claim::Amounts).evidence), (Validity::Valid, 30));
    for end in [1, 29, 31] {
        let verdict = counted(end).check();
        assert_eq!(verdict.valid, Validity::Invalid);
        assert_eq!(verdict.anomalies[0].kind, AnomalyKind::WrongAmount);
        assert!(
            verdict.reasons[0].ends_with("but that value is the result of 30 updates of the empty key"),
            "{:?}",
            verdict.reasons
        );
    }
    lacks(Claim::Amounts, "the expected or the actual amount of base at the end is unknown", |build| {
        build.header().resource = ResourceKind::List
    });
}

#[test]
fn a_violation_needs_no_more_evidence() {
    let mut build = Build::sound();
    unstamped(&mut build, |_| true);
    build.ok(0, 4_001, 4_005, "-", "a").ok(1, 4_006, 4_009, "-", "b").final_read("b");
    assert_eq!(build.check().valid, Validity::Invalid);
    assert_eq!(claim(&build, Claim::Updates).missing, None);
}

/// c0 releases at 30 ms with its write still in flight. c1 holds from `acquired` on, and its write is overwritten.
fn late_write(acquired: u64, stamps: bool) -> Build {
    let mut build = Build::sound();
    let read = 4_000;
    build.info(0, read + 1, read + 32, "-", "late");
    build.phase(read + 1, Phase::Acquired, read + 2).phase(read + 1, Phase::BeforeWrite, read + 10);
    build.phase(read + 1, Phase::Releasing, read + 30).phase(read + 1, Phase::Released, read + 31);
    build.ok(1, read + 3, read + 80, "-", "early");
    build.phase(read + 3, Phase::Acquired, read + acquired).phase(read + 3, Phase::Written, read + 60);
    build.phase(read + 3, Phase::Releasing, read + 70);
    build.final_read("late");
    if !stamps {
        unstamped(&mut build, |_| true);
    }
    build
}

#[test]
fn a_write_under_way_at_the_release_is_no_fault_of_the_lock() {
    for stamps in [true, false] {
        let excluded = late_write(40, stamps).check();
        assert_eq!(excluded.valid, Validity::Unknown);
        assert_eq!(excluded.anomalies[0].kind, AnomalyKind::WriteInFlight);
        let said = &excluded.reasons[0];
        assert!(said.contains("c0 had released the lock while its write of late was still in flight"), "{said}");
        let overlapping = late_write(20, stamps).check();
        assert_eq!(overlapping.valid, Validity::Invalid, "the lock ran out on the writer before it gave up");
        assert!(overlapping.anomalies.iter().any(|anomaly| anomaly.kind == AnomalyKind::LostUpdate));
    }
    // If the write was acknowledged, or the lock never released, the lock is to blame.
    let mut acknowledged = late_write(40, true);
    acknowledged.operation(4_001).outcome = Outcome::Ok;
    assert_eq!(acknowledged.check().valid, Validity::Invalid);
    let mut kept = late_write(40, true);
    kept.operation(4_001).phases.edit(|stamps| stamps.truncate(2));
    assert_eq!(kept.check().valid, Validity::Invalid);
}
