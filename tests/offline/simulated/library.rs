//! What `redjepsen library` makes of what a library sends, and of what came of it. Its scenarios are played in virtual time.

use std::path::Path;

use redjepsen::checker::{Validity, check};
use redjepsen::history::{self, Phase, PhaseStamp, RecordedCommand};
use redjepsen::library::examined::{Came, Examined, Tried, TriedRun, breaks_by_itself};
use redjepsen::library::kind::{Kind, OfItsKind, judged};
use redjepsen::library::pairs::pairs;
use redjepsen::library::sent::{Renewed, Sent, When, is_renewed, renewed, sent};
use redjepsen::library::strikes::{Aim, Place, Scripted, Setting, Strike, scenarios};
use redjepsen::library::struck::{Did, Struck, struck, struck_when};
use redjepsen::library::{ends, losses, refusals, releases, waiters};
use redjepsen::report::Look;
use redjepsen::report::library::{html, terminal};
use redjepsen::runner::simulate::simulate;
use redjepsen::scenario::{Options, Scenario, Workload};

fn command(when: When, name: &str) -> Sent {
    let example = format!("{name} lock:k0");
    Sent {
        when,
        name: name.into(),
        nth: 1,
        nth_key: 1,
        key: Some("lock:k0".into()),
        is_keyed: true,
        example,
        calls: Vec::new(),
        operations: 9,
    }
}

/// A library whose client can be cancelled, as ours can, and has no event loop.
fn setting(nodes: u32, expires: bool) -> Setting {
    Setting {
        nodes,
        expires,
        renewed: Renewed::Never,
        threads: false,
        cancels: true,
        blocks: false,
        knows_the_catalogue: true,
    }
}

/// By whom this lock of ours is renewed.
fn by_whom(workload: &str) -> Renewed {
    match workload {
        "redlock-watchdog" => Renewed::InTheBackground,
        "redlock-extend" => Renewed::ByItsHolder,
        _ => Renewed::Never,
    }
}

/// The run of this scenario with this lock of ours.
fn run_with(scripted: &Scripted, workload: &str, nodes: u32) -> Scenario {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{}.toml", scripted.name));
    std::fs::write(&file, &scripted.toml).unwrap();
    let options = Options { nodes: Some(nodes), ..Options::default() };
    options.scenario(workload, file.to_str().unwrap(), 1, Path::new("")).unwrap()
}

/// What it shows.
fn played(scripted: &Scripted, scenario: &Scenario) -> (Validity, String) {
    let checked = simulate(scenario).unwrap_or_else(|error| panic!("{error:?}\n{}", scripted.toml));
    let failed = checked.verdict.gates.iter().find(|gate| !gate.passed).map(|gate| gate.text.clone());
    let toml = &scripted.toml;
    (checked.verdict.valid, format!("{} with {}: {failed:?}\n{toml}", scripted.name, scenario.workload_name))
}

/// Whether a node forgets the lock, which is nobody's defect where it is nowhere else.
fn forgets(scripted: &Scripted) -> bool {
    matches!(scripted.aims[0].strike, Strike::NodeRestart | Strike::NodeClock)
}

/// The lock of this name as a kind to compare with.
fn kind(reference: &str) -> Kind {
    Kind { reference: Some(reference.into()), what: "a lock".into() }
}

#[test]
fn a_sound_lock_withstands_every_strike_at_its_own_commands() {
    let taking_and_releasing = [command(When::Taking, "SET"), command(When::Releasing, "EVAL")];
    let renewing = [command(When::Holding, "EVAL")];
    for (workload, nodes, sent) in [
        ("single", 1, &taking_and_releasing[..]),
        ("redlock", 3, &taking_and_releasing),
        ("redlock-watchdog", 3, &renewing),
        ("redlock-extend", 3, &renewing),
    ] {
        let setting = Setting { renewed: by_whom(workload), ..setting(nodes, true) };
        for scripted in scenarios(sent, &setting) {
            if nodes == 1 && forgets(&scripted) {
                continue;
            }
            let scenario = run_with(&scripted, workload, nodes);
            let when = [scripted.aims[0].sent.when];
            let as_reference = kind(workload).scenario(&scenario, &when, 1).unwrap();
            for scenario in [scenario, as_reference] {
                let (valid, text) = played(&scripted, &scenario);
                assert_eq!(valid, Validity::Valid, "{text}");
            }
        }
    }
}

#[test]
fn a_sound_lock_withstands_every_pair_of_strikes_at_its_own_commands() {
    let taking_and_releasing = [command(When::Taking, "SET"), command(When::Releasing, "EVAL")];
    let renewing = [command(When::Taking, "SET"), command(When::Holding, "EVAL"), command(When::Releasing, "DEL")];
    for (workload, nodes, sent) in [
        ("single", 1, &taking_and_releasing[..]),
        ("redlock", 3, &taking_and_releasing),
        ("redlock-watchdog", 3, &renewing),
        ("redlock-extend", 3, &renewing),
    ] {
        let aims: Vec<Aim> =
            scenarios(sent, &setting(nodes, true)).into_iter().flat_map(|scripted| scripted.aims).collect();
        let pairs = pairs(&aims, by_whom(workload));
        assert!(pairs.len() >= 4, "{workload}: {}", pairs.len());
        let mut shown = 0;
        for pair in pairs {
            let (valid, text) = played(&pair, &run_with(&pair, workload, nodes));
            // Where the second strike has nothing to strike, nothing is shown.
            assert_ne!(valid, Validity::Invalid, "{text}");
            shown += usize::from(valid == Validity::Valid);
        }
        assert!(shown > 2, "{workload}: {shown}");
    }
}

#[test]
fn an_unsound_lock_falls_to_those_that_its_defect_is_about_and_to_no_others() {
    let fell = |workload: &str, when, name: &str| {
        let all = scenarios(&[command(when, name)], &setting(1, true));
        let played = |scripted: &Scripted| played(scripted, &run_with(scripted, workload, 1)).0;
        let fell = all.iter().filter(|one| !forgets(one)).filter(|one| played(one) == Validity::Invalid);
        fell.map(|scripted| scripted.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        fell("redlock-unchecked", When::Taking, "SET"),
        ["taking-set-clock-back-before-reply", "taking-set-late-reply", "taking-set-pause-before-reply"]
    );
    // SETNX without a TTL, and EXPIRE after it.
    assert_eq!(fell("setnx-expire", When::Taking, "SETNX"), ["taking-setnx-kill-before-reply"]);
    // Nor does it look whether that was done.
    assert_eq!(fell("setnx-expire", When::Taking, "PEXPIRE"), ["taking-pexpire-refused"]);
    // DEL, whoever has it.
    assert_eq!(
        fell("single-constant", When::Releasing, "DEL"),
        ["releasing-del-cancel-before-reply", "releasing-del-late-request"]
    );
    assert!(fell("single", When::Taking, "SET").is_empty());
}

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
    assert!(was == Did::Refused && told.ends_with("; the node refused it"), "{told}");
    assert_ne!(did(&run("releasing-eval-late-request"), &[]).0, Did::Refused);
    // A node tells nothing of what it refuses, and it tells of what was sent again.
    let healed = |kind| refused.faults.iter().find(|fault| fault.kind == kind).and_then(|fault| fault.heal).unwrap();
    let set = |time| vec![recorded(time, "c0", &["SET", "lock:k0", "v", "NX"])];
    let after_all = healed(history::FaultKind::RefuseWrites) + 1_000_000;
    assert_eq!(did(&refused, &set(after_all)).0, Did::Refused);
    let at_once = healed(history::FaultKind::Call) + 1_000_000;
    assert_eq!(did(&refused, &set(at_once)).0, Did::Changed(vec!["SET".into()]));
}

#[test]
fn scenarios_are_about_the_locks_keys_and_waiting_has_its_own() {
    let other = Sent { key: None, ..command(When::Taking, "INCR") };
    assert!(scenarios(&[other], &setting(3, true)).is_empty());
    let waiting = scenarios(&[command(When::Waiting, "SUBSCRIBE")], &setting(1, true));
    let names: Vec<&str> = waiting.iter().map(|scripted| &*scripted.name).collect();
    assert_eq!(
        names,
        [
            "waiting-subscribe-late-reply",
            "waiting-subscribe-reset-after",
            "waiting-subscribe-cancel-before-reply",
            "waiting-subscribe-late-request",
            "waiting-subscribe-lost-reply",
            "waiting-subscribe-kill-before-reply",
            "waiting-subscribe-close-after",
            "waiting-subscribe-node-restart-synced-before-reply"
        ]
    );
    for scripted in waiting {
        assert!(scripted.toml.contains("SUBSCRIBE on lock:k* client:0"), "{}", scripted.toml);
        assert!(toml::from_str::<redjepsen::nemesis::Nemesis>(&scripted.toml).is_ok(), "{}", scripted.toml);
    }
    // What follows the operation's key may be drawn anew each time, and a command may name it elsewhere than where keys are.
    for (key, is_keyed, command_on) in
        [("{lock:k0}-reply-17", true, "PUBLISH on {lock:k* client"), ("lock:k0", false, "PUBLISH client")]
    {
        let sent = Sent { key: Some(key.into()), is_keyed, ..command(When::Waiting, "PUBLISH") };
        let toml = &scenarios(&[sent], &setting(1, true))[0].toml;
        assert!(toml.contains(command_on), "{toml}");
    }
    // Nothing runs out by itself, so nothing is waited for.
    let forever = scenarios(&[command(When::Taking, "SET")], &setting(1, false));
    assert!(forever.iter().all(|scripted| !scripted.toml.contains("1.1ttl")));
}

#[test]
fn who_renews_a_lock_is_told_by_a_holder_that_a_script_keeps() {
    let scenario = Options::default().scenario("redlock-watchdog", "long-work", 1, Path::new("")).unwrap();
    let history = simulate(&scenario).unwrap().history;
    let (go, _) = history.steps.iter().find(|(_, step)| step.step.starts_with("go client:0")).unwrap();
    let renews = [command(When::Holding, "PEXPIRE")];
    let by = |from: &str, words: &[&str], time: u64| {
        let kept = (history.clone(), vec![recorded(time, from, words)]);
        renewed(&renews, Some(&kept))
    };
    let pexpire = ["PEXPIRE", "lock:k0", "1000"];
    let kept = go - 500_000_000;
    assert_eq!(by("c0", &pexpire, kept), Renewed::InTheBackground);
    // By the holder when it goes on, by nobody at all meanwhile, by somebody else, or no renewal.
    assert_eq!(by("c0", &pexpire, go + 1_000_000), Renewed::ByItsHolder);
    assert_eq!(by("c1", &pexpire, kept), Renewed::ByItsHolder);
    assert_eq!(by("c0", &["GET", "lock:k0"], kept), Renewed::ByItsHolder);
    assert_eq!(renewed(&renews, None), Renewed::ByItsHolder);
    assert_eq!(renewed(&[command(When::Holding, "GET")], None), Renewed::Never);
}

#[test]
fn a_lock_that_its_holder_extends_is_compared_with_one_that_falls_where_nobody_extends_it() {
    let folder = Path::new("");
    let theirs = Options::default().scenario("redis-py-extend", "long-work", 1, folder).unwrap();
    let as_its_kind = |renewed, nemesis: &str| {
        let kind = Kind::of(&theirs, renewed);
        let scenario = Options::default().scenario("redis-py-extend", nemesis, 1, folder).unwrap();
        simulate(&kind.scenario(&scenario, &[], 1).unwrap()).unwrap().verdict.valid
    };
    for nemesis in ["long-work", "revived-lock", "delayed-write"] {
        assert_eq!(as_its_kind(Renewed::ByItsHolder, nemesis), Validity::Invalid, "{nemesis}");
        assert_eq!(as_its_kind(Renewed::InTheBackground, nemesis), Validity::Valid, "{nemesis}");
    }
    assert_eq!(as_its_kind(Renewed::ByItsHolder, "late-extension"), Validity::Valid);
    // Both are held to what the library's file asks.
    let gap = Some("1ttl".parse().unwrap());
    let asking = Scenario { workload: Workload { longest_gap: gap, ..theirs.workload.clone() }, ..theirs.clone() };
    let as_asked = Kind::of(&theirs, Renewed::Never).scenario(&asking, &[], 1).unwrap();
    assert_eq!(as_asked.workload.longest_gap, gap);
}

#[test]
fn who_waits_does_so_by_no_wall_clock_and_leaves_nothing_when_it_has_given_up() {
    let played = |scripted: &Scripted, workload: &str| played(scripted, &run_with(scripted, workload, 1));
    for scripted in waiters::scenarios() {
        let (valid, text) = played(&scripted, "single");
        assert_eq!(valid, Validity::Valid, "{text}");
    }
    // By the time of day its time is over at once. That it stays for longer is excused: its file says by which clock it waits.
    let by_the_clock: Vec<String> = waiters::scenarios()
        .into_iter()
        .filter(|scripted| played(scripted, "redlock-wall").0 == Validity::Invalid)
        .map(|scripted| scripted.name)
        .collect();
    assert_eq!(by_the_clock, ["clock-forward-while-waiting"]);
}

/// A run of some clients in which c0 takes, holds and gives back the lock; the header is the history's first line.
fn run_of(clients: u32) -> history::History {
    run_that_releases_by(clients, 490)
}

/// The same, with when the lock was given back, in nanoseconds.
fn run_that_releases_by(clients: u32, released: u64) -> history::History {
    let header = format!(
        r#"{{"index":0,"time":0,"type":"run","run":{{"format":1,"redjepsen":"0.1.0","workload":"w","nemesis":"none","seed":1,"clients":{clients},"nodes":1,"keys":1,"ttl_ms":1000,"time_limit_ms":9000,"resource":"register","claims":["updates"],"faults_expected":false,"script_steps":0,"progress":"any","started":"2026-11-24T00:00:00Z"}}}}"#
    );
    let mut lines = vec![
        header,
        r#"{"index":1,"time":100,"type":"invoke","process":0,"f":"rmw","key":"k0","value":[null,"c0:0"]}"#.into(),
    ];
    for (index, (time, phase)) in [
        (110, "acquiring"),
        (200, "acquired"),
        (300, "read"),
        (310, "before-write"),
        (390, "written"),
        (400, "releasing"),
        (released, "released"),
    ]
    .into_iter()
    .enumerate()
    {
        lines.push(format!(r#"{{"index":{},"time":{time},"type":"phase","process":0,"phase":"{phase}"}}"#, index + 2));
    }
    let ended = released + 10;
    lines.push(format!(
        r#"{{"index":9,"time":{ended},"type":"ok","process":0,"f":"rmw","key":"k0","value":[null,"c0:0"]}}"#
    ));
    lines.push(String::new());
    history::load_reader(lines.join("\n").as_bytes(), "a test").unwrap()
}

fn recorded(time: u64, from: &str, words: &[&str]) -> RecordedCommand {
    let from = (from != "script").then(|| from.to_string());
    RecordedCommand {
        time,
        node: "n0".into(),
        in_script: from.is_none(),
        from,
        words: words.iter().map(|word| word.to_string()).collect(),
    }
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
            "while it takes the lock: SET lock:k0 … NX []",
            "while it holds the lock: PEXPIRE lock:k0 1000 []",
            "while it gives the lock back: EVAL… 1 lock:k0 [GET DEL]".replace("EVAL…", "EVALSHA …").as_str(),
        ]
    );
    assert_eq!(seen[2].name, "EVAL");
    assert!(is_renewed(&seen));
    assert!(!is_renewed(&seen[..1]));
    // Who looks whether it still has the lock renews nothing.
    let looks = Sent { calls: vec!["GET".into()], ..command(When::Holding, "EVAL") };
    assert!(!is_renewed(&[looks.clone(), command(When::Holding, "GET")]));
    assert!(is_renewed(&[Sent { calls: vec!["GET".into(), "PEXPIRE".into()], ..looks }]));
}

#[test]
fn a_node_that_is_asked_when_others_are_a_majority_is_asked_for_the_lock() {
    let at = |node: &str, time, words: &[&str]| RecordedCommand { node: node.into(), ..recorded(time, "c0", words) };
    let take = ["SET", "lock:k0", "v"];
    // One who has been asked before is asked for something else.
    let commands = vec![at("n0", 150, &take), at("n1", 160, &take), at("n2", 210, &take), at("n0", 250, &take)];
    let told: Vec<_> = sent(&[(run_of(1), commands.clone())]).iter().map(|sent| sent.when).collect();
    assert_eq!(told, [When::Taking, When::Holding]);
    let told: Vec<_> = sent(&[(run_of(1), commands[..3].to_vec())]).iter().map(|sent| sent.when).collect();
    assert_eq!(told, [When::Taking]);
    // After a try that failed it asks all of them again; who takes only what is free renews nothing.
    let free = ["SET", "lock:k0", "v", "NX", "PX", "1000"];
    let tries: Vec<_> = [("n0", 130), ("n1", 140), ("n2", 145), ("n0", 150), ("n1", 160), ("n2", 210)]
        .map(|(node, time)| at(node, time, &free))
        .into();
    assert!(!is_renewed(&sent(&[(run_of(1), tries)])));
    let renewed = [at("n0", 150, &free), at("n0", 210, &["SET", "lock:k0", "v", "XX", "PX", "1000"])];
    assert!(is_renewed(&sent(&[(run_of(1), renewed.to_vec())])));
    // Beside others as well.
    let alone_and_not = [(run_of(1), commands[..3].to_vec()), (run_of(2), commands[..3].to_vec())];
    let told: Vec<_> = sent(&alone_and_not).iter().map(|sent| sent.when).collect();
    assert_eq!(told, [When::Taking]);
}

#[test]
fn what_is_sent_only_beside_others_belongs_to_waiting() {
    let alone = vec![recorded(150, "c0", &["SET", "lock:k0", "v"])];
    let beside = vec![recorded(140, "c0", &["SET", "lock:k0", "v"]), recorded(150, "c0", &["SUBSCRIBE", "lock:k0"])];
    // Whichever comes first.
    let seen = sent(&[(run_of(2), beside), (run_of(1), alone)]);
    let told: Vec<_> = seen.iter().map(|sent| (sent.when, &*sent.name)).collect();
    assert_eq!(told, [(When::Taking, "SET"), (When::Waiting, "SUBSCRIBE")]);
}

fn strike(when: Option<When>, command: &str, did: Did) -> Struck {
    let what = format!("c0's 1st {command} of lock:k0 to n0 was answered with OK");
    Struck { when, command: command.into(), what, times: 1, was_kept_away: false, did }
}

fn run(valid: Validity, when: Option<When>, anomaly: &str) -> TriedRun {
    TriedRun {
        ttl: "1s".into(),
        valid: Some(valid),
        timing_was_kept: true,
        summary: format!("It came out {valid:?}."),
        struck: vec![strike(when, "SET", Did::Changed(vec!["SET".into()]))],
        when: when.into_iter().collect(),
        anomaly: Some(anomaly.into()),
        account: String::new(),
        ended: None,
        refusals: Default::default(),
        false_losses: Default::default(),
        slow_release: None,
        folder: "../runs/one".into(),
        repeat: "redjepsen run --seed 1".into(),
    }
}

fn tried(scenario: &str, of_its_kind: OfItsKind, runs: Vec<TriedRun>) -> Tried {
    Tried {
        scenario: scenario.into(),
        description: format!("What {scenario} is"),
        searched: false,
        plain: false,
        by_threads: false,
        of_its_kind,
        runs,
    }
}

fn examined(tried: Vec<Tried>) -> Examined {
    Examined {
        workload: "./mine.toml".into(),
        name: "mine 1.0".into(),
        kind: Kind { reference: Some("single".into()), what: "a lock with a TTL, on one node".into() },
        ttls: vec!["1s".into()],
        refused: vec![("400ms".into(), "whole seconds only".into())],
        sent: vec![command(When::Taking, "SET")],
        tried,
        found: Vec::new(),
        not_about: vec![("failover".into(), "it has no primary".into())],
        not_made: 0,
        took: std::time::Duration::from_secs(60),
        versions: [("redis".to_string(), "redis 7.0.15".to_string())].into(),
    }
}

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
        releases::slowest(&history)
    };
    let slow = slowest(11_200_000_400, Some("n1")).unwrap();
    assert_eq!((&*slow.client, slow.began, slow.took, slow.ended), ("c0", 400, 11_200_000_000, true));
    assert_eq!(slow.meanwhile, ["kill of n1"]);
    assert!(slowest(3_000_000_400, None).is_some() && slowest(2_999_000_400, None).is_none());
    assert!(slowest(11_200_000_400, Some("c0")).is_none());

    let late = TriedRun { slow_release: Some(slow), ..run(Validity::Unknown, None, "") };
    let all = examined(vec![
        tried("one-node-down", OfItsKind::Unknown, vec![late]),
        tried("pause", OfItsKind::Falls, vec![run(Validity::Valid, None, "")]),
    ]);
    let told = "one-node-down: c0 took 11.2 s to give it back, from 0.000 s on; meanwhile: kill of n1";
    assert!(terminal(&all, Look::PLAIN).contains(told), "{}", terminal(&all, Look::PLAIN));
    assert!(html(&all).contains("c0 took 11.2 s to give it back"));
}

/// The history of [`run_of`] one client, which ends by itself at 480 ns.
fn run_that_ends(how: &str) -> history::History {
    let mut history = run_of(1);
    let event = |step, text: &str| history::ClientEvent { process: 0, step, text: text.into() };
    history.clients.push((480, event(history::ClientStep::Ended, how)));
    history
}

#[test]
fn a_program_that_ends_by_itself_is_told_first_unless_something_was_done_by_then() {
    let how = "it ended with exit code 1; its last words: Error: no such script (store/runs/one/c0/client.log) (failure 1 in a row)";
    let ends = |history: &history::History| ends::by_itself(history, &check(history));
    let said = "it ended with exit code 1; its last words: Error: no such script";
    let ended = |faulty| ends::Ended { how: said.into(), faulty };
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
    // Nobody knows who sent that, and whoever says nonsense is ended by redjepsen.
    assert!(ends(&run_that_ends("it ended with exit code 137 (SIGKILL); said nothing on standard error")).is_none());
    assert!(ends(&run_that_ends("it sent no JSON")).is_none() && ends(&run_of(1)).is_none());
    let mut cancelled = run_that_ends(how);
    let step = history::StepEvent {
        number: 1,
        step: "cancel client:0".into(),
        outcome: history::StepOutcome::Happened,
        text: String::new(),
        expects: None,
        opens: Vec::new(),
    };
    cancelled.steps.push((300, step));
    assert_eq!(ends(&cancelled), Some(ended(true)));
    let later = |threads| {
        let mut history = run_that_ends(how);
        history.clients[0].0 = 600;
        history.run.as_mut().unwrap().threads = threads;
        ends(&history).unwrap().how
    };
    assert_eq!(later(1), format!("{said}; it had no lock then"));
    assert_eq!(later(2), said, "which of them had one is not known");
    let mut stalled = run_that_ends(how);
    stalled.stalls.push((400, 470));
    assert!(ends(&stalled).is_none());

    let that_ended = |faulty| TriedRun { ended: Some(ended(faulty)), ..run(Validity::Unknown, None, "") };
    let of = |runs| examined(vec![tried("none", OfItsKind::Unknown, runs)]);
    let all = of(vec![run(Validity::Valid, None, ""), that_ended(true)]);
    let text = terminal(&all, Look::PLAIN);
    assert!(text.contains("Its program ends under a fault that ends nobody") && !text.contains("by itself"), "{text}");
    let all = of(vec![run(Validity::Valid, None, ""), that_ended(false)]);
    let text = terminal(&all, Look::PLAIN);
    let told = format!("Its program ended by itself, with no fault, in 1 of 2 runs: {said}.");
    assert_eq!(text.lines().nth(1), Some(&*told), "{text}");
    let page = html(&all);
    assert!(page.find("in 1 of 2 runs: it ended with exit code 1") < page.find("What it sends"), "{page}");
    assert!(page.contains("ENDS BY ITSELF"), "{page}");
    let none = of(vec![run(Validity::Valid, None, "")]);
    assert!(!terminal(&none, Look::PLAIN).contains("by itself") && !html(&none).contains("by itself"));
    assert!(html(&none).contains("WITHSTANDS"));
}

/// c1 asks at 100 ms, is ready to wait for 1 s, and is refused after so many milliseconds; c0 holds the lock from 50 ms to `held`.
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
        let refusals = refusals::early(history);
        (refusals.early, refusals.of)
    };
    assert_eq!(early(&refused(300, 700, refusal)), (1, 1));
    assert_eq!(early(&refused(500, 700, refusal)), (0, 1));
    // A lock that nobody has, and a server that is not there, are other matters.
    assert_eq!(early(&refused(300, 90, refusal)), (0, 0));
    assert_eq!(early(&refused(300, 700, r#""error":"not-acquired","text":"Connection reset""#)), (0, 1));
    assert_eq!(early(&refused(300, 700, r#""error":"unavailable","text":"taken""#)), (0, 1));
    let mut faulty = refused(300, 700, refusal);
    faulty.faults.push(history::FaultWindow::new(1, history::FaultKind::Pause));
    assert_eq!(early(&faulty), (0, 0));
    let mut scripted = refused(300, 700, refusal);
    scripted.run.as_mut().unwrap().script_steps = 3;
    assert_eq!(early(&scripted), (0, 0));

    let of =
        |after| TriedRun { refusals: refusals::early(&refused(after, 900, refusal)), ..run(Validity::Valid, None, "") };
    let told = |runs| terminal(&examined(vec![tried("none", OfItsKind::Unknown, runs)]), Look::PLAIN);
    let text = told(vec![of(400), of(300), of(600)]);
    let line =
        "none: whoever asked for 1 s was refused after 300 ms while another client held the lock, 2 of 3 attempts";
    assert!(text.contains("Gives up before its time: no claim is broken") && text.contains(line), "{text}");
    let first = "It gives up before its time, with no fault: whoever asked for 1 s was refused after 300 ms";
    assert!(text.lines().nth(1).is_some_and(|second| second.starts_with(first)), "{text}");
    // One may be an accident.
    assert!(!told(vec![of(400), of(600)]).contains("with no fault"));
    assert!(!told(vec![of(600)]).contains("Gives up"));
    let page = html(&examined(vec![tried("none", OfItsKind::Unknown, vec![of(300)])]));
    assert!(page.contains("whoever asked for 1 s was refused after 300 ms"), "{page}");
}

#[test]
fn who_is_told_of_a_loss_while_it_has_the_lock_is_told_so() {
    // It is told before it writes.
    let lost_at = |lost: u64| {
        let mut history = run_of(1);
        let phases = &history.operations[0].phases;
        let stamp = phases.iter().find(|stamp| stamp.phase == Phase::BeforeWrite).unwrap();
        let lost = PhaseStamp { phase: Phase::Lost, received: lost, ..stamp };
        history.operations[0].phases = phases.iter().chain([lost]).collect();
        history
    };
    let keeps = [recorded(150, "c0", &["SET", "lock:k0", "v", "NX"])];
    let told = |history: &history::History, commands: &[RecordedCommand]| {
        let losses = losses::false_losses(history, commands);
        (losses.told, losses.of, losses.soonest.map(|soonest| soonest.after))
    };
    assert_eq!(told(&lost_at(350), &keeps), (1, 1, Some(150)));
    assert_eq!(told(&run_of(1), &keeps), (0, 1, None));
    // It may be true where the key was removed, by whomever, and where nobody wrote down what the nodes did.
    let removes = [keeps[0].clone(), recorded(340, "script", &["UNLINK", "lock:k0"])];
    assert_eq!(told(&lost_at(350), &removes).0, 0);
    assert_eq!(told(&lost_at(350), &[]).0, 0);
    let other = [keeps[0].clone(), recorded(340, "script", &["UNLINK", "lock:k1"])];
    assert_eq!(told(&lost_at(350), &other).0, 1);
    // Nor is it false late in its TTL, after the release, or where a fault was.
    assert_eq!(told(&lost_at(600_000_000), &keeps).0, 0);
    assert_eq!(told(&lost_at(450), &keeps).0, 0);
    let mut faulty = lost_at(350);
    faulty.faults.push(history::FaultWindow::new(1, history::FaultKind::Pause));
    assert_eq!(told(&faulty, &keeps).0, 0);

    let with = TriedRun { false_losses: losses::false_losses(&lost_at(350), &keeps), ..run(Validity::Valid, None, "") };
    let text = terminal(&examined(vec![tried("long-work", OfItsKind::Unknown, vec![with])]), Look::PLAIN);
    let first = "It says that a lock is lost which it has, with no fault: a holder was told that 0 ms after";
    assert!(text.lines().nth(1).is_some_and(|second| second.starts_with(first)), "{text}");
    assert!(text.contains("Says that the lock is lost while it has it: no claim"), "{text}");
}

#[test]
fn a_finding_is_told_as_its_runs_report_tells_it() {
    let account = "c1 took the lock at 0.310 s, while c0 still held it. c0 wrote at `0.350` s. ".repeat(3);
    let found = TriedRun { account: account.clone(), ..run(Validity::Invalid, Some(When::Taking), "lost update") };
    let all = examined(vec![tried("late-acquire-reply", OfItsKind::Holds, vec![found])]);
    let text = terminal(&all, Look::PLAIN);
    let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        unwrapped.contains("withstands it c1 took the lock at 0.310 s, while c0 still held it. c0 wrote at 0.350 s."),
        "{text}"
    );
    assert!(
        text.lines().filter(|line| line.contains("c1 took the lock") || line.contains("c0 wrote")).count() > 1,
        "{text}"
    );
    assert!(html(&all).contains("<p>c1 took the lock at 0.310"), "{}", html(&all));
    let silent = examined(vec![tried("late", OfItsKind::Holds, vec![run(Validity::Invalid, None, "lost update")])]);
    assert!(!html(&silent).contains("<p></p>"));
}

#[test]
fn where_most_scenarios_show_nothing_that_is_said_first() {
    use Validity::{Invalid, Unknown, Valid};
    let of = |each: &[Validity]| {
        let one = |valid: &Validity| tried("x", OfItsKind::Unknown, vec![run(*valid, None, "lost update")]);
        examined(each.iter().map(one).collect())
    };
    let told = |each: &[Validity]| terminal(&of(each), Look::PLAIN).lines().next().unwrap_or_default().to_string();
    assert_eq!(
        told(&[Valid, Valid, Unknown, Unknown, Unknown]),
        "Only 2 of 5 scenarios show anything of mine 1.0: it withstood those."
    );
    assert_eq!(
        told(&[Invalid, Unknown, Unknown]),
        "Only 1 of 3 scenarios shows anything of mine 1.0: it falls to 1 of 1 scenario: to 1 unexplained."
    );
    assert_eq!(told(&[Valid, Valid, Unknown, Unknown]), "mine 1.0 withstood all of 2 scenarios that show anything.");
    let page = |each: &[Validity]| html(&of(each));
    assert!(page(&[Valid, Unknown, Unknown]).contains("HARDLY TRIED") && page(&[Valid]).contains("WITHSTANDS"));
}

#[test]
fn what_broke_with_no_fault_comes_first_even_if_not_every_time() {
    let run = |valid, when, anomaly: &str| TriedRun { struck: Vec::new(), ..run(valid, when, anomaly) };
    let plain = |runs| Tried { plain: true, ..tried("none", OfItsKind::Unknown, runs) };
    let sometimes = vec![
        run(Validity::Valid, None, ""),
        run(Validity::Invalid, None, "lost update"),
        run(Validity::Valid, None, ""),
    ];
    let own = || tried("late-acquire-reply", OfItsKind::Holds, vec![run(Validity::Invalid, Some(When::Taking), "x")]);
    let all = examined(vec![own(), plain(sometimes)]);
    let text = terminal(&all, Look::PLAIN);
    assert!(text.starts_with("mine 1.0 falls to 2 of 2 scenarios: "), "{text}");
    assert!(text.lines().next().unwrap().ends_with("; with no fault at all in 1 of 3 runs."), "{text}");
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(place("It breaks by itself") < place("Its own"), "{text}");
    assert!(
        place("with no fault at all: lost update, in 1 of 3 runs of 1 scenario; not every time") < place("Its own")
    );
    let page = html(&all);
    let places = ["It breaks by itself", "Its own", "What it sends"].map(|what| page.find(what).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    assert!(!terminal(&examined(vec![own()]), Look::PLAIN).contains("It breaks by itself"));
}

#[test]
fn symptoms_of_one_cause_stand_together_and_those_of_the_kind_come_last() {
    use OfItsKind::{Falls, Holds, Unknown};
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
    assert_eq!((all.that(Came::Fell).len(), all.that(Came::Held).len(), all.that(Came::Nothing).len()), (4, 1, 1));
    let text = terminal(&all, Look::PLAIN);
    let headline = "mine 1.0 falls to 4 of 5 scenarios: to 1 as a lock with a TTL, on one node does; to 2 that `single` withstands; to 1 unexplained.";
    assert!(text.starts_with(headline), "{text}");
    // Nothing unexplained is called the library's own.
    let (own, rest) = text.split_once("Unexplained").unwrap();
    assert!(own.contains("late-acquire-reply") && !own.contains("odd ("), "{text}");
    assert!(rest.contains("odd (1 of 1 run)") && rest.contains("late-release: c0's 1st SET"), "{text}");
    // One line for each cause: the command, the incident, in how many runs, and what a lock of its kind does.
    let line = "SET while it takes the lock: lost update, in 2 of 3 runs of 2 scenarios; `single` withstands it";
    assert!(own.contains(line), "{text}");
    assert!(rest.contains("it changed the lock's key by SET (once)"), "{text}");
    let page = html(&all);
    assert!(page.contains(r#"href="../runs/one/report.html""#) && page.contains("it has no primary"), "{page}");
}

#[test]
fn only_a_lock_that_was_struck_at_the_same_time_is_compared_with() {
    use OfItsKind::{Falls, Holds, Unknown};
    let taking = When::Taking;
    for (runs, judged_as) in [
        (vec![(Validity::Valid, vec![taking]), (Validity::Unknown, vec![])], Some(Holds)),
        (vec![(Validity::Valid, vec![When::Holding]), (Validity::Valid, vec![])], Some(Unknown)),
        // Of two strikes, both have to come when they came to the library.
        (vec![(Validity::Valid, vec![taking, When::Releasing])], Some(Unknown)),
        (vec![(Validity::Valid, vec![taking]), (Validity::Invalid, vec![When::Holding])], Some(Falls)),
        (vec![(Validity::Unknown, vec![taking])], None),
    ] {
        assert_eq!(judged(runs.clone(), &[taking]), judged_as, "{runs:?}");
    }
}

#[test]
fn what_does_not_happen_every_time_or_only_late_is_not_certain() {
    let runs = |kept: &[bool], valid: &[Validity]| {
        let run = |(kept, valid): (&bool, &Validity)| TriedRun { timing_was_kept: *kept, ..run(*valid, None, "") };
        tried("x", OfItsKind::Holds, kept.iter().zip(valid).map(run).collect()).is_certain()
    };
    use Validity::{Invalid, Unknown, Valid};
    assert!(runs(&[true, false, true], &[Invalid, Invalid, Unknown]));
    assert!(!runs(&[true, true], &[Invalid, Valid]));
    assert!(!runs(&[false], &[Invalid]));
}

/// What breaks with no fault is told first, and is no other fault's doing.
#[test]
fn what_breaks_by_itself_is_no_faults_doing() {
    use OfItsKind::{Holds, Unknown};
    let broken =
        |anomaly: &str| TriedRun { struck: Vec::new(), when: Vec::new(), ..run(Validity::Invalid, None, anomaly) };
    let plain = |runs| Tried { plain: true, ..tried("none", Holds, runs) };
    let valid = || run(Validity::Valid, None, "");
    // Twice is enough there, where a strike has to come out alike each time; once may have been the machine.
    assert!(plain(vec![valid(), broken("lost update"), broken("lost update")]).is_certain());
    assert!(!plain(vec![valid(), broken("lost update")]).is_certain());
    assert!(!tried("pause", Holds, plain(vec![valid(), broken("x"), broken("x")]).runs).is_certain());
    let by = |tried: &[Tried], anomaly: &str| breaks_by_itself(tried, anomaly, false);
    let alone = [plain(vec![broken("lost update")])];
    // Two holders lose updates by chance; a lock that nobody gets is another matter.
    assert!(by(&alone, "lost update") && by(&alone, "two holders at once"));
    assert!(!by(&alone, "lock acquired late"));
    assert!(!by(&[plain(vec![valid()])], "lost update"));
    assert!(!by(&[tried("pause", Holds, vec![broken("lost update")])], "lost update"));
    let struck = || vec![run(Validity::Invalid, Some(When::Taking), "two holders at once")];
    let [one] = alone;
    let text = terminal(&examined(vec![tried("late-acquire-reply", Unknown, struck()), one]), Look::PLAIN);
    assert!(text.starts_with("mine 1.0 breaks with no fault at all; of 2 scenarios it falls to 2: "), "{text}");
    let (own, rest) = text.split_once("Unexplained").unwrap();
    assert!(
        own.contains("with no fault at all: lost update, in 1 of 1 run of 1 scenario; `single` withstands it"),
        "{text}"
    );
    assert!(rest.contains("two holders at once, in 1 of 1 run of 1 scenario; so it does with no fault too"), "{text}");
    // Once in two runs may have been the machine.
    let once = examined(vec![plain(vec![valid(), broken("lost update")])]);
    assert!(terminal(&once, Look::PLAIN).starts_with("mine 1.0 falls to 1 of 1 scenario"));
    // What threads do that share a program does not excuse what one client in each program does.
    let by_threads = |broken: &str| Tried { by_threads: true, ..plain(vec![run(Validity::Invalid, None, broken)]) };
    let threads = [by_threads("lost update")];
    assert!(!by(&threads, "lost update") && breaks_by_itself(&threads, "lost update", true));
    let runs = vec![broken("lost update"), broken("lost update")];
    let told = terminal(&examined(vec![Tried { runs, ..by_threads("lost update") }]), Look::PLAIN);
    assert!(
        told.starts_with("mine 1.0 breaks with no fault at all, by threads that share a program; of 1 scenario"),
        "{told}"
    );
    assert!(
        told.contains("with no fault at all, by threads that share a program: lost update, in 2 of 2 runs"),
        "{told}"
    );
    // Where it holds with no fault, nothing of this is said.
    let held = examined(vec![plain(vec![valid()]), tried("late-acquire-reply", Holds, struck())]);
    let text = terminal(&held, Look::PLAIN);
    assert!(text.starts_with("mine 1.0 falls to 1 of 2 scenarios") && !text.contains("no fault too"), "{text}");
}

#[test]
fn who_names_no_key_is_told_that_nothing_of_it_was_struck() {
    let told = |key: Option<&str>| {
        let sent = vec![Sent { key: key.map(str::to_string), ..command(When::Taking, "SET") }];
        terminal(&Examined { sent, ..examined(Vec::new()) }, Look::PLAIN)
            .contains("no command names the operation's key")
    };
    assert_eq!((told(None), told(Some("lock:k0"))), (true, false));
}

#[test]
fn where_nothing_was_shown_nothing_is_claimed() {
    let nothing = examined(vec![tried("pause", OfItsKind::Unknown, vec![run(Validity::Unknown, None, "")])]);
    let text = terminal(&nothing, Look::PLAIN);
    assert!(text.starts_with("Nothing is known of mine 1.0: no run shows anything."), "{text}");
    assert!(!html(&nothing).contains("AS ITS KIND"));
    let held = examined(vec![tried("pause", OfItsKind::Unknown, vec![run(Validity::Valid, None, "")])]);
    assert!(terminal(&held, Look::PLAIN).starts_with("mine 1.0 withstood all of 1 scenario that show"), "held");
}

#[test]
fn a_strike_that_changed_nothing_of_the_lock_counts_as_nothing_tried() {
    let of = |when, did, was_kept_away| {
        let struck = Struck { was_kept_away, ..strike(when, "EVAL", did) };
        let mut run = TriedRun { struck: vec![struck], ..run(Validity::Valid, when, "") };
        let came = tried("x", OfItsKind::Unknown, vec![run.clone()]).came();
        // A violation is one, whatever was struck.
        run.valid = Some(Validity::Invalid);
        assert_eq!(tried("x", OfItsKind::Unknown, vec![run]).came(), Came::Fell);
        came
    };
    let looked = || Did::Nothing(vec!["EVALSHA".into(), "GET".into()]);
    let releasing = Some(When::Releasing);
    assert_eq!(of(releasing, Did::Changed(vec!["DEL".into()]), false), Came::Held);
    assert_eq!(of(releasing, Did::Unknown, false), Came::Held);
    assert_eq!(of(releasing, looked(), false), Came::Nothing);
    // A late release has to change nothing, and who waits has nothing to change.
    assert_eq!(of(releasing, looked(), true), Came::Held);
    assert_eq!(of(Some(When::Waiting), looked(), false), Came::Held);
    let vain = TriedRun { struck: vec![strike(releasing, "EVAL", looked())], ..run(Validity::Valid, releasing, "") };
    let text = terminal(&examined(vec![tried("late", OfItsKind::Unknown, vec![vain])]), Look::PLAIN);
    assert!(text.contains("late: struck in vain: c0's 1st EVAL"), "{text}");
    assert!(text.contains("it changed nothing of the lock (EVALSHA and GET)"), "{text}");
}

/// A run in which the reply to a release was held, and what its node told.
fn released_late(commands: &[RecordedCommand]) -> Vec<Struck> {
    let mut history = run_of(1);
    let mut window = history::FaultWindow::new(1, history::FaultKind::Call);
    window.targets = vec!["c0".into(), "n0".into()];
    (window.inject, window.injected) = (450, Some((450, true)));
    window.texts = vec![
        "c0's 1st EVALSHA of lock:k0 to n0 was answered with 1, and the reply is held".into(),
        "2 of 2 links open again; it struck 3 times".into(),
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
    assert_eq!(did(&[release.clone(), looks.clone(), deletes, another.clone()]), Did::Changed(vec!["DEL".into()]));
    assert_eq!(
        did(&[release.clone(), looks.clone(), another.clone()]),
        Did::Nothing(vec!["EVALSHA".into(), "GET".into()])
    );
    // Nobody knows where nothing was recorded, or not this.
    assert_eq!(did(&[]), Did::Unknown);
    assert_eq!(did(&[another]), Did::Unknown);
    let told = &released_late(&[release, looks])[0];
    assert_eq!((told.times, &*told.command, told.when), (3, "EVAL", Some(When::Releasing)));
    assert!(told.is_void() && told.to_string().contains("(3 times)"), "{told}");
}

#[test]
fn who_polls_gets_the_lock_whatever_becomes_of_what_another_waiter_had_asked() {
    for scripted in scenarios(&[command(When::Waiting, "BLPOP")], &setting(1, true)) {
        let of = run_with(&scripted, "single", 1);
        let (valid, text) = played(&scripted, &kind("single").scenario(&of, &[When::Waiting], 1).unwrap());
        assert_eq!(valid, Validity::Valid, "{text}");
        // What it polls with is no BLPOP.
        assert_eq!(played(&scripted, &of).0, Validity::Unknown, "{}", scripted.name);
    }
}

#[test]
fn who_has_no_event_loop_stands_still_where_another_one_is_blocked() {
    let blocked = Setting { blocks: true, ..setting(1, true) };
    let all = scenarios(&[command(When::Taking, "SET")], &blocked);
    let scripted = all.iter().find(|one| one.aims[0].strike == Strike::Block).unwrap();
    for (workload, comes) in [("single", Validity::Valid), ("redlock-unchecked", Validity::Invalid)] {
        let of = run_with(scripted, workload, 1);
        let (valid, text) = played(scripted, &kind(workload).scenario(&of, &[When::Taking], 1).unwrap());
        assert_eq!(valid, comes, "{text}");
    }
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
    // Neither a node that stops, nor a client that does so later on.
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
    // Two of three keys are a majority; the third one is asked for after that. Then all are renewed.
    let commands =
        [(150, 0), (160, 1), (210, 2), (250, 2), (260, 0), (270, 1)].map(|(time, n)| ask(time, n, "n0")).to_vec();
    let told: Vec<_> =
        sent(&[(run_of(1), commands)]).into_iter().map(|sent| (sent.when, sent.nth, sent.nth_key)).collect();
    let (taking, holding) = (When::Taking, When::Holding);
    assert_eq!(
        told,
        [(taking, 1, 1), (taking, 1, 2), (taking, 1, 3), (holding, 1, 1), (holding, 1, 2), (holding, 1, 3)]
    );
    // What a fault counts is its own key's, and no two files have one name.
    let second = Sent { key: Some(key(1)), nth_key: 2, ..command(When::Taking, "EVAL") };
    let all = scenarios(&[command(When::Taking, "EVAL"), second], &setting(1, true));
    let of_second = all.iter().find(|one| one.name == "taking-eval-late-reply-on-2nd-key").unwrap();
    assert!(of_second.toml.contains("hold reply to EVAL on mine:1:lock:k* client:0"), "{}", of_second.toml);
    let names: std::collections::BTreeSet<_> = all.iter().map(|one| &one.name).collect();
    assert_eq!(names.len(), all.len());
}

#[test]
fn what_tells_most_comes_first() {
    let sent = [command(When::Taking, "SET"), command(When::Holding, "EVAL"), command(When::Releasing, "DEL")];
    let all = scenarios(&[&sent[..], &[Sent { nth: 2, ..sent[0].clone() }]].concat(), &setting(3, true));
    let place = |name: &str| all.iter().position(|one| one.name == name).unwrap_or_else(|| panic!("{name}"));
    // What the catalogue has not played, at each command; then what it has; then other nodes; then what is sent again.
    let in_order = [
        "taking-set-late-request",
        "holding-eval-lost-reply",
        "releasing-del-kill-before-reply",
        "taking-set-node-restart-before-reply-at-n0",
        "taking-set-late-reply",
        "taking-set-late-request-at-n0",
        "taking-set-late-reply-2nd",
    ];
    let places = in_order.map(place);
    assert!(places.is_sorted(), "{places:?}");
    // Where there was no time for the catalogue, what it would have played is not put off.
    let unknown = scenarios(&sent, &Setting { knows_the_catalogue: false, ..setting(3, true) });
    let place = |name: &str| unknown.iter().position(|one| one.name == name).unwrap_or_else(|| panic!("{name}"));
    assert!(place("taking-set-late-reply") < place("taking-set-late-request"));
    // Only who can be cancelled is, and only who has an event loop is blocked.
    let able = |cancels, blocks| {
        let of = scenarios(&sent, &Setting { cancels, blocks, ..setting(1, true) });
        let any = |strike| of.iter().any(|one| one.aims[0].strike == strike);
        (any(Strike::Cancel), any(Strike::Block))
    };
    assert_eq!((able(false, false), able(true, true)), ((false, false), (true, true)));
}

#[test]
fn a_release_is_cancelled_before_its_node_hears_of_it() {
    let of = scenarios(&[command(When::Releasing, "EVAL")], &setting(1, true));
    let cancelled = of.iter().find(|one| one.name == "releasing-eval-cancel-before-reply").unwrap();
    assert!(cancelled.toml.contains("hold request EVAL"), "{}", cancelled.toml);
    let of = scenarios(&[command(When::Taking, "SET")], &setting(1, true));
    let cancelled = of.iter().find(|one| one.name == "taking-set-cancel-before-reply").unwrap();
    assert!(cancelled.toml.contains("hold reply to SET"), "{}", cancelled.toml);
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
fn pairs_are_made_of_what_was_withstood_and_name_both_strikes() {
    let aim = |strike, when, name, at| Aim { strike, sent: command(when, name), at };
    let names =
        |aims: &[Aim]| pairs(aims, Renewed::InTheBackground).into_iter().map(|pair| pair.name).collect::<Vec<_>>();
    let lost = aim(Strike::LostReply, When::Taking, "SET", Place::All);
    let late = aim(Strike::LateRequest, When::Releasing, "EVAL", Place::All);
    assert_eq!(names(&[lost.clone(), late.clone()]), ["taking-set-lost-reply-then-releasing-eval-late-request"]);
    // A fault that waits for a script can't tell the one that takes the lock, sent again, from the one that gives it back.
    assert!(names(&[Aim { sent: command(When::Taking, "EVAL"), ..lost.clone() }, late]).is_empty());
    let at = |strike, node| aim(strike, When::Taking, "SET", Place::Node(node));
    assert_eq!(
        names(&[at(Strike::LostReply, 0), at(Strike::LateReply, 1), at(Strike::LateReply, 0)]),
        ["taking-set-lost-reply-at-n0-then-taking-set-late-reply-at-n1"]
    );
    assert!(names(&[lost]).is_empty());
}

#[test]
fn who_asks_for_a_lock_that_another_has_is_waiting() {
    let waiting = &scenarios(&[command(When::Waiting, "SET")], &setting(1, true))[0];
    let taking = &scenarios(&[command(When::Taking, "SET")], &setting(1, true))[0];
    // A refused SET is passed by, so whatever comes is waited for.
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
