//! The clients' operations before the first step of a script and after the last.

use std::path::Path;

use checker::Validity;
use model::history::{Function, History, Operation, Outcome, Phase, Process};
use model::scenario::Options;
use runner::simulate::simulate;

/// For each client, the number of acknowledged operations and of others.
fn ends(history: &History, clients: u32) -> Vec<(usize, usize)> {
    let mut ends = vec![(0, 0); clients as usize];
    for operation in &history.operations {
        // A client that crashed continues as another process.
        let Process::Client(process) = operation.process else { continue };
        let (acknowledged, others) = &mut ends[(process % clients) as usize];
        *if operation.outcome == Outcome::Ok { acknowledged } else { others } += 1;
    }
    ends
}

fn play(workload: &str, nemesis: &str, clients: u32, seed: u64, options: Options) -> Vec<(usize, usize)> {
    let options = Options { clients: Some(clients), ..options };
    let scenario = options.scenario(workload, nemesis, seed, Path::new("")).unwrap();
    ends(&simulate(&scenario).unwrap().history, clients)
}

#[test]
fn what_fails_before_and_after_the_steps_is_made_up_for() {
    for seed in 0..10 {
        let ends = play("steal-hasty", "lost-ack", 5, seed, Options::default());
        let stolen: usize = ends.iter().map(|(_, failed)| failed).sum();
        assert!(stolen > 1, "nothing was stolen but what the script is about: {ends:?}");
        assert!(ends.iter().all(|(acknowledged, _)| *acknowledged >= 6), "{ends:?}");
    }
}

/// A fault whose effect ends with its heal must overlap with a client's work. A fault with a later effect need not.
#[test]
fn a_fault_of_a_script_that_met_no_work_proves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let verdict = |script: &str| {
        let text = format!("description = \"d\"\nstory = \"s\"\nprogress = \"any\"\nscript = [{script}]\n");
        std::fs::write(&file, text).unwrap();
        let scenario = Options::default().scenario("single", file.to_str().unwrap(), 1, Path::new("")).unwrap();
        let verdict = simulate(&scenario).unwrap().verdict;
        (verdict.valid, verdict.gates.into_iter().find(|gate| !gate.passed).map(|gate| gate.text))
    };
    let met_none = Some("0 of 1 fault hit while an affected client was at work".to_string());
    for script in [
        r#""wait 1ttl", "refuse-writes nodes", "wait 2ttl", "heal all""#,
        r#""wait 1ttl", "pause nodes", "wait 1ttl", "heal all""#,
        r#""start client:0", "await client:0 end", "pause client:0", "wait 1ttl", "heal all""#,
        // Another client's work does not count for a paused client.
        r#""pause client:0", "start client:1", "await client:1 end", "heal all""#,
    ] {
        assert_eq!(verdict(script), (Validity::Unknown, met_none.clone()), "{script}");
    }
    for script in [
        r#""pause nodes", "start client:0", "wait 1ttl", "heal all", "await client:0 end within 4ttl or go on""#,
        r#""pause client:1", "start client:0", "start client:1", "wait 1ttl", "heal all""#,
        r#""wait 1ttl", "kill node:0", "heal all", "start client:0", "await client:0 end""#,
    ] {
        assert_ne!(verdict(script).1, met_none, "{script}");
    }
}

#[test]
fn a_lock_that_nobody_gets_any_more_is_not_asked_for_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stays.toml");
    let script = r#"
        description = "A holder dies, and its lock stays"
        story = "Nobody gets the lock again."
        progress = "any"
        ttl = "10m"
        script = ["start client:0 to read", "kill client:0", "heal kill client:0"]
    "#;
    std::fs::write(&file, script).unwrap();
    let options = Options {
        hold: Some("5ms".parse().unwrap()),
        acquire_timeout: Some("1s".parse().unwrap()),
        ..Options::default()
    };
    let ends = play("redlock", file.to_str().unwrap(), 3, 1, options);
    assert_eq!(ends, [(4, 3), (4, 2), (4, 2)], "one round of two after the steps");
}

/// A node without persistence comes back empty, even if it was writing snapshots; a node that synced its file does not.
#[test]
fn a_killed_node_does_not_come_back_with_what_a_snapshot_fault_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("killed.toml");
    for (persistence, expected) in [("none", Validity::Invalid), ("always", Validity::Valid)] {
        let script = format!(
            r#"
            description = "A node is killed while it writes snapshots of the lock"
            story = "It loads none of them."
            progress = "any"
            clients = 2
            ttl = "3s"
            persistence = "{persistence}"
            script = [
              "start client:0 to before-write",
              "snapshot node:0",
              "wait 0.05ttl",
              "kill node:0",
              "heal kill node:0",
              "start client:1 to before-write or end giving up after 0.3ttl within 0.5ttl",
              "go client:0",
              "await client:0 end within 0.3ttl or go on",
              "go client:1",
              "await client:1 end",
              "await client:0 end",
            ]
            "#
        );
        std::fs::write(&file, script).unwrap();
        let scenario = Options::default().scenario("single", file.to_str().unwrap(), 1, Path::new("")).unwrap();
        let checked = simulate(&scenario).unwrap();
        assert_eq!(checked.verdict.valid, expected, "{persistence}: {:?}", checked.verdict.reasons);
        let seen = checked.history.faults.iter().all(|window| window.was_observed() && window.healed.is_some());
        assert!(seen, "{:?}", checked.history.faults);
    }
}

/// A client reports each phase once. A phase at which it waits is reported again once the client may continue.
#[test]
fn a_client_reports_the_phase_at_which_it_waits_again() {
    use Phase::{Acquired, Acquiring, BeforeWrite, Read, Released, Releasing, Written};
    let scenario = Options::default().scenario("redlock", "pause-before-write", 7, Path::new("")).unwrap();
    let history = simulate(&scenario).unwrap().history;
    let phases = |operation: &Operation| operation.phases.iter().map(|stamp| stamp.phase).collect::<Vec<_>>();
    let updates = history.operations.iter().filter(|operation| operation.f == Function::Rmw);
    let twice = [Acquiring, Acquired, Read, BeforeWrite, BeforeWrite, Written, Releasing, Released];
    let once = [Acquiring, Acquired, Read, BeforeWrite, Written, Releasing, Released];
    let (waited, others): (Vec<_>, Vec<_>) = updates.map(phases).partition(|phases| *phases == twice);
    assert_eq!(waited.len(), 1, "one client waits, and goes on once");
    assert!(others.len() > 5 && others.iter().all(|phases| *phases == once), "{others:?}");
}

#[test]
fn a_server_that_refuses_writes_answers_them_with_an_error_until_the_heal() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("refused.toml");
    let script = r#"
        description = "Nobody can take the lock, and then somebody can"
        story = "A primary whose replicas are gone."
        progress = "any"
        clients = 2
        script = [
            "refuse-writes node:0", "start client:0 giving up after 0.3ttl", "await client:0 end",
            "heal refuse-writes node:0", "start client:1 giving up after 0.3ttl", "expect client:1 acquired within 0.2ttl",
            "await client:1 end",
        ]
    "#;
    std::fs::write(&file, script).unwrap();
    let scenario = Options::default().scenario("single", file.to_str().unwrap(), 1, Path::new("")).unwrap();
    let checked = simulate(&scenario).unwrap();
    let [fault] = &checked.history.faults[..] else { panic!("{:?}", checked.history.faults) };
    let seen: Vec<&str> = fault.texts.iter().map(String::as_str).collect();
    assert!(seen[0].contains("n0: it answers writes with NOREPLICAS"), "{seen:?}");
    assert!(seen.last().is_some_and(|last| last.contains("n0: it accepts writes")), "{seen:?}");
    let meanwhile = |one: &&Operation| (fault.inject..fault.heal.unwrap()).contains(&one.invoked);
    let updates = || checked.history.operations.iter().filter(|one| one.f == Function::Rmw);
    let (refused, others): (Vec<_>, Vec<_>) = updates().partition(meanwhile);
    assert_eq!((refused.len(), refused[0].outcome), (1, Outcome::Fail));
    assert!(others.iter().all(|one| one.outcome == Outcome::Ok), "{others:?}");
}

/// When two faults of a kind hit one node, the heal of the last one undoes them.
#[test]
fn a_node_that_another_eviction_still_hits_keeps_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("twice.toml");
    let script = r#"
        description = "Two evictions overlap"
        story = "Either is undone by its own heal."
        progress = "any"
        script = ["evict node:0", "evict nodes", "heal evict nodes", "wait 0.1ttl", "heal evict node:0"]
    "#;
    std::fs::write(&file, script).unwrap();
    let scenario = Options::default().scenario("redlock", file.to_str().unwrap(), 1, Path::new("")).unwrap();
    let history = simulate(&scenario).unwrap().history;
    let healed: Vec<&str> = history.faults.iter().filter_map(|fault| fault.texts.last()).map(String::as_str).collect();
    let [first, second] = healed[..] else { panic!("{healed:?}") };
    assert!(first.contains("n0: memory is no longer limited"), "{first}");
    assert!(!second.contains("n0: memory") && second.contains("another fault still hits n0"), "{second}");
    assert!(history.faults.iter().all(|fault| fault.healed.is_some_and(|(_, observed)| observed)), "{healed:?}");
}
