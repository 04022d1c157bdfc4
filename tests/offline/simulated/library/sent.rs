//! A library's commands, and the commands at which faults fired.

use std::path::Path;

use labs::library::commands::{ObservedCommand, RenewalMode, When, is_renewed, only_in, sent, upkeep};
use labs::library::releases::reach_again;
use labs::library::strikes::{Scripted, scenarios};
use labs::library::struck::{CommandEffect, FaultHit, struck, struck_when};
use model::history::{self, RecordedCommand};
use model::scenario::Options;
use runner::simulate::simulate;

use super::{command, recorded, run_of, run_with, setting};

#[test]
fn a_command_that_the_node_refused_is_told_apart_from_one_that_never_came() {
    let scenarios = scenarios(&[command(When::Taking, "SET"), command(When::Releasing, "EVAL")], &setting(1, true));
    let run = |name: &str| {
        let scripted = scenarios.iter().find(|one| one.name == name).unwrap();
        simulate(&run_with(scripted, "single", 1)).unwrap().history
    };
    let did = |history: &history::History, commands: &[RecordedCommand]| {
        let [struck] = &struck(history, commands)[..] else { panic!("{:?}", history.faults) };
        (struck.did.clone(), struck.to_string())
    };
    let refused = run("taking-set-refused");
    let (was, told) = did(&refused, &[]);
    assert!(was == CommandEffect::Refused && told.ends_with("; the node refused the command"), "{told}");
    assert_ne!(did(&run("releasing-eval-late-request"), &[]).0, CommandEffect::Refused);
    // A node does not report the commands that it refuses, but it reports commands that are sent again.
    let healed = |kind| refused.faults.iter().find(|fault| fault.kind == kind).and_then(|fault| fault.heal).unwrap();
    let set = |time| vec![recorded(time, "c0", &["SET", "lock:k0", "v", "NX"])];
    let after_all = healed(history::FaultKind::RefuseWrites) + 1_000_000;
    assert_eq!(did(&refused, &set(after_all)).0, CommandEffect::Refused);
    let at_once = healed(history::FaultKind::Call) + 1_000_000;
    assert_eq!(did(&refused, &set(at_once)).0, CommandEffect::Changed(vec!["SET".into()]));
}

#[test]
fn who_renews_a_lock_is_told_by_a_holder_that_a_script_keeps() {
    let scenario = Options::default().scenario("redlock-watchdog", "long-work", 1, Path::new("")).unwrap();
    let history = simulate(&scenario).unwrap().history;
    let (go, _) = history.steps.iter().find(|(_, step)| step.step.starts_with("go client:0")).unwrap();
    let renews = [command(When::Holding, "PEXPIRE")];
    let by = |from: &str, words: &[&str], time: u64| {
        let kept = (history.clone(), vec![recorded(time, from, words)]);
        upkeep(&renews, Some(&kept))
    };
    let pexpire = ["PEXPIRE", "lock:k0", "1000"];
    let kept = go - 500_000_000;
    assert_eq!(by("c0", &pexpire, kept), RenewalMode::InTheBackground);
    // An early command may be left over from the client's previous hold.
    let (began, _) = history.steps.iter().find(|(_, step)| step.step.starts_with("start client:0 to read")).unwrap();
    assert_eq!(by("c0", &pexpire, began + 100_000_000), RenewalMode::ByItsHolder);
    // By the holder after its pause, by no client during the pause, by another client, or not a renewal.
    assert_eq!(by("c0", &pexpire, go + 1_000_000), RenewalMode::ByItsHolder);
    assert_eq!(by("c1", &pexpire, kept), RenewalMode::ByItsHolder);
    assert_eq!(by("c0", &["GET", "lock:k0"], kept), RenewalMode::ByItsHolder);
    assert_eq!(upkeep(&renews, None), RenewalMode::ByItsHolder);
    // A client that only reads the lock's key, a client that also changes it, and a client that does not touch it.
    let holding = |names: &[&str]| {
        let sent: Vec<ObservedCommand> = names.iter().map(|name| command(When::Holding, name)).collect();
        upkeep(&sent, None)
    };
    assert_eq!(holding(&["GET"]), RenewalMode::Asked);
    assert_eq!(holding(&["GET", "INCR"]), RenewalMode::None);
    assert_eq!(holding(&["UNSUBSCRIBE"]), RenewalMode::None, "that asks nothing");
    assert_eq!(holding(&["UNSUBSCRIBE", "PTTL"]), RenewalMode::Asked);
    assert_eq!(holding(&["EVAL"]), RenewalMode::None, "nobody knows what it called");
    let of_a_script = |calls: &[&str]| {
        let calls = calls.iter().map(|name| name.to_string()).collect();
        upkeep(&[ObservedCommand { calls, ..command(When::Holding, "EVAL") }], None)
    };
    assert_eq!(of_a_script(&["GET"]), RenewalMode::Asked);
    assert_eq!(of_a_script(&["GET", "HSET"]), RenewalMode::None);
    let elsewhere = ObservedCommand { key: None, ..command(When::Holding, "GET") };
    assert_eq!(upkeep(&[elsewhere], None), RenewalMode::None);
}

#[test]
fn commands_are_told_apart_by_what_their_client_was_doing() {
    let commands = vec![
        recorded(50, "c0", &["SET", "lock:k0", "before"]),
        recorded(120, "c0", &["CLIENT", "SETNAME", "k0"]),
        recorded(130, "c1", &["SET", "lock:k0", "another"]),
        recorded(150, "c0", &["SET", "lock:k0", "a-value-that-is-longer-than-any-word", "NX"]),
        recorded(250, "c0", &["PEXPIRE", "lock:k0", "1000"]),
        recorded(410, "c0", &["EVALSHA", "0123456789012345678901234567890123456789", "1", "lock:k0"]),
        recorded(411, "script", &["GET", "lock:k0"]),
        recorded(412, "script", &["DEL", "lock:k0"]),
        recorded(600, "c0", &["GET", "lock:k0"]),
    ];
    let seen = sent(&[(run_of(1), commands)]);
    let told: Vec<String> =
        seen.iter().map(|sent| format!("{}: {} [{}]", sent.when, sent.example, sent.calls.join(" "))).collect();
    assert_eq!(
        told,
        [
            "while it acquires the lock: SET lock:k0 … NX []",
            "while it holds the lock: PEXPIRE lock:k0 1000 []",
            "while it releases the lock: EVAL… 1 lock:k0 [GET DEL]".replace("EVAL…", "EVALSHA …").as_str(),
        ]
    );
    assert_eq!(seen[2].name, "EVAL");
    assert!(is_renewed(&seen));
    assert!(!is_renewed(&seen[..1]));
    // A client that only checks whether it still holds the lock renews nothing.
    let looks = ObservedCommand { calls: vec!["GET".into()], ..command(When::Holding, "EVAL") };
    assert!(!is_renewed(&[looks.clone(), command(When::Holding, "GET")]));
    assert!(is_renewed(&[ObservedCommand { calls: vec!["GET".into(), "PEXPIRE".into()], ..looks }]));
}

/// Runs of one client: one in which it holds the lock for 1.3 TTL, and one in which it holds it for 0.2 s repeatedly. The
/// commands come this long after the acquisition or, if `released`, after the client has released the lock.
fn long_and_short(after: u64, released: bool) -> [(history::History, Vec<RecordedCommand>); 2] {
    [("1.3ttl..1.4ttl", "6s"), ("0.2ttl..0.3ttl", "4s")].map(|(hold, time_limit)| {
        let options = Options {
            hold: hold.parse().ok(),
            clients: Some(1),
            time_limit: time_limit.parse().ok(),
            ..Options::default()
        };
        let history = simulate(&options.scenario("single", "none", 1, Path::new("")).unwrap()).unwrap().history;
        let phase = if released { history::Phase::Released } else { history::Phase::Acquired };
        let mut commands = Vec::new();
        for operation in &history.operations {
            let at = |phase| operation.phase(phase).map(|stamp| stamp.time());
            let Some(acquired) = at(history::Phase::Acquired) else { continue };
            commands.push(recorded(acquired - 1_000, "c0", &["SET", "lock:k0", "v", "NX"]));
            let from = at(phase).unwrap() + after;
            if released || at(history::Phase::Releasing) > Some(from) {
                commands.push(recorded(from, "c0", &["PEXPIRE", "lock:k0", "1000"]));
            }
        }
        commands.sort_by_key(|command| command.time);
        (history, commands)
    })
}

#[test]
fn command_sent_after_a_release_is_no_renewal_of_the_next_hold() {
    for after in [30_000_000, 100_000_000, 250_000_000] {
        let left_over = sent(&long_and_short(after, true));
        assert!(!is_renewed(&left_over), "{after}: {left_over:?}");
    }
    for after in [100_000_000, 667_000_000] {
        assert!(is_renewed(&sent(&long_and_short(after, false))), "{after}");
    }
}

#[test]
fn what_takes_over_the_lock_of_a_dead_holder_is_told_from_what_takes_any() {
    let usual = [command(When::Taking, "SETNX"), command(When::Waiting, "GET")];
    let run = |commands: Vec<RecordedCommand>| [(run_of(1), commands)];
    let taking = run(vec![
        recorded(150, "c0", &["SETNX", "lock:k0", "1"]),
        recorded(160, "c0", &["GET", "lock:k0"]),
        recorded(170, "c0", &["GETSET", "lock:k0", "2"]),
        recorded(180, "c0", &["GETSET", "lock:k0", "3"]),
        // A key that is not the lock's, another client's command, and a command that is sent while the client holds the lock.
        recorded(185, "c0", &["INCR", "elsewhere"]),
        recorded(190, "c1", &["APPEND", "lock:k0", "x"]),
        recorded(450, "c0", &["PERSIST", "lock:k0"]),
    ]);
    assert_eq!(only_in(&taking, &usual), ["GETSET"]);
    assert!(only_in(&taking[..0], &usual).is_empty());
}

#[test]
fn a_second_release_is_seen_by_what_it_sends_or_says() {
    let scenario = Options::default().scenario("single", "released-twice", 1, Path::new("")).unwrap();
    let history = simulate(&scenario).unwrap().history;
    let released = |one: &history::Operation| one.phase(history::Phase::Released).map(|stamp| stamp.time());
    let lasts = |one: &&history::Operation| released(one).is_some_and(|at| one.completed > Some(at + 250_000_000));
    let twice = history.operations.iter().find(lasts).expect("its answer comes after its second release");
    let client = history.run.as_ref().unwrap().client_name(twice.process);
    let first = released(twice).unwrap();
    let sent_at = |time| vec![recorded(time, &client, &["EVAL", "…", "1", "lock:k0"])];
    assert!(!reach_again(&history, &[]), "what ends a routine can be called again, and does nothing");
    assert!(!reach_again(&history, &sent_at(first)), "that is the first one");
    assert!(reach_again(&history, &sent_at(first + 200_000_000)));
    let mut said = history.clone();
    said.operations[0].fails(None, Some("released again: LockError: not owned".into()));
    assert!(reach_again(&said, &[]));
}

#[test]
fn a_node_that_is_asked_when_others_are_a_majority_is_asked_for_the_lock() {
    let at = |node: &str, time, words: &[&str]| RecordedCommand { node: node.into(), ..recorded(time, "c0", words) };
    let take = ["SET", "lock:k0", "v"];
    // A second command to the same node has another purpose.
    let commands = vec![at("n0", 150, &take), at("n1", 160, &take), at("n2", 210, &take), at("n0", 250, &take)];
    let told: Vec<_> = sent(&[(run_of(1), commands.clone())]).iter().map(|sent| sent.when).collect();
    assert_eq!(told, [When::Taking, When::Holding]);
    let told: Vec<_> = sent(&[(run_of(1), commands[..3].to_vec())]).iter().map(|sent| sent.when).collect();
    assert_eq!(told, [When::Taking]);
    // After a failed attempt, the client asks all nodes again. A command that acquires only a free lock renews nothing.
    let free = ["SET", "lock:k0", "v", "NX", "PX", "1000"];
    let tries: Vec<_> = [("n0", 130), ("n1", 140), ("n2", 145), ("n0", 150), ("n1", 160), ("n2", 210)]
        .map(|(node, time)| at(node, time, &free))
        .into();
    assert!(!is_renewed(&sent(&[(run_of(1), tries)])));
    let renewed = [at("n0", 150, &free), at("n0", 210, &["SET", "lock:k0", "v", "XX", "PX", "1000"])];
    assert!(is_renewed(&sent(&[(run_of(1), renewed.to_vec())])));
    // Next to other clients as well.
    let alone_and_not = [(run_of(1), commands[..3].to_vec()), (run_of(2), commands[..3].to_vec())];
    let told: Vec<_> = sent(&alone_and_not).iter().map(|sent| sent.when).collect();
    assert_eq!(told, [When::Taking]);
}

#[test]
fn what_is_sent_only_beside_others_belongs_to_waiting() {
    let alone = vec![recorded(150, "c0", &["SET", "lock:k0", "v"])];
    let beside = vec![recorded(140, "c0", &["SET", "lock:k0", "v"]), recorded(150, "c0", &["SUBSCRIBE", "lock:k0"])];
    // In either order.
    let seen = sent(&[(run_of(2), beside), (run_of(1), alone)]);
    let told: Vec<_> = seen.iter().map(|sent| (sent.when, &*sent.name)).collect();
    assert_eq!(told, [(When::Taking, "SET"), (When::Waiting, "SUBSCRIBE")]);
}

/// A run in which the reply to a release was held, with the commands that its node recorded.
fn released_late(commands: &[RecordedCommand]) -> Vec<FaultHit> {
    let mut history = run_of(1);
    let mut window = history::FaultWindow::new(1, history::FaultKind::Call);
    window.targets = vec!["c0".into(), "n0".into()];
    (window.inject, window.injected) = (450, Some((450, true)));
    window.texts = vec![
        "c0's 1st EVALSHA of lock:k0 to n0 was answered with 1, and the reply is held".into(),
        "2 of 2 links open again; it fired 3 times".into(),
    ];
    history.faults.push(window);
    let struck = struck(&history, commands);
    assert_eq!(struck_when(&struck), [When::Releasing]);
    struck
}

#[test]
fn what_a_strike_did_is_told_by_what_the_node_carried_out() {
    let release = recorded(410, "c0", &["EVALSHA", "0123", "1", "lock:k0"]);
    let deletes = recorded(412, "script", &["DEL", "lock:k0"]);
    let looks = recorded(411, "script", &["GET", "lock:k0"]);
    let another = recorded(413, "c1", &["SET", "lock:k0", "v"]);
    let did = |commands: &[RecordedCommand]| released_late(commands).remove(0).did;
    assert_eq!(
        did(&[release.clone(), looks.clone(), deletes, another.clone()]),
        CommandEffect::Changed(vec!["DEL".into()])
    );
    assert_eq!(
        did(&[release.clone(), looks.clone(), another.clone()]),
        CommandEffect::Nothing(vec!["EVALSHA".into(), "GET".into()])
    );
    // Without a record of the command, its effect is unknown.
    assert_eq!(did(&[]), CommandEffect::Unknown);
    assert_eq!(did(&[another]), CommandEffect::Unknown);
    let told = &released_late(&[release, looks])[0];
    assert_eq!((told.times, &*told.command, told.when), (3, "EVAL", Some(When::Releasing)));
    assert!(told.is_void() && told.to_string().contains("(3 times)"), "{told}");
}

#[test]
fn who_is_stopped_at_a_command_is_struck_where_it_is_by_then() {
    let when = |stopped: &[&str], at| {
        let mut history = run_of(1);
        let mut call = history::FaultWindow::new(1, history::FaultKind::Call);
        call.targets = vec!["c0".into(), "n0".into()];
        (call.inject, call.injected, call.heal) = (150, Some((150, true)), Some(320));
        call.texts = vec!["c0's 1st SET of lock:k0 to n0 was answered with OK, and the reply is held".into()];
        let mut pause = history::FaultWindow::new(2, history::FaultKind::Pause);
        pause.targets = stopped.iter().map(|name| name.to_string()).collect();
        (pause.inject, pause.injected) = (at, Some((at + 10, true)));
        history.faults.extend([call, pause]);
        struck_when(&struck(&history, &[recorded(140, "c0", &["SET", "lock:k0", "v"])]))
    };
    assert_eq!(when(&["c0"], 155), [When::Taking]);
    // Other nodes were a majority meanwhile.
    assert_eq!(when(&["c0"], 250), [When::Holding]);
    // Neither a node that stops, nor a client that stops later.
    assert_eq!(when(&["n0"], 250), [When::Taking]);
    assert_eq!(when(&["c0"], 330), [When::Taking]);
}

#[test]
fn commands_on_other_keys_are_told_apart_as_faults_tell_them() {
    let key = |n: u32| format!("mine:{n}:lock:k0");
    let ask = |time, n: u32, node: &str| RecordedCommand {
        node: node.into(),
        ..recorded(time, "c0", &["EVALSHA", "0123", "1", &key(n)])
    };
    // Two of three keys are a majority; the third key is requested afterwards. Then all keys are renewed.
    let commands =
        [(150, 0), (160, 1), (210, 2), (250, 2), (260, 0), (270, 1)].map(|(time, n)| ask(time, n, "n0")).to_vec();
    let told: Vec<_> =
        sent(&[(run_of(1), commands)]).into_iter().map(|sent| (sent.when, sent.nth, sent.nth_key)).collect();
    let (taking, holding) = (When::Taking, When::Holding);
    assert_eq!(
        told,
        [(taking, 1, 1), (taking, 1, 2), (taking, 1, 3), (holding, 1, 1), (holding, 1, 2), (holding, 1, 3)]
    );
    // A fault counts only commands on its own key, and no two files have the same name.
    let second = ObservedCommand { key: Some(key(1)), nth_key: 2, ..command(When::Taking, "EVAL") };
    let all = scenarios(&[command(When::Taking, "EVAL"), second], &setting(1, true));
    let of_second = all.iter().find(|one| one.name == "taking-eval-late-reply-on-2nd-key").unwrap();
    assert!(of_second.toml.contains("hold reply to EVAL on mine:1:lock:k* client:0"), "{}", of_second.toml);
    let names: std::collections::BTreeSet<_> = all.iter().map(|one| &one.name).collect();
    assert_eq!(names.len(), all.len());
}

#[test]
fn a_transaction_counts_for_what_is_in_it() {
    let commands = vec![
        recorded(120, "c0", &["WATCH", "lock:k0"]),
        recorded(130, "c0", &["MULTI"]),
        recorded(150, "c0", &["SET", "lock:k0", "v"]),
        recorded(151, "c0", &["EXEC"]),
    ];
    let told: Vec<_> =
        sent(&[(run_of(1), commands)]).into_iter().map(|sent| (sent.name, sent.key, sent.is_keyed)).collect();
    let exec = ("EXEC".to_string(), Some("lock:k0".to_string()), false);
    assert!(told.contains(&exec), "{told:?}");
    assert!(told.contains(&("MULTI".to_string(), None, false)), "{told:?}");
}

#[test]
fn who_asks_for_a_lock_that_another_has_is_waiting() {
    let waiting = &scenarios(&[command(When::Waiting, "SET")], &setting(1, true))[0];
    let taking = &scenarios(&[command(When::Taking, "SET")], &setting(1, true))[0];
    // The fault passes a refused SET, so the test waits for any command.
    let any = waiting.toml.replace("SET on lock:k*", "any");
    let waiting = Scripted {
        toml: any.replace("hold reply to", "hold request").replace(" from nodes", " to nodes"),
        ..waiting.clone()
    };
    for (scripted, doing) in [(&waiting, When::Waiting), (taking, When::Taking)] {
        let checked = simulate(&run_with(scripted, "single", 1)).unwrap();
        assert_eq!(struck_when(&struck(&checked.history, &[])), [doing], "{}", scripted.toml);
    }
}

#[test]
fn what_a_holder_sends_only_if_it_had_to_wait_is_struck_nowhere() {
    let leaves = |time| recorded(time, "c0", &["UNSUBSCRIBE", "lock:k0"]);
    let set = || recorded(150, "c0", &["SET", "lock:k0", "v", "NX", "PX", "1000"]);
    let named = |runs: &[(history::History, Vec<RecordedCommand>)]| -> Vec<String> {
        sent(runs).into_iter().map(|sent| sent.name).collect()
    };
    let alone = || (run_of(1), vec![set()]);
    assert_eq!(named(&[alone(), (run_of(2), vec![set(), leaves(250)])]), ["SET"]);
    // A client sends the command anyway.
    assert_eq!(named(&[(run_of(1), vec![set(), leaves(250)]), (run_of(2), vec![leaves(250)])]), ["SET", "UNSUBSCRIBE"]);
    // If no client was ever alone, nothing more is known.
    assert_eq!(named(&[(run_of(2), vec![leaves(250)])]), ["UNSUBSCRIBE"]);
}
