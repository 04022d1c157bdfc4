//! Every family of faults on local and Docker clusters: injected, observed, healed, observed; then once more on the same cluster.
//! REDJEPSEN_REPETITIONS=10 repeats this ten times each. The medians are printed as a table.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use model::fault_kinds::{CallEffect, Command, CommandFault, FaultKind};
use model::topology::Persistence;
use system::cluster::{Cluster, ClusterSpec, Docker, ImageRequest, Local};
use system::faults::{Injection, Observation, Parameter, RedisCommand, Skew};

use crate::kit;
use crate::turns;

const NODES: u32 = 5;
const CLIENTS: u32 = 2;

fn spec(test: &str) -> ClusterSpec {
    let spec = kit::spec(&format!("faults-{test}"), NODES, CLIENTS);
    ClusterSpec { persistence: Persistence::Everysec, preload: true, network_faults: true, ..spec }
}

fn names(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_string).collect()
}

/// Every link between the clients and these nodes, in both directions.
fn links(nodes: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for client in names("c0 c1") {
        for node in names(nodes) {
            pairs.push((client.clone(), node.clone()));
            pairs.push((node, client.clone()));
        }
    }
    pairs
}

/// A fault that holds the reply to the first SET.
fn held_set() -> Parameter {
    let command = Command::Named("SET".to_string());
    Parameter::Command(CommandFault { effect: CallEffect::HoldReply, command, nth: Some(1), key: None, error: None })
}

fn catalogue() -> Vec<(&'static str, Injection)> {
    let pause = |members| Injection::on_members(FaultKind::Pause, names(members));
    let partition = |links| Injection::on_links(FaultKind::Partition, links);
    let clock = |members, skew| Injection::on_members(FaultKind::Clock, names(members)).with(Parameter::Skew(skew));
    let to_node = vec![("c0".to_string(), "n0".to_string())];
    let replies = vec![("n2".to_string(), "c0".to_string())];
    vec![
        ("pause a client", pause("c0")),
        ("pause a node", pause("n1")),
        ("pause five nodes", pause("n0 n1 n2 n3 n4")),
        ("pause the background threads of a node", Injection::on_members(FaultKind::PauseBackground, names("n1"))),
        ("watch for a command", Injection::on_links(FaultKind::Call, to_node).with(held_set())),
        ("kill a node, start it again", Injection::on_members(FaultKind::Kill, names("n3"))),
        ("shutdown of a node, start it again", Injection::on_members(FaultKind::Shutdown, names("n3"))),
        ("shutdown of a node for an upgrade, start it again", Injection::on_members(FaultKind::Upgrade, names("n3"))),
        ("power loss of a node, start it again", Injection::on_members(FaultKind::PowerLoss, names("n4"))),
        ("partition: one node", partition(links("n0"))),
        ("partition: five nodes", partition(links("n0 n1 n2 n3 n4"))),
        ("partition: replies of one node only", partition(replies)),
        ("loss of 30%", Injection::on_links(FaultKind::Loss, links("n1")).with(Parameter::Percent(30))),
        (
            "delay of 50 ms",
            Injection::on_links(FaultKind::Delay, links("n1")).with(Parameter::Length { ms: 50, jitter_ms: 0 }),
        ),
        ("reset", Injection::on_links(FaultKind::Reset, links("n1"))),
        ("clock of a node jumps ahead", clock("n2", Skew::Jump { ms: 2000 })),
        ("clock of a node jumps back", clock("n2", Skew::Jump { ms: -2000 })),
        ("clock of a node runs 1.5 times as fast", clock("n2", Skew::Rate { factor: 1.5 })),
        ("clock of a node flickers", clock("n2", Skew::Strobe { ms: 500, period_us: 1000 })),
        ("clock of a client jumps ahead", clock("c1", Skew::Jump { ms: 2000 })),
        (
            "syncs of a node take 50 ms longer",
            Injection::on_members(FaultKind::SlowDisk, names("n2")).with(Parameter::Length { ms: 50, jitter_ms: 0 }),
        ),
        ("evict", Injection::on_members(FaultKind::Evict, names("n0"))),
        (
            "busy, silent for 100 ms",
            Injection::on_members(FaultKind::Busy, names("n0")).with(Parameter::Length { ms: 100, jitter_ms: 0 }),
        ),
        ("writes are refused", Injection::on_members(FaultKind::RefuseWrites, names("n0"))),
        ("scripts are forgotten", Injection::on_members(FaultKind::ForgetScripts, names("n0"))),
        ("flush", Injection::on_members(FaultKind::Flush, names("n0"))),
        ("snapshots of a node", Injection::on_members(FaultKind::Snapshot, names("n0"))),
    ]
}

#[test]
fn every_kind_is_in_the_catalogue() {
    // A failover needs nodes that have roles; see `groups`.
    let by_the_agent = |kind: &&FaultKind| !kind.needs.roles && kind.is_by_the_agent();
    for kind in FaultKind::ALL.iter().filter(by_the_agent) {
        assert!(catalogue().iter().any(|(_, injection)| injection.kind == *kind), "{kind}");
    }
}

/// Injects and heals a fault, and fails if either was not observed. Returns the milliseconds that each took for the controller.
async fn once(cluster: &Cluster, number: u32, label: &str, injection: &Injection) -> (f64, f64) {
    let timed = Instant::now();
    let seen = tokio::select! {
        seen = cluster.agent.inject(number, injection) => seen.unwrap(),
        // A slow disk has a visible effect only on a node with writes.
        never = writes_to_n2(cluster), if injection.kind == FaultKind::SlowDisk => never,
    };
    let inject = timed.elapsed();
    assert_seen(label, "injected", &seen);

    let timed = Instant::now();
    if injection.kind.ends_processes() || injection.kind.does.restarts {
        for member in &injection.members {
            cluster.restart_server(member).await.unwrap();
        }
    }
    let seen = cluster.agent.heal(number).await.unwrap();
    assert_seen(label, "healed", &seen);
    (inject.as_secs_f64() * 1e3, timed.elapsed().as_secs_f64() * 1e3)
}

/// Never returns.
async fn writes_to_n2<T>(cluster: &Cluster) -> T {
    loop {
        let write = RedisCommand::Words(names("SET written again"));
        cluster.agent.redis(&cluster.node_urls()[2], write, Duration::from_secs(1)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn assert_seen(label: &str, what: &str, seen: &Observation) {
    assert!(seen.observed, "{label}, {what}: {}", seen.text);
}

async fn every_fault(cluster: &Cluster, kind: &str) {
    let repetitions =
        std::env::var("REDJEPSEN_REPETITIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_u32).max(1);
    // The clients are just processes with an address; they get no requests.
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        clients.push(cluster.start_client(client).await.unwrap());
    }
    let mut number = 0;
    println!("| fault, on a {kind} cluster | inject, ms | heal, ms |\n|---|---|---|");
    for (label, injection) in catalogue() {
        let mut times = (Vec::new(), Vec::new());
        for _ in 0..repetitions {
            let (inject, heal) = once(cluster, number, label, &injection).await;
            times.0.push(inject);
            times.1.push(heal);
            number += 1;
        }
        println!("| {label} | {:.1} | {:.1} |", median(&mut times.0), median(&mut times.1));
    }
    assert!(cluster.agent.heal_all().await.unwrap().is_empty(), "all was healed");
}

/// Runs every fault, then removes the cluster even if a fault failed.
async fn every_fault_and_stop(cluster: &Cluster, kind: &str) {
    let faults = AssertUnwindSafe(every_fault(cluster, kind)).catch_unwind();
    let outcome = tokio::time::timeout(Duration::from_secs(240), faults).await;
    cluster.stop().await.unwrap();
    if let Err(panic) = outcome.expect("in time") {
        resume_unwind(panic);
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_happens_in_docker_and_is_undone() {
    let _turn = turns::docker();
    let docker = Docker::connect().await.expect("this test needs a Docker engine");
    let program = Some(Path::new(env!("CARGO_BIN_EXE_redjepsen")).to_path_buf());
    let request = ImageRequest { program, ..ImageRequest::default() };
    let images = docker.prepare(&request, &mut |line| eprintln!("{line}")).await.unwrap();
    let cluster = docker.start(spec("docker"), images).await.unwrap();
    every_fault_and_stop(&cluster, "Docker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_happens_locally_and_is_undone() {
    let _turn = turns::local();
    let program = Some(Path::new(env!("CARGO_BIN_EXE_redjepsen")).to_path_buf());
    let local = Local::find(None, program).expect("this test needs a redis-server");
    let cluster = local.start(spec("local")).await.unwrap();
    every_fault_and_stop(&cluster, "local").await;
}

/// One fault keeps the only node down most of the time, another fault pauses it. The pause is skipped while the node is down,
/// since nothing could be observed, and this does not make the run inconclusive.
#[test]
fn a_node_that_is_down_is_not_paused_and_the_history_says_why() {
    let _turn = turns::local();
    let store = tempfile::tempdir().unwrap();
    let nemesis = store.path().join("often-down.toml");
    let fault = |fault, every, lasts| {
        format!("[[faults]]\nfault = \"{fault} node:0\"\nevery = \"{every}\"\nfor = \"{lasts}\"\n")
    };
    let faults = [fault("kill", "2s..2s", "1500ms..1500ms"), fault("pause", "600ms..600ms", "100ms..100ms")].concat();
    std::fs::write(&nemesis, format!("description = \"Often down\"\nstory = \"\"\n{faults}")).unwrap();
    let run = ["run", "--cluster", "local", "--workload", "single", "--time-limit", "8s", "--seed", "1", "--nemesis"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.args(run).arg(&nemesis).arg("--store").arg(store.path()).stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let history = std::fs::read_to_string(store.path().join("latest/history.jsonl"))
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let events = history.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let pauses: Vec<_> = events.filter(|event| event["f"] == "pause").collect();
    let steps = |step: &str| pauses.iter().filter(|event| event["step"] == step).collect::<Vec<_>>();
    assert!(steps("skipped").iter().any(|event| event["text"] == "n0 was down"), "{pauses:#?}");
    let injected = steps("injected");
    assert!(!injected.is_empty() && injected.iter().all(|event| event["observed"] == true), "{pauses:#?}");
}

/// Runs a script on a local cluster: returns the output and the history.
fn played(workload: &str, steps: &[&str]) -> (String, Vec<serde_json::Value>) {
    let store = tempfile::tempdir().unwrap();
    let nemesis = store.path().join("script.toml");
    let file = format!("description = \"d\"\nstory = \"s\"\nprogress = \"any\"\nclients = 2\nscript = {steps:?}\n");
    std::fs::write(&nemesis, file).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.args(["run", "--cluster", "local", "--seed", "1", "--workload", workload, "--nemesis"]);
    command.arg(&nemesis).arg("--store").arg(store.path()).stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let history = std::fs::read_to_string(store.path().join("latest/history.jsonl"))
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let events = history.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), events)
}

#[test]
fn a_fault_at_a_command_has_happened_once_it_strikes_and_not_before() {
    let _turn = turns::local();
    let fault = "hold reply to 2nd SET client:1 from node:0";
    let await_it = format!("await {fault} within 3ttl");
    let steps =
        [fault, "start client:1", "await client:1 end", "start client:1", &await_it, "heal all", "await client:1 end"];
    let (told, events) = played("single", &steps);
    assert!(told.starts_with("VALID") || told.contains("\nVALID"), "{told}");
    let call = |step: &str| events.iter().position(|event| event["f"] == "call" && event["step"] == step).unwrap();
    let injected = &events[call("injected")];
    assert_eq!(injected["text"], "c1's 2nd SET of lock:k0 to n0 was answered with OK, and the reply is held");
    assert_eq!((&injected["observed"], &injected["value"]), (&true.into(), &serde_json::json!(["c1", "n0"])));
    let first_is_over = |event: &serde_json::Value| event["script"]["number"] == 3;
    let first = events.iter().position(first_is_over).unwrap();
    assert!(call("inject") < first && first < call("injected") && call("injected") < call("heal"));
    assert_eq!(events[call("healed")]["observed"], true);
}

#[test]
fn a_fault_whose_command_never_comes_makes_the_run_unknown() {
    let _turn = turns::local();
    let (told, events) =
        played("single", &["lose reply to LPUSH client:0 from nodes", "start client:0", "await client:0 end"]);
    assert!(told.contains("UNKNOWN"), "{told}");
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("armed, but there was no reply to a LPUSH from c0 to n0"), "{told}");
    let healed = events.iter().find(|event| event["f"] == "call" && event["step"] == "healed").unwrap();
    assert_eq!(healed["observed"], true);
}
