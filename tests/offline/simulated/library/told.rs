//! The texts of a library's page.

use checker::Validity;
use checker::properties::early_refusals::{self, LockOccupancy};
use checker::properties::slow_releases as releases;
use checker::properties::{client_crashes, false_losses};
use labs::library::commands::{ObservedCommand, When};
use labs::library::examined::{Examined, Tried, TriedRun, share_by_itself};
use labs::library::kind::Baseline;
use labs::library::page::{html, terminal};
use labs::library::struck::{CommandEffect, FaultHit};
use model::history::{self, Phase, PhaseStamp, RecordedCommand};
use report::Look;

use super::{advised, command, examined, recorded, remark, remarked, run, run_of, run_that_releases_by, strike, tried};

#[test]
fn a_release_that_takes_long_is_told_unless_something_struck_its_client() {
    let slowest = |released: u64, whom: Option<&str>| {
        let mut history = run_that_releases_by(1, released);
        if let Some(whom) = whom {
            let mut window = history::FaultWindow::new(1, history::FaultKind::Kill);
            window.targets = vec![whom.into()];
            (window.inject, window.injected) = (50, Some((60, true)));
            history.faults.push(window);
        }
        (remark(&releases::DEF, &history, &[]), advised(&releases::DEF, &history, &[]))
    };
    let (slow, late) = slowest(11_200_000_400, Some("n1"));
    let slow = slow.unwrap();
    let text = "c0 took 11.2 s to release it, from 0.000 s on; meanwhile: kill of n1";
    assert_eq!((&*slow.text, slow.severity, slow.disturbed), (text, 11_200_000_000, true));
    assert!(slowest(3_000_000_400, None).0.is_some() && slowest(2_999_000_400, None).0.is_none());
    assert!(slowest(11_200_000_400, Some("c0")).0.is_none());

    let late = TriedRun { valid: Some(Validity::Unknown), ..late };
    let all = examined(vec![
        tried("one-node-down", Baseline::Unknown, vec![late]),
        tried("pause", Baseline::Falls, vec![run(Validity::Valid, None, "")]),
    ]);
    let told = "one-node-down: c0 took 11.2 s to release it, from 0.000 s on; meanwhile: kill of n1";
    assert!(terminal(&all, Look::PLAIN).contains(told), "{}", terminal(&all, Look::PLAIN));
    assert!(html(&all).contains("c0 took 11.2 s to release it"));
}

/// The history of [`run_of`] with one client, which ends by itself at 480 ns.
fn run_that_ends(how: &str) -> history::History {
    let mut history = run_of(1);
    let event = |step, text: &str| history::ClientEvent { process: 0, step, text: text.into(), nodes: Vec::new() };
    history.clients.push((480, event(history::ClientStep::Ended, how)));
    history
}

#[test]
fn a_program_that_ends_by_itself_is_told_first_unless_something_was_done_by_then() {
    let how = "it ended with exit code 1; last lines on standard error: Error: no such script (store/runs/one/c0/client.log) (failure 1 in a row)";
    let ends = |history: &history::History| {
        remark(&client_crashes::DEF, history, &[]).map(|remark| (remark.text, remark.disturbed))
    };
    let said = "it ended with exit code 1; last lines on standard error: Error: no such script";
    let ended = |disturbed| (said.to_string(), disturbed);
    assert_eq!(ends(&run_that_ends(how)), Some(ended(false)));
    let hit = |inject, skipped: Option<&str>| {
        let mut history = run_that_ends(how);
        let mut window = history::FaultWindow::new(1, history::FaultKind::Pause);
        window.targets = vec!["n0".into()];
        (window.inject, window.skipped) = (inject, skipped.map(str::to_string));
        history.faults.push(window);
        ends(&history)
    };
    assert_eq!(hit(100, None), Some(ended(true)));
    assert!([hit(481, None), hit(100, Some("nobody is there"))].iter().all(|end| *end == Some(ended(false))));
    // The sender of that signal is unknown, and redjepsen itself ends a client that sends invalid messages.
    assert!(ends(&run_that_ends("it ended with exit code 137 (SIGKILL); said nothing on standard error")).is_none());
    assert!(ends(&run_that_ends("it sent no JSON")).is_none() && ends(&run_of(1)).is_none());
    let mut cancelled = run_that_ends(how);
    let step = history::StepEvent {
        number: 1,
        step: "cancel client:0".into(),
        outcome: history::StepOutcome::Happened,
        text: String::new(),
        missed: None,
        expects: None,
        opens: Vec::new(),
    };
    cancelled.steps.push((300, step));
    assert_eq!(ends(&cancelled), Some(ended(true)));
    let later = |threads| {
        let mut history = run_that_ends(how);
        history.clients[0].0 = 600;
        history.run.as_mut().unwrap().threads = threads;
        ends(&history).unwrap().0
    };
    assert_eq!(later(1), format!("{said}; it held no lock then"));
    assert_eq!(later(2), said, "which of them had one is not known");
    // The end of the client's program ends its operation shortly before the end is reported. The operation's answer or release is
    // certain.
    let last = |outcome, acquired, released| {
        let mut history = run_that_ends(how);
        let operation = &mut history.operations[0];
        (operation.outcome, operation.completed) = (outcome, Some(479));
        let is_told = |stamp: &PhaseStamp| match stamp.phase {
            Phase::Acquiring => true,
            Phase::Released => released,
            _ => acquired,
        };
        let phases = operation
            .phases
            .iter()
            .filter(is_told)
            .map(|stamp| PhaseStamp { received: stamp.received.min(470), ..stamp });
        operation.phases = phases.collect();
        ends(&history).unwrap().0.ends_with("; it held no lock then")
    };
    use history::Outcome::{Fail, Info, Ok};
    assert!(!last(Info, true, false) && !last(Info, false, false) && !last(Fail, true, false));
    assert!(last(Info, true, true) && last(Fail, false, false) && last(Fail, true, true) && last(Ok, true, false));
    let mut stalled = run_that_ends(how);
    stalled.stalls.push((400, 470));
    assert!(ends(&stalled).is_none());

    let that_ended = |faulty| {
        let mut history = run_that_ends(how);
        if faulty {
            history.faults.push(history::FaultWindow::new(1, history::FaultKind::Pause));
        }
        TriedRun { valid: Some(Validity::Unknown), ..advised(&client_crashes::DEF, &history, &[]) }
    };
    let of = |runs| examined(vec![tried("none", Baseline::Unknown, runs)]);
    let all = of(vec![run(Validity::Valid, None, ""), that_ended(true)]);
    let text = terminal(&all, Look::PLAIN);
    assert!(
        text.contains("The client's program exits under a fault that ends no process")
            && !text.contains("exits without"),
        "{text}"
    );
    let headline = text.lines().next().unwrap();
    assert!(headline.ends_with("Its program exits under a fault in 1 scenario."), "{headline}");
    let all = of(vec![run(Validity::Valid, None, ""), that_ended(false)]);
    let text = terminal(&all, Look::PLAIN);
    let told = format!("The client exits although no fault hit it, in 1 of 2 runs: {said}.");
    assert_eq!(text.lines().nth(1), Some(&*told), "{text}");
    let page = html(&all);
    assert!(page.find("in 1 of 2 runs: it ended with exit code 1") < page.find("Commands of the library"), "{page}");
    assert!(page.contains("EXITS"), "{page}");
    let none = of(vec![run(Validity::Valid, None, "")]);
    assert!(!terminal(&none, Look::PLAIN).contains("exits without") && !html(&none).contains("EXITS"));
    assert!(html(&none).contains("PASSES"));
}

/// c1 asks at 100 ms, would wait for 1 s, and is refused after this many milliseconds. c0 holds the lock from 50 ms to `held`.
fn refused(after: u64, held: u64, error: &str) -> history::History {
    let header = r#"{"index":0,"time":0,"type":"run","run":{"format":1,"redjepsen":"0.1.0","workload":"w","nemesis":"none","seed":1,"clients":2,"nodes":1,"keys":1,"ttl_ms":1000,"acquire_timeout_ms":1000,"time_limit_ms":9000,"resource":"register","claims":["updates"],"faults_expected":false,"script_steps":0,"progress":"any","started":"2026-11-24T00:00:00Z"}}"#;
    let at = |ms: u64| ms * 1_000_000;
    let mut lines: Vec<(u64, String)> = [
        (10, r#""type":"invoke","process":0,"f":"rmw","key":"k0","value":[null,"c0:0"]"#.to_string()),
        (50, r#""type":"phase","process":0,"phase":"acquired""#.into()),
        (held, r#""type":"phase","process":0,"phase":"releasing""#.into()),
        (held + 5, r#""type":"phase","process":0,"phase":"released""#.into()),
        (held + 6, r#""type":"ok","process":0,"f":"rmw","key":"k0","value":[null,"c0:0"]"#.into()),
        (100, r#""type":"invoke","process":1,"f":"rmw","key":"k0","value":[null,"c1:0"]"#.into()),
        (100 + after, format!(r#""type":"fail","process":1,"f":"rmw","key":"k0","value":[null,"c1:0"],{error}"#)),
    ]
    .into();
    lines.sort();
    let lines = lines
        .iter()
        .enumerate()
        .map(|(place, (ms, rest))| format!(r#"{{"index":{},"time":{},{rest}}}"#, place + 1, at(*ms)));
    let text = std::iter::once(header.to_string()).chain(lines).collect::<Vec<_>>().join("\n") + "\n";
    history::load_reader(text.as_bytes(), "a test").unwrap()
}

#[test]
fn who_is_refused_long_before_the_time_is_told_so_where_the_lock_was_held_and_nothing_done() {
    let refusal = r#""error":"not-acquired","text":"taken""#;
    let early = |history: &history::History| {
        let refusals = early_refusals::early(history, LockOccupancy::ByOthers);
        (refusals.early, refusals.of)
    };
    assert_eq!(early(&refused(300, 700, refusal)), (1, 1));
    assert_eq!(early(&refused(500, 700, refusal)), (0, 1));
    // A free lock and an absent server are different cases.
    let of_free = |after, held| {
        let refusals = early_refusals::early(&refused(after, held, refusal), LockOccupancy::ByNobody);
        (refusals.early, refusals.of)
    };
    // One of two attempts: c0's own attempt found the lock free as well.
    assert_eq!((of_free(300, 90), of_free(500, 90)), ((1, 2), (0, 2)));
    assert_eq!(of_free(300, 98), (0, 1), "it was given back only when the attempt had begun");
    assert_eq!(of_free(300, 700), (0, 1));
    assert_eq!(early(&refused(300, 90, refusal)), (0, 0));
    assert_eq!(early(&refused(300, 700, r#""error":"not-acquired","text":"Connection reset""#)), (0, 1));
    assert_eq!(early(&refused(300, 700, r#""error":"unavailable","text":"taken""#)), (0, 1));
    let mut faulty = refused(300, 700, refusal);
    faulty.faults.push(history::FaultWindow::new(1, history::FaultKind::Pause));
    assert_eq!(early(&faulty), (0, 0));
    let mut scripted = refused(300, 700, refusal);
    scripted.run.as_mut().unwrap().script_steps = 3;
    assert_eq!(early(&scripted), (0, 0));

    let of = |after| advised(&early_refusals::DEF, &refused(after, 900, refusal), &[]);
    let told = |runs| terminal(&examined(vec![tried("none", Baseline::Unknown, runs)]), Look::PLAIN);
    let text = told(vec![of(400), of(300), of(600)]);
    let line = "none: an attempt with a timeout of 1 s was refused after 300 ms while another client held the lock; refused early: 1 of 1 attempt; the same in 1 other run, in total 2 of 2 attempts\n";
    assert!(
        text.contains("The library gives up before its time limit. This violates no claim") && text.contains(line),
        "{text}"
    );
    let first = "Without any fault, the library gives up before its time limit: an attempt with a timeout of 1 s was refused after 300 ms";
    let together = |line: &str| line.starts_with(first) && line.ends_with("in total 2 of 2 attempts.");
    assert!(text.lines().nth(1).is_some_and(together), "{text}");
    let of_free = advised(&early_refusals::DEF, &refused(300, 90, refusal), &[]);
    let text = told(vec![of_free.clone(), of_free]);
    let line = "was refused after 300 ms while no client held the lock; refused early: 1 of 2 attempts; the same in 1 other run, in total 2 of 4 attempts\n";
    assert!(text.contains(line), "{text}");
    // A single case may be an accident.
    assert!(!told(vec![of(400), of(600)]).contains("Without any fault"));
    assert!(!told(vec![of(600)]).contains("gives up before"));
    let page = html(&examined(vec![tried("none", Baseline::Unknown, vec![of(300)])]));
    assert!(page.contains("an attempt with a timeout of 1 s was refused after 300 ms"), "{page}");
}

#[test]
fn who_is_told_of_a_loss_while_it_has_the_lock_is_told_so() {
    // The client is told before it writes.
    let lost_at = |lost: u64| {
        let mut history = run_of(1);
        let phases = &history.operations[0].phases;
        let stamp = phases.iter().find(|stamp| stamp.phase == Phase::BeforeWrite).unwrap();
        let lost = PhaseStamp { phase: Phase::Lost, received: lost, ..stamp };
        history.operations[0].phases = phases.iter().chain([lost]).collect();
        history
    };
    let keeps = [recorded(150, "c0", &["SET", "lock:k0", "v", "NX", "PX", "1000"])];
    let told = |history: &history::History, commands: &[RecordedCommand]| {
        let losses = false_losses::false_losses(history, commands);
        (losses.told, losses.of, losses.soonest.map(|soonest| soonest.after))
    };
    assert_eq!(told(&lost_at(350), &keeps), (1, 1, Some(150)));
    assert_eq!(told(&run_of(1), &keeps), (0, 1, None));
    // The message may be true if any client removed the key, or if the nodes' commands were not recorded.
    let removes = [keeps[0].clone(), recorded(340, "script", &["UNLINK", "lock:k0"])];
    assert_eq!(told(&lost_at(350), &removes).0, 0);
    assert_eq!(told(&lost_at(350), &[]).0, 0);
    assert_eq!(told(&lost_at(350), &[recorded(150, "c0", &["SET", "lock:k1", "v", "NX"])]).0, 0);
    // It may also be true if the lock may have expired by then: through a short TTL, or an expiry at a time of day.
    for (words, false_losses) in [
        (&["SET", "lock:k0", "v", "NX", "PX", "1000"][..], 1),
        (&["SET", "lock:k0", "v", "EX", "1"], 1),
        (&["PEXPIRE", "lock:k0", "1000"], 1),
        (&["SET", "lock:k0", "v", "NX", "PX", "400"], 0),
        (&["EXPIRE", "lock:k0", "0"], 0),
        (&["SET", "lock:k0", "v", "NX", "PX", "much"], 0),
        (&["PEXPIREAT", "lock:k0", "1700000000000"], 0),
    ] {
        assert_eq!(told(&lost_at(350), &[recorded(150, "c0", words)]).0, false_losses, "{words:?}");
    }
    let other = [keeps[0].clone(), recorded(340, "script", &["UNLINK", "lock:k1"])];
    assert_eq!(told(&lost_at(350), &other).0, 1);
    // A release may have removed the key itself and still report a loss.
    let by_release = |commands: &[RecordedCommand]| {
        false_losses::false_losses(&lost_at(450), commands).soonest.is_some_and(|soonest| soonest.by_release)
    };
    let and = |time, from, name| [keeps[0].clone(), recorded(time, from, &[name, "lock:k0"])];
    assert!(by_release(&keeps) && by_release(&and(20_000_000, "c0", "DEL")));
    assert!(!by_release(&and(440, "c1", "DEL")) && !by_release(&and(350, "c0", "DEL")));
    // It is not false either if it comes late in the TTL, or after a fault.
    assert_eq!(told(&lost_at(600_000_000), &keeps).0, 0);
    let mut faulty = lost_at(350);
    faulty.faults.push(history::FaultWindow::new(1, history::FaultKind::Pause));
    assert_eq!(told(&faulty, &keeps).0, 0);

    let with = advised(&false_losses::DEF, &lost_at(350), &keeps);
    let text = terminal(&examined(vec![tried("long-work", Baseline::Unknown, vec![with])]), Look::PLAIN);
    let first = "Without any fault, the library reports a loss although its client still holds the lock: the library reported the lock as lost 0 ms after";
    assert!(text.lines().nth(1).is_some_and(|second| second.starts_with(first)), "{text}");
    assert!(
        text.contains("The library reports a lost lock while its client holds the lock. This violates no claim"),
        "{text}"
    );
}

#[test]
fn a_finding_is_told_as_its_runs_report_tells_it() {
    let account = "c1 took the lock at 0.310 s, while c0 still held it. c0 wrote at `0.350` s. ".repeat(3);
    let found = TriedRun { account: account.clone(), ..run(Validity::Invalid, Some(When::Taking), "lost update") };
    let all = examined(vec![tried("late-acquire-reply", Baseline::Holds, vec![found])]);
    let text = terminal(&all, Look::PLAIN);
    let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        unwrapped.contains("passes c1 took the lock at 0.310 s, while c0 still held it. c0 wrote at 0.350 s."),
        "{text}"
    );
    assert!(
        text.lines().filter(|line| line.contains("c1 took the lock") || line.contains("c0 wrote")).count() > 1,
        "{text}"
    );
    assert!(html(&all).contains("<p>c1 took the lock at 0.310"), "{}", html(&all));
    let silent = examined(vec![tried("late", Baseline::Holds, vec![run(Validity::Invalid, None, "lost update")])]);
    assert!(!html(&silent).contains("<p></p>"));
}

#[test]
fn where_most_scenarios_show_nothing_that_is_said_first() {
    use Validity::{Invalid, Unknown, Valid};
    let of = |each: &[Validity]| {
        let one = |valid: &Validity| tried("x", Baseline::Unknown, vec![run(*valid, None, "lost update")]);
        examined(each.iter().map(one).collect())
    };
    let told = |each: &[Validity]| terminal(&of(each), Look::PLAIN).lines().next().unwrap_or_default().to_string();
    assert_eq!(
        told(&[Valid, Valid, Unknown, Unknown, Unknown]),
        "Only 2 of 5 scenarios were conclusive for mine 1.0: it passed all of them."
    );
    assert_eq!(
        told(&[Invalid, Unknown, Unknown]),
        "Only 1 of 3 scenarios was conclusive for mine 1.0: it fails 1 of 1 scenario: 1 without an explanation."
    );
    assert_eq!(told(&[Valid, Valid, Unknown, Unknown]), "mine 1.0 passed all 2 conclusive scenarios.");
    let page = |each: &[Validity]| html(&of(each));
    assert!(page(&[Valid, Unknown, Unknown]).contains("TOO FEW RUNS") && page(&[Valid]).contains("PASSES"));
}

#[test]
fn what_broke_with_no_fault_comes_first_even_if_not_every_time() {
    let run = |valid, when, anomaly: &str| TriedRun { struck: Vec::new(), ..run(valid, when, anomaly) };
    let plain = |runs| Tried { plain: true, ..tried("none", Baseline::Unknown, runs) };
    let sometimes = vec![
        run(Validity::Valid, None, ""),
        run(Validity::Invalid, None, "lost update"),
        run(Validity::Valid, None, ""),
    ];
    let own = || tried("late-acquire-reply", Baseline::Holds, vec![run(Validity::Invalid, Some(When::Taking), "x")]);
    let all = examined(vec![own(), plain(sometimes)]);
    let text = terminal(&all, Look::PLAIN);
    assert!(text.starts_with("mine 1.0 fails 2 of 2 scenarios: "), "{text}");
    assert!(text.lines().next().unwrap().ends_with("; without injected faults it fails in 1 of 3 runs."), "{text}");
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(place("Fails without injected faults") < place("Library defect"), "{text}");
    assert!(
        place("without any fault: lost update, in 1 of 3 runs of 1 scenario; not in every run")
            < place("Library defect")
    );
    let page = html(&all);
    let places = ["Fails without injected faults", "Library defect", "Commands of the library"]
        .map(|what| page.find(what).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    assert!(!terminal(&examined(vec![own()]), Look::PLAIN).contains("Fails without injected faults"));
}

#[test]
fn symptoms_of_one_cause_stand_together_and_those_of_the_kind_come_last() {
    use Baseline::{Falls, Holds, Unknown};
    use Validity::{Invalid, Valid};
    let lost = |when| vec![run(Invalid, when, "lost update")];
    let all = examined(vec![
        tried("pause", Falls, lost(Some(When::Holding))),
        tried("late-acquire-reply", Holds, lost(Some(When::Taking))),
        tried("odd", Unknown, lost(None)),
        tried("late-release", Unknown, vec![run(Valid, Some(When::Releasing), "")]),
        tried("pause-before-reply", Holds, vec![run(Valid, None, ""), run(Invalid, Some(When::Taking), "lost update")]),
        tried("late-extension", Unknown, vec![run(Validity::Unknown, None, "")]),
    ]);
    let symptoms: Vec<Vec<&str>> =
        all.symptoms().iter().map(|one| one.tried.iter().map(|tried| &*tried.scenario).collect()).collect();
    assert_eq!(symptoms, [vec!["late-acquire-reply", "pause-before-reply"], vec!["odd"], vec!["pause"]]);
    assert_eq!(
        (all.that(Validity::Invalid).len(), all.that(Validity::Valid).len(), all.that(Validity::Unknown).len()),
        (4, 1, 1)
    );
    let text = terminal(&all, Look::PLAIN);
    let headline = "mine 1.0 fails 4 of 5 scenarios: 1 that similar locks also fail (a lock with a TTL, on one node); 2 that \
    the reference lock `single` passes; 1 without an explanation.";
    assert!(text.starts_with(headline), "{text}");
    // Unexplained violations are not called the library's own.
    let (own, rest) = text.split_once("Not explained").unwrap();
    assert!(own.contains("late-acquire-reply") && !own.contains("odd ("), "{text}");
    assert!(rest.contains("odd (1 of 1 run)") && rest.contains("late-release: c0's 1st SET"), "{text}");
    // One line for each cause: the command, the incident, the number of runs, and the result of a lock of its kind.
    let line = "SET while it acquires the lock: lost update, in 2 of 3 runs of 2 scenarios; `single` passes";
    assert!(own.contains(line), "{text}");
    assert!(rest.contains("the command changed the lock's key by SET (once)"), "{text}");
    let page = html(&all);
    assert!(page.contains(r#"href="../runs/one/report.html""#) && page.contains("it has no primary"), "{page}");
}

#[test]
fn what_does_not_happen_every_time_or_only_late_is_not_certain() {
    let runs = |kept: &[bool], valid: &[Validity]| {
        let run = |(kept, valid): (&bool, &Validity)| TriedRun { timing_was_kept: *kept, ..run(*valid, None, "") };
        tried("x", Baseline::Holds, kept.iter().zip(valid).map(run).collect()).is_certain()
    };
    use Validity::{Invalid, Unknown, Valid};
    assert!(runs(&[true, false, true], &[Invalid, Invalid, Unknown]));
    assert!(!runs(&[true, true], &[Invalid, Valid]));
    assert!(!runs(&[false], &[Invalid]));
}

/// A violation without any fault comes first, and is not attributed to faults of other scenarios.
#[test]
fn what_breaks_by_itself_is_no_faults_doing() {
    use Baseline::{Holds, Unknown};
    let broken =
        |anomaly: &str| TriedRun { struck: Vec::new(), when: Vec::new(), ..run(Validity::Invalid, None, anomaly) };
    let plain = |runs| Tried { plain: true, ..tried("none", Holds, runs) };
    let valid = || run(Validity::Valid, None, "");
    // Without faults, two violations are enough, while a fault must have the same result each time. A single violation may come
    // from the machine.
    assert!(plain(vec![valid(), broken("lost update"), broken("lost update")]).is_certain());
    assert!(!plain(vec![valid(), broken("lost update")]).is_certain());
    assert!(!tried("pause", Holds, plain(vec![valid(), broken("x"), broken("x")]).runs).is_certain());
    let by = |tried: &[Tried], anomaly: &str| share_by_itself(tried, anomaly, false).is_some();
    let alone = [plain(vec![broken("lost update")])];
    // A lock with two holders loses updates by chance; a lock that no client can acquire is another defect.
    assert!(by(&alone, "lost update") && by(&alone, "two holders at once"));
    assert!(!by(&alone, "lock acquired late"));
    assert!(!by(&[plain(vec![valid()])], "lost update"));
    assert!(!by(&[tried("pause", Holds, vec![broken("lost update")])], "lost update"));
    let struck = || vec![run(Validity::Invalid, Some(When::Taking), "two holders at once")];
    let [one] = alone;
    let text = terminal(&examined(vec![tried("late-acquire-reply", Unknown, struck()), one]), Look::PLAIN);
    assert!(text.starts_with("mine 1.0 fails even without injected faults; it fails 2 of 2 scenarios: "), "{text}");
    let (own, rest) = text.split_once("Not explained").unwrap();
    assert!(own.contains("without any fault: lost update, in 1 of 1 run of 1 scenario; `single` passes"), "{text}");
    assert!(rest.contains("two holders at once, in 1 of 1 run of 1 scenario; also fails without a fault"), "{text}");
    // A single violation in two runs may come from the machine.
    let once = examined(vec![plain(vec![valid(), broken("lost update")])]);
    assert!(terminal(&once, Look::PLAIN).starts_with("mine 1.0 fails 1 of 1 scenario"));
    // Violations of threads in one program do not excuse violations of a single client per program.
    let by_threads = |broken: &str| Tried { by_threads: true, ..plain(vec![run(Validity::Invalid, None, broken)]) };
    let threads = [by_threads("lost update")];
    assert!(!by(&threads, "lost update") && share_by_itself(&threads, "lost update", true).is_some());
    let runs = vec![broken("lost update"), broken("lost update")];
    let crowds = |processes: Option<Validity>| {
        let crowd =
            |valid| Tried { plain: true, ..tried("crowd-of-processes", Holds, vec![run(valid, None, "lost update")]) };
        let threads = Tried { runs: runs.clone(), ..by_threads("lost update") };
        terminal(&examined([threads].into_iter().chain(processes.map(crowd)).collect()), Look::PLAIN)
    };
    let told = crowds(None);
    assert!(
        told.contains(
            "without any fault, if threads share a process (there is no conclusive run with one process per client)"
        ),
        "{told}"
    );
    let told = crowds(Some(Validity::Invalid));
    assert!(!told.contains("by threads that share a program"), "as many processes break it too: {told}");
    let told = crowds(Some(Validity::Valid));
    assert!(
        told.starts_with("mine 1.0 fails even without injected faults, if threads share a process; it fails"),
        "{told}"
    );
    assert!(told.contains("without any fault, if threads share a process: lost update, in 2 of 2 runs"), "{told}");
    // If the lock passes without faults, the page does not mention this.
    let held = examined(vec![plain(vec![valid()]), tried("late-acquire-reply", Holds, struck())]);
    let text = terminal(&held, Look::PLAIN);
    assert!(
        text.starts_with("mine 1.0 fails 1 of 2 scenarios") && !text.contains("also fails without a fault"),
        "{text}"
    );
}

#[test]
fn who_names_no_key_is_told_that_nothing_of_it_was_struck() {
    let told = |key: Option<&str>| {
        let sent = vec![ObservedCommand { key: key.map(str::to_string), ..command(When::Taking, "SET") }];
        terminal(&Examined { sent, ..examined(Vec::new()) }, Look::PLAIN)
            .contains("no command contains the operation's key")
    };
    assert_eq!((told(None), told(Some("lock:k0"))), (true, false));
}

#[test]
fn where_nothing_was_shown_nothing_is_claimed() {
    let nothing = examined(vec![tried("pause", Baseline::Unknown, vec![run(Validity::Unknown, None, "")])]);
    let text = terminal(&nothing, Look::PLAIN);
    assert!(text.starts_with("No result for mine 1.0: no run was conclusive."), "{text}");
    assert!(!html(&nothing).contains("KNOWN LIMITATIONS"));
    let held = examined(vec![tried("pause", Baseline::Unknown, vec![run(Validity::Valid, None, "")])]);
    assert!(terminal(&held, Look::PLAIN).starts_with("mine 1.0 passed all 1 conclusive scenario"), "held");
}

#[test]
fn few_runs_and_defects_beside_the_claims_are_not_called_withstood() {
    let held = |name: &str| tried(name, Baseline::Unknown, vec![run(Validity::Valid, None, "")]);
    let first = |examined: &Examined| terminal(examined, Look::PLAIN).lines().next().unwrap_or_default().to_string();
    // With three of forty runs, nothing is known.
    let few = Examined { not_made: 37, ..examined(vec![held("a"), held("b"), held("c")]) };
    let said = first(&few);
    assert!(said.starts_with("Too few runs of mine 1.0 yet: redjepsen has run 3 of 40 runs so far"), "{said}");
    assert!(!said.contains("passed") && !html(&few).contains("PASSES"));
    let all = Examined { not_made: 0, ..few };
    assert_eq!(first(&all), "mine 1.0 passed all 3 conclusive scenarios.");
    // A violation is known, however few runs there are.
    let fell = tried("x", Baseline::Holds, vec![run(Validity::Invalid, None, "lost update")]);
    assert!(first(&Examined { not_made: 37, ..examined(vec![fell]) }).starts_with("mine 1.0 fails 1 of 1 scenario"));
    // The library says that it lost a lock that it still holds.
    let false_loss =
        TriedRun { valid: Some(Validity::Unknown), ..remarked("false-losses", false, "a holder was told") };
    let mut of = vec![held("a")];
    of.extend((0..6).map(|_| tried("x", Baseline::Unknown, vec![false_loss.clone()])));
    let said = first(&examined(of));
    assert_eq!(
        said,
        "mine 1.0 shows 1 defect even in runs without injected faults; only 1 of 7 scenarios was conclusive, and the library did not fail it."
    );
    let ended = remarked("client-crashes", true, "it ended");
    let beside = examined(vec![held("a"), tried("b", Baseline::Unknown, vec![ended])]);
    assert!(first(&beside).starts_with("mine 1.0 has 1 kind of defect that violates no claim"), "{}", first(&beside));
    assert!(!html(&beside).contains("PASSES"));
}

#[test]
fn break_without_a_fault_that_is_seldom_does_not_explain_one_that_comes_every_time() {
    let broken = || run(Validity::Invalid, None, "two holders at once");
    let held = || run(Validity::Valid, None, "");
    let struck = |runs| tried("late-release", Baseline::Holds, runs);
    let plain = |broke: usize, of: usize| Tried {
        plain: true,
        ..tried("none", Baseline::Holds, (0..of).map(|nth| if nth < broke { broken() } else { held() }).collect())
    };
    let may_be = |share, runs| struck(runs).may_be_chance(share);
    let share = |plain: &Tried| share_by_itself([plain], "lost update", false);
    assert_eq!((share(&plain(1, 5)), share(&plain(0, 5))), (Some((1, 5)), None));
    assert!(!may_be((1, 5), vec![broken(), broken(), broken()]));
    assert!(may_be((1, 5), vec![broken()]), "once is no proof");
    assert!(may_be((1, 5), vec![broken(), held(), broken()]), "not in every run");
    assert!(may_be((4, 5), vec![broken(), broken(), broken()]), "it happens anyway");
    let page = examined(vec![struck(vec![broken(), broken(), broken()]), plain(1, 5)]);
    let told = terminal(&page, Look::PLAIN);
    assert!(told.contains("`single` passes; without a fault it fails in 1 of 5 runs"), "{told}");
}

#[test]
fn why_a_strike_is_not_blamed_is_said() {
    let late = TriedRun { timing_was_kept: false, ..run(Validity::Invalid, Some(When::Taking), "lost update") };
    let told = |change: &dyn Fn(Tried) -> Tried| {
        let one = change(tried("taking-set-late-reply", Baseline::Unknown, vec![late.clone()]));
        terminal(&examined(vec![one]), Look::PLAIN)
    };
    let never_quiet = told(&|one| one);
    assert!(
        never_quiet.contains("timers were late in each of these runs, and there was no time to rerun one alone"),
        "{never_quiet}"
    );
    let alone = told(&|one| Tried { tried_alone: true, ..one });
    assert!(alone.contains("in each of these runs, also in the run without parallel load"), "{alone}");
    let in_time = vec![TriedRun { timing_was_kept: true, ..late.clone() }];
    let without = told(&|one| Tried { without_strike: true, runs: in_time.clone(), ..one });
    assert!(without.contains("the same steps also fail without the fault"), "{without}");
}

#[test]
fn a_strike_that_changed_nothing_of_the_lock_counts_as_nothing_tried() {
    let of = |when, did, was_kept_away| {
        let struck = FaultHit { was_kept_away, ..strike(when, "EVAL", did) };
        let mut run = TriedRun { struck: vec![struck], ..run(Validity::Valid, when, "") };
        let came = tried("x", Baseline::Unknown, vec![run.clone()]).outcome();
        // A violation counts, wherever the fault fired.
        run.valid = Some(Validity::Invalid);
        assert_eq!(tried("x", Baseline::Unknown, vec![run]).outcome(), Validity::Invalid);
        came
    };
    let looked = || CommandEffect::Nothing(vec!["EVALSHA".into(), "GET".into()]);
    let releasing = Some(When::Releasing);
    assert_eq!(of(releasing, CommandEffect::Changed(vec!["DEL".into()]), false), Validity::Valid);
    assert_eq!(of(releasing, CommandEffect::Unknown, false), Validity::Valid);
    assert_eq!(of(releasing, looked(), false), Validity::Unknown);
    // A late release need not change anything, and a waiting client has nothing to change.
    assert_eq!(of(releasing, looked(), true), Validity::Valid);
    assert_eq!(of(Some(When::Waiting), looked(), false), Validity::Valid);
    let vain = TriedRun { struck: vec![strike(releasing, "EVAL", looked())], ..run(Validity::Valid, releasing, "") };
    let text = terminal(&examined(vec![tried("late", Baseline::Unknown, vec![vain])]), Look::PLAIN);
    assert!(text.contains("late: the fault had no effect: c0's 1st EVAL"), "{text}");
    assert!(text.contains("the command changed nothing about the lock (EVALSHA and GET)"), "{text}");
}
