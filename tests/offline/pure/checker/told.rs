//! The texts about every kind of verdict: valid, invalid by each kind of anomaly, unknown for each reason.

use checker::properties::Property;
use checker::{AnomalyKind, Gap, Validity};
use model::history::{
    Amount, Claim, ClientEvent, ClientStep, Contradiction, Fact, FactName, Outcome, Phase, Process, Progress, Reading,
    ResourceKind, StepOutcome,
};
use report::{Report, RunFacts, Subject};
use summary::RunSummary;

use super::gates::{delayed, keep, kept, play, with_fault};
use crate::kit::histories::{Build, MS};

fn report_of<T>(build: &Build, read: impl FnOnce(&Report) -> T) -> T {
    let (verdict, facts) = (build.check(), RunFacts::default());
    let subject = Subject { scenario: None, history: &build.history, verdict: &verdict, facts: &facts };
    read(&Report::new(subject, None))
}

/// The summary's text after it was written and read back.
fn words(build: &Build) -> String {
    let summary: RunSummary = report_of(build, |report| {
        let again: RunSummary = serde_json::from_str(&report::results_json(report)).unwrap();
        let summary = &report.summary;
        assert_eq!((&again.headline, &again.incidents), (&summary.headline, &summary.incidents));
        assert_eq!((&again.claims, &again.gates, &again.faults), (&summary.claims, &summary.gates, &summary.faults));
        again
    });
    let mut lines = vec![summary.headline.clone()];
    // A reason that follows from another one has no advice of its own.
    assert_eq!(summary.advice.is_empty(), summary.valid != Validity::Unknown);
    for reason in &summary.reasons {
        lines.push(format!("  - {reason}"));
        lines.extend(summary.advice_on(reason).map(|advice| format!("    {}", advice.text)));
    }
    assert!(summary.advice.iter().all(|advice| summary.reasons.contains(&advice.reason)));
    for claim in &summary.claims {
        let name = claim.checked.claim.name();
        lines.push(format!("  {name}: {}: {}; {}", claim.standing_text, claim.found, claim.why));
    }
    lines.extend(summary.no_incident.iter().map(|text| format!("  {text}")));
    for incident in &summary.incidents {
        lines.push(format!("  {} ({}): {} {:?}", incident.what, incident.key, incident.text(), incident.lines()));
    }
    lines.join("\n") + "\n"
}

fn all_words(cases: &[(String, Build)]) -> String {
    cases.iter().map(|(name, build)| format!("== {name}\n{}", words(build))).collect::<Vec<_>>().join("\n")
}

/// A sound run with this change.
fn sound(change: impl FnOnce(&mut Build)) -> Build {
    let mut build = Build::sound();
    change(&mut build);
    build
}

/// A run with an anomaly of this kind, if a run can have one.
fn broken_by(kind: AnomalyKind) -> Build {
    match kind {
        AnomalyKind::LostUpdate => sound(|build| {
            build.ok(0, 4_001, 4_005, "-", "a").ok(1, 4_006, 4_009, "-", "b").final_read("b");
        }),
        AnomalyKind::StaleRead => sound(|build| {
            build
                .ok(0, 4_001, 4_005, "-", "a")
                .ok(1, 4_011, 4_015, "a", "b")
                .read(2, 4_021, 4_025, "a")
                .final_read("b");
        }),
        AnomalyKind::ImpossibleRead => sound(|build| {
            build.ok(0, 4_001, 4_005, "-", "a").read(1, 4_011, 4_015, "nowhere").final_read("a");
        }),
        AnomalyKind::OrderViolation => sound(|build| {
            build.info(0, 4_001, 4_002, "-", "a").info(1, 4_003, 4_004, "-", "b");
            build.read(2, 4_005, 4_006, "a").read(0, 4_007, 4_008, "b").final_read("b");
        }),
        AnomalyKind::OverlappingHolders => sound(|build| {
            build.hold(0, 4_100, 4_300).hold(1, 4_200, 4_400).final_read("-");
        }),
        AnomalyKind::TokenRegress => sound(|build| {
            build.header().claims.push(Claim::Tokens);
            for (invoked, token) in [(1, 9), (1_001, 3)] {
                build
                    .phase(invoked, Phase::Acquiring, invoked + 10)
                    .operation(invoked)
                    .phases
                    .edit(|stamps| stamps[0].token = Some(token));
            }
        }),
        AnomalyKind::NotObtained => super::liveness::never_back(),
        AnomalyKind::WrongAmount => sound(|build| {
            build.header().resource = ResourceKind::Counter;
            build.operation(9_990).amount = Some(Amount::Count(29));
        }),
        AnomalyKind::WriteInFlight => sound(|build| {
            build.info(0, 4_001, 4_032, "-", "late");
            build.phase(4_001, Phase::Acquired, 4_002).phase(4_001, Phase::BeforeWrite, 4_010);
            build.phase(4_001, Phase::Releasing, 4_030).phase(4_001, Phase::Released, 4_031);
            build.ok(1, 4_003, 4_080, "-", "early");
            build.phase(4_003, Phase::Acquired, 4_040).phase(4_003, Phase::Written, 4_060);
            build.phase(4_003, Phase::Releasing, 4_070).final_read("late");
        }),
        AnomalyKind::AcquiredLate => {
            let mut build = with_fault();
            build.header().claims = vec![Claim::Updates, Claim::Liveness];
            play(&mut build, &[StepOutcome::Happened, StepOutcome::NotLive, StepOutcome::Happened]);
            build.fail_on("base", 1, 2_900, 2_990);
            build
        }
        AnomalyKind::Unavailable => {
            let mut build = Build::new();
            build.header().claims = vec![Claim::Liveness];
            build.header().longest_gap_ms = Some(2_500);
            build.hold(0, 10, 1_000);
            build.rmw("k0", Outcome::Fail, 1, 500, Some(3_000), "?", "v1").phase(500, Phase::Acquiring, 500);
            build.rmw("k0", Outcome::Ok, 2, 2_900, Some(4_100), "?", "v2");
            build.phase(2_900, Phase::Acquired, 4_000).phase(2_900, Phase::Releasing, 4_050);
            build
        }
        AnomalyKind::WaitedTooLong => super::answers::waits(5_000),
        AnomalyKind::LeftBehind => {
            let mut build = super::answers::waits(900);
            let text = "`lock:k0` on n0, which never ends".to_string();
            build.history.facts.push(Fact { name: FactName::NothingEndless, holds: false, text });
            build.history.fact_lines = (0..build.history.facts.len() as u64).collect();
            build
        }
        AnomalyKind::FalseRelease
        | AnomalyKind::FalseOwnership
        | AnomalyKind::LateLossReport
        | AnomalyKind::ExpiredGrant => sound(|build| said(build, kind)),
        AnomalyKind::KeptOut => super::liveness::kept_out(),
        AnomalyKind::EndedByItself => sound(|build| {
            let text = "it ended with exit code 1; last lines on standard error: Error: unhandled rejection".into();
            build
                .history
                .clients
                .push((1_500 * MS, ClientEvent { process: 1, step: ClientStep::Ended, text, nodes: Vec::new() }));
        }),
    }
}

/// c0's lock expires and c1 acquires it, and a library gives a wrong answer.
fn said(build: &mut Build, kind: AnomalyKind) {
    build.header().claims = vec![Claim::Updates, kind.contradicts().unwrap()];
    build.header().lost_within_ms = Some(500);
    for (client, asked, acquired) in [(0, 4_100, 4_110), (1, 4_120, 5_115)] {
        build.rmw("k0", Outcome::Fail, client, asked - 1, Some(5_900 + asked), "?", &format!("v{asked}"));
        build.phase(asked - 1, Phase::Acquiring, asked).phase(asked - 1, Phase::Acquired, acquired);
        build.operation(asked - 1).fails(Some("unavailable".into()), None);
    }
    // c1 is still working when c0's message comes.
    build.phase(4_119, Phase::Owned, 5_300);
    match kind {
        AnomalyKind::FalseRelease => {
            build.phase(4_099, Phase::Releasing, 5_200).phase(4_099, Phase::Released, 5_210);
        }
        AnomalyKind::FalseOwnership => {
            build.phase(4_099, Phase::Owned, 5_200);
        }
        AnomalyKind::LateLossReport => {
            build.phase(4_099, Phase::Lost, 5_700);
        }
        _ => build.operation(4_099).phases.edit(|stamps| stamps[1].validity_ms = Some(0)),
    }
}

#[test]
fn every_kind_of_anomaly_has_its_words() {
    use AnomalyKind::*;
    let kinds = [
        LostUpdate,
        StaleRead,
        ImpossibleRead,
        OrderViolation,
        OverlappingHolders,
        TokenRegress,
        NotObtained,
        WrongAmount,
        WriteInFlight,
        AcquiredLate,
        Unavailable,
        WaitedTooLong,
        LeftBehind,
        FalseRelease,
        FalseOwnership,
        LateLossReport,
        ExpiredGrant,
        EndedByItself,
        KeptOut,
    ];
    let cases: Vec<(String, Build)> = kinds.map(|kind| (kind.name().to_string(), broken_by(kind))).into();
    for (kind, (name, build)) in kinds.iter().zip(&cases) {
        let verdict = build.check();
        assert!(verdict.anomalies.iter().any(|anomaly| anomaly.kind == *kind), "{name}: {:#?}", verdict.anomalies);
        // A client's own fault, which no lock can prevent, is not a violation, and no claim is about programs that end.
        let expected = if kind.contradicts().is_none() { Validity::Unknown } else { Validity::Invalid };
        assert_eq!(verdict.valid, expected, "{name}: {:?}", verdict.reasons);
    }
    insta::assert_snapshot!(all_words(&cases));
}

/// A run that only this gate keeps from being valid.
fn failing(gate: &str) -> Build {
    let mut build = with_fault();
    let without = |build: &mut Build, name: FactName| build.history.facts.retain(|fact| fact.name != name);
    match gate {
        "completed" => build.history.end = None,
        "resource-empty" => without(&mut build, FactName::ResourceEmpty),
        "clients-ready" => without(&mut build, FactName::ClientsReady),
        "nodes-ready" => without(&mut build, FactName::NodesReady),
        "nodes-healthy" => without(&mut build, FactName::NodesHealthy),
        "final-reads" => without(&mut build, FactName::FinalReads),
        "clients-steady" => {
            let text = "it ended with exit code 3; last lines on standard error: unhandled".to_string();
            build
                .history
                .clients
                .push((5 * MS, ClientEvent { process: 1, step: ClientStep::Ended, text, nodes: Vec::new() }));
        }
        "clients-consistent" => {
            let text = "released before it acquired".to_string();
            build.history.contradictions.push(Contradiction { line: 7, process: Process::Client(1), text });
        }
        "clients-careful" => build = broken_by(AnomalyKind::WriteInFlight),
        "script-played" => play(&mut build, &[StepOutcome::Happened, StepOutcome::Failed]),
        "faults-observed" => build.history.faults[0].injected = Some((1_150 * MS, false)),
        "faults-healed" => build.history.faults[0].healed = Some((1_500 * MS, false)),
        "faults-met-holds" => {
            build.header().progress = Progress::Any;
            delayed(&mut build, "c1", 1_160, 1_190);
        }
        "enough-acknowledged" => keep(&mut build, 9),
        "every-client" => {
            let of_c2 = build.history.operations.iter_mut().filter(|one| one.process == Process::Client(2));
            of_c2.for_each(|operation| operation.outcome = Outcome::Info);
        }
        "contention" => {
            build.header().clients = 1;
            delayed(&mut build, "n0", 1_145, 1_330);
        }
        "progress-before" => build.history.faults[0].inject = 100 * MS,
        "progress-during" => {
            build.header().progress = Progress::None;
            delayed(&mut build, "c1", 1_010, 1_400);
        }
        "progress-after" => build.history.faults[0].healed = Some((9_000 * MS, true)),
        "breakpoints-brief" => kept(&mut build, 5_050, false),
        other => panic!("no run fails {other}"),
    }
    build
}

/// A run without the evidence for a claim.
fn without_evidence(claim: Claim) -> Build {
    sound(|build| match claim {
        Claim::Updates => build.history.operations.iter_mut().for_each(|one| one.old = Reading::Unknown),
        Claim::MutualExclusion => {
            build
                .history
                .operations
                .iter_mut()
                .for_each(|operation| operation.phases.each(|stamp| stamp.stamped = None));
        }
        Claim::Tokens | Claim::Timeouts => build.header().claims.push(claim),
        Claim::Liveness => {
            build.header().claims = vec![claim];
            build.history.operations.clear();
        }
        Claim::Amounts => build.header().resource = ResourceKind::List,
        Claim::Releases | Claim::Ownership | Claim::Losses | Claim::Grants => unreachable!("{claim:?} needs none"),
    })
}

#[test]
fn every_reason_why_a_run_proves_nothing_has_its_words() {
    let mut scripted = with_fault();
    play(&mut scripted, &[StepOutcome::Happened; 3]);
    let mut gates: Vec<String> = Vec::new();
    for gate in with_fault().check().gates.into_iter().chain(scripted.check().gates) {
        if !gates.contains(&gate.name) {
            gates.push(gate.name);
        }
    }
    assert!(gates.len() >= 20, "{gates:?}");
    let mut cases: Vec<(String, Build)> = gates.iter().map(|gate| (gate.clone(), failing(gate))).collect();
    for (name, build) in &cases {
        let verdict = build.check();
        let failed = verdict.gates.iter().any(|gate| gate.name == *name && !gate.passed);
        assert!(failed && verdict.valid == Validity::Unknown, "{name}: {:?}", verdict.reasons);
    }
    for claim in Claim::ALL.iter().copied().filter(|claim| !Property::of(*claim).is_conditional()) {
        let build = without_evidence(claim);
        let verdict = build.check();
        let reason = format!("{}: ", claim.name());
        assert!(verdict.reasons.iter().any(|one| one.starts_with(&reason)), "{reason}{:?}", verdict.reasons);
        assert_eq!(verdict.valid, Validity::Unknown);
        cases.push((format!("no evidence for {}", claim.name()), build));
    }
    insta::assert_snapshot!(all_words(&cases));
}

#[test]
fn a_valid_run_says_what_it_stood() {
    let counter = sound(|build| {
        build.header().resource = ResourceKind::Counter;
        build.operation(9_990).amount = Some(Amount::Count(30));
    });
    let locks_only = sound(|build| {
        build.header().claims = vec![Claim::MutualExclusion];
        build.history.operations.iter_mut().for_each(|one| {
            (one.f, one.new, one.old) = match one.process {
                Process::Controller => (one.f, None, Reading::Empty),
                Process::Client(_) => (model::history::Function::Hold, None, Reading::Unknown),
            };
        });
    });
    let scripted = |outcomes: [StepOutcome; 3]| {
        let mut build = with_fault();
        play(&mut build, &outcomes);
        build.header().claims.push(Claim::Liveness);
        build
    };
    let cases = [
        ("no fault", Build::sound()),
        ("through a fault", with_fault()),
        ("through a script that expects acquisitions", scripted([StepOutcome::Happened; 3])),
        ("a counter", counter),
        ("locks without a resource", locks_only),
    ];
    for (name, build) in &cases {
        let verdict = build.check();
        assert_eq!(verdict.valid, Validity::Valid, "{name}: {:?}", verdict.reasons);
    }
    let praise = "Clients acquired the lock in time wherever the scenario expects it.";
    let headline = |build: &Build| report_of(build, |report| report.summary.headline.clone());
    assert!(headline(&scripted([StepOutcome::Happened; 3])).ends_with(praise));
    let [happened, went_on] = [StepOutcome::Happened, StepOutcome::WentOn];
    assert!(!headline(&scripted([happened, went_on, happened])).contains(praise));
    insta::assert_snapshot!(all_words(&cases.map(|(name, build)| (name.to_string(), build))));
}

#[test]
fn a_valid_run_does_not_praise_a_lock_that_let_two_clients_in() {
    let headline = |build: &Build| {
        let verdict = build.check();
        assert_eq!(verdict.valid, Validity::Valid, "{:?}", verdict.reasons);
        report_of(build, |report| report.summary.headline.clone())
    };
    let unclaimed = |change: fn(&mut Build)| {
        sound(|build| {
            build.header().claims = vec![Claim::Updates];
            change(build);
        })
    };
    assert_eq!(headline(&unclaimed(|_| {})), "The lock kept all 30 acknowledged updates.");
    let let_in = headline(&unclaimed(|build| {
        build.hold(0, 4_100, 4_300).hold(1, 4_200, 4_400).final_read("-");
    }));
    assert_eq!(
        let_in,
        "None of 30 acknowledged updates was lost, although the lock let two clients hold the lock at the same time (once)."
    );
    let lost = headline(&sound(|build| {
        build.header().claims = vec![Claim::MutualExclusion];
        build.update(0, 4_002, 4_004, "-", "a").update(1, 4_007, 4_009, "-", "b").final_read("b");
    }));
    let all_but = "The lock broke none of its claims, though 1 of 32 acknowledged updates was lost, and never let two clients hold the \
                   lock at once.";
    assert_eq!(lost, all_but);
}

#[test]
fn what_does_not_count_is_said_beside_what_does() {
    let claim = |excused: bool| {
        let build = sound(|build| {
            build.header().claims = vec![Claim::Grants];
            for (invoked, validity_ms) in [(1, 900), (1_001, 900), (2_001, if excused { 0 } else { 900 })] {
                let stamps = &mut build.phase(invoked, Phase::Acquiring, invoked + 10).operation(invoked).phases;
                stamps.edit(|stamps| stamps[0].validity_ms = Some(validity_ms));
            }
            if excused {
                build.fault(4, "c2", 2_020, 2_030);
            }
        });
        report_of(&build, |report| {
            let claim = report.summary.claims.iter().find(|one| one.checked.claim == Claim::Grants).unwrap();
            (claim.found.clone(), claim.is_spotless())
        })
    };
    assert_eq!(claim(false), ("each valid when it was handed out".to_string(), true));
    let told = "2 valid; 1 handed out with no validity left, after its client was paused: not counted";
    assert_eq!(claim(true), (told.to_string(), false));
}

/// The text of the first incident.
fn story(build: &Build) -> String {
    report_of(build, |report| report.summary.incidents[0].text())
}

#[test]
fn readers_that_have_a_lock_together_are_no_overlap() {
    let beside_writer = |until: u64| {
        sound(|build| {
            build.hold(2, 4_100, until).shared(0, 4_150, 4_400, "-").shared(1, 4_200, 4_500, "-").final_read("-");
        })
    };
    for (until, shared) in [(4_300, "150 ms"), (4_220, "70 ms")] {
        let told = story(&beside_writer(until));
        let sum = format!(
            "For at least {shared} in total, two or more of c2, c0 and c1 believed at the same time that they held the lock."
        );
        assert!(told.contains(&sum), "{told}");
    }
}

#[test]
fn what_several_holders_did_is_told_in_the_order_of_time() {
    let build = sound(|build| {
        build.shared(0, 4_100, 4_500, "-");
        for (client, taken, wrote, old, new) in [(1, 4_150, 4_300, "-", "a"), (2, 4_200, 4_350, "a", "b")] {
            build.update(client, taken, 4_450 + u64::from(client), old, new);
            let invoked = build.history.operations.iter().find(|one| one.new.as_deref() == Some(new)).unwrap().index;
            build.phase(invoked, Phase::BeforeWrite, wrote).phase(invoked, Phase::Written, wrote + 10);
        }
        build.final_read("b");
    });
    let told = story(&build);
    let places = [
        "c1 acquired the lock at 4.150 s",
        "c2 acquired the lock at 4.200 s",
        "At 4.300 s c1 wrote `a`",
        "At 4.350 s c2 wrote `b`",
    ]
    .map(|text| told.find(text).unwrap_or_else(|| panic!("{text} in {told}")));
    assert!(places.is_sorted(), "{told}");
}

#[test]
fn a_valid_run_never_hides_a_lock_that_was_out_of_reach() {
    let build = Build::sound();
    let (mut verdict, facts) = (build.check(), RunFacts::default());
    let mut headline = |to: u64| {
        verdict.lock.longest_gap = Some(Gap { key: "base".into(), from: 1_000 * MS, to: to * MS });
        let subject = Subject { scenario: None, history: &build.history, verdict: &verdict, facts: &facts };
        Report::new(subject, None).summary.headline
    };
    assert!(
        headline(8_000).ends_with(" However, no client acquired the free lock of base for 7 s."),
        "{}",
        headline(8_000)
    );
    assert!(!headline(2_000).contains("However"), "{}", headline(2_000));
}

#[test]
fn programs_read_all_that_people_read() {
    let json = report_of(&broken_by(AnomalyKind::LostUpdate), report::results_json);
    insta::assert_snapshot!(json);
}

/// Each update reads a value that no client wrote, so all updates but the last are lost together.
fn all_lost(updates: u64) -> Build {
    sound(|build| {
        for turn in 0..updates {
            let at = 10_000 + 10 * turn;
            build.ok(turn as u32 % 3, at, at + 5, &format!("x:{turn}"), &format!("c:{turn}"));
            build.phase(at, Phase::Acquired, at + 1).phase(at, Phase::Releasing, at + 4);
        }
        let end = 10_000 + 10 * updates;
        build.read_on("k0", Process::Controller, end, end + 1, "-");
    })
}

#[test]
fn losses_that_are_told_together_repeat_their_lines_only_while_they_are_few() {
    let told = |updates| {
        report_of(&all_lost(updates), |report| {
            let of_losses = report.summary.anomalies.iter().filter(|one| one.kind == AnomalyKind::LostUpdate);
            let incident = &report.summary.incidents[0];
            (of_losses.map(|one| one.lines.clone()).collect::<Vec<_>>(), incident.lines(), incident.lost.len() as u64)
        })
    };
    let (few, incident, lost) = told(20);
    assert_eq!((few.len(), lost), (20, 20));
    assert!(few.iter().all(|lines| *lines == incident));
    let (many, incident, lost) = told(3000);
    assert_eq!((many.len(), lost), (3000, 3000));
    let longest = many.iter().map(Vec::len).max();
    assert!(incident.len() > 3000 && longest < Some(20), "{longest:?} of {}", incident.len());
}
