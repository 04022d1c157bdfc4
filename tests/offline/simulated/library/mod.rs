//! Tests how `redjepsen library` evaluates a library's commands and results. Its scenarios run in virtual time.

mod named;
mod remarked;
mod sent;
mod strikes;
mod told;

use std::path::Path;

use checker::properties::Advisory;
use checker::{Remark, Validity, advise, check};
use labs::library::commands::{ObservedCommand, RenewalMode, When};
use labs::library::examined::{Examined, Tried, TriedRun};
use labs::library::kind::{Baseline, Kind};
use labs::library::strikes::{Scripted, Setting, Strike};
use labs::library::struck::{CommandEffect, FaultHit};
use model::history::{self, RecordedCommand};
use model::scenario::{Options, Scenario};
use runner::simulate::simulate;

fn command(when: When, name: &str) -> ObservedCommand {
    let example = format!("{name} lock:k0");
    ObservedCommand {
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

/// A library whose client can be cancelled, like the built-in client, and has no event loop.
fn setting(nodes: u32, expires: bool) -> Setting {
    Setting {
        nodes,
        expires,
        upkeep: RenewalMode::None,
        permits: 1,
        cancels: true,
        blocks: false,
        knows_the_catalogue: true,
    }
}

/// How this reference lock is renewed while it is held.
fn upkeep_of(workload: &str) -> RenewalMode {
    match workload {
        "redlock-watchdog" => RenewalMode::InTheBackground,
        "redlock-asks" => RenewalMode::Asked,
        "redlock-extend" => RenewalMode::ByItsHolder,
        _ => RenewalMode::None,
    }
}

/// The run of this scenario with this reference lock.
fn run_with(scripted: &Scripted, workload: &str, nodes: u32) -> Scenario {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{}.toml", scripted.name));
    std::fs::write(&file, &scripted.toml).unwrap();
    let options = Options { nodes: Some(nodes), ..Options::default() };
    options.scenario(workload, file.to_str().unwrap(), 1, Path::new("")).unwrap()
}

/// The result of a run.
fn played(scripted: &Scripted, scenario: &Scenario) -> (Validity, String) {
    let checked = simulate(scenario).unwrap_or_else(|error| panic!("{error:?}\n{}", scripted.toml));
    let failed = checked.verdict.gates.iter().find(|gate| !gate.passed).map(|gate| gate.text.clone());
    let toml = &scripted.toml;
    (checked.verdict.valid, format!("{} with {}: {failed:?}\n{toml}", scripted.name, scenario.workload_name))
}

/// True if a node forgets the lock. If the lock is on no other node, this is not a defect of the library.
fn forgets(scripted: &Scripted) -> bool {
    scripted.aims.iter().any(|aim| matches!(aim.strike, Strike::NodeRestart | Strike::NodeClock))
}

/// The lock with this name as a kind for comparison.
fn kind(reference: &str) -> Kind {
    Kind { reference: Some(reference.into()), what: "a lock".into(), upkeep: upkeep_of(reference) }
}

/// A run of some clients in which c0 acquires, holds and releases the lock; the header is the history's first line.
fn run_of(clients: u32) -> history::History {
    run_that_releases_by(clients, 490)
}

/// The same run with the time of the release, in nanoseconds.
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
        port: None,
        missed: None,
        time,
        node: "n0".into(),
        in_script: from.is_none(),
        from,
        words: words.iter().map(|word| word.to_string()).collect(),
    }
}

fn strike(when: Option<When>, command: &str, did: CommandEffect) -> FaultHit {
    let what = format!("c0's 1st {command} of lock:k0 to n0 was answered with OK");
    FaultHit { when, command: command.into(), what, times: 1, was_kept_away: false, did }
}

fn run(valid: Validity, when: Option<When>, anomaly: &str) -> TriedRun {
    TriedRun {
        outlived: false,
        ttl: "1s".into(),
        valid: Some(valid),
        timing_was_kept: true,
        summary: format!("It came out {valid:?}."),
        struck: vec![strike(when, "SET", CommandEffect::Changed(vec!["SET".into()]))],
        when: when.into_iter().collect(),
        anomaly: Some(anomaly.into()),
        account: String::new(),
        endless: Default::default(),
        advisories: Vec::new(),
        diagnoses: Vec::new(),
        folder: "../runs/one".into(),
        repeat: "redjepsen run --seed 1".into(),
    }
}

/// The remark of this advisory on a history; None if there is none.
fn remark(advisory: &Advisory, history: &history::History, commands: &[RecordedCommand]) -> Option<Remark> {
    advise(history, &check(history), commands).into_iter().find(|remark| remark.id == advisory.id)
}

/// A valid run without a fault, with this remark.
fn advised(advisory: &Advisory, history: &history::History, commands: &[RecordedCommand]) -> TriedRun {
    let advisories = remark(advisory, history, commands).into_iter().collect();
    TriedRun { advisories, ..run(Validity::Valid, None, "") }
}

/// A valid run without a fault, with an invented remark.
fn remarked(id: &str, disturbed: bool, text: &str) -> TriedRun {
    let (id, title) = (id.to_string(), String::new());
    let remark = Remark { id, title, count: 1, of: 1, severity: 0, disturbed, text: text.into() };
    TriedRun { advisories: vec![remark], ..run(Validity::Valid, None, "") }
}

fn tried(scenario: &str, of_its_kind: Baseline, runs: Vec<TriedRun>) -> Tried {
    Tried {
        scenario: scenario.into(),
        description: format!("What {scenario} is"),
        plain: false,
        by_threads: false,
        of_its_kind,
        without_strike: false,
        tried_alone: false,
        runs,
    }
}

fn examined(tried: Vec<Tried>) -> Examined {
    Examined {
        repeat: "redjepsen library ./mine.toml".into(),
        name: "mine 1.0".into(),
        kind: Kind {
            reference: Some("single".into()),
            what: "a lock with a TTL, on one node".into(),
            upkeep: RenewalMode::None,
        },
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
