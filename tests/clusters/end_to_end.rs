//! End-to-end runs on a real engine: real Redis servers, real signals, and the verdicts that theory expects.
//!
//! These tests fail if no engine answers; they never skip. The expectation for a lock is in its workload file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use system::cluster::{CleanOptions, Docker};

use crate::turns;

/// One run of the program, with its own store.
struct Outcome {
    code: Option<i32>,
    text: String,
    folder: PathBuf,
    _store: tempfile::TempDir,
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.stdin(Stdio::null());
    command
}

fn run(arguments: &str) -> Outcome {
    let store = tempfile::tempdir().unwrap();
    let output = program().args(words(arguments, store.path())).output().unwrap();
    outcome(output, store)
}

fn words(arguments: &str, store: &Path) -> Vec<String> {
    let mut words = shlex::split(&format!("run {arguments} --store")).unwrap();
    words.push(store.display().to_string());
    words
}

fn start(arguments: &str) -> (Child, tempfile::TempDir) {
    let store = tempfile::tempdir().unwrap();
    let child =
        program().args(words(arguments, store.path())).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    (child, store)
}

fn outcome(output: Output, store: tempfile::TempDir) -> Outcome {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Outcome { code: output.status.code(), text, folder: store.path().join("latest"), _store: store }
}

impl Outcome {
    fn results(&self) -> Value {
        let text = fs::read_to_string(self.folder.join("results.json"))
            .unwrap_or_else(|error| panic!("{error}: {}", self.text));
        serde_json::from_str(&text).unwrap()
    }

    fn expect(self, code: i32) -> Outcome {
        assert_eq!(
            self.code,
            Some(code),
            "{}\n{}",
            self.text,
            fs::read_to_string(self.folder.join("results.json")).unwrap_or_default()
        );
        self
    }

    /// Asserts that the engine has nothing left of this run.
    fn expect_nothing_left(&self) {
        let run = fs::canonicalize(&self.folder).unwrap();
        expect_nothing_left(&run);
    }
}

fn run_id_of(folder: &Path) -> String {
    folder.file_name().unwrap().to_string_lossy().replace('.', "").to_lowercase()
}

/// The containers and networks of the run in this folder, by name.
fn left_of(folder: &Path) -> Vec<String> {
    let run = run_id_of(folder);
    let list = |what: &[&str]| {
        let api = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".into());
        engine(&api, what[0])
    };
    let mut names = Vec::new();
    for (path, field) in [("/containers/json?all=1", "Names"), ("/networks", "Name")] {
        for found in list(&[path]).as_array().unwrap() {
            let name = found[field].to_string();
            if name.contains(&run) {
                names.push(name);
            }
        }
    }
    names
}

fn expect_nothing_left(folder: &Path) {
    assert_eq!(left_of(folder), Vec::<String>::new(), "left in the engine");
}

/// The engine's answer to a GET, over a plain socket.
fn engine(address: &str, path: &str) -> Value {
    use std::io::{Read, Write};
    let socket = address.strip_prefix("unix://").expect("these tests need a local engine");
    let mut stream = std::os::unix::net::UnixStream::connect(socket).expect("a Docker engine must answer");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn number(results: &Value, pointer: &str) -> u64 {
    results.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no number {pointer} in {results}"))
}

fn history_lines(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("history.jsonl")).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Waits until the history contains something, for at most 30 s.
fn wait_for(store: &Path, what: &str, shown: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let text = fs::read_to_string(store.join("latest/history.jsonl")).unwrap_or_default();
        if shown(&text) {
            return;
        }
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn kill(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// Makes two runs at once: the first injects all its faults, the second is not affected, and neither leaves anything behind.
fn two_at_once(cluster: &str) {
    let broken =
        "--workload redlock-guarded --nemesis pause-node,kill-node,partition --ttl 400ms --time-limit 8s --seed 1";
    let (broken, broken_store) = start(&format!("{broken} --cluster {cluster}"));
    wait_for(broken_store.path(), "its first operation", |history| history.contains("\"invoke\""));
    // The second run starts and ends while the first injects faults.
    let whole =
        run(&format!("--workload single --nemesis none --ttl 400ms --time-limit 5s --seed 2 --cluster {cluster}"));
    let broken = outcome(broken.wait_with_output().unwrap(), broken_store);

    let results = broken.expect(0).results();
    assert!(number(&results, "/faults/observed") >= 3, "{results}");
    let results = whole.expect(0).results();
    assert_eq!(number(&results, "/faults/injected"), 0);
    assert_eq!(number(&results, "/counts/info"), 0, "no operation of a run without faults is in doubt: {results}");
    assert!(number(&results, "/counts/ok") >= 10, "{results}");
}

#[test]
fn two_runs_at_once_in_docker_do_not_see_each_other() {
    let _turn = turns::docker();
    two_at_once("docker");
}

#[test]
fn two_runs_at_once_on_this_machine_do_not_see_each_other() {
    let _turn = turns::two_local();
    two_at_once("local");
}

#[test]
fn redlock_loses_updates_when_its_holder_is_paused_and_the_report_explains_it() {
    let _turn = turns::docker();
    let outcome = run("--nemesis pause --ttl 400ms --time-limit 6s --seed 1").expect(1);
    let results = outcome.results();
    assert_eq!(results["valid"], Value::Bool(false));
    assert_eq!(number(&results, "/seed"), 1);
    assert!(number(&results, "/lost_updates/count") >= 1, "{results}");
    assert!(number(&results, "/lost_updates/acknowledged") >= 10, "{results}");
    assert!(number(&results, "/mutual_exclusion/violations") >= 1, "{results}");

    // A fault counts only if the kernel confirms it, both before and after.
    let steps: Vec<(String, bool)> = history_lines(&outcome.folder)
        .iter()
        .filter(|line| line["process"] == "nemesis" && line["observed"].is_boolean())
        .map(|line| (line["step"].as_str().unwrap().to_string(), line["observed"].as_bool().unwrap()))
        .collect();
    assert!(steps.contains(&("injected".into(), true)) && steps.contains(&("healed".into(), true)), "{steps:?}");
    assert!(steps.iter().all(|(_, observed)| *observed), "{steps:?}");

    // The explained anomaly names its fault.
    let anomalies = results["anomalies"].as_array().unwrap();
    let lost = anomalies.iter().find(|anomaly| anomaly["kind"] == "lost-update").expect("a lost update");
    assert!(lost["fault"].is_number(), "the pause that caused it: {lost}");
    assert!(anomalies.iter().any(|anomaly| anomaly["kind"] == "overlapping-holders"), "{results}");

    let page = fs::read_to_string(outcome.folder.join("report.html")).unwrap();
    for needle in ["INVALID", "<svg", "--seed 1", "SIGSTOP"] {
        assert!(page.contains(needle), "the page lacks {needle}");
    }
    for outside in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!page.contains(outside), "the page reaches out: {outside}");
    }
    for picture in ["latency-raw", "latency-quantiles", "rate", "locks"] {
        let bytes = fs::read(outcome.folder.join(format!("{picture}.png"))).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 2000, "{picture}.png has {} bytes", bytes.len());
    }
    for file in ["scenario.toml", "plan.json", "redjepsen.log", "n0/redis.log", "resource/redis.log"] {
        assert!(outcome.folder.join(file).is_file(), "{file}");
    }
    outcome.expect_nothing_left();

    // Checking the folder or just its history gives the same verdict again. A diagnosis rests on the commands beside the history.
    for path in [outcome.folder.clone(), outcome.folder.join("history.jsonl")] {
        let again = program().arg("check").arg(&path).output().unwrap();
        assert_eq!(again.status.code(), Some(1));
        let text = String::from_utf8_lossy(&again.stdout).into_owned();
        let verdict = text.lines().next().unwrap().trim_end_matches('.');
        assert!(verdict.contains("INVALID") && outcome.text.contains(verdict), "{verdict}\n{}", outcome.text);
    }
}

#[test]
fn redlock_without_faults_is_valid_and_that_is_a_surprise_where_a_violation_was_expected() {
    let _turn = turns::docker();
    let outcome = run("--nemesis none --time-limit 4s --seed 2 --expect violation").expect(1);
    let results = outcome.results();
    assert_eq!(results["valid"], Value::Bool(true), "{results}");
    assert_eq!(number(&results, "/lost_updates/count"), 0);
    assert_eq!(number(&results, "/mutual_exclusion/violations"), 0);
    assert!(number(&results, "/mutual_exclusion/comparable_holds") >= 10, "holds were compared: {results}");
}

#[test]
fn the_single_node_lock_falls_to_a_paused_holder_as_was_expected() {
    let _turn = turns::docker();
    let outcome =
        run("--workload single --nemesis pause --ttl 400ms --time-limit 6s --seed 4 --keys 2 --expect violation");
    assert_eq!(outcome.expect(0).results()["valid"], Value::Bool(false));
}

/// A primary without a replica then refuses writes. The resource is such a primary too, and does not refuse them.
#[test]
fn nodes_have_the_users_settings_and_the_resource_has_not() {
    let _turn = turns::local();
    let flags = "--workload single --nemesis none --time-limit 2s --cluster local --redis-config";
    let refused = run(&format!("{flags} 'min-replicas-to-write 1'")).expect(2);
    assert!(refused.text.contains("Not enough good replicas to"), "{}", refused.text);
    run(&format!("{flags} 'maxmemory-policy allkeys-lru'")).expect(0);
    let wrong = run(&format!("{flags} 'maxmemory-policy nonsense'")).expect(255);
    assert!(wrong.text.contains("argument(s) must be one of the following"), "{}", wrong.text);
}

#[test]
fn a_saved_scenario_is_run_again() {
    let _turn = turns::local();
    let first = run(
        "--workload redlock-guarded --nemesis pause,kill-node --ttl 400ms --time-limit 5s --keys 3 --cluster local",
    );
    let first = first.expect(0);
    let file = |outcome: &Outcome, name: &str| fs::read_to_string(outcome.folder.join(name)).unwrap();
    let saved = fs::canonicalize(&first.folder).unwrap();
    let again = run(&format!("--scenario {}", saved.display())).expect(0);
    for name in ["scenario.toml", "plan.json"] {
        assert_eq!(file(&again, name), file(&first, name));
    }
    let other = run(&format!("--scenario {}/scenario.toml --seed 5 --expect violation", saved.display())).expect(1);
    assert_eq!(number(&other.results(), "/seed"), 5);
    assert_ne!(file(&other, "plan.json"), file(&first, "plan.json"));
}

#[test]
fn of_several_keys_the_primary_of_the_one_that_is_meant_is_hit() {
    let _turn = turns::local();
    let nemesis = "'loss 1% primary and replica'";
    let outcome = run(&format!(
        "--workload cluster --nemesis {nemesis} --keys 5 --ttl 400ms --time-limit 10s --seed 3 --cluster local"
    ));
    let plan: Value = serde_json::from_str(&fs::read_to_string(outcome.folder.join("plan.json")).unwrap()).unwrap();
    let lines = history_lines(&outcome.folder);
    let mut hit = std::collections::BTreeSet::new();
    for fault in plan["faults"].as_array().unwrap() {
        let injected = |line: &&Value| line["step"] == "injected" && line["fault"] == fault["fault"];
        let injected = lines.iter().find(injected).unwrap_or_else(|| panic!("{fault}: {}", outcome.text));
        // The slots of lock:k0 to lock:k4, in thirds: no node is promoted here, so the primaries remain n0, n1 and n2.
        let primary = match fault["key"].as_str().unwrap() {
            "k2" => "n0",
            "k0" | "k3" | "k4" => "n1",
            _ => "n2",
        };
        assert!(injected["value"].to_string().contains(primary), "{fault}: {injected}");
        hit.insert(primary);
    }
    assert!(hit.len() > 1, "{plan}");
}

#[test]
fn a_run_too_short_to_prove_anything_is_unknown() {
    let _turn = turns::docker();
    let outcome = run("--nemesis none --rate 0.5 --time-limit 1s --seed 6").expect(2);
    let results = outcome.results();
    assert_eq!(results["valid"], Value::from("unknown"));
    assert!(!results["reasons"].as_array().unwrap().is_empty(), "{results}");
}

#[test]
fn ctrl_c_heals_reports_and_removes_everything_within_five_seconds() {
    let _turn = turns::docker();
    let (child, store) = start("--nemesis pause --time-limit 60s --seed 7");
    wait_for(store.path(), "a pause", |history| history.contains("\"injected\""));
    let asked = Instant::now();
    kill(child.id(), "-INT");
    let outcome = outcome(child.wait_with_output().unwrap(), store);
    let took = asked.elapsed();
    assert!(matches!(outcome.code, Some(1 | 2)), "{:?} {}", outcome.code, outcome.text);
    // Not a measurement: a hang would last as long as the engine's own time limits, which are much longer.
    assert!(took < Duration::from_secs(15), "took {took:?}");
    println!("from Ctrl-C to the end: {took:?}");
    assert!(outcome.folder.join("report.html").is_file());
    assert!(outcome.text.contains("interrupted"), "{}", outcome.text);
    let healed = history_lines(&outcome.folder);
    let healed = healed.iter().find(|line| line["step"] == "healed").expect("the pause was healed");
    assert_eq!(healed["observed"], true);
    outcome.expect_nothing_left();
}

#[tokio::test]
async fn a_killed_controller_leaves_a_history_that_checks_and_nothing_that_clean_does_not_remove() {
    let _turn = turns::cleaning_docker();
    let (mut child, store) = start("--nemesis pause --time-limit 60s --seed 8");
    wait_for(store.path(), "a pause", |history| history.contains("\"injected\""));
    let folder = fs::canonicalize(store.path().join("latest")).unwrap();

    // While the run is alive, another process's `clean` does not touch it.
    let docker = Docker::connect().await.unwrap();
    assert_eq!(docker.clean(&CleanOptions::default()).await.failed, Vec::<String>::new());
    assert!(left_of(&folder).len() >= 12, "a living run is left alone");

    child.kill().unwrap();
    child.wait().unwrap();
    let checked = program().arg("check").arg(&folder).output().unwrap();
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(matches!(checked.status.code(), Some(1 | 2)), "never valid: {text}");

    let cleaned = program().arg("clean").output().unwrap();
    assert!(cleaned.status.success(), "{}", String::from_utf8_lossy(&cleaned.stderr));
    expect_nothing_left(&folder);
    let again = program().arg("clean").output().unwrap();
    let again = String::from_utf8_lossy(&again.stdout);
    assert!(!again.contains(&run_id_of(&folder)), "there was nothing left to remove: {again}");
    run("--nemesis none --time-limit 2s --seed 8").expect(0);
}

#[test]
fn a_redis_container_killed_by_hand_is_noticed_and_never_valid() {
    let _turn = turns::docker();
    let (child, store) = start("--nemesis none --workload single --time-limit 4s --seed 9");
    wait_for(store.path(), "an update", |history| history.contains("\"type\":\"ok\""));
    let folder = fs::canonicalize(store.path().join("latest")).unwrap();
    let name = left_of(&folder).into_iter().find(|name| name.contains("-n0")).unwrap();
    let name: Vec<String> = serde_json::from_str(&name).unwrap();
    post(&format!("/containers{}/kill", name[0]));
    let outcome = outcome(child.wait_with_output().unwrap(), store).expect(2);
    assert!(outcome.text.contains("n0"), "it says which node: {}", outcome.text);
    outcome.expect_nothing_left();
}

fn post(path: &str) {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect("/var/run/docker.sock").unwrap();
    write!(stream, "POST {path} HTTP/1.0\r\nHost: docker\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 204 "), "{answer}");
}

#[test]
fn an_image_that_is_not_there_and_a_network_that_is_taken_are_one_clear_line() {
    let _turn = turns::docker();
    let taken = a_taken_network();
    for (flags, words) in [
        (
            "--image localhost:1/no/such:image",
            "there is no image `localhost:1/no/such:image` here, and it cannot be pulled",
        ),
        ("--client-cmd cat --client-image localhost:1/mine:1", "there is no image `localhost:1/mine:1`"),
        (&format!("--subnet {taken}"), &format!("the network {taken} cannot be used")),
    ] {
        let outcome = run(flags);
        assert_eq!(outcome.code, Some(255), "{}", outcome.text);
        assert!(outcome.text.contains(words) && outcome.text.lines().count() == 1, "{}", outcome.text);
        assert!(!outcome.folder.exists(), "nothing was begun");
    }
}

/// A network of the engine, or a network to which this machine has a route.
fn a_taken_network() -> String {
    let api = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".into());
    let networks = engine(&api, "/networks");
    let subnet = |network: &Value| network.pointer("/IPAM/Config/0/Subnet").and_then(Value::as_str).map(str::to_string);
    let of_engine = networks.as_array().unwrap().iter().filter(|network| network["Name"] == "bridge").find_map(subnet);

    let table = fs::read_to_string("/proc/net/route").unwrap();
    let number = |hexadecimal: &str| u32::from_str_radix(hexadecimal, 16).unwrap().swap_bytes();
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (network, length) = (std::net::Ipv4Addr::from(number(fields[1])), number(fields[7]).count_ones());
        (length > 0).then(|| format!("{network}/{length}"))
    };
    // Networks of other tests' clusters may disappear at any moment.
    let mut lasting = table.lines().skip(1).filter(|line| !line.starts_with("rj-"));
    of_engine.or_else(|| lasting.find_map(route)).expect("a network of the engine or the machine")
}

/// Flags that run a Python program of this repository as the client, in an image built from this machine's Python.
async fn python(program: &str) -> String {
    let docker = Docker::connect().await.unwrap();
    let find =
        "import os,sys,sysconfig; print(os.path.realpath(sys.executable)); print(sysconfig.get_paths()['stdlib'])";
    let output = Command::new("python3").args(["-c", find]).output().expect("python3 on this machine");
    let text = String::from_utf8(output.stdout).unwrap();
    let (executable, library) = text.trim().split_once('\n').unwrap();
    let image = docker.client_image(Path::new(executable)).await.unwrap();
    let here = env!("CARGO_MANIFEST_DIR");
    format!(
        "--client-image {} --client-cmd '{executable} -u /client/{program}' --mount {library}:{library} \
         --mount '{here}/workloads/clients/python:/client' --mount '{here}/tests/clusters/clients:/client-tests'",
        image.name
    )
}

#[tokio::test]
async fn a_client_of_the_users_own_is_driven_and_judged_like_ours() {
    let _turn = turns::docker();
    let flags = python("client.py").await;
    let valid = run(&format!("--workload single --nemesis none --time-limit 3s --seed 10 {flags}")).expect(0);
    assert!(fs::read_to_string(valid.folder.join("history.jsonl")).unwrap().contains("python-example 1"));
    assert!(number(&valid.results(), "/mutual_exclusion/comparable_holds") >= 10, "its stamps are usable");
    run(&format!("--workload single --nemesis pause --ttl 400ms --time-limit 6s --seed 10 {flags}")).expect(1);
}

#[tokio::test]
async fn a_client_that_refuses_stops_the_run_with_its_own_words() {
    let _turn = turns::docker();
    let flags = python("client.py").await;
    let outcome = run(&format!("--workload redlock-guarded --nemesis none --time-limit 3s {flags}"));
    assert_eq!(outcome.code, Some(255), "{}", outcome.text);
    assert!(outcome.text.contains("locks on one node"), "{}", outcome.text);
    outcome.expect_nothing_left();
}

#[tokio::test]
async fn clients_that_print_garbage_die_or_hang_are_reported_and_never_valid() {
    let _turn = turns::docker();
    for (behaviour, words) in [
        ("garbage", "not a message of the protocol"),
        ("dies", "it ended"),
        ("hangs", "it hangs"),
        ("endless-line", "longer than 1048576 bytes"),
        ("other-operation", "while operation"),
    ] {
        let flags = python(&format!("../client-tests/misbehave.py {behaviour}")).await;
        let outcome =
            run(&format!("--workload none --nemesis none --clients 2 --ttl 100ms --time-limit 4s --seed 11 {flags}"));
        assert!(matches!(outcome.code, Some(1 | 2)), "{behaviour}: {:?} {}", outcome.code, outcome.text);
        assert_ne!(outcome.results()["valid"], Value::Bool(true), "{behaviour}");
        assert!(outcome.text.contains(words), "{behaviour}: {}", outcome.text);
        let ended: Vec<Value> =
            history_lines(&outcome.folder).into_iter().filter(|line| line["client"] == "ended").collect();
        assert!(!ended.is_empty() && ended[0]["text"].as_str().unwrap().contains(words), "{behaviour}: {ended:?}");
        // Its operation is indeterminate, and a process that ended never acts again.
        assert!(history_lines(&outcome.folder).iter().any(|line| line["error"] == "crash"), "{behaviour}");
        outcome.expect_nothing_left();
    }
}
