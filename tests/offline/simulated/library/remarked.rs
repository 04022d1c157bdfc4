//! Remarks about behaviour that no claim covers.

use checker::properties::{busy_polling, false_losses, stray_commands};
use checker::{AnomalyKind, Validity};
use labs::library::examined::TriedRun;
use labs::library::kind::Baseline;
use labs::library::page::terminal;
use model::history::{self, FaultKind, FaultWindow, History, Phase, PhaseStamp, RecordedCommand};
use report::Look;

use super::{advised, examined, recorded, remark, remarked, run, run_of, run_that_releases_by, tried};

const MS: u64 = 1_000_000;

/// The text about a scenario with this run.
fn told(one: TriedRun) -> String {
    terminal(&examined(vec![tried("long-work", Baseline::Unknown, vec![one])]), Look::PLAIN)
}

/// A run that continues for this long after its client has released the lock.
fn left_for(ms: u64) -> History {
    let mut history = run_of(2);
    history.last_time = ms * MS;
    history
}

#[test]
fn what_a_client_sends_for_a_lock_that_it_has_given_back_is_told() {
    let renews = |ms: u64, from: &str| recorded(ms * MS, from, &["PEXPIRE", "lock:k0", "1000"]);
    let goes_on = |history: &History, command: RecordedCommand| remark(&stray_commands::DEF, history, &[command]);
    let found = goes_on(&left_for(2000), renews(900, "c0")).unwrap();
    let sent = "c0 sent PEXPIRE lock:k0 1000 900 ms after it had released the lock, which extends the TTL of a key";
    assert!(found.text == format!("{sent}; in total after 1 of 1 operation") && !found.disturbed, "{found:?}");
    assert_eq!((found.count, found.of), (1, 1));
    // A late packet, another client's command, another lock's command, and a command that does nothing to a lock.
    assert_eq!(goes_on(&left_for(2000), renews(400, "c0")), None);
    assert_eq!(goes_on(&left_for(2000), renews(900, "c1")), None);
    assert_eq!(goes_on(&left_for(2000), recorded(900 * MS, "c0", &["PEXPIRE", "lock:k1", "1000"])), None);
    assert_eq!(goes_on(&left_for(2000), recorded(900 * MS, "c0", &["UNSUBSCRIBE", "lock:k0"])), None);
    // A client that still holds the lock, and threads of a process, of which another may hold it.
    let mut holds = left_for(2000);
    holds.operations[0].completed = None;
    assert_eq!(goes_on(&holds, renews(900, "c0")), None);
    let mut by_threads = left_for(2000);
    by_threads.run.as_mut().unwrap().threads = 2;
    assert_eq!(goes_on(&by_threads, renews(900, "c0")), None);
    // A fault may have delayed the command.
    let mut faulty = left_for(2000);
    let mut window = FaultWindow::new(1, FaultKind::Pause);
    (window.inject, window.healed) = (100 * MS, Some((300 * MS, true)));
    faulty.faults.push(window);
    assert_eq!(goes_on(&faulty, renews(700, "c0")), None);
    assert!(goes_on(&faulty, renews(900, "c0")).is_some_and(|found| found.disturbed));

    let one = |history: &History| advised(&stray_commands::DEF, history, &[renews(900, "c0")]);
    let text = told(one(&left_for(2000)));
    let first = format!("Without any fault, the library sends lock commands after a release or without a lock: {sent}");
    assert!(text.lines().nth(1).is_some_and(|second| second.starts_with(&first)), "{text}");
    let text = told(one(&faulty));
    assert!(text.contains(sent) && !text.contains("Without any fault"), "{text}");
}

#[test]
fn a_loss_that_is_told_where_a_minority_of_the_nodes_is_struck_is_none() {
    // c0 is told before it writes, shortly after it has acquired the lock on three nodes.
    let lost_with = |struck: &[&str], kind| {
        let mut history = run_of(1);
        history.run.as_mut().unwrap().nodes = 3;
        let phases = &history.operations[0].phases;
        let stamp = phases.iter().find(|stamp| stamp.phase == Phase::BeforeWrite).unwrap();
        let lost = PhaseStamp { phase: Phase::Lost, received: 350, ..stamp };
        history.operations[0].phases = phases.iter().chain([lost]).collect();
        let mut window = FaultWindow::new(1, kind);
        window.targets = struck.iter().map(|name| name.to_string()).collect();
        history.faults.push(window);
        history
    };
    let at = |node: &str, words: &[&str], time| RecordedCommand { node: node.into(), ..recorded(time, "c0", words) };
    let set = |node: &str| at(node, &["SET", "lock:k0", "v", "NX", "PX", "1000"], 150);
    let told = |history: &History, commands: &[RecordedCommand]| false_losses::false_losses(history, commands).told;
    let left = [set("n1"), set("n2")];
    let one_down = lost_with(&["n0"], FaultKind::Kill);
    assert_eq!(told(&one_down, &left), 1);
    assert_eq!(told(&one_down, &[set("n0"), set("n1")]), 0, "it may have had no majority of those that are left");
    assert_eq!(told(&one_down, &[set("n1"), set("n2"), at("n2", &["DEL", "lock:k0"], 300)]), 0);
    assert_eq!(told(&lost_with(&["n0", "n1"], FaultKind::Kill), &left), 0, "a majority was struck");
    assert_eq!(told(&lost_with(&["c0"], FaultKind::Pause), &left), 0, "its client was struck");
    // It is unknown what another client may have left on a node.
    let mut after_another = one_down.clone();
    let earlier = history::Operation {
        index: 99,
        process: history::Process::Client(1),
        completed: None,
        ..one_down.operations[0].clone()
    };
    after_another.operations.push(earlier);
    assert_eq!(told(&after_another, &left), 0);

    let text = self::told(advised(&false_losses::DEF, &one_down, &left));
    assert!(text.contains("from the unaffected nodes, which are a majority (faults hit n0)"), "{text}");
    assert!(!text.contains("although its client still holds"), "{text}");
}

#[test]
fn who_hardly_rests_while_it_waits_is_told_so() {
    // The client waits for the lock for 300 ms.
    let waits = || {
        let mut history = run_that_releases_by(2, 600 * MS);
        let later = |stamp: PhaseStamp| {
            let received = if stamp.received > 110 { stamp.received + 300 * MS } else { stamp.received };
            PhaseStamp { received, ..stamp }
        };
        let phases: Vec<PhaseStamp> = history.operations[0].phases.iter().map(later).collect();
        history.operations[0].phases = phases.into_iter().collect();
        history
    };
    let asks = |times: u64, from: &str| -> Vec<RecordedCommand> {
        (0..times).map(|n| recorded(1_000 + n * 200 * MS / times, from, &["SET", "lock:k0", "v", "NX"])).collect()
    };
    let most_often = |history: &History, commands: &[RecordedCommand]| remark(&busy_polling::DEF, history, commands);
    let found = most_often(&waits(), &asks(300, "c0")).unwrap();
    assert_eq!((&*found.text, found.severity / 10), ("c0 asked n0 for the lock 999 times per second, for 300 ms", 99));
    assert_eq!(most_often(&waits(), &asks(60, "c0")), None, "200 times a second is no storm");
    assert_eq!(most_often(&waits(), &asks(300, "c1")), None);
    assert_eq!(most_often(&run_of(2), &asks(300, "c0")), None, "it hardly waits");
    let mut faulty = waits();
    faulty.faults.push(FaultWindow::new(1, FaultKind::Pause));
    assert_eq!(most_often(&faulty, &asks(300, "c0")), None);

    let text = told(advised(&busy_polling::DEF, &waits(), &asks(300, "c0")));
    assert!(text.contains("long-work: c0 asked n0 for the lock 999 times per second, for 300 ms"), "{text}");
    assert!(!told(run(Validity::Valid, None, "")).contains("Hardly rests"));
}

#[test]
fn what_a_library_says_that_is_not_so_is_told_once_of_each_kind() {
    let says = |kind: AnomalyKind, text: &str| remarked(kind.property().id, false, text);
    let all = vec![
        tried("late-release", Baseline::Unknown, vec![says(AnomalyKind::FalseRelease, "c0's release was answered")]),
        tried("pause", Baseline::Unknown, vec![says(AnomalyKind::FalseRelease, "c1's release was answered")]),
        tried("blocked-loop", Baseline::Unknown, vec![says(AnomalyKind::FalseOwnership, "c2 asked")]),
    ];
    let text = terminal(&examined(all), Look::PLAIN);
    assert!(text.contains("late-release: c0's release was answered; the same in 1 other scenario\n"), "{text}");
    assert!(text.contains("blocked-loop: c2 asked\n") && !text.contains("c1's release"), "{text}");
    assert!(!told(run(Validity::Valid, None, "")).contains("Says what is not so"));
}
