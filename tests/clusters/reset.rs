//! Suite runs that share a cluster: each run gets the cluster in its initial state, or a new cluster; nothing is left at the end.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use base::members::Role;
use model::fault_kinds::FaultKind;
use model::scenario::Options;
use serde_json::Value;
use system::cluster::{ClientOutput, Cluster, ClusterSpec, Docker, ImageRequest, Local};
use system::faults::{Injection, RedisCommand, RedisReply};

use crate::kit;
use crate::turns;

const LIMIT: Duration = Duration::from_secs(2);
/// Every server logs this when it starts.
const FIRST_WORDS: &str = "Ready to accept connections";

/// Two nodes, two clients, network faults enabled.
async fn start(kind: &str, test: &str) -> Cluster {
    let spec = ClusterSpec { network_faults: true, ..kit::spec(&format!("reset-{test}"), 2, 2) };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_redjepsen"));
    match kind {
        "docker" => {
            let docker = Docker::connect().await.expect("these tests need a Docker engine");
            let request = ImageRequest { program: Some(program), ..ImageRequest::default() };
            let images = docker.prepare(&request, &mut |line| eprintln!("{line}")).await.unwrap();
            docker.start(spec, images).await.unwrap()
        }
        _ => Local::find(None, Some(program)).unwrap().start(spec).await.unwrap(),
    }
}

fn servers(cluster: &Cluster) -> Vec<String> {
    cluster.node_urls().into_iter().chain([cluster.resource_url()]).collect()
}

async fn said(cluster: &Cluster, url: &str, words: &[&str]) -> String {
    let words = RedisCommand::Words(words.iter().map(|word| (*word).to_string()).collect());
    match cluster.agent.redis(url, words, LIMIT).await.unwrap() {
        RedisReply::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

fn members(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_string()).collect()
}

async fn inject(cluster: &Cluster, fault: u32, injection: Injection) {
    let seen = cluster.agent.inject(fault, &injection).await.unwrap();
    assert!(seen.observed, "{injection:?}: {seen:?}");
}

fn cut() -> Injection {
    let pairs = [("n0", "resource"), ("resource", "n0")].map(|(from, to)| (from.to_string(), to.to_string()));
    Injection::on_links(FaultKind::Partition, pairs.into())
}

/// A reset removes everything that a run can leave on a cluster, and fault numbers can be used again.
async fn what_a_run_leaves_is_gone(kind: &str) {
    let cluster = start(kind, kind).await;
    let new = cluster.initial_state().await.unwrap();
    let mut old = cluster.start_client(0).await.unwrap();
    for url in servers(&cluster) {
        said(&cluster, &url, &["SET", "k0", "c0:1"]).await;
        said(&cluster, &url, &["EVAL", "return 1", "0"]).await;
    }
    inject(&cluster, 0, Injection::on_members(FaultKind::Kill, members(&["n1"]))).await;
    cluster.restart_server("n1").await.unwrap();
    inject(&cluster, 1, cut()).await;
    inject(&cluster, 2, Injection::on_members(FaultKind::Evict, members(&["n1"]))).await;
    inject(&cluster, 3, Injection::on_members(FaultKind::Pause, members(&["n0", "c1"]))).await;
    let logs = tempfile::tempdir().unwrap();
    for run in ["first", "second"] {
        fs::create_dir(logs.path().join(run)).unwrap();
    }
    cluster.collect_logs(&logs.path().join("first")).await.unwrap();

    cluster.reset(&new).await.unwrap();
    let ended = async { while !matches!(old.output.recv().await, None | Some(ClientOutput::Closed(_))) {} };
    tokio::time::timeout(LIMIT, ended).await.expect("a client of the run before lives");
    let states = cluster.member_states().await.unwrap();
    assert!(states.iter().all(|state| state.running), "{states:?}");
    assert_eq!(states.iter().filter(|state| state.role == Role::Client).count(), 2);
    for url in servers(&cluster) {
        assert_eq!(cluster.agent.redis(&url, RedisCommand::Dbsize, LIMIT).await.unwrap(), RedisReply::Count(0));
        assert_eq!(cluster.agent.redis(&url, RedisCommand::Connections, LIMIT).await.unwrap(), RedisReply::Count(1));
        assert_eq!(said(&cluster, &url, &["CONFIG", "GET", "maxmemory"]).await, "maxmemory\n0");
        let info = said(&cluster, &url, &["INFO", "memory"]).await;
        assert!(info.contains("number_of_cached_scripts:0"), "{info}");
    }
    inject(&cluster, 1, cut()).await;
    assert!(cluster.agent.heal(1).await.unwrap().observed);
    cluster.reset(&new).await.expect("a second time");
    cluster.collect_logs(&logs.path().join("second")).await.unwrap();
    for server in ["n0", "n1", "resource"] {
        let log = |run: &str| fs::read_to_string(logs.path().join(run).join(server).join("redis.log")).unwrap();
        let (first, second) = (log("first"), log("second"));
        assert!(first.contains(FIRST_WORDS) && !second.contains(FIRST_WORDS), "{server}: {second}");
    }
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_leaves_on_a_local_cluster_is_gone() {
    let _turn = turns::local();
    what_a_run_leaves_is_gone("local").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_leaves_on_a_cluster_in_docker_is_gone() {
    let _turn = turns::docker();
    what_a_run_leaves_is_gone("docker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_cannot_be_made_as_new_says_why() {
    let _turn = turns::local();
    for (test, because) in [
        ("setting", "n1 cannot be reset: its setting `hz 20` changed"),
        ("killed", "the cluster cannot be reset: n1: was not started again"),
        ("gone", "exit code 137"),
        // Depends on which loss is noticed first: the agent is part of the sandbox.
        ("agent", "fault agent is lost"),
    ] {
        let cluster = start("local", test).await;
        let new = cluster.initial_state().await.unwrap();
        cluster.reset(&new).await.unwrap();
        match test {
            "setting" => {
                said(&cluster, &cluster.node_urls()[1], &["CONFIG", "SET", "hz", "20"]).await;
            }
            "killed" => inject(&cluster, 7, Injection::on_members(FaultKind::Kill, members(&["n1"]))).await,
            "gone" => kill_a_server(cluster.run_id()),
            _ => cluster.agent.close().await,
        }
        let error = cluster.reset(&new).await.expect_err(test).to_string();
        assert!(error.contains(because), "{error}");
        cluster.stop().await.unwrap();
    }
}

/// The processes of a local run, recognized by their root directory.
fn processes_of(run_id: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        fs::read_link(entry.path().join("root")).is_ok_and(|root| root.to_string_lossy().contains(run_id))
    });
    processes.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Kills a server of a local run from outside.
fn kill_a_server(run_id: &str) {
    let is_server = |pid: &String| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains("redis-server"))
    };
    let server = processes_of(run_id).into_iter().find(is_server).expect("a local run has servers");
    assert!(Command::new("kill").args(["-KILL", &server]).status().unwrap().success());
}

fn engine(arguments: &[&str]) -> String {
    let output = Command::new("docker").args(arguments).output().expect("these tests need the program docker");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// Everything of a run that still exists, in any kind of cluster.
fn left_of(run_id: &str) -> Vec<String> {
    let label = format!("label=redjepsen.run={run_id}");
    let mut left: Vec<String> =
        [engine(&["ps", "-aq", "--filter", &label]), engine(&["network", "ls", "-q", "--filter", &label])].into();
    left.extend(processes_of(run_id));
    let folder = std::env::temp_dir().join(format!("redjepsen-run-{run_id}"));
    left.extend(folder.exists().then(|| folder.display().to_string()));
    left.retain(|left| !left.is_empty());
    left
}

fn redjepsen(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Two scenarios that can share a cluster, and one that cannot, because it skews clocks.
fn suite(folder: &Path, cluster: &str, clock: bool) {
    let clock = if clock {
        "[[cells]]\nworkload = \"redlock-guarded\"\nnemesis = \"clock\"\nruns = 1\nexpect = \"nothing\"\n"
    } else {
        ""
    };
    let suite = format!(
        "description = \"Shared\"\nruns = 2\n[with]\ncluster = \"{cluster}\"\ntime_limit = \"5s\"\nttl = \"400ms\"\n\
         [[cells]]\nworkload = \"redlock-guarded\"\nnemesis = [\"kill-node,partition\", \"pause-node,partition\"]\nexpect = \"nothing\"\n{clock}"
    );
    fs::write(folder.join("mine.toml"), suite).unwrap();
}

/// The folders of a suite's runs, in the order of their creation.
fn runs(folder: &Path) -> Vec<PathBuf> {
    let tests = fs::read_dir(folder.join("store/suites/mine/latest/runs")).into_iter().flatten().flatten();
    let runs =
        tests.filter(|test| test.file_type().unwrap().is_dir()).flat_map(|test| fs::read_dir(test.path()).unwrap());
    let mut runs: Vec<PathBuf> =
        runs.flatten().filter(|run| run.file_type().unwrap().is_dir()).map(|run| run.path()).collect();
    runs.sort_by_key(|run| run.file_name().unwrap().to_owned());
    runs
}

fn log(run: &Path) -> String {
    fs::read_to_string(run.join("redjepsen.log")).unwrap_or_default()
}

/// The name of the cluster that a run left running.
fn cluster_left_by(run: &Path) -> Option<String> {
    let log = log(run);
    let line = log.lines().find(|line| line.contains("cluster kept for the next run"))?;
    Some(line.split('"').nth(1)?.to_string())
}

/// The names of the facts that hold in a history.
fn facts_that_hold(run: &Path) -> Vec<String> {
    let history = fs::read_to_string(run.join("history.jsonl")).unwrap();
    let events = history.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let facts = events.map(|event| event["fact"].clone()).filter(|fact| fact["holds"] == true);
    facts.map(|fact| fact["name"].as_str().unwrap().to_string()).collect()
}

fn runs_share_a_cluster(kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    suite(folder.path(), kind, true);
    let output = redjepsen(&["suite", "./mine.toml"], folder.path()).output().unwrap();
    println!("{}", text(&output));
    let runs = runs(folder.path());
    assert_eq!(runs.len(), 5, "{}", text(&output));
    let mut standing: Option<String> = None;
    for (number, run) in runs.iter().enumerate() {
        let (log, results) = (log(run), fs::read_to_string(run.join("results.json")).unwrap());
        let clock = run.display().to_string().contains("-clock/");
        assert_eq!(log.contains("reset the cluster"), standing.is_some(), "run {number}: {log}");
        assert_eq!(log.contains("cluster started"), standing.is_none(), "run {number}: {log}");
        assert!(!(clock && standing.is_some()), "one whose clocks may go wrong has a cluster of its own: {log}");
        let results: Value = serde_json::from_str(&results).unwrap();
        assert_ne!(results["valid"], false, "a resource that compares old values loses nothing: {results}");
        let facts = facts_that_hold(run);
        for fact in ["nodes-ready", "resource-empty", "clients-ready", "final-reads"] {
            assert!(facts.iter().any(|name| name == fact), "run {number}: {facts:?}");
        }
        let of_the_store = fs::read_to_string(run.join("resource/redis.log")).unwrap();
        assert_eq!(
            of_the_store.contains(FIRST_WORDS),
            standing.is_none(),
            "run {number} has its own log: {of_the_store}"
        );
        let facts: Value = serde_json::from_str(&fs::read_to_string(run.join("facts.json")).unwrap()).unwrap();
        let repeat = facts["repeat"].as_str().unwrap();
        assert!(
            repeat.starts_with("redjepsen run --workload redlock-guarded") && repeat.contains("--seed "),
            "{repeat}"
        );
        standing = cluster_left_by(run);
    }
    assert!(runs.iter().filter(|run| log(run).contains("reset the cluster")).count() >= 2);
    for cluster in runs.iter().filter_map(|run| cluster_left_by(run)) {
        assert_eq!(left_of(&cluster), Vec::<String>::new());
    }
}

#[test]
fn runs_share_a_local_cluster_and_each_has_a_folder_of_its_own() {
    let _turn = turns::local();
    runs_share_a_cluster("local");
}

#[test]
fn runs_share_a_cluster_in_docker_and_each_has_a_folder_of_its_own() {
    let _turn = turns::docker();
    runs_share_a_cluster("docker");
}

#[test]
fn every_run_has_a_cluster_of_its_own_where_that_is_wanted() {
    let _turn = turns::local();
    let folder = tempfile::tempdir().unwrap();
    suite(folder.path(), "local", false);
    let output = redjepsen(&["suite", "./mine.toml", "--new-clusters"], folder.path()).output().unwrap();
    let runs = runs(folder.path());
    assert_eq!(runs.len(), 4, "{}", text(&output));
    assert!(runs.iter().all(|run| log(run).contains("cluster started") && log(run).contains("cluster removed")));
}

/// The process that `suite` starts, driven directly by this test.
struct Maker(Child, BufReader<std::process::ChildStdout>, PathBuf);

impl Maker {
    fn start(folder: &Path) -> Maker {
        let log = fs::File::create(folder.join("stderr")).unwrap();
        let mut command = redjepsen(&["make-runs"], folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Maker(child, answers, folder.to_path_buf())
    }

    /// Requests a run; returns None if the process exits before it answers.
    fn make(&mut self, kind: &str, seed: u64, more: bool) -> Option<i32> {
        let options: Options = toml::from_str(&format!("cluster = \"{kind}\"\ntime_limit = \"3s\"")).unwrap();
        let scenario = options.scenario("redlock-guarded", "none", seed, Path::new("")).unwrap();
        let folder = format!("store/suites/mine/latest/runs/redlock-guarded-none/{seed}");
        fs::create_dir_all(self.2.join(&folder)).unwrap();
        let request = serde_json::json!({ "scenario": scenario, "folder": folder, "repeat": null, "keep_cluster": more, "observe": true });
        writeln!(self.0.stdin.as_mut().unwrap(), "{request}").unwrap();
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim().parse().ok()
    }
}

fn a_broken_cluster_is_thrown_away(kind: &str, kill: impl Fn(&str)) {
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::start(folder.path());
    let said = || fs::read_to_string(folder.path().join("stderr")).unwrap();
    assert_eq!(maker.make(kind, 1, true), Some(0), "{}", said());
    let first = cluster_left_by(&runs(folder.path())[0]).unwrap();
    kill(&first);
    assert_eq!(maker.make(kind, 2, true), Some(0), "{}", said());
    let second = runs(folder.path())[1].clone();
    assert!(
        log(&second).contains("discarded the cluster") && log(&second).contains("cluster started"),
        "{}",
        log(&second)
    );
    assert!(said().contains("starts a new one"), "{}", said());
    assert_eq!(left_of(&first), Vec::<String>::new());
    assert_eq!(maker.make(kind, 3, false), None);
    assert_eq!(maker.0.wait().unwrap().code(), Some(0), "{}", said());
    assert!(log(&runs(folder.path())[2]).contains("reset the cluster"), "{}", said());
    assert_eq!(left_of(&cluster_left_by(&second).unwrap()), Vec::<String>::new());
}

#[test]
fn a_local_cluster_that_broke_between_runs_is_thrown_away() {
    let _turn = turns::local();
    a_broken_cluster_is_thrown_away("local", kill_a_server);
}

#[test]
fn a_cluster_in_docker_that_broke_between_runs_is_thrown_away() {
    let _turn = turns::docker();
    a_broken_cluster_is_thrown_away("docker", |run_id| _ = engine(&["kill", &format!("redjepsen-{run_id}-n1")]));
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let _turn = turns::local();
    for request in ["nonsense", "{\"scenario\":{\"workload_name\":\"nonsense\"}}"] {
        let folder = tempfile::tempdir().unwrap();
        let mut maker = Maker::start(folder.path());
        writeln!(maker.0.stdin.as_mut().unwrap(), "{request}").unwrap();
        assert_eq!(maker.0.wait().unwrap().code(), Some(254));
        let said = fs::read_to_string(folder.path().join("stderr")).unwrap();
        assert!(said.contains("nonsense") && said.lines().count() == 1, "{said}");
    }
}

/// A suite that is killed on a shared cluster leaves nothing: its process removes the cluster. If this process was killed as
/// well, `redjepsen clean` removes it.
fn a_killed_suite_leaves_nothing(kind: &str, with_its_process: bool) {
    let folder = tempfile::tempdir().unwrap();
    suite(folder.path(), kind, false);
    let mut command = redjepsen(&["suite", "./mine.toml"], folder.path());
    let mut suite = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while runs(folder.path()).get(1).is_none_or(|second| !log(second).contains("stage=\"running\"")) {
        assert!(Instant::now() < deadline && suite.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    // Long enough to be in the middle of the run's faults.
    std::thread::sleep(Duration::from_millis(1500));
    let cluster = cluster_left_by(&runs(folder.path())[0]).unwrap();
    assert!(!left_of(&cluster).is_empty());
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", suite.id())).unwrap();
    suite.kill().unwrap();
    if with_its_process {
        assert!(Command::new("kill").args(["-KILL", children.trim()]).status().unwrap().success());
    }
    suite.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !left_of(&cluster).is_empty() {
        if with_its_process {
            assert!(redjepsen(&["clean"], folder.path()).output().unwrap().status.success());
        }
        assert!(Instant::now() < deadline, "{:?}", left_of(&cluster));
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_killed_suite_leaves_nothing_locally() {
    let _turn = turns::cleaning();
    a_killed_suite_leaves_nothing("local", false);
    a_killed_suite_leaves_nothing("local", true);
}

#[test]
fn a_killed_suite_leaves_nothing_in_docker() {
    let _turn = turns::cleaning_docker();
    a_killed_suite_leaves_nothing("docker", false);
    a_killed_suite_leaves_nothing("docker", true);
}
