//! The command line as users see it, without an engine: refusals, with their words and exit codes.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use model::scenario::{Options, catalogue};
use model::topology::ClusterKind;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::{contains, starts_with};
use suite::shard;

fn redjepsen() -> Command {
    let mut command = Command::cargo_bin("redjepsen").unwrap();
    // Nothing here may start a cluster: with an engine that does not exist, the refusal must come before the start.
    command.env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    command
}

fn refused(arguments: &[&str], words: &str) {
    let assert = redjepsen().arg("run").args(arguments).assert().code(254);
    let error = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(error.contains(words), "{arguments:?}: {error}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_redjepsen"))
        .arg("list")
        .stdout(writer)
        .stderr(std::process::Stdio::piped())
        .output()
        .unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_redjepsen")).arg("list").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(255), "what could not be written is told");
}

#[test]
fn what_is_not_utf_8_is_refused_in_all_commands_alike() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    for command in [
        "run --cluster sim --store",
        "suite smoke --cluster sim --store",
        "sweep --cluster sim --ttl 1s,2s --store",
        "fuzz --runs 1 --store",
        "replay",
        "risk --out",
        "explore --out",
        "check",
        "serve",
        "clean --keep 1 --store",
        "man",
    ] {
        let mut program = redjepsen();
        let program = program.current_dir(&folder).args(command.split(' ')).arg(odd);
        program.assert().code(254).stderr(contains("this name is not UTF-8; rename the file"));
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing was made");
    redjepsen().current_dir(&folder).args(["explore", "--time", "4", "--out", "ü"]).assert().stderr("");
    assert!(folder.path().join("ü/explore.html").is_file());
}

#[test]
fn manual_pages_are_written_into_a_folder_that_is_made() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        redjepsen().current_dir(&folder).args(["man", "a/b"]).assert().code(0);
    }
    assert!(folder.path().join("a/b/redjepsen-run.1").is_file());
    std::fs::write(folder.path().join("file"), "").unwrap();
    redjepsen().current_dir(&folder).args(["man", "file"]).assert().code(255).stderr(contains("file: "));
}

#[test]
fn help_and_version_are_no_mistakes() {
    redjepsen().arg("--help").assert().code(0).stdout(contains("Exit codes: 0 valid, 1 invalid, 2 unknown"));
    redjepsen().arg("--version").assert().code(0).stdout(starts_with("redjepsen 0."));
    redjepsen().arg("--help").assert().stdout(contains("First commands:\n  redjepsen run "));
    redjepsen().args(["run", "--help"]).assert().code(0).stdout(contains("--nemesis").and(contains("--subnet")));
    let assert = redjepsen().args(["run", "-h"]).assert().code(0).stdout(contains("--nemesis"));
    let short = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(short.lines().count() <= 40, "it fits a screen: {short}");
}

#[test]
fn flags_that_make_no_sense_are_refused_before_anything_starts() {
    redjepsen().assert().code(254);
    redjepsen().arg("walk").assert().code(254).stderr(contains("walk"));
    refused(&["--ttl", "1"], "`1` is not a length of time");
    refused(&["--ttl", "0s"], "--ttl 0s is out of range");
    refused(&["--ttl", "2ttl"], "a multiple of the TTL makes no sense here");
    refused(&["--time-limit", "9years"], "`9years` is longer than any option allows");
    refused(&["--time-limit", "3s"], "--time-limit 3s is too short for nemesis `");
    refused(&["--clients", "0"], "--clients 0 is out of range; it must be between 1 and 100");
    refused(&["--clients", "-1"], "-1");
    refused(&["--nodes", "99"], "--nodes 99 is out of range; it must be between 1 and 31");
    refused(&["--rate", "nan"], "--rate NaN is out of range");
    refused(&["--hold", "2s..1s"], "write the shorter one first");
    refused(&["--workload", "redlok"], "unknown workload `redlok`; did you mean `redlock`, `redlock-ng` or ");
    refused(&["--nemesis", "paws"], "unknown nemesis `paws`; did you mean `pause");
    refused(&["--workload", "missing/file.toml"], "missing/file.toml");
    refused(&["--expect", "victory"], "possible values: valid, violation");
    refused(
        &["--workload", "etcd", "--persistence", "always"],
        "--persistence is for Redis, but lock etcd lives in a database",
    );
    refused(&["--persistence", "always", "--time-limit", "3s"], "--time-limit 3s is too short for nemesis `");
    refused(&["--cluster", "cloud"], "possible values: auto, docker, local");
    let server = ["--server", "redis://127.0.0.1:1"];
    let existing = |more: &[&str], words: &str| refused(&[&server[..], more].concat(), words);
    existing(&[], "would write its own keys to redis://127.0.0.1:1, and remove them at the end");
    existing(&["--nemesis", "kill-node"], "`kill node` is a fault of a server");
    existing(&["--nemesis", "pause-node,partition"], "`pause node` is a fault of a server");
    existing(&["--workload", "redis-py-sentinel"], "give each Sentinel with --server");
    existing(&["--workload", "register-sentinel", "--sentinel", "m"], "keeps the resource on the nodes");
    existing(&["--workload", "redis-py", "--sentinel", "m"], "--sentinel is for a lock that asks Sentinels");
    existing(&["--workload", "cluster", "--nemesis", "partition"], "`partition halves` is a fault of a server");
    existing(&["--workload", "cluster", "--nemesis", "failover-on-command"], "add --allow-failover");
    refused(&["--workload", "redis-py-sentinel", "--sentinel", "m"], "--sentinel needs the Sentinels");
    existing(&["--nemesis", "hook by-hand"], "`hook by-hand` has no `seen`");
    existing(&["--nemesis", "hook mine"], "needs a table `[hooks.mine]`");
    refused(&["--nemesis", "hook by-hand"], "disturbs servers that already run; name them with --server");
    existing(&["--workload", "etcd"], "has no lock on Redis");
    existing(&["--workload", "perfect"], "has no lock on Redis");
    existing(&["--nodes", "3"], "--nodes 3 contradicts 1 --server");
    existing(&["--persistence", "always"], "--persistence is for servers that redjepsen starts");
    existing(&["--cluster", "docker"], "need --cluster existing, not docker");
    existing(&["--keep", "--allow-writes"], "--keep cannot be used with --cluster existing");
    refused(&["--cluster", "existing"], "give --server redis://host:port for each node");
    existing(&["--redis-config", "save 1 1"], "--redis-config is for servers that redjepsen starts");
    refused(&["--redis-config", "requirepass x"], "redjepsen sets `requirepass` itself");
    refused(&["--redis-config", "save"], "`save` has no value");
    refused(&["--workload", "etcd", "--redis-config", "save 1 1"], "--redis-config is for Redis");
    refused(&["--cluster", "sim", "--redis-config", "save 1 1"], "--redis-config cannot be simulated");
    refused(&["--allow-writes"], "need --cluster existing, not auto");
    refused(&["--time-limit", "40d"], "`40d` is longer than any option allows");
    refused(&["--time-limit", "2d"], "it must be between 1s and 24h");
    let allowed = |server: &str, words: &str| refused(&["--server", server, "--allow-writes"], words);
    allowed("redis://:hunter2@127.0.0.1:1", "an address contains a password");
    allowed("127.0.0.1:6379", "expected a name and a version, such as `redis:8.2` or `valkey:9.1`");
    allowed("keydb:6", "for a server that already runs, `redis://host:port`");
    allowed("redis:8.2", "need --cluster existing, not auto");
    let named = |more: &[&str], words: &str| refused(&[&["--server", "valkey:9.1"], more].concat(), words);
    named(&["--server", "redis://127.0.0.1:1"], "--server valkey:9.1 cannot be used with another --server");
    named(&["--image", "redis:7"], "--image cannot be used with --server");
    named(&["--redis-server", "./redis-server"], "--redis-server cannot be used with --server");
    refused(&["--cluster", "sim", "--server", "redis:6.2"], "redis:6.2 is not simulated");
    refused(&["--server", "valkey/valkey", "--image", "redis:7"], "--server and --image say the same thing");
    refused(&["--server", "valkey/valkey", "--cluster", "local"], "--image cannot be used with --cluster local");
    refused(&["--subnet", "10.0.0.0/99"], "10.0.0.0/99");
    refused(&["--cluster", "docker", "--client-cmd", "./client"], "--client-image");
    refused(&["--cluster", "local", "--image", "redis:7"], "--image cannot be used with --cluster local");
    refused(&["--cluster", "local", "--keep"], "--keep cannot be used with --cluster local");
    refused(&["--cluster", "sim", "--keep"], "--keep cannot be used with --cluster sim");
    refused(&["--image", "redis:7", "--redis-server", "redis-server"], "cannot be used with");
    refused(&["--client-cmd", "'open", "--client-image", "x"], "a quote is not closed");
    refused(&["--client-cmd", ""], "--client-cmd: the command is empty");
    refused(&["--client-image", "x"], "--client-image is for your own client; give --client-cmd");
    refused(&["--mount", "/tmp:/x"], "--mount is for your own client; give --client-cmd");
    refused(&["--cluster", "local", "--keep"], "--keep cannot be used with --cluster local");
    refused(&["--client-cmd", "c", "--client-image", "x", "--mount", "here"], "expected HOST:CONTAINER");
    refused(&["--client-cmd", "c", "--client-image", "x", "--mount", "/nonexistent:/x"], "/nonexistent");
}

#[test]
fn a_saved_scenario_that_cannot_be_repeated_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    let file = path.to_str().unwrap();
    let options = Options { cluster: Some(ClusterKind::DOCKER), ..Options::default() };
    let good = toml::to_string(&options.scenario("redlock", "pause", 7, Path::new("")).unwrap()).unwrap();
    fs::write(&path, &good).unwrap();
    // The argument is accepted; only the engine is missing.
    for named in [file, folder.path().to_str().unwrap()] {
        redjepsen()
            .current_dir(&folder)
            .args(["run", "--scenario", named, "--seed", "8", "--expect", "valid", "--store", "x", "-v"])
            .assert()
            .code(255)
            .stderr(contains("no Docker engine answers"));
    }
    for other in
        [["--workload", "single"], ["--nemesis", "none"], ["--ttl", "1s"], ["--image", "x"], ["--mount", "a:/b"]]
    {
        refused(&["--scenario", file, other[0], other[1]], "cannot be used with");
    }
    refused(&["--scenario", "/nonexistent"], "--scenario /nonexistent: No such file");
    for (from, to, words) in [
        ("clients = 5", "clients = ", &["scenario.toml", "line 4"][..]),
        ("clients = 5", "clients = 5\ntiming = \"virtual\"", &["line 5", "unknown field `timing`", "another version"]),
        ("kind = \"docker\"", "kind = \"moon\"", &["unknown variant `moon`", "`docker`"]),
        ("clients = 5", "clients = 500", &["--clients 500 is out of range; it must be between 1 and 100"]),
        ("claims = [\"updates\", \"mutual-exclusion\", \"liveness\"]", "claims = []", &["`claims` is empty"]),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        fs::write(&path, bad).unwrap();
        words.iter().for_each(|words| refused(&["--scenario", file], words));
    }
}

#[test]
fn a_nemesis_file_with_a_mistake_gets_its_place_and_what_was_expected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    fs::write(
        &path,
        "description = \"mine\"\nstory = \"mine\"\n\n[[faults]]\nfault = \"paus holder\"\nevery = \"3ttl\"\nfor = \"2ttl\"\n",
    )
    .unwrap();
    refused(&["--nemesis", path.to_str().unwrap()], "line 5");
    refused(&["--nemesis", path.to_str().unwrap()], "`paus holder` is not understood; expected `pause WHO`");
}

#[test]
fn an_engine_that_is_not_there_is_one_clear_line() {
    let folder = tempfile::tempdir().unwrap();
    let assert = redjepsen().current_dir(&folder).args(["run", "--cluster", "docker"]).assert().code(255);
    let error = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("no Docker engine answers at unix:///nonexistent/docker.sock"), "{error}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing was written");
}

#[test]
fn the_catalogue_can_be_read() {
    let said = |words: &str| {
        let assert = redjepsen().arg("list").args(words.split_whitespace()).assert().code(0);
        String::from_utf8(assert.get_output().stdout.clone()).unwrap()
    };
    let overview = said("");
    assert!(overview.lines().count() <= 25, "{overview}");
    assert!(overview.lines().all(|line| line.chars().count() <= 80), "{overview}");
    let key = |line: &str| Some(line.strip_prefix("  ")?.split(' ').next()?.to_string());
    for topic in overview.lines().filter_map(key).filter(|topic| topic != "redjepsen") {
        let told = said(&topic);
        assert!(told.contains(":\n  "), "{topic}: {told}");
    }
    assert!(said("faults").contains("pause-node") && said("locks").contains("redlock-guarded"));
    let node = said("libraries --language node");
    assert!(node.contains("  node-redlock ") && !node.contains("  redis-py "), "{node}");
    let commands = said("faults --at command");
    assert!(commands.contains("  late-acquire-reply ") && !commands.contains("  pause-node "), "{commands}");
    let semaphores = said("locks --kind semaphore");
    assert!(semaphores.contains("semaphore") && !semaphores.contains("  redlock "), "{semaphores}");
    for (pair, words) in [
        ("single minority-counts", "single does not run under minority-counts"),
        ("single pause", "Expected: violation"),
        ("redlock blocked-holder", "`block`"),
    ] {
        let told = said(&format!("why-not {pair}"));
        assert!(told.replace('\n', " ").contains(words), "{told}");
    }
    for (words, why) in [
        ("libraries --language cobol", "the languages are go, java"),
        ("suites --language go", "--language does not apply to `suites`; use it with workloads"),
        ("locks --at command", "--at does not apply to `locks`; use it with faults"),
        ("why-not single", "takes a workload and a nemesis"),
        ("redlock pause", "`list` takes one topic or one name"),
        ("sentinel", "`replicated`, "),
    ] {
        redjepsen().arg("list").args(words.split(' ')).assert().code(254).stderr(contains(why));
    }
    // A name that is both a workload and a nemesis shows both.
    redjepsen()
        .args(["list", "none"])
        .assert()
        .code(0)
        .stdout(contains("# workloads/none.toml"))
        .stdout(contains("# nemeses/none.toml"));
    redjepsen()
        .args(["list", "nothing"])
        .assert()
        .code(254)
        .stderr(contains("there is no workload, nemesis, suite or issue `nothing`"));
    let no_file = |name: &str, instead: &str| {
        redjepsen().args(["list", name]).assert().code(254).stderr(contains(instead.to_string()));
    };
    no_file("rj007", "`rj007` is a diagnosis and has no file; `redjepsen explain RJ007` explains it");
    no_file("owner-mutex", "`owner-mutex` has no file; `redjepsen list models` describes it");
    no_file("mutual-exclusion", "`mutual-exclusion` has no file; `redjepsen list properties` describes it");
    // For a library, it also shows the client, and how to use it.
    let shown = |name: &str| {
        let assert = redjepsen().args(["list", name]).assert().code(0);
        String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
    };
    let python = shown("redis-py");
    for part in [
        "# workloads/redis-py.toml",
        "adapters/redis-py.py\n",
        "redjepsen.serve(connect",
        "redis==8.1.0",
        "./mylock.toml",
    ] {
        assert!(python.contains(part), "{part}: {python}");
    }
    let rust = shown("rslock");
    assert!(rust.contains("# workloads/clients/rust/rslock/src/main.rs\n") && rust.contains("fn main"), "{rust}");
    assert!(!rust.contains("checksum ="), "the lock file is named only: {rust}");
    assert!(!shown("redlock").contains("mylock"), "it needs no client");
}

#[test]
fn what_is_listed_can_be_saved_and_changed() {
    let place = tempfile::tempdir().unwrap();
    let save = |name: &str, folder: &str| {
        let mut command = redjepsen();
        command.current_dir(place.path()).args(["list", name, "--save", folder]).assert()
    };
    save("redislock-go", "mine").code(0).stdout(contains("redjepsen run --workload mine/redislock-go.toml"));
    for file in
        ["redislock-go.toml", "clients/go/redislock/main.go", "clients/go/redjepsen/client.go", "clients/go/go.sum"]
    {
        assert!(place.path().join("mine").join(file).is_file(), "{file}");
    }
    assert!(!place.path().join("mine/clients/rust").exists());
    // The build requirements of packages without a wheel are included.
    save("redlock-py", "python").code(0);
    assert!(place.path().join("python/clients/python/setuptools.txt").is_file());
    save("pause", "nemesis").code(0);
    assert!(place.path().join("nemesis/pause.toml").is_file());
    // Nothing is overwritten, and nothing is created for an unknown name.
    save("redislock-go", "mine").code(254).stderr(contains("name a new folder"));
    save("nothing", "new").code(254).stderr(contains("there is no workload"));
    assert!(!place.path().join("new").exists());
    redjepsen().args(["list", "--save", "new"]).assert().code(254);
}

#[test]
fn what_is_not_a_history_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, bytes: &[u8], words: &str| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        redjepsen().arg("check").arg(&path).assert().code(255).stderr(contains(words));
    };
    check("empty.jsonl", b"", "the file is empty");
    check("words.jsonl", b"hello\n", "line 1");
    check("binary.jsonl", b"\xff\xfe\x00\n", "line 1: not UTF-8");
    let header = include_str!("../fixtures/pause-outlives-lock.jsonl").lines().next().unwrap();
    let later = format!(
        "{header}\n{{\"index\":1,\"time\":5,\"type\":\"end\",\"completed\":true}}\n{{\"index\":2,\"time\":4,\"type\":\"end\",\"completed\":true}}\n"
    );
    check("later.jsonl", later.as_bytes(), "line 3: time runs backwards");
    redjepsen().args(["check", "/nonexistent"]).assert().code(255).stderr(contains("/nonexistent"));
    redjepsen().args(["report", "/nonexistent"]).assert().code(254).stderr(contains("not a run folder"));
}

/// The output names a report's path only if a report was written.
#[test]
fn a_report_is_named_only_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let history = include_str!("../fixtures/pause-outlives-lock.jsonl");
    fs::write(folder.path().join("history.jsonl"), history).unwrap();
    let told = |arguments: &[&str], stdin: &str| {
        let mut command = redjepsen();
        let assert =
            command.current_dir(folder.path()).arg("check").args(arguments).write_stdin(stdin).assert().code(1);
        String::from_utf8(assert.get_output().stdout.clone()).unwrap()
    };
    for (arguments, stdin) in [(["history.jsonl"], ""), (["-"], history), (["."], "")] {
        let said = told(&arguments, stdin);
        assert!(said.contains("INVALID") && !said.contains("report.html"), "{arguments:?}: {said}");
    }
    let said = told(&["history.jsonl", "--html", "page.html"], "");
    assert!(said.contains("report  page.html") && !said.contains("report.html"), "{said}");
    assert!(folder.path().join("page.html").is_file());
    fs::write(folder.path().join("report.html"), "").unwrap();
    assert!(told(&["."], "").contains("report  ./report.html"), "the run's own");
}

/// A register that keeps its last value, in three notations; `seen` is what the last read returns.
fn register_history(notation: &str, seen: u32) -> String {
    match notation {
        "jsonl" => [
            r#"{"process":0,"type":"invoke","f":"write","value":1}"#,
            r#"{"process":0,"type":"ok","f":"write","value":1}"#,
            r#"{"process":1,"type":"invoke","f":"write","value":2}"#,
            r#"{"process":1,"type":"ok","f":"write","value":2}"#,
            r#"{"process":2,"type":"invoke","f":"read","value":null}"#,
            &format!(r#"{{"process":2,"type":"ok","f":"read","value":{seen}}}"#),
        ]
        .join("\n"),
        "edn" => format!(
            "{{:process 0, :type :invoke, :f :write, :value 1}}\n{{:process 0, :type :ok, :f :write, :value 1}}\n\
             {{:process 1, :type :invoke, :f :write, :value 2}}\n{{:process 1, :type :ok, :f :write, :value 2}}\n\
             {{:process 2, :type :invoke, :f :read, :value nil}}\n{{:process 2, :type :ok, :f :read, :value {seen}}}"
        ),
        _ => format!(
            "INFO  jepsen.util - 0\t:invoke\t:write\t1\nINFO  jepsen.util - 0\t:ok\t:write\t1\n\
             INFO  jepsen.util - 1\t:invoke\t:write\t2\nINFO  jepsen.util - 1\t:ok\t:write\t2\n\
             INFO  jepsen.util - 2\t:invoke\t:read\tnil\nINFO  jepsen.util - 2\t:ok\t:read\t{seen}"
        ),
    }
}

#[test]
fn histories_from_anywhere_are_held_against_a_model() {
    for notation in ["jsonl", "edn", "log"] {
        for (seen, code, word) in [(2, 0, "VALID"), (1, 1, "INVALID")] {
            let history = register_history(notation, seen) + "\n";
            redjepsen()
                .args(["check", "--model", "register", "-"])
                .write_stdin(history.clone())
                .assert()
                .code(code)
                .stdout(starts_with(word))
                .stdout(contains("model       register\n").and(contains("operations  3 on 1 key")));
            let assert = redjepsen().args(["check", "--json", "-"]).write_stdin(history).assert().code(code);
            let result: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
            assert_eq!((&result["valid"], &result["model"]), (&(code == 0).into(), &"register".into()), "{notation}");
            let told = result["results"][0]["conflict"].as_array().map_or(0, Vec::len);
            assert_eq!(told, if code == 0 { 0 } else { 3 }, "{result}");
        }
    }
}

#[test]
fn a_history_that_a_model_cannot_judge_is_unknown_and_a_model_that_is_none_a_mistake() {
    let history = register_history("jsonl", 2);
    redjepsen()
        .args(["check", "--model", "queue", "-"])
        .assert()
        .code(254)
        .stderr(contains("there is no model `queue`"));
    redjepsen()
        .args(["check", "--model", "set", "-"])
        .write_stdin(history.clone() + "\n")
        .assert()
        .code(2)
        .stdout(contains("the model set has no such operation"));
    redjepsen()
        .args(["check", "--memory", "4Elephants", "-"])
        .assert()
        .code(254)
        .stderr(contains("not an amount of memory"));
    let twice = format!("{}\n{}\n", history.lines().next().unwrap(), history.lines().next().unwrap());
    redjepsen()
        .args(["check", "--model", "register", "-"])
        .write_stdin(twice)
        .assert()
        .code(255)
        .stderr(contains("line 2"));
}

#[test]
fn a_suite_is_planned_without_anything_being_started() {
    redjepsen()
        .args(["suite", "smoke", "--dry-run"])
        .assert()
        .code(0)
        .stdout(contains("violation in every run").and(contains("planned for")));
    for suite in ["nightly", "perfect"] {
        redjepsen().args(["suite", suite, "--dry-run"]).assert().code(0);
    }
    let cells = |shard: &str| {
        let assert = redjepsen().args(["suite", "nightly", "--dry-run", "--shard", shard]).assert().code(0);
        let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        let (head, planned) = text.trim_end().rsplit_once("planned for ").unwrap();
        let lines = head.lines().filter(|line| line.starts_with("  ")).skip(1).count();
        // Such as `2 h 39 min` or `53 min 1 s`.
        let planned = planned.replace(" h", "h").replace(" min", "min").replace(" s", "s");
        let minutes = humantime::parse_duration(&planned).unwrap().as_secs() / 60;
        (lines, minutes)
    };
    let parts = ["1/3", "2/3", "3/3"].map(cells);
    let (all, minutes) = cells("1/1");
    assert_eq!(parts.iter().map(|(lines, _)| lines).sum::<usize>(), all);
    assert!(parts.iter().all(|(_, part)| part.abs_diff(minutes / 3) <= 1), "{parts:?} of {minutes} minutes");
}

#[test]
fn what_is_simulated_is_refused_in_the_same_words_everywhere() {
    for workload in ["etcd", "redis-py"] {
        let sentence = |arguments: &[&str]| {
            let assert = redjepsen().args(arguments).args(["--workload", workload]).assert().code(254);
            String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
        };
        let said = sentence(&["run", "--cluster", "sim", "--nemesis", "none"]);
        assert!(
            said.contains("be simulated") && said.contains("`redjepsen run --cluster docker` or `--cluster local`"),
            "{said}"
        );
        // A library can be searched, but not in a simulation.
        let instead =
            if workload == "redis-py" { "; `redjepsen library redis-py` searches on real servers" } else { "" };
        let of_fuzz = format!("{}{instead}\n", said.trim_end());
        assert_eq!(of_fuzz, sentence(&["fuzz"]));
        assert_eq!(of_fuzz, sentence(&["fuzz", "--nemesis", "pause"]));
        assert_eq!(said, sentence(&["risk"]));
    }
    let client = ["--client-cmd", "./client", "--workload", "single"];
    redjepsen().arg("fuzz").args(client).assert().code(254).stderr(contains("only redjepsen's own clients"));
    let folder = tempfile::tempdir().unwrap();
    let accepted = ["fuzz", "--workload", "perfect", "--runs", "1", "--jobs", "256", "--cluster", "any"];
    redjepsen().current_dir(&folder).args(accepted).assert().stdout(contains("1 simulated run"));
}

#[test]
fn a_hunt_that_could_not_be_one_is_refused() {
    for (arguments, words) in [
        (["--time", "0s"], "--time 0s leaves no time"),
        (["--runs", "0"], "expected a whole number, 1 or more"),
        (["--jobs", "0"], "expected a whole number from 1 to 256"),
        (["--jobs", "257"], "expected a whole number from 1 to 256"),
        (["--jobs", "many"], "expected a whole number from 1 to 256"),
        (["--cluster", "local"], "`redjepsen replay` runs its scenarios on real servers"),
        (["--cluster", "docker"], "`redjepsen replay` runs its scenarios on real servers"),
    ] {
        redjepsen().arg("fuzz").args(arguments).assert().code(254).stderr(contains(words));
    }
}

/// A mistaken argument is named with the range, or with the option that takes it.
#[test]
fn an_argument_of_the_wrong_kind_is_refused_with_the_right_one() {
    let refused = |words: &[&str], why: &str| {
        redjepsen().args(words).assert().code(254).stderr(contains(why.to_string()));
    };
    refused(&["serve", "--port", "99999"], "expected a whole number from 0 to 65535");
    refused(&["client-check", "my.toml"], "my.toml is not a command; for a workload file, use --workload my.toml");
}

/// The first line of a run says how clients share processes, if they do.
#[test]
fn a_run_begins_with_the_numbers_of_clients_and_threads() {
    let folder = tempfile::tempdir().unwrap();
    let first = |more: &[&str], words: &str| {
        let run = ["run", "--cluster", "sim", "--nemesis", "none", "--time-limit", "2s", "--clients", "4"];
        let assert = redjepsen().current_dir(&folder).args([&run[..], more].concat()).assert();
        assert.stderr(contains(words.to_string()));
    };
    first(&["--threads", "2"], "4 clients (2 threads per process), 5 nodes");
    first(&[], "4 clients, 5 nodes");
}

#[test]
fn a_machine_learns_its_part_from_what_runs_it_and_all_cut_alike() {
    // This test may itself run under one of these launchers.
    let suite = |variables: &[(&str, &str)]| {
        let mut command = redjepsen();
        for launcher in shard::LAUNCHERS {
            command.env_remove(launcher.index);
        }
        for own in ["REDJEPSEN_SHARD", "REDJEPSEN_SHARD_INDEX", "REDJEPSEN_SHARDS"] {
            command.env_remove(own);
        }
        command.args(["suite", "smoke", "--dry-run", "--shard", "auto"]).envs(variables.iter().copied());
        command.assert()
    };
    let assert = suite(&[("CI_NODE_INDEX", "2"), ("CI_NODE_TOTAL", "4")]).code(0);
    let assert = assert.stderr(contains("shard 2/4, from CI_NODE_INDEX=2 (GitLab CI), CI_NODE_TOTAL=4"));
    let by_hand = redjepsen().args(["suite", "smoke", "--dry-run", "--shard", "2/4"]).assert().code(0);
    assert_eq!(assert.get_output().stdout, by_hand.get_output().stdout);
    suite(&[]).code(254).stderr(contains("--shard auto: nothing says which part this is"));
    suite(&[("REDJEPSEN_SHARD", "2")]).code(254).stderr(contains("set REDJEPSEN_SHARDS"));
    redjepsen()
        .args(["suite", "smoke", "--shard", "atuo"])
        .assert()
        .code(254)
        .stderr(contains("`atuo` is not a shard").and(contains("or `auto`")));
    redjepsen()
        .args(["suite", "smoke", "--jobs", "0"])
        .assert()
        .code(254)
        .stderr(contains("expected a number from 1 to 256, or `auto`"));
    redjepsen().args(["suite", "smoke", "--durations", "x"]).assert().code(254).stderr(contains("--shard"));
    for (path, word) in [("/nonexistent", "No such file"), ("/dev/null", "it is a device")] {
        let arguments = ["suite", "smoke", "--shard", "1/2", "--durations", path];
        redjepsen().args(arguments).assert().code(254).stderr(contains(format!("--durations {path}: {word}")));
    }
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/suite-reference.md")).unwrap();
    for launcher in shard::LAUNCHERS {
        assert!(page.contains(launcher.name) && page.contains(&format!("`{}`", launcher.index)), "{}", launcher.name);
    }
}

#[test]
fn whatever_a_file_expects_is_in_the_nightly_suite_or_in_that_of_libraries() {
    let cells_of = |suite: &str| {
        let assert = redjepsen().args(["suite", suite, "--dry-run"]).assert().code(0);
        let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        let mut workload = String::new();
        let mut cells = Vec::new();
        for line in text.lines() {
            match line.strip_prefix("  ") {
                None => workload = line.to_string(),
                Some(cell) => {
                    let nemesis = cell.split_whitespace().next().unwrap_or_default();
                    cells.push((workload.clone(), nemesis.to_string()));
                }
            }
        }
        cells
    };
    let (nightly, libraries) = (cells_of("nightly"), cells_of("libraries"));
    let mut expected = Vec::new();
    for (workload, _) in catalogue::WORKLOADS {
        let file = catalogue::workload(workload).unwrap().1;
        expected.extend(file.expect.into_keys().map(|nemesis| (workload.to_string(), nemesis)));
    }
    for (nemesis, _) in catalogue::NEMESES {
        let file = catalogue::nemesis(nemesis).unwrap().1;
        expected.extend(file.expect.into_keys().map(|workload| (workload, nemesis.to_string())));
    }
    for cell in expected {
        let is_library = catalogue::workload(&cell.0).unwrap().1.library.is_some();
        let (suite, other) = if is_library { (&libraries, &nightly) } else { (&nightly, &libraries) };
        assert!(suite.contains(&cell) && !other.contains(&cell), "{cell:?} is in the wrong suite, or in none");
    }
}

#[test]
fn a_suite_with_a_mistake_gets_its_place_and_what_was_expected() {
    let good =
        "description = \"mine\"\n[with]\ntime_limit = \"8s\"\n[[cells]]\nworkload = \"redlock\"\nnemesis = \"pause\"\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let refused = |text: &str, words: &[&str]| {
        fs::write(&path, text).unwrap();
        let assert = redjepsen().arg("suite").arg(&path).arg("--dry-run").assert().code(254);
        let error = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    for (from, to, words) in [
        ("time_limit", "time_limt", &["mine.toml", "line 3", "unknown field `time_limt`", "`time_limit`"][..]),
        ("\"8s\"", "8", &["line 3"]),
        ("\"8s\"", "\"8 parsecs\"", &["line 3", "is not a length of time"]),
        ("\"8s\"", "\"2s\"", &["block 1 (redlock under pause)", "--time-limit 2s is too short for nemesis `"]),
        ("\"8s\"", "\"2ttl\"", &["block 1", "multiple of the TTL"]),
        ("\"redlock\"", "\"redlok\"", &["block 1", "unknown workload `redlok`; did you mean `redlock`"]),
        ("\"redlock\"", "[]", &["line 5", "name at least one"]),
        ("\"redlock\"", "7", &["line 5", "a name such as \"redlock\""]),
        ("\"pause\"", "\"paws\"", &["unknown nemesis `paws`"]),
        (
            "\"pause\"",
            "\"pause\"\nexpect = \"victory\"",
            &["line 7", "expected one of `valid`, `violation`, `nothing`"],
        ),
        ("\"pause\"", "\"pause\"\nfound = \"often\"", &["line 7", "expected `every` or `some`"]),
        ("\"pause\"", "\"pause\"\nfound = \"some\"\nexpect = \"valid\"", &["block 1", "`expect` expects none"]),
        ("\"pause\"", "\"pause\"\nlibraries = true", &["block 1", "leave out either `libraries` or `workload`"]),
        ("\"pause\"", "\"pause\"\nruns = 0", &["block 1", "`runs = 0` is out of range"]),
        ("\"pause\"", "[\"pause\", \"pause\"]", &["the cell `redlock under pause` appears twice"]),
        ("[[cells]]\nworkload = \"redlock\"\nnemesis = \"pause\"\n", "", &["missing field `cells`"]),
        ("\"redlock\"", "\"./theirs.toml\"", &["block 1", "theirs.toml"]),
        ("time_limit", "client_img", &["line 3", "unknown field `client_img`", "`client_image`"]),
        ("time_limit = \"8s\"", "client_image = \"x\"", &["block 1", "--client-image is for your own client"]),
        (
            "time_limit = \"8s\"",
            "image = \"redis:7\"\ncluster = \"local\"",
            &["block 1", "--image cannot be used with --cluster local"],
        ),
        (
            "time_limit = \"8s\"",
            "client_cmd = \"c\"\nclient_image = \"x\"\nmount = []",
            &["line 5", "name at least one"],
        ),
        (
            "time_limit = \"8s\"",
            "client_cmd = \"c\"\nclient_image = \"x\"\nmount = \"./gone:/x\"",
            &["block 1", "--mount", folder.path().join("./gone").to_str().unwrap()],
        ),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good);
        refused(&bad, words);
    }
    redjepsen()
        .args(["suite", "smok"])
        .assert()
        .code(254)
        .stderr(contains("unknown suite `smok`; did you mean `smoke`? "));
    redjepsen().args(["suite", "smoke", "--shard", "3/2"]).assert().code(254).stderr(contains("`3/2` is not a shard"));
    redjepsen().arg("suite").assert().code(254);
    // If no cluster can be started, nothing is written.
    redjepsen()
        .current_dir(&folder)
        .args(["suite", "smoke", "--cluster", "docker"])
        .assert()
        .code(255)
        .stderr(contains("no Docker engine answers"));
    assert!(!folder.path().join("store").exists());
}

#[test]
fn what_a_block_leaves_out_is_whatever_something_is_expected_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let cells = |blocks: &str| {
        fs::write(&path, format!("description = \"mine\"\n{blocks}")).unwrap();
        let assert = redjepsen().arg("suite").arg(&path).arg("--dry-run").assert().code(0);
        let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        text.lines().filter(|line| line.starts_with("  ")).skip(1).map(str::to_string).collect::<Vec<_>>()
    };
    let of_nemesis = catalogue::nemesis("lost-reply").unwrap().1.expect.len();
    assert_eq!(cells("[[cells]]\nnemesis = \"lost-reply\"\n").len(), of_nemesis);
    assert!(
        cells("[[cells]]\nworkload = \"redlock-guarded\"\n").iter().any(|cell| cell.contains("pause-before-write"))
    );
    // If another block names a combination, a block that leaves out a field does not include it, in either order.
    let named = "[[cells]]\nworkload = \"redlock\"\nnemesis = \"lost-reply\"\nexpect = \"nothing\"\n";
    let both = cells(&format!("[[cells]]\nnemesis = \"lost-reply\"\n{named}"));
    assert_eq!(both.len(), of_nemesis);
    assert_eq!(both.iter().filter(|cell| cell.contains("nothing")).count(), 1, "{both:?}");
}

#[test]
fn paths_in_a_suite_start_at_its_own_folder() {
    let folder = tempfile::tempdir().unwrap();
    let workload = redjepsen().args(["list", "single"]).assert().get_output().stdout.clone();
    fs::write(folder.path().join("theirs.toml"), workload).unwrap();
    let suite =
        "description = \"mine\"\n[[cells]]\nworkload = \"./theirs.toml\"\nnemesis = [\"pause\", \"pause holder\"]\n";
    fs::write(folder.path().join("mine.toml"), suite).unwrap();
    let assert = redjepsen().arg("suite").arg(folder.path().join("mine.toml")).arg("--dry-run").assert().code(0);
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    // The workload's file has an expectation for the name `pause`, but not for the phrase.
    assert!(text.contains("theirs\n  pause") && text.contains("violation in some run"), "{text}");
    assert!(text.contains("pause-holder  nothing"), "{text}");
}
