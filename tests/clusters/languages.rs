//! Clients in Node.js, Go, Java, PHP and Rust for real: installed from their registries, valid without a fault, caught with a
//! fault. If a machine lacks a runtime, the test says what it did not run. A registry that cannot be reached is a failure.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::turns;

/// The exit code and the whole output.
fn run(store: &Path, flags: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.args(["run", "--cluster", "local", "--seed", "1", "--store"]).arg(store).args(flags.split(' '));
    let output = command.output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), said)
}

/// The first of these programs that this machine does not have.
pub fn missing<'p>(programs: &[&'p str]) -> Option<&'p str> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    programs.iter().copied().find(|program| !is_there(program))
}

/// The first requirement of a client in PHP that this machine lacks. Of Debian's packages, a machine offers at most one version,
/// which is not always the pinned version.
fn missing_for_php(packages: &str) -> Option<String> {
    if let Some(program) = missing(&["php", "apt-get", "apt-cache", "dpkg-deb"]) {
        return Some(program.to_owned());
    }
    let ask = |program: &str, words: &[&str]| Command::new(program).args(words).output().unwrap().stdout;
    if ask("php", &["-r", "echo extension_loaded('redis') ? 'yes' : 'no';"]) != b"yes" {
        return Some("extension redis of php".to_owned());
    }
    let pinned = packages.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let offered = |package: &str, version: &str| {
        String::from_utf8(ask("apt-cache", &["madison", package])).unwrap().contains(&format!(" {version} "))
    };
    pinned.filter(|words| !offered(words[1], words[2])).map(|words| format!("package {} {}", words[1], words[2])).next()
}

pub fn tell(what: &str, missing: impl Display) {
    // Not by `println!`, whose output a passing test discards.
    io::stderr().write_all(format!("{what}: not run: no {missing} on this machine\n").as_bytes()).unwrap();
}

/// Tests one library. The client itself reports the version, from the installed files.
fn holds_and_falls(workload: &str, name: &str, missing: Option<impl Display>) {
    if let Some(missing) = missing {
        return tell(workload, missing);
    }
    let _turn = turns::local();
    let store = tempfile::tempdir().unwrap();
    let (code, text) = run(store.path(), &format!("--workload {workload} --nemesis none --time-limit 6s"));
    assert_eq!(code, Some(0), "{text}");
    let history = std::fs::read_to_string(store.path().join("latest/history.jsonl")).unwrap();
    assert!(history.contains(name), "{name} in what clients said of themselves");
    let (code, text) = run(store.path(), &format!("--workload {workload} --nemesis pause-before-write"));
    assert_eq!(code, Some(1), "{text}");
    // The terminal shows the beginning of a story, results.json the whole story.
    let results = std::fs::read_to_string(store.path().join("latest/results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&results).unwrap();
    let stories = results["incidents"].as_array().unwrap().iter().flat_map(|one| one["sentences"].as_array().unwrap());
    let stories: String = stories.map(|sentence| sentence["text"].as_str().unwrap().replace('`', "") + " ").collect();
    let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ") + " " + &stories;
    // If a reply reached the holder late, it stays open whether its lock had expired when the next holder acquired it. The pause
    // is reported in any case, but as the cause only if that is certain.
    let told = ["when its holder was paused", "In effect meanwhile: pause client:0."];
    assert!(told.iter().any(|words| in_one_line.contains(words)), "{text}");
    assert!(in_one_line.contains(" over c1:") && in_one_line.contains(name), "{text}");
}

#[test]
fn node_redlock_holds_without_faults_and_falls_to_a_pause() {
    holds_and_falls("node-redlock", "node-redlock 5.0.0-beta.2", missing(&["node", "npm"]));
}

#[test]
fn redsync_holds_without_faults_and_falls_to_a_pause() {
    holds_and_falls("redsync-go", "redsync 4.18.1", missing(&["go"]));
}

#[test]
fn redisson_holds_without_faults_and_falls_to_a_pause() {
    holds_and_falls("redisson", "Redisson RLock 4.7.0", missing(&["java", "mvn"]));
}

#[test]
fn symfony_lock_holds_without_faults_and_falls_to_a_pause() {
    let packages = include_str!("../../workloads/clients/php/packages/symfony-lock.txt");
    holds_and_falls("symfony-lock", "Symfony Lock 5.4.53", missing_for_php(packages));
}

#[test]
fn laravel_lock_holds_without_faults_and_falls_to_a_pause() {
    let packages = include_str!("../../workloads/clients/php/packages/laravel-lock.txt");
    holds_and_falls("laravel-lock", "Laravel Cache::lock 8.83.26", missing_for_php(packages));
}

/// A lock that its library or the client renews, and that is lost: the history has the library's report of the loss.
fn a_loss_is_told(workload: &str, flags: &str, missing: Option<impl Display>) {
    if let Some(missing) = missing {
        return tell(workload, missing);
    }
    let _turn = turns::local();
    let store = tempfile::tempdir().unwrap();
    let (code, text) = run(store.path(), &format!("--workload {workload} {flags}"));
    assert_eq!(code, Some(0), "{text}");
    let history = std::fs::read_to_string(store.path().join("latest/history.jsonl")).unwrap();
    assert!(history.contains(r#""phase":"lost""#) && history.contains(r#""error":"lock-lost""#), "{history}");
}

#[test]
fn what_a_library_says_of_a_loss_is_told() {
    a_loss_is_told("node-redlock-using", "--nemesis revived-lock", missing(&["node", "npm"]));
    a_loss_is_told("rueidislock", "--nemesis revived-lock", missing(&["go"]));
    let packages = include_str!("../../workloads/clients/php/packages/symfony-lock.txt");
    let late = "--nemesis late-extension --time-limit 30s";
    a_loss_is_told("symfony-lock-extend", late, missing_for_php(packages));
}

/// A holder is paused until another client has acquired its lock. Then it asks its library whether it still holds the lock.
fn an_answer_is_true(workload: &str, missing: Option<impl Display>) {
    if let Some(missing) = missing {
        return tell(workload, missing);
    }
    let _turn = turns::local();
    let store = tempfile::tempdir().unwrap();
    let (code, text) = run(store.path(), &format!("--workload {workload} --nemesis pause-before-check"));
    assert_eq!(code, Some(0), "{workload}: {text}");
    let history = std::fs::read_to_string(store.path().join("latest/history.jsonl")).unwrap();
    for told in [r#""phase":"owned""#, "it is no longer owned", r#""error":"lock-lost""#] {
        assert!(history.contains(told), "{workload}: {told}: {history}");
    }
}

/// After a refused release, and after a successful one, the client releases again. This must not release another client's lock.
fn a_release_is_made_again(workload: &str, missing: Option<impl Display>) {
    if let Some(missing) = missing {
        return tell(workload, missing);
    }
    let _turn = turns::local();
    let store = tempfile::tempdir().unwrap();
    for nemesis in ["failed-release", "released-twice"] {
        let (code, text) = run(store.path(), &format!("--workload {workload} --nemesis {nemesis}"));
        assert_eq!(code, Some(0), "{workload}: {text}");
        let history = std::fs::read_to_string(store.path().join("latest/history.jsonl")).unwrap();
        assert!(history.contains(r#""release_again_ms":300"#), "{workload}: {history}");
    }
}

#[test]
fn programs_that_give_a_lock_back_twice_free_it_if_the_first_release_failed() {
    a_release_is_made_again("node-redlock", missing(&["node", "npm"]));
    a_release_is_made_again("redislock-go", missing(&["go"]));
    a_release_is_made_again("redisson", missing(&["java", "mvn"]));
    let packages = include_str!("../../workloads/clients/php/packages/symfony-lock.txt");
    a_release_is_made_again("symfony-lock", missing_for_php(packages));
    a_release_is_made_again("redis-py-asyncio", missing(&["python3"]));
}

#[test]
fn a_release_that_can_be_made_once_is_not_asked_for_again() {
    let refused = |workload: &str| {
        let _turn = turns::local();
        let store = tempfile::tempdir().unwrap();
        let (code, text) = run(store.path(), &format!("--workload {workload} --nemesis released-twice"));
        let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let why = "needs the capability `release-again`, but the client's `ready` does not list it";
        assert!(code == Some(255) && in_one_line.contains(why), "{workload}: {text}");
    };
    match missing(&["node", "npm"]) {
        Some(program) => tell("node-redlock-using", program),
        None => refused("node-redlock-using"),
    }
    match missing(&["cargo", "cc"]) {
        Some(program) => tell("rslock", program),
        None => refused("rslock"),
    }
}

#[test]
fn a_library_that_is_asked_knows_that_its_lock_is_gone() {
    an_answer_is_true("redislock-go-owned", missing(&["go"]));
    an_answer_is_true("redisson-owned", missing(&["java", "mvn"]));
    an_answer_is_true("rslock-owned", missing(&["cargo", "cc"]));
    let packages = include_str!("../../workloads/clients/php/packages/symfony-lock.txt");
    an_answer_is_true("symfony-lock-owned", missing_for_php(packages));
}

#[test]
fn a_library_that_says_what_it_believes_is_caught() {
    if let Some(program) = missing(&["node", "npm"]) {
        return tell("redis-semaphore-owned", program);
    }
    let _turn = turns::local();
    let store = tempfile::tempdir().unwrap();
    let (code, text) = run(store.path(), "--workload redis-semaphore-owned --nemesis pause-before-check");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("told a client that it held a lock that another client held"), "{text}");
}

/// A crate whose acquisition is cancelled by dropping its future, and a crate that blocks and says that it can't be cancelled.
#[test]
fn crates_have_threads_and_those_with_futures_are_cancelled() {
    if let Some(program) = missing(&["cargo", "cc"]) {
        return tell("rslock and redsync-rs", program);
    }
    let _turn = turns::local();
    let store = tempfile::tempdir().unwrap();
    let (code, text) = run(store.path(), "--workload rslock --nemesis cancelled-acquisition");
    assert_eq!(code, Some(1), "{text}");
    let history = std::fs::read_to_string(store.path().join("latest/history.jsonl")).unwrap();
    assert!(history.contains(r#""error":"cancelled""#), "{history}");
    let (code, text) = run(store.path(), "--workload redsync-rs --nemesis cancelled-acquisition");
    assert_eq!(code, Some(255), "{text}");
    let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(in_one_line.contains("needs the capability `cancel`, but the client's `ready` does not list it"), "{text}");
    for workload in ["rslock", "redsync-rs"] {
        let (code, text) = run(store.path(), &format!("--workload {workload} --nemesis shared-lock --time-limit 6s"));
        assert_eq!(code, Some(0), "{workload}: {text}");
    }
}

/// redsync, built with or without cgo: the observation of a fault on its client's wall clock, and the run's output.
fn skewed(cgo: &str) -> (serde_json::Value, String) {
    let store = tempfile::tempdir().unwrap();
    let (program, nemesis) = (store.path().join("redsync"), store.path().join("clock.toml"));
    let mut build = Command::new("go");
    build.args(["build", "-C", concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/clients/go"), "-buildvcs=false", "-o"]);
    assert!(build.arg(&program).arg("./redsync").env("CGO_ENABLED", cgo).status().unwrap().success());
    let steps = [
        "start client:0 to before-write",
        "clock client:0 +2ttl",
        "go client:0",
        "await client:0 end",
        "heal clock client:0 +2ttl",
    ];
    let script = format!("description = \"d\"\nstory = \"s\"\nprogress = \"any\"\nclients = 2\nscript = {steps:?}\n");
    std::fs::write(&nemesis, script).unwrap();
    let flags = format!("--workload redsync-go --client-cmd {} --nemesis {}", program.display(), nemesis.display());
    let (_, text) = run(store.path(), &flags);
    let history = std::fs::read_to_string(store.path().join("latest/history.jsonl")).expect(&text);
    let mut events = history.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let injected = events.find(|event| event["f"] == "clock" && event["step"] == "injected").expect(&text);
    (injected, text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Go's runtime uses the vDSO. In a program with cgo, redjepsen's library replaces it; a program without cgo loads no library.
#[test]
fn a_clock_in_go_is_wrong_with_cgo_and_refused_without() {
    if let Some(program) = missing(&["go", "cc"]) {
        return tell("a clock in Go", program);
    }
    let _turn = turns::local();
    let (injected, text) = skewed("1");
    assert_eq!(injected["observed"], true, "{injected}");
    assert!(injected["text"].as_str().unwrap().starts_with("c0: its wall clock shows +2.000 s"), "{injected}");
    assert!(text.contains("VALID") && !text.contains("UNKNOWN"), "{text}");
    let (injected, text) = skewed("0");
    assert_eq!(injected["observed"], false, "{injected}");
    assert!(text.contains("UNKNOWN"), "{text}");
    assert!(text.contains("c0: its program (redsync) does not read its clock through libc"), "{text}");
}

/// The first message of a client in Node.js whose library returns this lock.
fn first_message(lock: &str) -> String {
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/clients/node/redjepsen.js");
    let adapter = format!("require('{package}').serve('mine', () => async () => ({lock}));");
    let mut client =
        Command::new("node").args(["-e", &adapter]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut control = client.stdin.take().unwrap();
    let hello = concat!(
        r#"{"type":"hello","protocol":1,"client":"c0","lock":{"name":"mine","ttl_ms":1000,"nodes":[],"options":{}},"#,
        r#""resource":{"kind":"none","url":"redis://nowhere","fencing":"none"},"seed":7}"#
    );
    writeln!(control, "{hello}").unwrap();
    let mut line = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut line).unwrap();
    drop(control); // which ends it
    client.wait().unwrap();
    line
}

#[test]
fn what_nobody_reads_of_a_lock_in_node_is_refused_by_its_name() {
    if let Some(program) = missing(&["node"]) {
        return tell("a lock in Node.js", program);
    }
    for lock in ["{ release() {} }", "{ release() {}, validity: () => 900, token: 7, owned: undefined }", "null"] {
        let said = first_message(lock);
        assert!(said.contains(r#""type":"ready""#), "{lock}: {said}");
    }
    let refused = [
        ("{ release() {}, validityMs: 900 }", "unknown field `validityMs`"),
        ("{ release() {}, validity: 900 }", "`validity` of the lock is no function"),
        ("{ release() {}, token: null }", "`token` of the lock is no whole number"),
        ("{ unlock() {} }", "unknown field `unlock`"),
        ("{}", "`release` of the lock is no function"),
        ("true", "gave a boolean"),
    ];
    for (lock, why) in refused {
        let said = first_message(lock);
        assert!(said.contains(r#""type":"failed""#) && said.contains(why), "{lock}: {said}");
    }
}

#[test]
fn a_release_that_never_comes_back_is_waited_for_no_longer_than_any_operation_once_its_script_is_over() {
    if let Some(program) = missing(&["node"]) {
        return tell("a release that never comes back", program);
    }
    let _turn = turns::local();
    let folder = tempfile::tempdir().unwrap();
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/clients/node/redjepsen.js");
    // Each client has its own lock: the test is about when the run gives up a client.
    let adapter = format!(
        "let held = 0; const never = new Promise(() => {{}});\n\
         const release = (client) => (client === 'c0' && ++held > 5 ? never : undefined);\n\
         require('{package}').serve('mine', ({{ client }}) => async () => ({{ release: () => release(client) }}));"
    );
    std::fs::write(folder.path().join("mine.js"), adapter).unwrap();
    let workload = r#"
description = "Mine"
source = "Nowhere."
nodes = 1
claims = ["liveness"]
client = { command = { command = ["node", "{folder}/mine.js"] } }
library = { name = "mine", version = "1" }
lock = { library = { node_timeout = "1ttl", retry_delay = "10ms..20ms" } }
resource = { kind = "register", fencing = "none" }
"#;
    std::fs::write(folder.path().join("mine.toml"), workload).unwrap();
    // Each of these steps may take 11 s.
    let steps: Vec<String> =
        (0..20).map(|_| "  \"start client:1\",\n  \"await client:1 end\",\n".to_string()).collect();
    let nemesis = format!(
        "description = \"d\"\nstory = \"s\"\nclients = 2\nscript = [\n  \"start client:0\",\n{}]\n",
        steps.concat()
    );
    std::fs::write(folder.path().join("many.toml"), nemesis).unwrap();
    let store = folder.path().join("store");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (code, text) = run(&store, &format!("--workload {} --nemesis {}", file("mine.toml"), file("many.toml")));
    assert!(matches!(code, Some(1 | 2)), "{text}");
    assert!(text.contains("it hangs"), "{text}");
    // Not a measurement: the script alone might have taken four minutes.
    let history = std::fs::read_to_string(store.join("latest/history.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(history.lines().last().unwrap()).unwrap();
    assert!(last["time"].as_u64().unwrap() < 120_000_000_000, "{last}");
}

#[test]
fn a_runtime_that_is_not_there_is_named() {
    assert_eq!(missing(&["sh", "no-such-runtime-here"]), Some("no-such-runtime-here"));
    assert_eq!(missing(&["sh"]), None);
    if missing_for_php("").is_none() {
        let nothing = missing_for_php("0 no-such-package-here 1.0");
        assert_eq!(nothing.as_deref(), Some("package no-such-package-here 1.0"));
    }
}
