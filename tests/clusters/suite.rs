//! `redjepsen suite` for real: the smoke suite, interruptions, unexpected cells, shards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::turns;

/// Four scenarios of a few seconds each.
const QUICK: &str = r#"
description = "Quick"
[with]
cluster = "local"
[[cells]]
workload = ["none", "single", "redlock", "redlock-guarded"]
nemesis = "pause-before-write"
"#;

/// A suite with its own store.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(suite: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mine.toml"), suite).unwrap();
        Bench { folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        command.arg("suite").args(arguments).arg("--store").arg(self.store());
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str], code: i32) -> String {
        let output = self.command(arguments).output().unwrap();
        expect(&output, code)
    }

    fn start(&self) -> Child {
        self.start_with(&[])
    }

    fn start_with(&self, more: &[&str]) -> Child {
        self.command(&[&["./mine.toml"], more].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn latest(&self, suite: &str) -> PathBuf {
        self.store().join("suites").join(suite).join("latest").canonicalize().unwrap()
    }

    fn state(&self) -> String {
        fs::read_to_string(self.store().join("suites/mine/latest/state.jsonl")).unwrap_or_default()
    }

    /// Waits until this many runs are done and the next one is in progress.
    fn wait_for_runs(&self, number: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let done = |state: String| {
            state.split_inclusive('\n').filter(|line| line.contains("\"run\"") && line.ends_with('\n')).count()
        };
        while done(self.state()) < number {
            assert!(Instant::now() < deadline, "{}", self.state());
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(700));
    }

    fn matrix(&self, suite: &str) -> Value {
        json(&self.latest(suite).join("matrix.json"))
    }
}

pub fn expect(output: &Output, code: i32) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

pub fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// The runs of a suite that are still alive. The suite's PID in their environment identifies them.
fn runs_of(suite: u32) -> Vec<String> {
    let told = format!("REDJEPSEN_PARENT={suite}");
    let mut living = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == told.as_bytes()) {
            living.push(entry.path().display().to_string());
        }
    }
    living
}

/// The table without times and without other values that vary between real runs.
pub fn table(matrix: &Value) -> Vec<[Value; 6]> {
    let cells = matrix["cells"].as_array().unwrap().iter();
    cells
        .map(|cell| ["name", "workload", "nemesis", "expected", "standing", "tally"].map(|field| cell[field].clone()))
        .collect()
}

#[test]
fn the_smoke_suite_comes_out_as_expected() {
    let _turn = turns::alone();
    let bench = Bench::new("");
    let began = Instant::now();
    let text = bench.run(&["smoke", "--cluster", "local"], 0);
    println!("{text}\nin {:?}", began.elapsed());
    assert!(text.contains("AS EXPECTED"), "{text}");
    let folder = bench.latest("smoke");
    let matrix = bench.matrix("smoke");
    let cells = matrix["cells"].as_array().unwrap();
    assert!(cells.len() >= 12, "{matrix}");
    assert_eq!((&matrix["verdict"], &matrix["counts"]["as_expected"]), (&"as-expected".into(), &cells.len().into()));
    let page = fs::read_to_string(folder.join("matrix.html")).unwrap();
    for run in cells.iter().flat_map(|cell| cell["runs"].as_array().unwrap()) {
        let report = format!("{}/report.html", run["folder"].as_str().unwrap());
        // In a URL, a plus sign is percent-encoded.
        let address = report.replace('+', "%2B");
        assert!(folder.join(&report).is_file() && page.contains(&address), "{report}");
    }
    for file in ["matrix.md", "junit.xml"] {
        assert!(fs::metadata(folder.join(file)).unwrap().len() > 500, "{file}");
    }
    // The matrix contains numbers that can be compared.
    let broken =
        cells.iter().find(|cell| cell["name"].as_str().unwrap().starts_with("redlock under pause with")).unwrap();
    let numbers = &broken["numbers"];
    let share = numbers["lost_updates"]["fraction"].as_f64().unwrap();
    assert!(0.0 < share && share < 1.0, "{numbers}");
    assert!(numbers["lost_95"].is_null(), "a single run does not vary: {numbers}");
    for number in ["first_violation_s", "without_lock_s", "per_second"] {
        assert!(numbers[number]["median"].as_f64().unwrap() > 0.0, "{number}: {numbers}");
    }
}

#[test]
fn a_suite_runs_in_docker_as_well() {
    let _turn = turns::docker();
    let bench = Bench::new(
        "description = \"Docker\"\n[with]\ncluster = \"docker\"\n[[cells]]\nworkload = [\"redlock\", \"redlock-guarded\"]\nnemesis = \"pause-before-write\"\n",
    );
    bench.run(&["./mine.toml"], 0);
    let versions = bench.matrix("mine")["versions"].clone();
    assert!(versions["docker"].is_string(), "{versions}");
}

#[test]
fn a_suite_runs_a_client_of_the_users_own_and_its_runs_can_be_repeated() {
    let _turn = turns::local();
    let bench = Bench::new("");
    // The suite and the client are in one folder, and the suite is started from another folder.
    let home = bench.folder.path().join("ours");
    fs::create_dir(&home).unwrap();
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads/clients/python");
    fs::copy(python.join("client.py"), home.join("our_lock.py")).unwrap();
    std::os::unix::fs::symlink(python.join("redjepsen"), home.join("redjepsen")).unwrap();
    let suite = r#"
description = "Our lock, every night"
[with]
client_cmd = "python3 -u ./our_lock.py"
ttl = "400ms"
time_limit = "8s"
[[cells]]
workload = "single"
nemesis = ["none", "pause"]
"#;
    fs::write(home.join("nightly.toml"), suite).unwrap();
    bench.run(&["./ours/nightly.toml"], 0);
    let matrix = bench.matrix("nightly");
    let runs: Vec<&Value> = matrix["cells"].as_array().unwrap().iter().map(|cell| &cell["runs"][0]).collect();
    assert_eq!(runs.iter().map(|run| run["valid"].as_bool()).collect::<Vec<_>>(), [Some(true), Some(false)]);
    for run in &runs {
        let folder = bench.latest("nightly").join(run["folder"].as_str().unwrap());
        let results = json(&folder.join("results.json"));
        assert_eq!(results["client"], "python-example 1", "{results}");
        assert_eq!(results["repeat"], run["repeat"]);
    }

    let repeat = runs[0]["repeat"].as_str().unwrap();
    let words: Vec<&str> = repeat.strip_prefix("redjepsen ").unwrap().split(' ').collect();
    let again = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
        .args(words)
        .args(["--store", "again"])
        .current_dir(bench.folder.path())
        .output()
        .unwrap();
    expect(&again, 0);
    let (first, second) =
        (bench.latest("nightly").join(runs[0]["folder"].as_str().unwrap()), bench.folder.path().join("again/latest"));
    for file in ["plan.json", "scenario.toml"] {
        assert_eq!(fs::read(first.join(file)).unwrap(), fs::read(second.join(file)).unwrap(), "{file}");
    }
}

#[test]
fn what_was_interrupted_goes_on_and_gives_the_same_table() {
    let _turn = turns::local();
    let whole = Bench::new(QUICK);
    whole.run(&["./mine.toml"], 0);
    let expected = table(&whole.matrix("mine"));

    let bench = Bench::new(QUICK);
    // Kills the suite in the middle of the second run.
    let mut killed = bench.start();
    bench.wait_for_runs(1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !runs_of(killed.id()).is_empty() {
        assert!(Instant::now() < deadline, "left running: {:?}", runs_of(killed.id()));
        std::thread::sleep(Duration::from_millis(50));
    }
    let first = bench.state();
    let state = bench.latest("mine").join("state.jsonl");
    // The state file as if the suite had been killed while writing it.
    fs::write(&state, format!("{first}{{\"run\":{{\"cell\":\"single und")).unwrap();

    // Interrupts the suite in the middle of the run that is now the second.
    let interrupted = bench.start();
    bench.wait_for_runs(2);
    signal(&interrupted, "-INT");
    let id = interrupted.id();
    let text = expect(&interrupted.wait_with_output().unwrap(), 2);
    assert!(text.contains("1 of 4 runs are done") && text.contains("interrupted"), "{text}");
    assert_eq!(runs_of(id), Vec::<String>::new());
    assert_eq!(bench.matrix("mine")["verdict"], "unknown");
    let second = bench.state();
    assert!(second.starts_with(&first) && second.lines().count() == 3, "{second}");

    let text = bench.run(&["./mine.toml"], 0);
    assert!(text.contains("2 of 4 runs are done"), "{text}");
    assert!(bench.state().starts_with(&second), "nothing is done twice");
    assert_eq!(table(&bench.matrix("mine")), expected);
    let text = bench.run(&["./mine.toml", "--dry-run"], 0);
    assert!(!text.contains("going on"), "{text}");
}

#[test]
fn runs_side_by_side_stop_together_and_give_the_table_of_one_lane() {
    let _turn = turns::local();
    let bench = Bench::new(QUICK);
    let suite = bench.start_with(&["--jobs", "3"]);
    // Each lane has a log while it makes a run.
    let lanes = || [1, 2, 3].map(|lane| bench.store().join(format!("suites/mine/latest/lane-{lane}.log")).exists());
    let deadline = Instant::now() + Duration::from_secs(60);
    while lanes() != [true; 3] {
        assert!(Instant::now() < deadline, "{:?}", lanes());
        std::thread::sleep(Duration::from_millis(5));
    }
    bench.wait_for_runs(1);
    signal(&suite, "-INT");
    let id = suite.id();
    let text = expect(&suite.wait_with_output().unwrap(), 2);
    assert!(text.contains("4 runs on 2 clusters, 3 runs at a time") && text.contains("interrupted"), "{text}");
    assert_eq!(runs_of(id), Vec::<String>::new());

    let text = bench.run(&["./mine.toml", "--jobs", "auto"], 0);
    assert!(text.contains("of 4 runs are done") && text.contains("All 4 cells"), "{text}");
    let matrix = bench.matrix("mine");
    let standings: Vec<&Value> = matrix["cells"].as_array().unwrap().iter().map(|cell| &cell["standing"]).collect();
    assert_eq!(standings, ["as-expected"; 4]);
    let logs = fs::read_dir(bench.latest("mine")).unwrap().flatten().map(|entry| entry.file_name());
    assert!(logs.into_iter().all(|name| !name.to_string_lossy().ends_with(".log")), "no lane is left");
}

#[test]
fn a_run_whose_timing_was_not_kept_beside_others_is_made_again_alone_once() {
    let _turn = turns::local();
    // With such a TTL, every timer is late.
    let bench = Bench::new(
        r#"
description = "Late"
[with]
cluster = "local"
time_limit = "2s"
ttl = "19ms"
[[cells]]
workload = "perfect"
nemesis = "none"
expect = "violation"
[[cells]]
workload = "perfect"
nemesis = "none"
expect = "valid"
with = { keys = 2 }
"#,
    );
    let text = bench.run(&["./mine.toml", "--jobs", "2"], 1);
    assert!(text.contains("so it may be rerun alone") && text.contains("rerunning 1 run alone"), "{text}");
    assert!(text.contains("rerun alone with the same seed: the first attempt was valid"), "{text}");
    let matrix = bench.matrix("mine");
    let run = |cell: usize| &matrix["cells"][cell]["runs"][0];
    let timing = |run: &Value| [run["timing"]["beside_others"].clone(), run["first_attempt"]["valid"].clone()];
    assert_eq!(timing(run(0)), [Value::Bool(false), Value::Bool(true)], "{matrix}");
    assert_eq!(timing(run(1)), [Value::Bool(true), Value::Null], "valid as expected lacks nothing: {matrix}");
    assert_eq!(matrix["counts"]["surprise"], 1, "what it shows alone counts, late or not: {matrix}");
    for folder in [&run(0)["folder"], &run(0)["first_attempt"]["folder"]] {
        assert!(bench.latest("mine").join(folder.as_str().unwrap()).join("report.html").is_file(), "{folder}");
    }
    assert_eq!(bench.state().matches("\"run\":{").count(), 3);

    // In one lane, no other run is active at the same time.
    let text = bench.run(&["./mine.toml", "--fresh"], 1);
    assert!(!text.contains("rerun") && bench.state().matches("\"run\":{").count() == 2, "{text}");
}

#[test]
fn a_run_that_dies_costs_nothing_but_itself_and_is_tried_again() {
    let _turn = turns::local();
    let bench = Bench::new(QUICK);
    let suite = bench.start();
    bench.wait_for_runs(1);
    let children = format!("/proc/{0}/task/{0}/children", suite.id());
    let run = fs::read_to_string(children).unwrap();
    assert!(Command::new("kill").args(["-KILL", run.trim()]).status().unwrap().success());
    let text = expect(&suite.wait_with_output().unwrap(), 2);
    assert!(text.contains("it was ended by signal 9") && text.contains("1 run could not be run"), "{text}");
    let standings = |matrix: Value| {
        let cells = matrix["cells"].as_array().unwrap().clone();
        cells.into_iter().map(|cell| cell["standing"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(standings(bench.matrix("mine")), ["as-expected", "unknown", "as-expected", "as-expected"]);

    let text = bench.run(&["./mine.toml"], 0);
    assert!(text.contains("3 of 4 runs are done"), "{text}");
    assert_eq!(standings(bench.matrix("mine")), ["as-expected"; 4]);
}

#[test]
fn a_client_that_cannot_be_installed_costs_nothing_but_its_own_runs() {
    let _turn = turns::local();
    let bench = Bench::new("");
    let library = r#"
description = "A library whose runtime is missing"
source = "Nobody has it."
nodes = 1
claims = ["updates"]
[client.command]
command = ["{env}/client"]
install = ["no-such-package-manager", "{env}"]
[lock.library]
node_timeout = "0.2ttl"
retry_delay = "10ms..50ms"
[resource]
kind = "register"
fencing = "none"
"#;
    fs::write(bench.folder.path().join("absent.toml"), library).unwrap();
    let suite = |workloads: &str| {
        let head = "description = \"Mixed\"\n[with]\ncluster = \"local\"\ntime_limit = \"2s\"\n";
        let cells = format!("[[cells]]\nworkload = {workloads}\nnemesis = \"none\"\nexpect = \"valid\"\n");
        fs::write(bench.folder.path().join("mine.toml"), format!("{head}{cells}")).unwrap();
    };
    let missing = "it is installed by no-such-package-manager, which is not on PATH";
    suite(r#"["./absent.toml", "single"]"#);
    let text = bench.run(&["./mine.toml"], 2);
    assert!(text.contains(missing) && text.contains("1 not run"), "{text}");
    let matrix = bench.matrix("mine");
    let standings: Vec<&Value> = matrix["cells"].as_array().unwrap().iter().map(|cell| &cell["standing"]).collect();
    assert_eq!(standings, ["not-run", "as-expected"]);

    suite(r#""./absent.toml""#);
    let text = bench.run(&["./mine.toml"], 2);
    assert!(text.contains(missing), "{text}");
    assert_eq!(bench.matrix("mine")["cells"][0]["standing"], "not-run");
}

#[test]
fn a_surprise_is_named_and_decides_whatever_else_is_unknown() {
    let _turn = turns::local();
    let bench = Bench::new(
        r#"
description = "Wrong"
[with]
cluster = "local"
time_limit = "2s"
[[cells]]
workload = "single"
nemesis = "none"
expect = "valid"
with = { rate = 0.5, time_limit = "1s" }
[[cells]]
workload = "none"
nemesis = "none"
expect = "valid"
[[cells]]
workload = "redlock"
nemesis = "none"
expect = "nothing"
"#,
    );
    let text = bench.run(&["./mine.toml", "--fail-fast"], 1);
    assert!(text.contains("stopped at the first unexpected cell"), "{text}");
    let matrix = bench.matrix("mine");
    let standings: Vec<&Value> = matrix["cells"].as_array().unwrap().iter().map(|cell| &cell["standing"]).collect();
    assert_eq!(standings, ["unknown", "surprise", "not-run"]);

    // A stopped suite is over: the next one is new, and this time it completes.
    let text = bench.run(&["./mine.toml"], 1);
    assert!(!text.contains("resuming"), "{text}");
    assert!(text.contains("none under none: UNEXPECTED") && text.contains("0 of 2 cells"), "{text}");
    let matrix = bench.matrix("mine");
    assert_eq!((&matrix["counts"]["observed"], &matrix["counts"]["as_expected"]), (&1.into(), &0.into()));
    let junit = fs::read_to_string(bench.latest("mine").join("junit.xml")).unwrap();
    assert!(junit.contains("failures=\"1\" errors=\"1\" skipped=\"1\""), "{junit}");
}

#[test]
fn shards_are_joined_into_the_whole() {
    let _turn = turns::local();
    let bench = Bench::new(QUICK);
    let mut folders = Vec::new();
    for shard in ["1/2", "2/2"] {
        bench.run(&["./mine.toml", "--shard", shard], 0);
        folders.push(bench.latest("mine").display().to_string());
    }
    let text = bench.run(&["--merge", &folders[0], &folders[1]], 0);
    assert!(text.contains("All 4 cells"), "{text}");
    let matrix = bench.matrix("mine");
    for run in matrix["cells"].as_array().unwrap().iter().flat_map(|cell| cell["runs"].as_array().unwrap()) {
        assert!(bench.latest("mine").join(run["folder"].as_str().unwrap()).join("report.html").is_file(), "{run}");
    }
    let text = bench.run(&["--merge", &folders[1]], 2);
    assert!(text.contains("missing: shard 1/2"), "{text}");
    let text = bench.run(&["--merge", &folders[1], &folders[1]], 254);
    assert!(text.contains("is in"), "{text}");
    bench.run(&["--merge", "/nonexistent"], 254);
}
