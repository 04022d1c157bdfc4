//! A library's messages are true and on time: about a release, about ownership, about a loss, and about an acquired lock.

use checker::AnomalyKind::{self, EndedByItself, ExpiredGrant, FalseOwnership, FalseRelease, LateLossReport};
use checker::{HowKind, Validity};
use model::history::{Claim, ClientEvent, ClientStep, FaultKind, Outcome, Phase, WhyWaited};

use crate::kit::histories::{Build, MS};

fn found(build: &Build, kind: AnomalyKind) -> Vec<String> {
    let anomalies = build.check().anomalies.into_iter();
    anomalies.filter(|anomaly| anomaly.kind == kind).map(|anomaly| anomaly.summary).collect()
}

/// The verdict on a claim, and the number of facts behind it.
fn outcome(build: &Build, claim: Claim) -> Option<(Validity, u64)> {
    let of_claim = build.check().claims.into_iter().find(|verdict| verdict.claim == claim);
    of_claim.map(|verdict| (verdict.valid, verdict.evidence))
}

/// A history with one claim, a TTL of one second and one node.
fn claiming(claim: Claim) -> Build {
    let mut build = Build::new();
    build.header().claims = vec![claim];
    build
}

/// A client asks for the lock of `k0` and acquires it. The operation is named by the millisecond before the request.
fn takes(build: &mut Build, client: u32, asked: u64, acquired: u64) -> u64 {
    let invoked = asked - 1;
    build.rmw("k0", Outcome::Info, client, invoked, Some(9_000 + invoked), "?", &format!("v{invoked}"));
    build.phase(invoked, Phase::Acquiring, asked).phase(invoked, Phase::Acquired, acquired);
    invoked
}

/// c0 holds the lock from 0.110 s on, and c1 acquires it once c0's lock can have expired.
fn taken_over(claim: Claim, given_back: u64) -> Build {
    let mut build = claiming(claim);
    takes(&mut build, 0, 100, 110);
    let other = takes(&mut build, 1, 120, 1_115);
    build.phase(other, Phase::Releasing, given_back);
    build
}

const C0: u64 = 99;

/// c0's release and its answer.
fn releases(mut build: Build, sent: u64, said: Phase, over: u64) -> Build {
    build.phase(C0, Phase::Releasing, sent).phase(C0, said, over);
    build
}

#[test]
fn a_release_of_a_lock_that_another_client_has_says_so() {
    let release = |sent, over| releases(taken_over(Claim::Releases, 1_500), sent, Phase::Released, over);
    assert_eq!(
        found(&release(1_200, 1_210), FalseRelease),
        ["c0's release at 1.200 s reported success, although c1 had held the lock since 1.115 s"]
    );
    // The release could have found out from the time when c1 acquired the lock, until c1 released it.
    for (sent, over, lies) in [(1_115, 1_130, 0), (1_116, 1_130, 1), (1_200, 1_500, 1), (1_200, 1_501, 0)] {
        assert_eq!(found(&release(sent, over), FalseRelease).len(), lies, "{sent} to {over}");
    }
    // Or until c1's lock can have expired: 0.99 s after c0's lock can have expired.
    for (over, lies) in [(2_080, 1), (2_081, 0)] {
        let kept_on = releases(taken_over(Claim::Releases, 3_000), 2_070, Phase::Released, over);
        assert_eq!(found(&kept_on, FalseRelease).len(), lies, "{over}");
    }
    let truth = releases(taken_over(Claim::Releases, 1_500), 1_200, Phase::Lost, 1_210);
    assert_eq!(outcome(&truth, Claim::Releases), Some((Validity::Valid, 1)));
    // If the loss was reported before, the release shows nothing new.
    let mut told = taken_over(Claim::Releases, 1_500);
    told.phase(C0, Phase::Lost, 1_150);
    assert_eq!(outcome(&releases(told, 1_200, Phase::Lost, 1_210), Claim::Releases), Some((Validity::Unknown, 0)));
}

#[test]
fn a_release_is_held_to_nothing_that_the_history_leaves_open() {
    let lie = || releases(taken_over(Claim::Releases, 1_500), 1_200, Phase::Released, 1_210);
    // c0 was stopped between the two: it asked before c1 had the lock, and read the answer long after.
    let mut stopped = releases(taken_over(Claim::Releases, 1_500), 1_050, Phase::Released, 1_400);
    stopped.fault(4, "c0", 1_055, 1_390);
    assert_eq!(found(&stopped, FalseRelease), Vec::<String>::new());
    let mut stopped_before = lie();
    stopped_before.fault(4, "c0", 500, 1_190);
    assert_eq!(found(&stopped_before, FalseRelease).len(), 1, "once it goes on it can ask");
    for (kind, lies) in [
        (FaultKind::Flush, 0),
        (FaultKind::Clock, 0),
        (FaultKind::Kill, 0),
        (FaultKind::Pause, 1),
        (FaultKind::Delay, 1),
    ] {
        let mut build = lie();
        build.fault(4, "n0", 1_150, 1_160).history.faults[0].kind = kind;
        assert_eq!(found(&build, FalseRelease).len(), lies, "{kind:?} of the node");
    }
    let mut clock = lie();
    clock.fault(4, "c0", 1_150, 1_160).history.faults[0].kind = FaultKind::Clock;
    assert_eq!(found(&clock, FalseRelease).len(), 1, "its node knows better than its clock");
    let mut revived = lie();
    revived.phase(C0, Phase::Extended, 1_120);
    assert_eq!(found(&revived, FalseRelease), Vec::<String>::new(), "it may have taken it back");
    for (released, lies) in [(None, 0), (Some(1_120), 0), (Some(60), 1)] {
        let mut late = lie();
        let earlier = takes(&mut late, 2, 10, 20);
        late.phase(earlier, Phase::Releasing, 50);
        if let Some(released) = released {
            late.phase(earlier, Phase::Released, released);
        }
        assert_eq!(found(&late, FalseRelease).len(), lies, "c2's release may have ended c1's lock: {released:?}");
    }
    let mut stolen = lie();
    stolen.header().steals = true;
    assert_eq!(found(&stolen, FalseRelease), Vec::<String>::new());
    let mut unclaimed = lie();
    unclaimed.header().claims = vec![Claim::Updates];
    assert_eq!(found(&unclaimed, FalseRelease), Vec::<String>::new(), "other libraries mean something else by it");
    let mut of_unknown = lie();
    of_unknown.history.run = None;
    assert_eq!(found(&of_unknown, FalseRelease), Vec::<String>::new());
    // With several nodes, c1's lock may have been set when it asked, so its state after 1.110 s is unknown.
    let mut several = lie();
    several.header().nodes = 5;
    assert_eq!(found(&several, FalseRelease), Vec::<String>::new());
}

#[test]
fn a_client_that_gave_its_lock_back_without_a_word_had_it_while_it_acted() {
    // c1 ends its operation, or reports only that the lock is released: the time of its release request is unknown.
    for silent in [None, Some(Phase::Released)] {
        for (wrote, lies) in [(1_150, 0), (1_210, 1)] {
            let mut build = claiming(Claim::Releases);
            takes(&mut build, 0, 100, 110);
            let other = takes(&mut build, 1, 120, 1_115);
            build.phase(other, Phase::Written, wrote);
            silent.into_iter().for_each(|said| _ = build.phase(other, said, 1_400));
            let build = releases(build, 1_200, Phase::Released, 1_210);
            assert_eq!(found(&build, FalseRelease).len(), lies, "{silent:?} after {wrote}");
        }
    }
    // If c1 is still working, it holds its lock until the lock can have expired.
    let mut build = claiming(Claim::Releases);
    takes(&mut build, 0, 100, 110);
    let other = takes(&mut build, 1, 120, 1_115);
    build.operation(other).completed = None;
    assert_eq!(found(&releases(build, 1_200, Phase::Released, 1_210), FalseRelease).len(), 1);
}

#[test]
fn a_lock_that_was_taken_before_and_answered_late_is_no_other_holder() {
    // The server may have carried out c1's request at once, and c0 may have acquired the lock when c1's had expired.
    for (asked, lies) in [(30, 0), (31, 1)] {
        let mut build = claiming(Claim::Releases);
        takes(&mut build, 0, 1_001, 1_020);
        let late = takes(&mut build, 1, asked, 2_050);
        build.phase(late, Phase::Releasing, 2_500);
        build.phase(1_000, Phase::Releasing, 2_060).phase(1_000, Phase::Released, 2_070);
        assert_eq!(found(&build, FalseRelease).len(), lies, "asked at {asked} ms");
    }
}

/// c0's release finds that the lock belongs to another client, and c1 acquires it.
fn disowned(got: u64) -> Build {
    let mut build = claiming(Claim::Releases);
    takes(&mut build, 0, 100, 110);
    takes(&mut build, 1, 200, got);
    releases(build, 300, Phase::Lost, 310)
}

#[test]
fn a_release_that_gave_the_lock_back_does_not_deny_it() {
    assert_eq!(
        found(&disowned(400), FalseRelease),
        [
            "c0's release at 0.300 s reported that the client did not hold the lock, though nothing but this release can have ended it: c1 acquired it at 0.400 s, before it can have expired"
        ]
    );
    assert_eq!(found(&disowned(1_089), FalseRelease).len(), 1);
    assert_eq!(found(&disowned(1_090), FalseRelease), Vec::<String>::new(), "it may have run out");
    let mut forgotten = disowned(400);
    forgotten.fault(4, "n0", 250, 260).history.faults[0].kind = FaultKind::Flush;
    assert_eq!(found(&forgotten, FalseRelease), Vec::<String>::new());
    // A third client's release may have ended c0's lock.
    let mut robbed = disowned(400);
    let third = takes(&mut robbed, 2, 20, 30);
    robbed.phase(third, Phase::Releasing, 305).phase(third, Phase::Released, 306);
    assert_eq!(found(&robbed, FalseRelease), Vec::<String>::new());
    let mut long_before = disowned(400);
    let third = takes(&mut long_before, 2, 20, 30);
    long_before.phase(third, Phase::Releasing, 40).phase(third, Phase::Released, 41);
    assert_eq!(found(&long_before, FalseRelease).len(), 1);
    // The releases of a run without a loss say nothing about losses.
    let mut build = claiming(Claim::Releases);
    takes(&mut build, 0, 100, 110);
    takes(&mut build, 1, 200, 400);
    let kept = releases(build, 300, Phase::Released, 310);
    assert_eq!(outcome(&kept, Claim::Releases), Some((Validity::Unknown, 0)));
}

#[test]
fn a_client_that_asks_is_not_told_that_it_has_what_another_one_has() {
    let asks = |at: u64, read: u64, given_back: u64| {
        let mut build = taken_over(Claim::Ownership, given_back);
        build.phase(C0, Phase::Owned, at);
        build.operation(C0).phases.edit(|stamps| stamps.last_mut().unwrap().received = read * MS);
        build
    };
    let lie = asks(1_200, 1_210, 1_500);
    assert_eq!(
        found(&lie, FalseOwnership),
        [
            "c0 asked at 1.200 s whether it held the lock of k0, and the library said yes, although c1 had held it since 1.115 s"
        ]
    );
    assert_eq!(outcome(&lie, Claim::Ownership), Some((Validity::Invalid, 1)));
    assert_eq!(lie.check().valid, Validity::Invalid);
    for (at, read, lies) in
        [(1_000, 1_001, 0), (1_115, 1_120, 0), (1_116, 1_120, 1), (1_400, 1_500, 1), (1_400, 1_501, 0)]
    {
        assert_eq!(found(&asks(at, read, 1_500), FalseOwnership).len(), lies, "{at} to {read}");
    }
    // c0 was stopped after its request: the answer may describe any time until it was read.
    let mut stopped = asks(1_050, 1_400, 1_500);
    stopped.fault(4, "c0", 1_051, 1_390);
    assert_eq!(found(&stopped, FalseOwnership), Vec::<String>::new());
    // Repeated questions make one anomaly, and true answers are evidence.
    let mut again = asks(1_200, 1_210, 1_500);
    again.phase(C0, Phase::Owned, 1_220).phase(C0, Phase::Lost, 1_230);
    assert_eq!(found(&again, FalseOwnership).len(), 1);
    assert_eq!(outcome(&again, Claim::Ownership), Some((Validity::Invalid, 3)));
    let mut truth = taken_over(Claim::Ownership, 1_500);
    truth.phase(C0, Phase::Lost, 1_200);
    assert_eq!(outcome(&truth, Claim::Ownership), Some((Validity::Valid, 1)));
    assert_eq!(outcome(&asks(500, 501, 1_500), Claim::Ownership), Some((Validity::Unknown, 0)), "nobody else had it");
}

/// c0 holds the lock from 0.110 s on, valid for this many milliseconds, and must be told of a loss within half a second.
fn valid_for(validity_ms: Option<u64>) -> Build {
    let mut build = claiming(Claim::Losses);
    build.header().lost_within_ms = Some(500);
    takes(&mut build, 0, 100, 110);
    build.operation(C0).phases.edit(|stamps| stamps[1].validity_ms = validity_ms);
    build
}

/// A client that learns of its loss a fifth of a second too late.
pub fn told_late() -> Build {
    let mut build = valid_for(Some(900));
    build.phase(C0, Phase::Lost, 1_710);
    build
}

/// The advisory on late reports of a loss.
fn delay(build: &Build) -> Option<String> {
    let remarks = checker::advise(&build.history, &build.check(), &[]);
    remarks.into_iter().find(|remark| remark.id == "loss-report-delay").map(|remark| remark.text)
}

#[test]
fn loss_report_delay_counts_only_time_in_which_the_client_ran() {
    let ends = |phase, at| {
        let mut build = valid_for(Some(900));
        build.phase(C0, phase, at);
        build
    };
    assert_eq!(delay(&ends(Phase::Lost, 1_110)), None, "a tenth of a second is at once");
    assert_eq!(
        delay(&ends(Phase::Lost, 1_510)).unwrap(),
        "the library reported the loss to c0 500 ms after its lock was gone"
    );
    let acted = delay(&ends(Phase::Releasing, 1_511)).unwrap();
    assert_eq!(acted, "c0 worked for 501 ms without its lock, and the library did not report the loss");
    assert_eq!(delay(&valid_for(None)), None, "its lock may have been renewed");
    let mut paused = ends(Phase::Lost, 1_510);
    paused.fault(4, "c0", 1_050, 1_480);
    assert_eq!(delay(&paused), None, "a client that is stopped is told nothing");
    let mut starved = ends(Phase::Lost, 1_510);
    super::starved::kept(&mut starved, "c0", WhyWaited::Processor, (1_050, 1_480), 430);
    assert_eq!(delay(&starved), None, "nor is one that waits for a processor");
}

#[test]
fn a_holder_is_told_in_time_that_its_validity_is_over() {
    let told = |at| {
        let mut build = valid_for(Some(900));
        build.phase(C0, Phase::Lost, at);
        build
    };
    assert_eq!(outcome(&told(1_510), Claim::Losses), Some((Validity::Valid, 1)));
    assert_eq!(
        found(&told(1_511), LateLossReport),
        [
            "c0 was notified only at 1.511 s that its lock of k0 was gone: its validity ended at 1.010 s, and the workload promises a report within 500 ms"
        ]
    );
    let acts = |phase, at| {
        let mut build = valid_for(Some(900));
        build.phase(C0, phase, at);
        build
    };
    let untold = found(&acts(Phase::Written, 1_511), LateLossReport);
    assert!(untold[0].starts_with("c0 had not been notified by 1.511 s that its lock of k0 was gone"), "{untold:?}");
    assert_eq!(
        outcome(&acts(Phase::Releasing, 1_510), Claim::Losses),
        Some((Validity::Unknown, 0)),
        "it needs no word"
    );
    let mut extended = told(1_800);
    extended.phase(C0, Phase::Extended, 900);
    extended.operation(C0).phases.edit(|stamps| stamps.last_mut().unwrap().validity_ms = Some(900));
    assert_eq!(found(&extended, LateLossReport), Vec::<String>::new(), "it was valid until 1.8 s");
    let mut untimed = told(5_000);
    untimed.header().lost_within_ms = None;
    assert_eq!(outcome(&untimed, Claim::Losses), Some((Validity::Unknown, 0)));
}

#[test]
fn whoever_was_stopped_is_told_of_its_loss_once_it_goes_on() {
    for (told, late) in [(1_910, 0), (1_911, 1)] {
        let build = |target: &str, kind| {
            let mut build = valid_for(Some(900));
            build.phase(C0, Phase::Lost, told).fault(4, target, 1_010, 1_410).history.faults[0].kind = kind;
            found(&build, LateLossReport).len()
        };
        assert_eq!(build("c0", FaultKind::Pause), late, "{told}");
        assert_eq!(build("c1", FaultKind::Pause), 1, "{told}: another one was stopped");
        assert_eq!(build("c0", FaultKind::Clock), 1, "{told}: a clock stops nobody");
    }
    // If the machine stood still for a quarter of the delay, this excuses the late message, too.
    for (told, late) in [(1_910, 0), (1_911, 0), (3_509, 0), (3_511, 1)] {
        let mut stalled = valid_for(Some(900));
        stalled.phase(C0, Phase::Lost, told).history.stalls.push((1_010 * MS, 1_410 * MS));
        assert_eq!(found(&stalled, LateLossReport).len(), late, "{told}: the machine stood still");
    }
}

#[test]
fn of_a_lock_without_a_validity_the_next_holder_shows_that_it_is_gone() {
    for (told, late) in [(1_615, 0), (1_616, 1)] {
        let mut build = taken_over(Claim::Losses, 3_000);
        build.header().lost_within_ms = Some(500);
        build.phase(C0, Phase::Lost, told);
        let found = found(&build, LateLossReport);
        assert_eq!(found.len(), late, "{told}: {found:?}");
        assert!(found.iter().all(|text| text.contains("c1 held it from 1.115 s on")), "{found:?}");
    }
    let mut alone = valid_for(None);
    alone.phase(C0, Phase::Written, 8_000);
    assert_eq!(outcome(&alone, Claim::Losses), Some((Validity::Unknown, 0)), "it may have been renewed");
}

#[test]
fn no_lock_is_handed_out_that_has_run_out_by_the_librarys_own_word() {
    let granted = |validity_ms| {
        let mut build = valid_for(validity_ms);
        build.header().claims = vec![Claim::Grants];
        build
    };
    assert_eq!(outcome(&granted(Some(1)), Claim::Grants), Some((Validity::Valid, 1)));
    assert_eq!(outcome(&granted(None), Claim::Grants), Some((Validity::Unknown, 0)));
    let told = "c0 received the lock of k0 at 0.110 s, 10 ms after it had asked, although the library reported no validity left";
    assert_eq!(found(&granted(Some(0)), ExpiredGrant), [told]);
    for (target, kind, from, to, expired) in [
        ("c0", FaultKind::Pause, 103, 108, 0), // the library may have looked before that
        ("c0", FaultKind::Clock, 103, 400, 0),
        ("c0", FaultKind::Pause, 50, 99, 1),
        ("c1", FaultKind::Pause, 103, 108, 1),
        ("n0", FaultKind::Pause, 103, 108, 1),
    ] {
        let mut build = granted(Some(0));
        build.fault(4, target, from, to).history.faults[0].kind = kind;
        assert_eq!(found(&build, ExpiredGrant).len(), expired, "{kind:?} of {target} from {from}");
        let claims = build.check().claims;
        let not_counted =
            claims.iter().find(|one| one.claim == Claim::Grants).and_then(|one| one.not_counted.as_deref());
        let why = if kind == FaultKind::Pause { "its client was paused" } else { "its client's clock was changed" };
        let told = format!("1 handed out with no validity left, after {why}");
        assert_eq!(not_counted, Some(&told[..]).filter(|_| expired == 0), "{kind:?} of {target} from {from}");
    }
    let mut unclaimed = granted(Some(0));
    unclaimed.header().claims = vec![Claim::Updates];
    assert_eq!(found(&unclaimed, ExpiredGrant), Vec::<String>::new());
}

#[test]
fn two_holders_of_whom_one_got_an_expired_lock_are_told_as_that() {
    for holder in [100, 200] {
        let mut build = Build::new();
        build.hold(0, 100, 300).hold(1, 200, 400);
        build.operation(holder - 1).phases.edit(|stamps| stamps[0].validity_ms = Some(0));
        let how = build.check().anomalies.into_iter().find_map(|anomaly| anomaly.how).unwrap();
        assert_eq!(how.kind, HowKind::Expired);
        assert!(how.sentence.text().ends_with("acquired the lock with no validity left."), "{:?}", how.sentence);
    }
}

#[test]
fn what_did_not_come_up_leaves_the_verdict_to_the_other_claims() {
    let mut build = Build::sound();
    build.header().claims.extend([Claim::Releases, Claim::Ownership, Claim::Losses, Claim::Grants]);
    build.header().lost_within_ms = Some(500);
    assert_eq!(build.check().valid, Validity::Valid);
    for claim in [Claim::Releases, Claim::Ownership, Claim::Losses, Claim::Grants] {
        assert_eq!(outcome(&build, claim), Some((Validity::Unknown, 0)), "{claim:?}");
    }
}

#[test]
fn a_program_that_ends_by_itself_is_a_finding_and_no_violation() {
    let ended = |text: &str| {
        let mut build = Build::sound();
        let event = ClientEvent { process: 1, step: ClientStep::Ended, text: text.into(), nodes: Vec::new() };
        build.history.clients.push((1_500 * MS, event));
        build
    };
    let crashed = ended("it ended with exit code 1; last lines on standard error: Error: unhandled rejection");
    assert_eq!(crashed.check().valid, Validity::Unknown);
    assert_eq!(
        found(&crashed, EndedByItself),
        [
            "c1 exited unexpectedly at 1.500 s, without a fault that kills it: it ended with exit code 1; last lines on standard error: \
          Error: unhandled rejection"
        ]
    );
    assert_eq!(found(&ended("it hangs: no answer in time"), EndedByItself), Vec::<String>::new());
    let mut killed = ended("it ended with exit code 137 (SIGKILL)");
    killed.fault(4, "c1", 1_400, 1_600).history.faults[0].kind = FaultKind::Kill;
    assert_eq!(found(&killed, EndedByItself), Vec::<String>::new());
}
