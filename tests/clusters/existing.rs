//! Runs on existing servers: each test starts servers as if they belonged to a user. Everything but the run's own keys stays
//! unchanged.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;

use crate::redis_server::{Redis, certificates, free_port};
use crate::turns;

pub const SECRET: &str = "hunter2-hunter2";
/// A server with a password, and with a user that may only do what a lock needs, on redjepsen's keys.
pub const NARROW: &[&str] = &[
    "save \"\"",
    "requirepass hunter2-hunter2",
    "user locker on >hunter2-hunter2 ~*redjepsen:* resetchannels &*redjepsen:* -@all +set +get +del +pttl +pexpire +evalsha +eval \
     +script|load +ping +info +client|setname +client|id +hello +select +exists",
];

/// The command that a user would type, with the password in its variable.
pub fn redjepsen(flags: &str, store: &Path, servers: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.args(shlex::split(flags).unwrap()).arg("--store").arg(store).env("TMPDIR", store);
    servers.iter().for_each(|server| _ = command.args(["--server", server]));
    command.env("REDISCLI_AUTH", SECRET).stdin(Stdio::null());
    command
}

pub struct Outcome {
    pub code: Option<i32>,
    pub text: String,
    pub store: tempfile::TempDir,
}

pub fn run(flags: &str, servers: &[String]) -> Outcome {
    output(&format!("run {flags}"), servers)
}

pub fn output(flags: &str, servers: &[String]) -> Outcome {
    let store = tempfile::tempdir().unwrap();
    let output = redjepsen(flags, store.path(), servers).output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    Outcome { code: output.status.code(), text: text.split_whitespace().collect::<Vec<_>>().join(" "), store }
}

impl Outcome {
    pub fn expect(self, code: i32) -> Outcome {
        assert_eq!(self.code, Some(code), "{}", self.text);
        self
    }

    /// Asserts that neither the run's files nor its output contain the password.
    pub fn is_silent(&self) {
        assert!(!self.text.contains(SECRET), "{}", self.text);
        let mut folders = vec![self.store.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap() {
                    kind if kind.is_dir() => folders.push(entry.path()),
                    kind if kind.is_file() => {
                        let text = fs::read(entry.path()).unwrap();
                        let is_in = text.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
                        assert!(!is_in, "{}", entry.path().display());
                    }
                    _ => {}
                }
            }
        }
    }
}

/// The state that must not change. Leaves out the number of scripts that clients have sent: a server forgets no script by itself.
pub fn state(redis: &Redis, before: &[&str]) -> Vec<String> {
    redis.state(before).into_iter().filter(|line| !line.starts_with("number_of_cached_scripts")).collect()
}

#[test]
fn servers_of_somebody_else_are_left_as_they_were() {
    let _turn = turns::local();
    let servers: Vec<Redis> = (0..3).map(|_| Redis::start(NARROW)).collect();
    let auth = &["AUTH hunter2-hunter2"];
    for server in &servers {
        server.ask(auth, "SET lock:k0 theirs");
    }
    let before: Vec<_> = servers.iter().map(|server| state(server, auth)).collect();
    let urls: Vec<String> = servers.iter().map(|server| server.url().replace("://", "://locker@")).collect();
    let flags = "--nemesis pause-before-write --seed 1 --allow-writes";
    let fallen = run(&format!("--workload redlock {flags}"), &urls).expect(1);
    fallen.is_silent();
    // Even a client that prints its environment does not have the password.
    let program = env!("CARGO_BIN_EXE_redjepsen");
    let shows = format!(
        "--client-cmd \"sh -c 'env >&2; exec {program} client'\" --workload redlock --nemesis none --time-limit 3s"
    );
    let shown = run(&format!("{shows} --seed 1 --allow-writes"), &urls).expect(0);
    shown.is_silent();
    // The command for a repetition has everything except the password.
    assert!(fallen.text.contains("--server redis://locker@127.0.0.1:"), "{}", fallen.text);
    run(&format!("--workload redlock-guarded {flags}"), &urls).expect(0).is_silent();
    for (server, before) in servers.iter().zip(before) {
        assert_eq!(state(server, auth), before);
    }
}

#[test]
fn faults_at_commands_and_on_the_way_strike_before_a_server_of_somebody_else() {
    let _turn = turns::local();
    let servers: Vec<Redis> = (0..3).map(|_| Redis::start(NARROW)).collect();
    let urls: Vec<String> = servers.iter().map(Redis::url).collect();
    let flags = "--seed 1 --allow-writes --nemesis";
    run(&format!("--workload redlock {flags} lost-reply"), &urls).expect(0);
    run(&format!("--workload redlock-lazy-release {flags} lost-reply"), &urls).expect(1);
    run(&format!("--workload redlock --ttl 400ms --time-limit 5s {flags} partition"), &urls).expect(0);
}

#[test]
fn a_fault_at_a_command_knows_a_key_by_its_name_in_the_history() {
    let _turn = turns::local();
    let redis = Redis::start(NARROW);
    let nemesis = "hold reply to SET on lock:k* clients from nodes";
    let flags = format!("--workload single --seed 1 --allow-writes --time-limit 6s --nemesis '{nemesis}'");
    let outcome = run(&flags, &[redis.url()]);
    let history = fs::read_to_string(outcome.store.path().join("latest/history.jsonl")).unwrap();
    assert!(history.contains("SET of lock:k0 to n0 was answered with OK, and the reply is held"), "{}", outcome.text);
    let other = flags.replace("lock:k*", "other:k*");
    let outcome = run(&other, &[redis.url()]);
    let history = fs::read_to_string(outcome.store.path().join("latest/history.jsonl")).unwrap();
    assert!(!history.contains("the reply is held"), "{}", outcome.text);
}

#[test]
fn a_library_is_tried_on_a_server_of_somebody_else_without_the_faults_of_servers() {
    let _turn = turns::local();
    let redis = Redis::start(NARROW);
    let auth = &["AUTH hunter2-hunter2"];
    redis.ask(auth, "SET theirs 1");
    let before = state(&redis, auth);
    let library = "library setnx-expire --ttl 1s --budget 20s";
    // Nothing is written without the user's word.
    let refused = output(library, &[redis.url()]).expect(254);
    assert!(refused.text.contains("--allow-writes"), "{}", refused.text);
    let outcome = output(&format!("{library} --allow-writes"), &[redis.url()]).expect(2);
    assert!(outcome.text.contains("RJ005 ttl-in-second-command"), "{}", outcome.text);
    assert!(outcome.text.contains("--allow-writes true"), "each command repeats its run there: {}", outcome.text);
    outcome.is_silent();
    let suites = outcome.store.path().join("suites");
    let of = |stage: &str| {
        let of_stage = |entry: &fs::DirEntry| entry.file_name().to_str().unwrap().ends_with(stage);
        let mut folders = fs::read_dir(&suites).unwrap().map(Result::unwrap).filter(of_stage);
        folders.next().map(|folder| fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path())
    };
    let page = fs::read_to_string(of("-catalogue").unwrap().join("library.html")).unwrap();
    // No option of a command is broken between lines.
    let page = page.replace("<span>", "").replace("</span>", "");
    assert!(page.contains("redjepsen does not change existing servers"), "the page says what was left out, and why");
    let repeat = format!("redjepsen library setnx-expire --server {} --allow-writes true", redis.url());
    assert!(page.contains(&repeat), "{repeat}");
    assert_eq!(state(&redis, auth), before);
}

#[test]
fn commands_are_recorded_only_where_the_user_asks_for_it() {
    let _turn = turns::local();
    let redis = Redis::start(NARROW);
    redis.ask(&["AUTH hunter2-hunter2"], "SET theirs 1");
    let flags = "--workload single-get-del --nemesis pause-in-release --seed 1 --allow-writes";
    let commands = |outcome: &Outcome| {
        let found = fs::read_to_string(outcome.store.path().join("latest/commands.jsonl"));
        found.unwrap_or_default().lines().count()
    };
    let silent = run(flags, &[redis.url()]).expect(1);
    assert_eq!((commands(&silent), silent.text.contains("RJ002")), (0, false), "{}", silent.text);
    let named = run(&format!("{flags} --record-commands"), &[redis.url()]).expect(1);
    assert!(named.text.contains("deletes it in another (RJ002)"), "{}", named.text);
    assert!(commands(&named) > 20);
    named.is_silent();
    // This user may not MONITOR.
    let url = redis.url().replace("://", "://locker@");
    let refused = run(&format!("{flags} --record-commands"), &[url]).expect(255);
    assert!(
        refused.text.contains("--record-commands: 127.0.0.1:") && refused.text.contains("NOPERM"),
        "{}",
        refused.text
    );
}

#[test]
fn tls_ends_before_the_clients_who_have_no_certificate() {
    let _turn = turns::local();
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let at = |name: &str| folder.path().join(name).display().to_string();
    let port = free_port();
    let [server, key, ca] = ["server.pem", "server.key", "ca.pem"].map(at);
    let lines = format!(
        "tls-port {port}\nsave \"\"\ntls-cert-file {server}\ntls-key-file {key}\ntls-ca-cert-file {ca}\nrequirepass {SECRET}"
    );
    let _redis = Redis::start_at(port, &[lines.as_str()], false);
    let urls = [format!("rediss://127.0.0.1:{port}/3")];
    let flags = "--workload single --nemesis pause-before-write --seed 1 --allow-writes";
    let files = format!("--ca {ca} --cert {} --key {}", at("client.pem"), at("client.key"));
    run(&format!("{flags} {files}"), &urls).expect(1).is_silent();
    let refused = run(&format!("{flags} --ca {ca}"), &urls).expect(255);
    assert!(refused.text.contains("--cert"), "{}", refused.text);
}

#[test]
fn keys_of_a_killed_run_are_removed_by_clean() {
    let _turn = turns::cleaning();
    let redis = Redis::start(NARROW);
    let auth = &["AUTH hunter2-hunter2"];
    redis.ask(auth, "SET theirs 1");
    let store = tempfile::tempdir().unwrap();
    let flags = "--workload forever --nemesis none --time-limit 30s --allow-writes";
    let mut child = redjepsen(&format!("run {flags}"), store.path(), &[redis.url()]);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let keys = || match redis.ask(auth, "KEYS *") {
        Value::Array(keys) => keys.len(),
        other => panic!("{other:?}"),
    };
    let until = Instant::now() + Duration::from_secs(60);
    // Waits until a client holds the lock, which never expires.
    while keys() < 2 {
        assert!(Instant::now() < until, "no lock was taken");
        thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    thread::sleep(Duration::from_millis(300));
    let clean = |password: &str| {
        let mut clean = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        clean.arg("clean").env("TMPDIR", store.path()).env("REDISCLI_AUTH", password).output().unwrap()
    };
    // The lock may have been free at that moment. A key that exists stays until its server lets redjepsen in.
    let left = keys();
    let denied = clean("wrong");
    let told = String::from_utf8_lossy(&denied.stderr).into_owned();
    assert!(told.contains("redjepsen may still be on 127.0.0.1:") && told.contains("rejects the password"), "{told}");
    assert_eq!(keys(), left);
    let cleaned = clean(SECRET);
    assert!(cleaned.status.success(), "{}", String::from_utf8_lossy(&cleaned.stderr));
    assert_eq!(keys(), 1, "theirs is all there is");
    let folders = fs::read_dir(store.path()).unwrap().flatten().map(|entry| entry.file_name());
    assert!(folders.filter_map(|name| name.into_string().ok()).all(|name| !name.starts_with("redjepsen-run-")));
}

#[test]
fn a_server_that_lets_nobody_in_is_an_error_before_anything_starts() {
    let _turn = turns::local();
    let redis = Redis::start(NARROW);
    let flags = "--workload single --nemesis none --allow-writes";
    for (url, part) in [
        (redis.url().replace("://", "://stranger@"), "rejects the password of user stranger"),
        (format!("redis://127.0.0.1:{}", free_port()), "connection is refused"),
        (redis.url().replace("redis:", "rediss:"), "TLS"),
    ] {
        let refused = run(flags, std::slice::from_ref(&url)).expect(255);
        assert!(refused.text.contains(part), "{url}: {}", refused.text);
        refused.is_silent();
    }
}

/// Waits until `holds` is true; `what` is the message on failure.
pub fn until(what: &str, holds: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < limit, "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

pub fn says(server: &Redis, command: &str, words: &str) -> bool {
    match server.ask(AUTH, command) {
        Value::BulkString(text) => String::from_utf8_lossy(&text).contains(words),
        _ => false,
    }
}

pub const AUTH: &[&str] = &["AUTH hunter2-hunter2"];

/// A Redis Cluster with a password, whose nodes announce names that do not resolve here.
pub fn redis_cluster() -> Vec<Redis> {
    let ports: [u16; 6] = std::array::from_fn(|_| free_port());
    redis_cluster_at(&ports, |number| {
        let name = format!("cluster-announce-hostname n{number}.invalid");
        vec!["cluster-preferred-endpoint-type hostname".to_string(), name]
    })
}

/// A Redis Cluster with a password at these ports: three primaries, three replicas. `more` adds lines to a node's redis.conf.
pub fn redis_cluster_at(ports: &[u16; 6], more: impl Fn(usize) -> Vec<String>) -> Vec<Redis> {
    let start = |(number, port): (usize, &u16)| {
        let more = more(number);
        let own = ["cluster-enabled yes", "cluster-node-timeout 2000", "save \"\""];
        let secrets = ["requirepass hunter2-hunter2", "masterauth hunter2-hunter2"];
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        Redis::start_at(*port, &[&own[..], &secrets, &more].concat(), false)
    };
    let nodes: Vec<Redis> = ports.iter().enumerate().map(start).collect();
    for (number, node) in nodes.iter().enumerate() {
        node.ask(AUTH, &format!("CLUSTER MEET 127.0.0.1 {}", nodes[0].port));
        let (first, last) = (number * 16384 / 3, (number + 1) * 16384 / 3 - 1);
        if number < 3 {
            node.ask(AUTH, &format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
        }
    }
    until("all nodes know each other", || nodes.iter().all(|node| says(node, "CLUSTER INFO", "cluster_known_nodes:6")));
    for (primary, replica) in nodes[..3].iter().zip(&nodes[3..]) {
        let Value::BulkString(id) = primary.ask(AUTH, "CLUSTER MYID") else { panic!("no id") };
        replica.ask(AUTH, &format!("CLUSTER REPLICATE {}", String::from_utf8(id).unwrap()));
    }
    let is_up = |node: &Redis| says(node, "CLUSTER INFO", "cluster_state:ok");
    until("the cluster is whole", || nodes.iter().all(is_up));
    until("replicas are in sync", || nodes[3..].iter().all(|node| says(node, "INFO", "master_link_status:up")));
    nodes
}

/// A primary, two replicas and three Sentinels, with a password.
pub fn sentinel_group() -> (Vec<Redis>, Vec<Redis>) {
    let own = ["save \"\"", "requirepass hunter2-hunter2", "masterauth hunter2-hunter2"];
    let primary = Redis::start(&own);
    let of = format!("replicaof 127.0.0.1 {}", primary.port);
    let replicas = (0..2).map(|_| Redis::start(&[&own[..], &[&of]].concat()));
    let nodes: Vec<Redis> = [primary].into_iter().chain(replicas).collect();
    until("replicas are in sync", || nodes[1..].iter().all(|node| says(node, "INFO", "master_link_status:up")));
    let watch = [
        format!("sentinel monitor theirs 127.0.0.1 {} 2", nodes[0].port),
        "sentinel auth-pass theirs hunter2-hunter2".to_string(),
        "sentinel down-after-milliseconds theirs 1000".to_string(),
    ];
    let lines: Vec<&str> = watch.iter().map(String::as_str).collect();
    let sentinels: Vec<Redis> = (0..3).map(|_| Redis::start_at(free_port(), &lines, true)).collect();
    let knows = |sentinel: &Redis| {
        let Value::Array(fields) = sentinel.ask(&[], "SENTINEL MASTER theirs") else { return false };
        let is = |value: &Value, text: &str| matches!(value, Value::BulkString(bytes) if bytes == text.as_bytes());
        let has = |name: &str| fields.chunks(2).any(|pair| is(&pair[0], name) && is(&pair[1], "2"));
        has("num-slaves") && has("num-other-sentinels")
    };
    until("Sentinels know all", || sentinels.iter().all(knows));
    (nodes, sentinels)
}

pub fn keys_of(nodes: &[Redis]) -> Vec<String> {
    nodes.iter().map(|node| format!("{:?}", node.ask(AUTH, "KEYS *"))).collect()
}

#[test]
fn a_redis_cluster_of_somebody_else_is_found_from_one_node_and_clients_stay_behind_the_relays() {
    let _turn = turns::local();
    let nodes = redis_cluster();
    let before = keys_of(&nodes);
    let seed = [nodes[4].url()];
    let flags = "--seed 1 --allow-writes --workload cluster --nemesis";
    run(&format!("{flags} none --time-limit 3s"), &seed).expect(0).is_silent();
    run(&format!("{flags} pause-before-write"), &seed).expect(1).is_silent();
    let refused = run(&format!("{flags} failover-on-command"), &seed).expect(254);
    assert!(refused.text.contains("--allow-failover"), "{}", refused.text);
    let over = run(&format!("{flags} failover-on-command --allow-failover"), &seed).expect(0);
    over.is_silent();
    let refused = run(&format!("{flags} none --nodes 8"), &seed).expect(255);
    assert!(refused.text.contains("the group has 6 nodes, but the run expects 8; give --nodes 6"), "{}", refused.text);
    assert_eq!(keys_of(&nodes), before);
}

#[test]
fn a_sentinel_group_of_somebody_else_is_asked_by_its_name_and_fails_over_only_if_allowed() {
    let _turn = turns::local();
    let (nodes, sentinels) = sentinel_group();
    let before = keys_of(&nodes);
    let urls: Vec<String> = sentinels.iter().map(Redis::url).collect();
    let flags = "--seed 1 --allow-writes --workload replicated --sentinel theirs --nemesis";
    run(&format!("{flags} none --time-limit 3s"), &urls).expect(0).is_silent();
    // Two primaries answer for a while, and each grants the lock.
    run(&format!("{flags} failover-on-command --allow-failover"), &urls).expect(1).is_silent();
    assert_eq!(keys_of(&nodes), before);
    let unnamed = run("--allow-writes --workload replicated --nemesis none", &urls).expect(254);
    assert!(unnamed.text.contains("--sentinel"), "{}", unnamed.text);
    let wrong = run("--allow-writes --workload replicated --sentinel other --nemesis none", &urls).expect(255);
    assert!(
        wrong.text.contains("watches no group of the name other") || wrong.text.contains("No such master"),
        "{}",
        wrong.text
    );
}
