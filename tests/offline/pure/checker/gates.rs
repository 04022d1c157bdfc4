//! A run that proves nothing is unknown. Tests each gate, passed and failed.

use checker::{AnomalyKind, Gate, Validity};
use model::fault_kinds::RulesOut;
use model::history::{
    CallEffect, Claim, ClientEvent, ClientStep, Command, Contradiction, End, Expects, Fact, FactName, FaultKind,
    FaultWindow, Opened, Operation, Outcome, Outlives, Phase, Process, Progress, ResourceKind, StepEvent, StepOutcome,
};

use crate::kit::histories::{Build, MS, read_later};

/// A run that passes every gate, with a pause in the middle.
pub fn with_fault() -> Build {
    let mut build = Build::sound();
    build.header().faults_expected = true;
    // c1 has done its write by then, and begins no other operation before it continues.
    build.fault(0, "c1", 1_145, 1_330);
    build
}

/// Replaces the pause by late packets of a member: no action of the member contradicts that.
pub fn delayed(build: &mut Build, target: &str, from: u64, to: u64) {
    build.history.faults.clear();
    build.fault(0, target, from, to).history.faults[0].kind = FaultKind::Delay;
}

fn failed(build: &Build) -> Vec<Gate> {
    build.check().gates.into_iter().filter(|gate| !gate.passed).collect()
}

/// Expects that the change makes the run unknown through this gate alone, and that the reason says so.
fn only_fails(name: &str, reason: &str, change: impl FnOnce(&mut Build)) {
    let mut build = with_fault();
    change(&mut build);
    let gates = failed(&build);
    assert_eq!(gates.iter().map(|gate| gate.name.as_str()).collect::<Vec<_>>(), [name], "{gates:#?}");
    let verdict = build.check();
    assert_eq!(verdict.valid, Validity::Unknown);
    assert_eq!(verdict.reasons[0], gates[0].text);
    assert!(gates[0].text.contains(reason), "{}", gates[0].text);
}

/// Detects a disabled gate: for each gate there is a run that only this gate keeps from being valid.
#[test]
fn every_gate_is_the_only_one_to_fail_somewhere() {
    let mut build = with_fault();
    play(&mut build, &[StepOutcome::Happened; 3]);
    let scripted = build.check().gates;
    let tests = include_str!("gates.rs");
    for gate in with_fault().check().gates.iter().chain(&scripted) {
        let (alone, of_a_fact) = (format!("only_fails(\"{}\"", gate.name), format!(", \"{}\"),", gate.name));
        assert!(tests.contains(&alone) || tests.contains(&of_a_fact), "nothing fails {} alone", gate.name);
    }
}

#[test]
fn a_sound_run_is_valid() {
    for build in [Build::sound(), with_fault()] {
        let verdict = build.check();
        assert_eq!((verdict.valid, failed(&build), verdict.reasons), (Validity::Valid, vec![], vec![]));
        assert!(verdict.gates.iter().all(|gate| !gate.text.is_empty()));
    }
    assert_eq!(with_fault().check().counts.ok, 30);
    assert_eq!(Build::sound().check().gates.len() + 6, with_fault().check().gates.len());
}

#[test]
fn an_empty_history_is_unknown() {
    let verdict = Build::default().check();
    assert_eq!(verdict.valid, Validity::Unknown);
    assert!(verdict.reasons.iter().any(|reason| reason.contains("does not say")), "{:#?}", verdict.reasons);
}

#[test]
fn facts_must_be_said_and_hold() {
    for (name, gate) in [
        (FactName::ResourceEmpty, "resource-empty"),
        (FactName::ClientsReady, "clients-ready"),
        (FactName::NodesReady, "nodes-ready"),
        (FactName::NodesHealthy, "nodes-healthy"),
        (FactName::FinalReads, "final-reads"),
    ] {
        only_fails(gate, "does not say", |build| build.history.facts.retain(|fact| fact.name != name));
        only_fails(gate, "7 of 9", |build| {
            build.history.facts.push(Fact { name, holds: false, text: "7 of 9".into() });
            build.history.facts.push(Fact { name, holds: true, text: String::new() });
        });
    }
}

/// Adds the steps of a script, each with its outcome.
pub fn play(build: &mut Build, outcomes: &[StepOutcome]) {
    build.header().script_steps = 3;
    for (number, outcome) in (1..).zip(outcomes) {
        let step = "expect client:1 acquired within 0.5ttl".to_string();
        let expects = Some(Expects { client: 1, phase: Some(Phase::Acquired), within_ns: None });
        let text = "nothing came".to_string();
        let event = StepEvent { number, step, outcome: *outcome, text, missed: None, expects, opens: Vec::new() };
        build.history.steps.push((3_000 * MS, event));
    }
}

#[test]
fn every_step_of_a_script_must_have_been_played() {
    use StepOutcome::{Failed, Happened, WentOn};
    let mut played = with_fault();
    play(&mut played, &[Happened, WentOn, Happened]);
    assert_eq!(played.check().valid, Validity::Valid);
    only_fails("script-played", "step 2, `expect", |build| play(build, &[Happened, Failed]));
    only_fails("script-played", "the script stopped after step 2 of 3: the time limit ended", |build| {
        play(build, &[Happened, Happened]);
    });
    only_fails("script-played", "the script never began: the time limit ended", |build| play(build, &[]));
}

#[test]
fn what_a_live_lock_owes_is_a_violation_where_the_workload_claims_liveness() {
    let late = |claims: &[Claim]| {
        let mut build = with_fault();
        build.header().claims = claims.to_vec();
        play(&mut build, &[StepOutcome::Happened, StepOutcome::NotLive, StepOutcome::Happened]);
        // An operation that begins when the step ends is not the step's subject.
        build.fail_on("base", 1, 2_900, 2_990).fail_on("base", 1, 3_000, 3_050);
        build.check()
    };
    let verdict = late(&[Claim::Updates, Claim::Liveness]);
    assert_eq!(verdict.valid, Validity::Invalid);
    assert_eq!(verdict.reasons, ["1 client did not acquire the lock when it should have been available"]);
    let said = &verdict.anomalies[0].summary;
    assert!(said.starts_with("c1 asked for the lock at") && said.contains("`expect client:1"), "{said}");
    assert!(said.starts_with("c1 asked for the lock at 2.900 s"), "{said}");
    assert_eq!(late(&[Claim::Updates]).valid, Validity::Valid);
}

#[test]
fn a_lock_that_comes_in_the_moment_of_the_deadline_is_not_late() {
    let late = |acquired: u64| {
        let mut build = with_fault();
        build.header().claims = vec![Claim::Liveness];
        build.fail_on("base", 1, 2_900, 3_090).phase(2_900, Phase::Acquired, acquired);
        play(&mut build, &[StepOutcome::Happened, StepOutcome::NotLive, StepOutcome::Happened]);
        build.check().anomalies.iter().any(|anomaly| anomaly.kind == AnomalyKind::AcquiredLate)
    };
    assert!(!late(2_999) && !late(3_000));
    assert!(late(3_001));
}

#[test]
fn a_lock_that_another_client_validly_holds_is_not_late() {
    let late = |validity: Option<u64>, change: &dyn Fn(&mut Build)| {
        let mut build = with_fault();
        build.header().claims = vec![Claim::Liveness];
        build.rmw("base", Outcome::Info, 2, 2_700, Some(3_200), "?", "held").phase(2_700, Phase::Acquired, 2_800);
        build.operation(2_700).phases.each(|stamp| stamp.validity_ms = validity);
        build.fail_on("base", 1, 2_900, 2_990);
        change(&mut build);
        play(&mut build, &[StepOutcome::Happened, StepOutcome::NotLive, StepOutcome::Happened]);
        let verdict = build.check();
        (verdict.anomalies.iter().any(|one| one.kind == AnomalyKind::AcquiredLate), verdict.reasons.join("; "))
    };
    let (found, why) = late(Some(500), &|_| {});
    assert!(!found && why.contains("c2 held the lock, which was valid until 3.300 s"), "{why}");
    assert!(late(Some(100), &|_| {}).0, "its lock had expired by then");
    assert!(late(None, &|_| {}).0, "the end of its lock is unknown");
    assert!(late(Some(500), &|build| build.header().steals = true).0, "this lock may be stolen");
    let paused = |build: &mut Build| _ = build.fault(9, "c2", 2_850, 2_860);
    assert!(!late(Some(500), &paused).0, "the pause was over");
    assert!(late(Some(500), &|build: &mut Build| _ = build.fault(9, "c2", 2_850, 2_950)).0, "it was not at work");
}

#[test]
fn an_operation_that_ended_ok_had_its_lock_without_reporting_it() {
    let checked = |drops: bool, ended: u64| {
        let mut build = with_fault();
        build.header().claims = vec![Claim::Liveness];
        build.ok(1, 2_900, ended, "base", "next");
        play(&mut build, &[StepOutcome::Happened, StepOutcome::NotLive, StepOutcome::Happened]);
        if drops {
            for operation in &mut build.history.operations {
                operation.phases = operation.phases.iter().filter(|stamp| stamp.phase != Phase::Acquired).collect();
            }
        }
        let verdict = build.check();
        (verdict.anomalies.iter().any(|one| one.kind == AnomalyKind::AcquiredLate), verdict.reasons.join("; "))
    };
    assert!(!checked(true, 2_990).0 && !checked(false, 2_990).0, "it was over by then");
    let (late, why) = checked(true, 3_090);
    assert!(!late && why.contains("c1 does not report `acquired`"), "{why}");
    // A read without a lock has no such phase, and does not show whether the client reports its locks.
    let mut reads = with_fault();
    reads.header().claims = vec![Claim::Liveness];
    reads.read(1, 2_860, 2_880, "base").fail_on("base", 1, 2_900, 2_990);
    play(&mut reads, &[StepOutcome::Happened, StepOutcome::NotLive, StepOutcome::Happened]);
    assert!(reads.check().anomalies.iter().any(|one| one.kind == AnomalyKind::AcquiredLate));
}

#[test]
fn a_machine_that_stood_still_excuses_a_lock_that_is_late() {
    let late = |stall: Option<(u64, u64)>| {
        let mut build = with_fault();
        build.header().claims = vec![Claim::Liveness];
        build.fail_on("base", 1, 2_900, 2_990);
        build.history.brief_stalls.extend(stall.map(|(from, to)| (from * MS, to * MS)));
        play(&mut build, &[StepOutcome::Happened, StepOutcome::NotLive, StepOutcome::Happened]);
        let verdict = build.check();
        (verdict.valid, verdict.reasons.join("; "))
    };
    assert_eq!(late(None).0, Validity::Invalid);
    assert_eq!(late(Some((2_800, 2_910))).0, Validity::Invalid, "too short to matter");
    assert_eq!(late(Some((2_800, 2_890))).0, Validity::Invalid, "before it asked");
    let (valid, why) = late(Some((2_910, 2_960)));
    assert!(valid == Validity::Unknown && why.contains("the machine stood still for 50 ms"), "{why}");
}

#[test]
fn an_attempt_whose_own_connection_was_broken_was_kept_from_nothing() {
    let late = |what: &str, target: &str, struck: u64| {
        let mut build = with_fault();
        build.header().claims = vec![Claim::Liveness];
        build.fail_on("base", 1, 2_900, 2_990).fault(7, target, struck, struck + 5);
        let fault = build.history.faults.last_mut().unwrap();
        (fault.kind, fault.what) = (FaultKind::Call, what.to_string());
        play(&mut build, &[StepOutcome::Happened, StepOutcome::NotLive, StepOutcome::Happened]);
        build.check().anomalies.iter().any(|anomaly| anomaly.kind == AnomalyKind::AcquiredLate)
    };
    let reset = "reset after write client:1 and nodes";
    // The client's answer may be recorded before the report that the fault has fired.
    assert!(!late(reset, "c1", 2_950) && !late(reset, "c1", 2_995));
    assert!(!late("refuse each SET with OOM client:1 to nodes", "c1", 2_950), "the server itself refused it");
    assert!(late(reset, "c0", 2_950), "another's connection");
    assert!(late(reset, "c1", 2_890), "before it asked");
    assert!(late("hold reply to write client:1 from nodes", "c1", 2_950), "it is late, and not lost");
}

#[test]
fn as_much_must_be_acknowledged_meanwhile_as_the_nemesis_leaves() {
    only_fails("progress-during", "acknowledged, although none was expected", |build| {
        build.header().progress = Progress::None;
        delayed(build, "c1", 1_010, 1_400);
    });
    let quiet = |progress: Progress| {
        let mut build = Build::sound();
        build.header().faults_expected = true;
        build.header().progress = progress;
        // No operation both begins and ends during the fault.
        build.fault(0, "c1", 1_065, 1_095);
        build.check().valid
    };
    assert_eq!(quiet(Progress::None), Validity::Valid);
    assert_eq!(quiet(Progress::Any), Validity::Valid);
    let nothing_meanwhile = |progress: Progress| {
        let mut build = with_fault();
        build.header().progress = progress;
        build.history.operations.retain(|operation| {
            operation.key != "base" || !(1_000 * MS..=1_500 * MS).contains(&operation.completed.unwrap_or(0))
        });
        build.check().gates.into_iter().find(|gate| gate.name == "progress-during").unwrap().passed
    };
    assert!(!nothing_meanwhile(Progress::Some));
    assert!(nothing_meanwhile(Progress::Any) && nothing_meanwhile(Progress::None));
}

#[test]
fn a_client_that_a_fault_killed_is_excused_once_until_the_heal_and_not_after() {
    let steady = |kills: &[(u64, u64)], ends: &[u64]| {
        let mut build = Build::sound();
        for (number, (inject, heal)) in (0..).zip(kills) {
            build.fault(number, "c1", *inject, *heal);
            build.history.faults[number as usize].kind = FaultKind::Kill;
        }
        for at in ends {
            let event = ClientEvent { process: 1, step: ClientStep::Ended, text: "it ended".into(), nodes: Vec::new() };
            build.history.clients.push((at * MS, event));
        }
        build.check().gates.into_iter().find(|gate| gate.name == "clients-steady").unwrap().passed
    };
    assert!(steady(&[(30, 60)], &[40]), "it was to die");
    assert!(!steady(&[(30, 60)], &[20]), "before it was killed");
    assert!(!steady(&[(30, 60)], &[70]), "after it ran again");
    assert!(!steady(&[(30, 60)], &[40, 50]), "the second time it was somebody else");
    assert!(steady(&[(30, 60), (35, 90)], &[40, 80]), "two faults");
    assert!(steady(&[(30, 90), (35, 60)], &[40, 80]), "whichever of them ends first");
}

#[test]
fn a_client_that_a_fault_restarts_is_excused_at_both_restarts_and_not_in_between() {
    let steady = |ends: &[u64]| {
        let mut build = Build::sound();
        build.fault(0, "c1", 30, 60);
        let window = &mut build.history.faults[0];
        window.kind = FaultKind::Reconfigure;
        (window.injected, window.heal) = (Some((35 * MS, true)), Some(55 * MS));
        for at in ends {
            let event = ClientEvent { process: 1, step: ClientStep::Ended, text: "it ended".into(), nodes: Vec::new() };
            build.history.clients.push((at * MS, event));
        }
        build.check().gates.into_iter().find(|gate| gate.name == "clients-steady").unwrap().passed
    };
    assert!(steady(&[32, 58]));
    assert!(!steady(&[32, 45, 58]), "between the restarts it ended by itself");
    assert!(!steady(&[32, 33]), "each restart ends one process");
    assert!(!steady(&[70]), "after the heal");
}

#[test]
fn a_client_that_had_to_be_replaced_spoils_the_run() {
    only_fails("clients-steady", "c1 failed and was replaced at 0.005 s, and 1 more like this: it hangs", |build| {
        for (process, text) in [(1, "it hangs"), (0, "exit 1")] {
            let event = ClientEvent { process, step: ClientStep::Ended, text: text.into(), nodes: Vec::new() };
            build.history.clients.push((5_000_000, event));
        }
    });
}

#[test]
fn an_operation_that_was_cancelled_has_to_end_by_that() {
    let cancel = |build: &mut Build| {
        build.fail(0, 4_001, 4_005, "?", "never").operation(4_001).fails(Some("cancelled".into()), None);
        build.history.cancelled.insert(4_001, 4_003 * MS);
    };
    let mut build = with_fault();
    cancel(&mut build);
    let gate = build.check().gates.into_iter().find(|gate| gate.name == "cancellations-taken").unwrap();
    assert!(gate.passed && gate.text == "each of 1 cancelled operation ended as cancelled", "{}", gate.text);
    for (error, said) in [(Some("not-acquired"), "it ended with: not-acquired"), (None, "it still completed")] {
        let reason = format!("c0's operation was cancelled at 4.003 s, and {said}");
        only_fails("cancellations-taken", &reason, |build| {
            cancel(build);
            build.operation(4_001).fails(error.map(Into::into), None);
        });
    }
    assert!(with_fault().check().gates.iter().all(|gate| gate.name != "cancellations-taken"), "none was cancelled");
}

#[test]
fn a_program_that_ended_by_itself_is_told_as_that() {
    let reason = "c1 exited unexpectedly at 0.005 s, without a fault that kills it: it ended with exit code 3";
    only_fails("clients-steady", reason, |build| {
        let text = "it ended with exit code 3; last lines on standard error: unhandled".to_string();
        build
            .history
            .clients
            .push((5_000_000, ClientEvent { process: 1, step: ClientStep::Ended, text, nodes: Vec::new() }));
    });
}

#[test]
fn only_a_resource_in_doubt_takes_a_violation_back() {
    let violated = |name: FactName| {
        let mut build = Build::sound();
        build.ok(0, 4_001, 4_005, "-", "a").ok(1, 4_006, 4_009, "-", "b").final_read("b");
        build.history.facts.retain(|fact| fact.name != name);
        build.check()
    };
    assert_eq!(violated(FactName::ClientsReady).valid, Validity::Invalid);
    let verdict = violated(FactName::ResourceEmpty);
    assert_eq!((verdict.valid, verdict.anomalies.len()), (Validity::Unknown, 1));
    let undermining = verdict.gates.iter().filter(|gate| gate.undermines_violations);
    assert_eq!(undermining.map(|gate| gate.name.as_str()).collect::<Vec<_>>(), ["resource-empty"]);
}

#[test]
fn what_a_client_said_must_be_true_and_its_lock_outlast_its_write() {
    only_fails("clients-consistent", "c1 contradicts itself in line 7: released before it acquired", |build| {
        let text = "released before it acquired".to_string();
        build.history.contradictions.push(Contradiction { line: 7, process: Process::Client(1), text });
    });
    only_fails("clients-careful", "c0 had released the lock while its write of late was still in flight", |build| {
        build.info(0, 4_001, 4_032, "-", "late");
        build.phase(4_001, Phase::Acquired, 4_002).phase(4_001, Phase::BeforeWrite, 4_010);
        build.phase(4_001, Phase::Releasing, 4_030).phase(4_001, Phase::Released, 4_031);
        build.ok(1, 4_003, 4_080, "-", "early");
        build.phase(4_003, Phase::Acquired, 4_040).phase(4_003, Phase::Written, 4_060);
        build.phase(4_003, Phase::Releasing, 4_070);
        build.final_read("late");
    });
}

#[test]
fn the_run_must_have_come_to_its_end() {
    only_fails("completed", "cut off in the middle of line 77", |build| build.history.truncated_at_line = Some(77));
    only_fails("completed", "ends before the run does", |build| build.history.end = None);
    only_fails("completed", "Ctrl-C", |build| {
        build.history.end = Some(End { completed: false, text: "Ctrl-C".into() });
    });
}

/// Keeps this many acknowledged updates before, during and after the fault, so that only their number changes.
pub fn keep(build: &mut Build, count: usize) {
    let mut left = count;
    for operation in &mut build.history.operations {
        if operation.new.is_some() && !(8..8 + count as u64).contains(&(operation.index / 100)) {
            operation.outcome = Outcome::Fail;
            operation.old = model::history::Reading::Unknown;
        } else if operation.new.is_some() {
            left -= 1;
            operation.old = crate::kit::histories::reading(&match operation.index / 100 {
                8 => "-".to_string(),
                turn => format!("base:{}", turn - 1),
            });
        } else {
            operation.old = crate::kit::histories::reading(&format!("base:{}", 8 + count - 1));
        }
    }
    assert_eq!(left, 0);
}

#[test]
fn ten_acknowledged_updates_are_the_least() {
    only_fails("enough-acknowledged", "9 updates", |build| keep(build, 9));
    let mut build = with_fault();
    keep(&mut build, 10);
    assert_eq!(build.check().valid, Validity::Valid, "{:#?}", failed(&build));
}

#[test]
fn a_write_that_the_resource_acknowledged_counts_whatever_its_client_said() {
    let of = |written: bool| {
        let mut build = with_fault();
        keep(&mut build, 10);
        build.operation(1_701).outcome = Outcome::Info;
        if written {
            build.phase(1_701, Phase::Written, 1_801);
        }
        let verdict = build.check();
        let gate = verdict.gates.into_iter().find(|gate| gate.name == "enough-acknowledged").unwrap();
        (gate.passed, gate.text, verdict.lost_updates.acknowledged)
    };
    assert_eq!(of(true), (true, "10 updates acknowledged, of at least 10".to_string(), 10));
    assert_eq!(of(false), (false, "9 updates acknowledged, of at least 10".to_string(), 9));
}

/// Without a lock, clients report the start of their work, but never `acquired`.
fn without_a_lock(build: &mut Build) {
    for operation in &mut build.history.operations {
        operation.phases.edit(|stamps| {
            stamps.retain(|stamp| stamp.phase == Phase::Acquired);
            stamps.iter_mut().for_each(|stamp| stamp.phase = Phase::Acquiring);
        });
    }
    build.header().claims = vec![Claim::Updates];
}

#[test]
fn nothing_is_said_of_a_lock_where_there_is_none() {
    let of = |locks: bool| {
        let mut build = with_fault();
        if !locks {
            without_a_lock(&mut build);
        }
        let verdict = build.check();
        let met = verdict.gates.iter().find(|gate| gate.name == "faults-met-holds").unwrap().text.clone();
        (verdict.claim(Claim::MutualExclusion).is_some(), verdict.claim(Claim::Liveness).is_some(), met)
    };
    assert_eq!(of(true), (true, true, "1 of 1 fault hit while an affected client held the lock".to_string()));
    assert_eq!(of(false), (false, false, "1 of 1 fault hit while an affected client was at an update".to_string()));
}

#[test]
fn clients_must_have_contended() {
    only_fails("contention", "1 client had", |build| {
        build.header().clients = 1;
        delayed(build, "n0", 1_145, 1_330);
    });
    only_fails("contention", "no two clients contended for a key that both of them then updated", |build| {
        delayed(build, "c1", 1_010, 1_400);
        for operation in &mut build.history.operations {
            operation.completed = operation.completed.map(|time| time.min(operation.invoked + 99 * MS));
            operation.completed_index = operation.completed.map(|time| time / MS);
        }
    });
}

#[test]
fn faults_must_have_been_seen_and_healed() {
    only_fails("faults-observed", "state S", |build| {
        build.fault(1, "c2", 1_600, 1_700);
        build.history.faults[1].injected = Some((1_610 * MS, false));
        build.history.faults[1].texts.push("state S".into());
    });
    only_fails("faults-observed", "fault 1 on c2 was not", |build| {
        build.fault(1, "c2", 1_600, 1_700);
        build.history.faults[1].injected = None;
    });
    only_fails("faults-healed", "fault 0 on c1 was not", |build| {
        build.history.faults[0].healed = Some((1_500 * MS, false));
    });
    // A skipped fault is not a problem, unless it was the only fault.
    let mut build = with_fault();
    build.fault(1, "c2", 1_600, 1_700).history.faults[1].skipped = Some("no holder".into());
    assert_eq!(build.check().valid, Validity::Valid);
    build.history.faults.remove(0);
    let none = "no fault was injected: no holder";
    assert!(failed(&build).iter().any(|gate| gate.name == "faults-observed" && gate.text == none));
}

/// A pause that is reported as observed, although the paused client continues.
#[test]
fn who_stands_still_does_nothing() {
    let lasts = |build: &mut Build, target: &str| {
        build.history.faults.clear();
        build.fault(0, target, 1_010, 1_500);
    };
    only_fails(
        "faults-observed",
        "but c1 began and finished an operation in that time, from 1.301 s to 1.453 s",
        |build| {
            lasts(build, "c1");
        },
    );
    only_fails("faults-observed", "but store acknowledged a write of c2 in that time", |build| lasts(build, "store"));
    let excused = |change: &dyn Fn(&mut Build)| {
        let mut build = with_fault();
        lasts(&mut build, "c1");
        change(&mut build);
        let gates = failed(&build);
        assert!(gates.is_empty(), "{gates:#?}");
    };
    excused(&|build| build.history.faults[0].kind = FaultKind::Loss);
    // Without stamps, the client's message may have been sent before the pause, and the pause order may have arrived late.
    let unstamped = |build: &mut Build| {
        build.history.operations.iter_mut().for_each(|operation| operation.phases.each(|stamp| stamp.stamped = None));
        build.header().claims = vec![Claim::Updates];
    };
    excused(&|build| {
        unstamped(build);
        build.history.faults[0].injected = Some((1_302 * MS, true));
    });
    excused(&|build| {
        unstamped(build);
        build.history.faults[0].heal = Some(1_359 * MS);
    });
    // The heal of another pause, ordered as this one began, may have continued it. A pause that lasts longer kept it stopped.
    excused(&|build| _ = build.fault(1, "c1", 1_000, 1_010));
    only_fails("faults-observed", "but c1 began and finished an operation in that time", |build| {
        lasts(build, "c1");
        build.fault(1, "c1", 1_000, 1_030);
    });
}

/// The links that a fault cuts, each from sender to receiver.
type Links<'a> = &'a [(&'a str, &'a str)];

/// Expects this result for a fault from 1,010 to 1,500 ms with this kind, these links and these targets.
fn speaks_against(kind: FaultKind, links: Links, targets: &[&str], reason: Option<&str>, change: &dyn Fn(&mut Build)) {
    let changed = |build: &mut Build| {
        build.history.faults.clear();
        build.header().progress = Progress::Any;
        build.fault(0, "n0", 1_010, 1_500);
        let fault = &mut build.history.faults[0];
        let pairs = links.iter().map(|(from, to)| (from.to_string(), to.to_string()));
        (fault.kind, fault.links) = (kind, (!links.is_empty()).then(|| pairs.collect()));
        fault.targets = targets.iter().map(|target| target.to_string()).collect();
        if kind.needs.by_client {
            fault.what = "block client:0 for 490ms".to_string();
        }
        change(build);
    };
    match reason {
        Some(reason) => only_fails("faults-observed", reason, changed),
        None => {
            let mut build = with_fault();
            changed(&mut build);
            let gates = failed(&build);
            assert!(gates.is_empty(), "{kind:?} {links:?} {targets:?}: {gates:#?}");
        }
    }
}

#[test]
fn nobody_is_served_by_who_is_stopped_killed_or_cut_off() {
    use FaultKind::{Delay, Kill, Loss, Partition, Pause, PowerLoss};
    let as_it_is: &dyn Fn(&mut Build) = &|_| {};
    for kind in [Pause, Kill, PowerLoss] {
        speaks_against(
            kind,
            &[],
            &["n0"],
            Some("n0) was reported as active from 1.010 s to 1.500 s, but c2 acquired a lock in that time"),
            as_it_is,
        );
        speaks_against(
            kind,
            &[],
            &["resource"],
            Some("but resource acknowledged a write of c2 in that time"),
            as_it_is,
        );
        // Of three nodes, two continue. If all three are paused, none answers.
        let three: &dyn Fn(&mut Build) = &|build| build.header().nodes = 3;
        speaks_against(kind, &[], &["n0"], None, three);
        speaks_against(kind, &[], &["n0", "n1", "n2"], Some("when no node could answer it"), three);
    }
    speaks_against(Delay, &[], &["n0"], None, as_it_is);
    // Without a lock, clients do not ask nodes for one. So the fault hit no work.
    only_fails("faults-met-holds", "0 of 1 fault hit while an affected client was at an update", |build| {
        without_a_lock(build);
        build.history.faults[0].targets = vec!["n0".into()];
    });
    let everybody = ["c0", "c1", "c2", "n0"];
    let all = [("c0", "n0"), ("c1", "n0"), ("n0", "c2")];
    speaks_against(
        Partition,
        &all,
        &everybody,
        Some("(cut off n0) was reported as active from 1.010 s to 1.500 s, but c2 acquired"),
        as_it_is,
    );
    speaks_against(Partition, &[("c2", "n0")], &["c2", "n0"], Some("but c2 acquired a lock"), as_it_is);
    speaks_against(Partition, &[], &everybody, Some("but each client reached the node"), &|build| {
        build.history.faults[0].heal = Some(1_700 * MS);
        build.history.faults[0].healed = Some((1_700 * MS, true));
    });
    speaks_against(
        Partition,
        &[("c0", "resource"), ("c1", "resource"), ("resource", "c2")],
        &["c0", "c1", "c2", "resource"],
        Some("of c2"),
        as_it_is,
    );
    // The fault cuts off a client that does not exist, and no node from another node.
    speaks_against(Partition, &[("c4", "n0"), ("n0", "c4")], &["c4", "n0"], None, &|build| {
        build.header().progress = Progress::Any;
        build.history.faults[0].targets = vec!["c4".into(), "n0".into()];
    });
    speaks_against(Loss, &all, &everybody, None, as_it_is);
}

#[test]
fn each_kind_of_fault_is_refuted_by_what_it_rules_out_and_by_nothing_else() {
    let all = [("c0", "n0"), ("n0", "c0"), ("c1", "n0"), ("n0", "c1"), ("c2", "n0"), ("n0", "c2")];
    let others = [("c4", "n0"), ("n0", "c4")];
    let everybody = ["c0", "c1", "c2", "c4", "n0"];
    let got_it = Some("but c2 acquired a lock in that time");
    let as_it_is: &dyn Fn(&mut Build) = &|_| {};
    for &kind in FaultKind::ALL {
        match kind.does.rules_out {
            RulesOut::Acts | RulesOut::Answers => {
                speaks_against(kind, &[], &["n0"], got_it, as_it_is);
                speaks_against(kind, &[], &["n0"], None, &|build| build.header().nodes = 2);
                // A client that ends a fault by itself acts before the controller hears of the end.
                let shorter = |build: &mut Build| build.history.faults[0].what = "block client:0 for 20ms".to_string();
                speaks_against(kind, &[], &["n0"], got_it.filter(|_| !kind.needs.by_client), &shorter);
            }
            RulesOut::Writes => {
                speaks_against(kind, &[], &["n0"], got_it, as_it_is);
                speaks_against(kind, &[], &["n1"], None, as_it_is);
            }
            RulesOut::AnswersAcross => {
                speaks_against(kind, &all, &everybody, got_it, as_it_is);
                speaks_against(kind, &others, &everybody, None, as_it_is);
            }
            RulesOut::SoonAnswersAcross => {
                let late =
                    |ms: Option<u64>| move |build: &mut Build| build.history.faults[0].delay_ns = ms.map(|ms| ms * MS);
                speaks_against(kind, &all, &everybody, got_it, &late(Some(100)));
                speaks_against(kind, &others, &everybody, None, &late(Some(100)));
                speaks_against(kind, &all, &everybody, None, &late(Some(1)));
                speaks_against(kind, &all, &everybody, None, &late(None));
                // Packets that wait on a link continue at once when another fault on the link is healed.
                let healed_meanwhile = |links: [(&'static str, &'static str); 1]| {
                    move |build: &mut Build| {
                        let mut another = build.history.faults[0].clone();
                        build.history.faults[0].delay_ns = Some(100 * MS);
                        another.links =
                            Some(links.iter().map(|(from, to)| (from.to_string(), to.to_string())).collect());
                        for (fault, healed) in [(1, 1_130), (2, 1_430)] {
                            (another.fault, another.heal, another.healed) =
                                (fault, Some(healed * MS), Some((healed * MS, true)));
                            build.history.faults.push(another.clone());
                        }
                    }
                };
                let of_c2 = [("c2", "n0"), ("n0", "c2")];
                speaks_against(kind, &of_c2, &["c2", "n0"], None, &healed_meanwhile([("n0", "c2")]));
                speaks_against(kind, &of_c2, &["c2", "n0"], got_it, &healed_meanwhile([("n0", "c1")]));
            }
            RulesOut::AnswersToCommands => {
                let strikes = |effect: CallEffect, each: Option<Command>| {
                    move |build: &mut Build| {
                        let fault = &mut build.history.faults[0];
                        (fault.on_call, fault.on_each) = (Some(effect), each.clone());
                    }
                };
                let resource: Vec<(&str, &str)> = all
                    .iter()
                    .map(|(one, other)| if *one == "n0" { ("resource", *other) } else { (*one, "resource") })
                    .collect();
                let of_resource = ["c0", "c1", "c2", "resource"];
                for effect in [CallEffect::HoldRequest, CallEffect::HoldReply, CallEffect::LoseReply] {
                    speaks_against(kind, &all, &everybody, got_it, &strikes(effect, Some(Command::Write)));
                    speaks_against(kind, &all, &everybody, got_it, &strikes(effect, Some(Command::Any)));
                    let wrote = Some("but resource acknowledged a write of c2");
                    speaks_against(kind, &resource, &of_resource, wrote, &strikes(effect, Some(Command::Write)));
                    speaks_against(kind, &all, &everybody, None, &strikes(effect, None));
                    speaks_against(kind, &all, &everybody, None, &strikes(effect, Some(Command::Named("SET".into()))));
                }
                // A write in a transaction passes a refusal of writes, but MULTI is a command, too.
                speaks_against(kind, &all, &everybody, None, &strikes(CallEffect::Refuse, Some(Command::Write)));
                speaks_against(kind, &all, &everybody, got_it, &strikes(CallEffect::Refuse, Some(Command::Any)));
                speaks_against(kind, &all, &everybody, None, &strikes(CallEffect::CutConnection, Some(Command::Any)));
            }
            RulesOut::OldValues => {
                let mut build = with_fault();
                let (_, before, after) = read_later(&build.history);
                let fault = &mut build.history.faults[0];
                (fault.kind, fault.inject, fault.injected) = (kind, before + 1, Some((after - 1, true)));
                build.header().resource = ResourceKind::Replicated;
                let targets = |build: &mut Build, nodes: &[&str]| {
                    build.history.faults[0].targets = nodes.iter().map(|node| node.to_string()).collect();
                    failed(build).into_iter().find(|gate| gate.name == "faults-observed").map(|gate| gate.text)
                };
                let against = targets(&mut build, &["n0"]).expect("its value was kept");
                assert!(against.contains("still read"), "{against}");
                build.header().nodes = 2;
                assert_eq!(targets(&mut build, &["n0"]), None);
                assert!(targets(&mut build, &["n0", "n1"]).is_some());
                build.header().resource = ResourceKind::Register;
                assert_eq!(targets(&mut build, &["n0", "n1"]), None);
            }
            RulesOut::Nothing(why) => {
                assert!(!why.is_empty(), "{kind}: say why nothing refutes it");
                speaks_against(kind, &all, &everybody, None, as_it_is);
            }
        }
    }
}

#[test]
fn another_fault_on_the_same_member_ends_an_outage_only_from_its_own_change_on() {
    use FaultKind::{Kill, Pause};
    let got_it = Some("from 1.010 s to 1.500 s, but c2 acquired a lock in that time");
    let beside = |kind: FaultKind, node: &'static str, from: u64, to: u64| {
        move |build: &mut Build| {
            build.fault(1, node, from, to).history.faults[1].kind = kind;
            let over = build.history.faults[1].heal.max(build.history.faults[0].heal);
            build.history.last_time = build.history.last_time.max(over.unwrap());
        }
    };
    // c2 acquires the lock from 1,300 ms on.
    let acquired = {
        let build = with_fault();
        let of_c2 = |one: &&Operation| one.process == Process::Client(2) && one.invoked > 1_010 * MS;
        let operation = build.history.operations.iter().find(of_c2).unwrap();
        operation.phase(Phase::Acquired).unwrap().received / MS
    };
    for (kind, node, from, to) in [
        (Pause, "n0", acquired + 20, 1_600),
        (Kill, "n0", acquired + 20, 1_600),
        (Pause, "n1", 1_011, 1_100),
        // A node stays stopped until the last of its pauses is healed.
        (Pause, "n0", 1_000, 1_020),
        (Pause, "n0", 1_011, 1_020),
    ] {
        speaks_against(Pause, &[], &["n0"], got_it, &beside(kind, node, from, to));
    }
    // A pause never starts a node that was killed.
    speaks_against(Kill, &[], &["n0"], got_it, &beside(Pause, "n0", 1_011, 1_020));
    // Of two pauses that begin at once, the second one lasts until the first one is healed.
    speaks_against(Pause, &[], &["n0"], Some("but c2 acquired a lock in that time"), &|build| {
        build.fault(1, "n0", 1_010, 1_600).history.faults[0].heal = Some(1_500 * MS);
    });
    // A node that is killed and started again no longer stands still. A pause may have been healed as the next one began.
    for (kind, from, to) in [(Kill, 1_011, 1_020), (Pause, 1_000, 1_010)] {
        speaks_against(Pause, &[], &["n0"], None, &beside(kind, "n0", from, to));
    }
    speaks_against(Kill, &[], &["n0"], None, &beside(Kill, "n0", 1_011, 1_020));
    speaks_against(Kill, &[], &["n0"], got_it, &|build| {
        beside(Kill, "n0", 1_011, 1_020)(build);
        build.history.faults[1].texts.push("n0: gone (another fault still hits n0)".to_string());
    });
}

#[test]
fn an_outage_without_length_hits_nobody() {
    for kind in [FaultKind::Partition, FaultKind::Busy, FaultKind::RefuseWrites, FaultKind::Pause] {
        let gates = |until: u64| {
            let mut build = with_fault();
            build.history.faults.clear();
            build.header().progress = Progress::Any;
            build.fault(0, "n0", 1_010, until).history.faults[0].kind = kind;
            build.history.faults[0].injected = Some((1_010 * MS, true));
            failed(&build).into_iter().map(|gate| gate.name).collect::<Vec<_>>()
        };
        assert!(gates(1_010).iter().any(|name| name == "faults-met-holds"), "{kind}");
        assert!(!gates(1_100).iter().any(|name| name == "faults-met-holds"), "{kind}");
    }
}

#[test]
fn who_was_killed_never_acts_again_and_who_was_stopped_not_before_the_heal() {
    // c1 holds the lock from 1,060 ms on.
    let moved = |kind: FaultKind, from: u64, to: u64| {
        let mut build = with_fault();
        build.history.faults.clear();
        build.header().progress = Progress::Any;
        build.fault(0, "c1", from, to).history.faults[0].kind = kind;
        failed(&build).into_iter().find(|gate| gate.name == "faults-observed").map(|gate| gate.text)
    };
    let against = |kind, from, to| moved(kind, from, to).unwrap_or_default();
    let said = "fault 0 (pause c1) was reported as active from 1.020 s to 1.100 s, but c1 reported `acquired` at 1.060 s in that time";
    assert_eq!(against(FaultKind::Pause, 1_020, 1_100), said, "in an operation that began before");
    assert!(moved(FaultKind::Pause, 1_070, 1_130).is_none());
    assert!(against(FaultKind::Kill, 1_070, 1_080).contains("began and finished an operation"), "its process is gone");
    let mut replaced = with_fault();
    replaced.history.faults.clear();
    replaced.header().progress = Progress::Any;
    replaced.fault(0, "c1", 1_141, 1_200).history.faults[0].kind = FaultKind::Kill;
    for operation in replaced.history.operations.iter_mut().filter(|operation| operation.index > 1_200) {
        if operation.process == Process::Client(1) {
            operation.process = Process::Client(4);
        }
    }
    assert_eq!(failed(&replaced), [], "it goes on as another process");
}

#[test]
fn updates_must_have_been_acknowledged_before_during_and_after() {
    only_fails("progress-before", "0 updates", |build| build.history.faults[0].inject = 100 * MS);
    only_fails("progress-during", "0 updates", |build| delayed(build, "c1", 1_055, 1_100));
    only_fails("progress-after", "0 updates", |build| build.history.faults[0].healed = Some((9_000 * MS, true)));
    let mut build = with_fault();
    build.history.faults[0].healed = None;
    let names: Vec<String> = failed(&build).into_iter().map(|gate| gate.name).collect();
    assert_eq!(names, ["faults-healed", "progress-after"]);
}

#[test]
fn the_final_reads_must_be_in_the_history_and_come_last() {
    only_fails("final-reads", "base", |build| build.history.operations.retain(|operation| operation.new.is_some()));
    only_fails("final-reads", "base", |build| {
        let read = build.operation(9_990);
        (read.invoked, read.completed) = (3_000 * MS, Some(3_200 * MS));
        (read.index, read.completed_index) = (3_000, Some(3_200));
    });
}

#[test]
fn each_client_that_was_started_must_get_through() {
    only_fails("every-client", "c2 never had an update acknowledged", |build| {
        for operation in &mut build.history.operations {
            if operation.process == Process::Client(2) {
                operation.outcome = Outcome::Info;
            }
        }
    });
    only_fails("every-client", "c3 and c4 never", |build| {
        build.header().clients = 5;
        for operation in &mut build.history.operations {
            if let Process::Client(client) = &mut operation.process {
                *client %= 3;
            }
        }
    });
}

#[test]
fn contention_is_between_two_that_both_got_the_lock() {
    only_fails("contention", "no two clients", |build| {
        delayed(build, "c1", 1_010, 1_400);
        for operation in &mut build.history.operations {
            operation.completed = operation.completed.map(|time| time.min(operation.invoked + 99 * MS));
            operation.completed_index = operation.completed.map(|time| time / MS);
        }
        // Failed attempts overlap with everything.
        for turn in 0..30 {
            build.fail_on("base", turn as u32 % 3, 100 * turn + 4, 100 * turn + 99);
        }
    });
}

#[test]
fn a_fault_must_come_while_somebody_whom_it_concerns_has_the_lock() {
    let moved = |target: &'static str, from: u64, to: u64| {
        move |build: &mut Build| {
            build.header().progress = Progress::Any;
            delayed(build, target, from, to);
        }
    };
    let met = |target, from, to| {
        let mut build = with_fault();
        moved(target, from, to)(&mut build);
        build.check().valid
    };
    // c1 holds the lock from 1,060 to 1,153 ms; c2 holds it afterwards.
    assert_eq!(met("c1", 1_070, 1_080), Validity::Valid);
    assert_eq!(met("c1", 1_020, 1_065), Validity::Valid);
    assert_eq!(met("c1", 1_020, 1_060), Validity::Valid, "in the very moment");
    assert_eq!(met("n0", 1_165, 1_170), Validity::Valid, "what hits a node concerns whoever has the lock");
    only_fails("faults-met-holds", "0 of 1 fault hit while an affected client held", moved("c1", 1_020, 1_050));
    only_fails("faults-met-holds", "0 of 1 fault hit while", moved("c2", 1_070, 1_080));
    only_fails("faults-met-holds", "0 of 1 fault hit while", moved("c1", 1_160, 1_190));
}

#[test]
fn a_fault_that_by_its_own_record_did_nothing_hits_no_hold() {
    let did = |change: fn(&mut FaultWindow)| {
        move |build: &mut Build| {
            delayed(build, "n0", 1_165, 1_170);
            change(&mut build.history.faults[0]);
        }
    };
    let flushed =
        |fault: &mut FaultWindow, text: &str| (fault.kind, fault.texts) = (FaultKind::Flush, vec![text.into()]);
    let with_effect: [fn(&mut FaultWindow); 3] = [
        |fault| fault.delay_ns = Some(1),
        |fault| fault.clock_off_ns = Some(1),
        |fault| fault.links = Some(vec![("c4".into(), "n0".into())]),
    ];
    for change in with_effect {
        let mut build = with_fault();
        did(change)(&mut build);
        assert_eq!(build.check().valid, Validity::Valid, "{:#?}", failed(&build));
    }
    let without: [fn(&mut FaultWindow); 3] = [
        |fault| fault.delay_ns = Some(0),
        |fault| fault.clock_off_ns = Some(0),
        |fault| fault.links = Some(Vec::new()),
    ];
    for change in without {
        only_fails("faults-met-holds", "0 of 1 fault hit while", did(change));
    }
    for (text, nothing) in [("n0: 0 keys lost", true), ("n0: 0 keys lost; n1: 1 key lost", false)] {
        let mut window = FaultWindow::new(0, FaultKind::Flush);
        flushed(&mut window, text);
        assert_eq!(window.did_nothing(), nothing, "{text}");
    }
}

#[test]
fn a_kill_of_a_client_hits_the_killed_process_alone() {
    let build = with_fault();
    let mut kill = FaultWindow::new(0, FaultKind::Kill);
    (kill.inject, kill.targets) = (1_100 * MS, vec!["c1".into()]);
    let operation = build.history.operations.iter().find(|one| one.invoked < kill.inject).unwrap();
    assert!(kill.kills_clients() && kill.hits_process(operation, "c1") && !kill.hits_process(operation, "c0"));
    let later = Operation { invoked: kill.inject + 1, ..operation.clone() };
    assert!(!kill.hits_process(&later, "c1"));
    // A killed server is gone until the heal.
    kill.targets = vec!["c1".into(), "n0".into()];
    assert!(!kill.kills_clients() && kill.hits_process(&later, "c1"));
}

#[test]
fn a_fault_that_is_about_the_ttl_must_outlast_it() {
    // c1 has held the lock since 1,060 ms, with a TTL of one second.
    let lasting = |to: u64| {
        move |build: &mut Build| {
            build.header().outlives = Some(Outlives::Ttl);
            delayed(build, "n0", 1_070, to);
        }
    };
    only_fails("faults-met-holds", "0 of 1 fault outlasted the TTL", lasting(2_059));
    let mut build = with_fault();
    lasting(2_061)(&mut build);
    assert_eq!(build.check().valid, Validity::Valid, "{:#?}", failed(&build));
}

#[test]
fn what_comes_between_faults_is_no_progress_during_them() {
    only_fails("progress-during", "0 updates acknowledged while a fault was in effect", |build| {
        delayed(build, "c1", 1_055, 1_100);
        build.fault(1, "c1", 2_255, 2_300).history.faults[1].kind = FaultKind::Delay;
    });
}

#[test]
fn a_lock_that_does_not_expire_leaves_no_progress_while_its_holder_is_stopped() {
    let stopped = |validity: Option<u64>| {
        let mut build = with_fault();
        build.history.faults.clear();
        build.fault(0, "c1", 1_065, 1_135);
        build.operation(1_001).phases.edit(|stamps| stamps[0].validity_ms = validity);
        build.check().valid
    };
    assert_eq!(stopped(None), Validity::Valid);
    assert_eq!(stopped(Some(900)), Validity::Valid, "nor one that has not expired yet");
    assert_eq!(stopped(Some(50)), Validity::Unknown);
}

#[test]
fn a_fault_that_stops_a_majority_or_the_resource_leaves_no_progress() {
    let stopped = |nodes: u32, target: &str, kind: FaultKind| {
        let mut build = with_fault();
        build.header().nodes = nodes;
        build.history.faults.clear();
        // No operation ends during the fault, and no client holds the lock throughout.
        build.fault(0, target, 1_055, 1_100).history.faults[0].kind = kind;
        build.check().valid
    };
    assert_eq!(stopped(1, "n0", FaultKind::Pause), Validity::Valid);
    assert_eq!(stopped(1, "n0", FaultKind::Kill), Validity::Valid);
    assert_eq!(stopped(3, "store", FaultKind::Pause), Validity::Valid);
    assert_eq!(stopped(3, "n0", FaultKind::Pause), Validity::Unknown, "two of three go on");
    assert_eq!(stopped(1, "n0", FaultKind::Clock), Validity::Unknown, "it goes on by another clock");
}

#[test]
fn a_run_without_updates_says_what_its_clients_said_most_often() {
    let mut build = Build::new();
    for number in 0..7 {
        build.fail(number % 3, 10 * u64::from(number) + 1, 10 * u64::from(number) + 5, "?", &format!("v{number}"));
        let operation = build.operation(10 * u64::from(number) + 1);
        let text = if number < 2 { "rare" } else { "TypeError: a float and a tuple" };
        operation.fails(Some("crash".into()), Some(text.into()));
    }
    let reasons = |build: &Build| build.check().reasons.join("\n");
    let why = "5 attempts ended with: crash, TypeError: a float and a tuple; 0 updates acknowledged, of at least 10";
    let place = |build: &Build, reason: &str| {
        let reasons = build.check().reasons;
        reasons.iter().position(|said| said.starts_with(reason)).unwrap_or_else(|| panic!("{reason}: {reasons:#?}"))
    };
    // This reason comes before a script's lack of time, which it caused, but after a step that broke a script off.
    play(&mut build, &[StepOutcome::Happened]);
    assert!(place(&build, why) < place(&build, "the script stopped after step 1"));
    build.history.steps.clear();
    play(&mut build, &[StepOutcome::Happened, StepOutcome::Failed]);
    assert!(place(&build, "step 2, `expect client:1") < place(&build, why));
    assert!(!reasons(&Build::sound()).contains("ended with"));
}

/// A script keeps c1 at `before-write` from 4.02 s to 5.5 s, with a lock of one second. c2 acquires the lock at `taken`, and
/// writes; c1 overwrites this.
pub fn kept(build: &mut Build, taken: u64, meant: bool) {
    build.header().ttl_ms = 1_000;
    play(build, &[StepOutcome::Happened; 3]);
    build.ok_on("k", 1, 4_001, 5_510, "-", "kept");
    build.phase(4_001, Phase::Acquiring, 4_002).phase(4_001, Phase::Acquired, 4_010);
    build.phase(4_001, Phase::BeforeWrite, 4_020).phase(4_001, Phase::Written, 5_505);
    build.phase(4_001, Phase::Releasing, 5_506);
    build.ok_on("k", 2, 4_400, 5_210, "-", "lost").phase(4_400, Phase::Acquired, taken);
    build.phase(4_400, Phase::Releasing, 5_200);
    build.read_on("k", Process::Controller, 9_995, 9_996, "kept");
    let (time, go) = &mut build.history.steps[2];
    (*time, go.opens) = (5_500 * MS, vec![Opened { client: 1, from: Phase::BeforeWrite, meant }]);
}

#[test]
fn a_holder_that_only_the_script_kept_accuses_nobody() {
    let reason = "the script stopped c1 at `before-write` until 5.500 s, although its lock had expired at 5.010 s";
    only_fails("breakpoints-brief", reason, |build| kept(build, 5_050, false));

    let found = |change: &dyn Fn(&mut Build)| {
        let mut build = with_fault();
        change(&mut build);
        build.check().valid
    };
    assert_eq!(found(&|build| kept(build, 4_500, false)), Validity::Invalid, "its lock was taken from it in time");
    assert_eq!(found(&|build| kept(build, 5_050, true)), Validity::Invalid, "it was to be renewed");
    only_fails("breakpoints-brief", reason, |build| {
        kept(build, 5_050, false);
        // The controller was busy, and read c1's report of its lock half a second late.
        build.operation(4_001).phases.each(|stamp| {
            if matches!(stamp.phase, Phase::Acquiring | Phase::Acquired) {
                stamp.received += 495 * MS;
            }
        });
    });
    let paused = |build: &mut Build| {
        kept(build, 5_050, false);
        build.fault(1, "c1", 4_500, 5_490);
    };
    assert_eq!(found(&paused), Validity::Invalid, "it was paused when its lock ran out");
    let elsewhere = |build: &mut Build| {
        kept(build, 5_050, false);
        build.ok_on("other", 1, 6_001, 6_100, "-", "a").ok_on("other", 2, 6_002, 6_101, "-", "b");
        build.read_on("other", Process::Controller, 9_997, 9_998, "b");
    };
    assert_eq!(found(&elsewhere), Validity::Invalid, "another update was lost as well");
    let brief = |build: &mut Build| {
        kept(build, 5_050, false);
        build.history.steps[2].0 = 4_900 * MS;
    };
    assert_eq!(found(&brief), Validity::Invalid, "it was let go in time");
}

#[test]
fn a_reader_whom_only_the_script_kept_is_not_robbed_by_others_who_read() {
    let kept = |build: &mut Build, other_writes: bool| {
        build.header().ttl_ms = 1_000;
        play(build, &[StepOutcome::Happened; 3]);
        build.shared(1, 4_010, 5_506, "-");
        build.phase(4_009, Phase::Read, 4_020).operation(4_009).phases.edit(|stamps| stamps.swap(1, 2));
        match other_writes {
            true => build.update(0, 4_400, 4_420, "-", "a").update(2, 5_050, 5_200, "a", "b"),
            false => build.shared(0, 4_400, 4_420, "-").update(2, 5_050, 5_200, "-", "b"),
        };
        build.final_read("b");
        let (time, go) = &mut build.history.steps[2];
        (*time, go.opens) = (5_500 * MS, vec![Opened { client: 1, from: Phase::Read, meant: false }]);
    };
    only_fails("breakpoints-brief", "the script stopped c1 at `read` until 5.500 s", |build| kept(build, false));
    let mut robbed = with_fault();
    kept(&mut robbed, true);
    assert_eq!(robbed.check().valid, Validity::Invalid, "a writer had it when its time cannot have been over");
}
