//! Members that did not run although their machine did: the results that this excuses or explains, and the results that it does
//! not excuse.

use checker::AnomalyKind::{self, ExpiredGrant, LateLossReport, NotObtained, OverlappingHolders, WaitedTooLong};
use checker::{HowKind, Validity};
use model::fault_kinds::FaultKind;
use model::history::WhyWaited::{self, Gone, Late, Processor, Silent, Stopped};
use model::history::{Claim, Phase, StepOutcome, Waited, load_reader};

use super::{answers, gates, liveness, said};
use crate::kit::histories::{Build, MS};

/// A member did not run for `waited` milliseconds within this period.
pub fn kept(build: &mut Build, member: &str, why: WhyWaited, (from, to): (u64, u64), waited: u64) {
    let (from_ns, to_ns, waited_ns) = (from * MS, to * MS, waited * MS);
    let waited = Waited { members: vec![member.into()], why, from_ns, to_ns, waited_ns };
    build.history.kept_waiting.push((from, waited));
}

/// The verdict on the same history if this member did not run, with all reasons.
fn verdict(
    build: &Build,
    member: &str,
    why: WhyWaited,
    when: (u64, u64),
    waited: u64,
) -> (Validity, Vec<AnomalyKind>, String) {
    let mut build = build.clone();
    kept(&mut build, member, why, when, waited);
    let verdict = build.check();
    (verdict.valid, verdict.anomalies.iter().map(|anomaly| anomaly.kind).collect(), verdict.reasons.join("; "))
}

/// Expects that the run is unknown with these words, and that no anomaly is reported.
fn excused(build: &Build, member: &str, why: WhyWaited, when: (u64, u64), waited: u64, words: &str) {
    let (valid, anomalies, reasons) = verdict(build, member, why, when, waited);
    assert!(valid == Validity::Unknown && anomalies.is_empty(), "{member} {why:?} {when:?}: {reasons}");
    assert!(reasons.contains(words), "{reasons}");
}

fn accused(build: &Build, kind: AnomalyKind, member: &str, why: WhyWaited, when: (u64, u64), waited: u64) {
    let (valid, anomalies, reasons) = verdict(build, member, why, when, waited);
    assert_eq!((valid, anomalies.contains(&kind)), (Validity::Invalid, true), "{member} {why:?} {when:?}: {reasons}");
}

#[test]
fn a_line_says_who_did_not_run() {
    let line = r#"{"index":0,"time":9,"type":"waited","waited":{"members":["c0","c1"],"why":"processor","from_ns":1,"to_ns":8,"waited_ns":5}}"#;
    let history = load_reader(format!("{line}\n").as_bytes(), "a history").unwrap();
    let members = vec!["c0".to_string(), "c1".to_string()];
    let waited = Waited { members, why: Processor, from_ns: 1, to_ns: 8, waited_ns: 5 };
    assert_eq!((history.kept_waiting, history.stalls), (vec![(0, waited)], Vec::new()), "the machine ran");
    let nonsense = line.replace("processor", "laziness");
    assert!(load_reader(format!("{nonsense}\n").as_bytes(), "a history").is_err());
}

/// c1 asks for 3 s for a lock that is free.
#[test]
fn a_free_lock_that_nobody_gets_is_stuck_unless_somebody_whom_that_takes_did_not_run() {
    let stuck = liveness::never_back();
    let when = (1_000, 2_000);
    for (member, why, words) in [
        (
            "n0",
            Processor,
            "no client acquired the lock of k0 for 3 s from 0.100 s, but n0 waited for a processor for 1 s of that time",
        ),
        ("n0", Stopped, "n0 was stopped by another process"),
        ("n0", Silent, "n0 did not answer for 1 s"),
        ("c1", Processor, "c1 waited for a processor"),
        ("resource", Processor, "the resource waited for a processor"),
    ] {
        excused(&stuck, member, why, when, 1_000, words);
    }
    accused(&stuck, NotObtained, "c1", Processor, when, 700);
    accused(&stuck, NotObtained, "n0", Processor, (0, 900), 700);
    accused(&stuck, NotObtained, "c2", Processor, when, 1_000);
    // No fault had to be healed.
    accused(&stuck, NotObtained, "agent", Late, when, 1_000);
    accused(&stuck, NotObtained, "n0", Processor, (3_200, 9_000), 5_000);
    // Several members that waited at the same time count only once.
    let mut together = stuck;
    kept(&mut together, "n1", Processor, (1_000, 1_500), 500);
    accused(&together, NotObtained, "n0", Processor, (1_000, 1_500), 500);
    excused(&together, "n0", Processor, (1_500, 2_000), 500, "and 1 other member did not always run either");
}

#[test]
fn a_deadline_of_a_script_is_no_evidence_where_somebody_did_not_run() {
    let mut late = gates::with_fault();
    late.header().claims = vec![Claim::Liveness];
    late.fail_on("base", 1, 2_900, 2_990);
    gates::play(&mut late, &[StepOutcome::Happened, StepOutcome::NotLive, StepOutcome::Happened]);
    excused(&late, "n0", Processor, (2_910, 2_990), 50, "n0 waited for a processor for 50 ms of that time; rerun it");
    excused(&late, "c1", Stopped, (2_910, 2_990), 80, "c1 was stopped by another process");
    accused(&late, AnomalyKind::AcquiredLate, "n0", Processor, (2_910, 2_990), 20);
    accused(&late, AnomalyKind::AcquiredLate, "c4", Processor, (2_910, 2_990), 80);
    accused(&late, AnomalyKind::AcquiredLate, "n0", Processor, (2_000, 2_900), 900);
    accused(&late, AnomalyKind::AcquiredLate, "agent", Processor, (2_910, 2_990), 80);
    late.fault(7, "c9", 2_895, 2_980);
    accused(&late, AnomalyKind::AcquiredLate, "agent", Processor, (2_910, 2_990), 80);
    late.history.faults.last_mut().unwrap().kind = FaultKind::Delay;
    excused(&late, "agent", Processor, (2_910, 2_990), 80, "the agent waited for a processor");
}

/// A client that ended while it held the lock may have left it behind: the release needs the client's time, and the agent's.
#[test]
fn a_client_that_could_not_release_keeps_the_lock_from_the_next_one() {
    let mut late = gates::with_fault();
    late.header().claims = vec![Claim::Liveness];
    late.fail_on("base", 0, 2_200, 2_600);
    late.fail_on("base", 1, 2_900, 2_990);
    gates::play(&mut late, &[StepOutcome::Happened, StepOutcome::NotLive, StepOutcome::Happened]);
    excused(&late, "c0", Processor, (2_300, 2_600), 300, "c0 waited for a processor");
    accused(&late, AnomalyKind::AcquiredLate, "c0", Processor, (1_900, 2_200), 300);
    late.fault(7, "c9", 2_195, 2_980);
    late.history.faults.last_mut().unwrap().kind = FaultKind::Delay;
    excused(&late, "agent", Stopped, (2_300, 2_600), 300, "the agent was stopped by another process");
    accused(&late, AnomalyKind::AcquiredLate, "agent", Stopped, (1_900, 2_190), 290);
    // A client that ended a TTL before the request has left nothing behind.
    let mut old = gates::with_fault();
    old.header().claims = vec![Claim::Liveness];
    old.fail_on("base", 0, 200, 700);
    old.fail_on("base", 1, 2_900, 2_990);
    gates::play(&mut old, &[StepOutcome::Happened, StepOutcome::NotLive, StepOutcome::Happened]);
    accused(&old, AnomalyKind::AcquiredLate, "c0", Processor, (200, 700), 500);
}

/// The client gives up 5 s after its request, 3 s later than any other excuse allows.
#[test]
fn a_wait_that_does_not_end_is_held_against_nobody_who_did_not_run() {
    let waits = answers::waits(5_000);
    excused(&waits, "c1", Processor, (1_000, 3_000), 1_500, "past its timeout of 1 s, but c1 waited for a processor");
    excused(&waits, "n0", Stopped, (1_000, 3_000), 1_500, "n0 was stopped by another process");
    accused(&waits, WaitedTooLong, "c1", Processor, (1_000, 3_000), 500);
    accused(&waits, WaitedTooLong, "c0", Processor, (1_000, 3_000), 1_500);
    accused(&waits, WaitedTooLong, "agent", Late, (1_000, 3_000), 1_500);
}

#[test]
fn a_holder_that_did_not_run_is_told_of_its_loss_when_it_does() {
    let late = said::told_late();
    excused(
        &late,
        "c0",
        Processor,
        (1_100, 1_300),
        200,
        "the workload promises a report within 500 ms, but c0 waited for a processor",
    );
    accused(&late, LateLossReport, "c0", Processor, (100, 900), 700);
    accused(&late, LateLossReport, "c1", Processor, (1_100, 1_300), 200);
    let mut grant = Build::new();
    grant.header().claims = vec![Claim::Grants];
    grant.hold(0, 1_500, 1_600).phase(1_499, Phase::Acquiring, 1_499);
    grant.operation(1_499).phases.edit(|stamps| {
        stamps.rotate_right(1);
        stamps[1].validity_ms = Some(0);
    });
    excused(&grant, "c0", Processor, (1_400, 1_550), 150, "the library reported no validity left");
    // The client decides by its own clock.
    accused(&grant, ExpiredGrant, "n0", Processor, (1_400, 1_550), 150);
    accused(&grant, ExpiredGrant, "c0", Processor, (1_000, 1_450), 400);
}

/// c0 holds from 0.1 s to 2 s, with a TTL of one second; c1 acquires at 1.5 s.
fn overlap() -> Build {
    let mut build = Build::sound();
    build.header().claims = vec![Claim::MutualExclusion];
    build.hold(0, 10_100, 12_000).hold(1, 11_500, 11_600);
    build
}

/// A client that gets no processor is like one that is paused.
#[test]
fn two_holders_are_a_violation_however_busy_the_machine_was_and_the_cause_is_told() {
    let how = |member: &str, why, when, waited| {
        accused(&overlap(), OverlappingHolders, member, why, when, waited);
        let mut build = overlap();
        kept(&mut build, member, why, when, waited);
        let anomalies = build.check().anomalies;
        let overlap = anomalies.into_iter().find(|anomaly| anomaly.kind == OverlappingHolders).unwrap();
        overlap.how.map(|how| (how.kind, how.sentence.text().to_string()))
    };
    let text = "c0 waited for a processor for 1.2 s from 10.600 s to 11.900 s, and its lock expired meanwhile.";
    assert_eq!(how("c0", Processor, (10_600, 11_900), 1_200), Some((HowKind::Starved, text.to_string())));
    let text = "c0 was stopped by another process for 1.2 s from 10.600 s to 11.900 s, and its lock expired meanwhile.";
    assert_eq!(how("c0", Stopped, (10_600, 11_900), 1_200), Some((HowKind::StoppedOutside, text.to_string())));
    assert_eq!(how("c0", Processor, (10_600, 11_000), 400), None, "it ran when its lock ran out");
    assert_eq!(how("c1", Processor, (10_600, 11_900), 1_200), None, "another one");
    assert_eq!(how("n0", Processor, (10_600, 11_900), 1_200), None, "a node that was slow, and answered");
    assert_eq!(how("c0", Processor, (10_600, 11_900), 300), None, "it ran most of that time");
    assert_eq!(how("c0", Processor, (10_700, 11_500), 700), None, "it would have stayed too long all the same");
}

#[test]
fn what_falls_into_a_time_in_which_a_server_was_not_there_shows_nothing() {
    assert_eq!(overlap().check().valid, Validity::Invalid);
    let when = (11_000, 11_700);
    for (member, why, when, words) in [
        (
            "n0",
            Stopped,
            when,
            "n0 was stopped by another process for 700 ms from 11.000 s on, and no fault caused that",
        ),
        ("resource", Gone, (3_000, 3_100), "the resource's process was gone from 3.000 s on, and no fault caused that"),
        ("n0", Silent, (10_200, 11_300), "n0 did not answer for 1.1 s"),
        // The effect of its actions may show a little later.
        ("n0", Stopped, (9_800, 10_000), "n0 was stopped by another process"),
    ] {
        let (valid, anomalies, reasons) = verdict(&overlap(), member, why, when, when.1 - when.0);
        assert_eq!(valid, Validity::Unknown, "{member} {why:?}: {reasons}");
        assert!(anomalies.contains(&OverlappingHolders) && reasons.contains(words), "{reasons}");
    }
    accused(&overlap(), OverlappingHolders, "n0", Stopped, (3_000, 4_000), 1_000);
    accused(&overlap(), OverlappingHolders, "n0", Processor, when, 700);
    accused(&overlap(), OverlappingHolders, "c0", Gone, when, 700);
    // Many servers are slow to answer, and a server without a processor is not absent.
    accused(&overlap(), OverlappingHolders, "n0", Silent, when, 700);
    let mut starved = overlap();
    kept(&mut starved, "n0", Processor, (10_000, 11_500), 1_000);
    accused(&starved, OverlappingHolders, "n0", Silent, (10_200, 11_300), 1_100);
    let mut deaf = overlap();
    kept(&mut deaf, "agent", Late, (10_000, 11_500), 1_500);
    accused(&deaf, OverlappingHolders, "n0", Silent, (10_200, 11_300), 1_100);
    // An earlier overlap is still a violation.
    let mut before = overlap();
    before.hold(2, 5_000, 7_000).hold(1, 6_500, 6_600);
    accused(&before, OverlappingHolders, "n0", Stopped, when, 700);
}

/// The run shows no violation, but a server was absent: the run says so.
#[test]
fn a_run_whose_servers_were_not_all_there_is_not_valid() {
    assert_eq!(Build::sound().check().valid, Validity::Valid);
    for (member, why, valid) in [
        ("n0", Stopped, Validity::Unknown),
        ("resource", Gone, Validity::Unknown),
        ("n0", Processor, Validity::Valid),
        ("c0", Stopped, Validity::Valid),
        ("agent", Late, Validity::Valid),
    ] {
        let (found, _, reasons) = verdict(&Build::sound(), member, why, (500, 700), 200);
        assert_eq!(found, valid, "{member} {why:?}: {reasons}");
    }
    let mut build = Build::sound();
    kept(&mut build, "n0", Stopped, (500, 700), 200);
    kept(&mut build, "s1", Gone, (800, 900), 100);
    let gates = build.check().gates;
    let healthy: Vec<_> = gates.iter().filter(|gate| gate.name == "nodes-healthy").collect();
    assert!(healthy.len() == 1 && !healthy[0].passed && healthy[0].text.contains("and 1 more time"), "{healthy:?}");
}
