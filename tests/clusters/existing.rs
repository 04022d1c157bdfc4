//! Runs on servers that already run: each test starts them as if they were somebody's. All but the run's own keys stays as it was.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;

use crate::redis_server::{Redis, certificates, free_port};
use crate::turns;

const SECRET: &str = "hunter2-hunter2";
/// A server with a password, and with a user who may do what a lock needs on keys of redjepsen's and nothing else.
const NARROW: &[&str] = &[
    "save \"\"",
    "requirepass hunter2-hunter2",
    "user locker on >hunter2-hunter2 ~*redjepsen:* resetchannels &*redjepsen:* -@all +set +get +del +pttl +pexpire +evalsha +eval \
     +script|load +ping +info +client|setname +client|id +hello +select +exists",
];

/// What the user typed, with the password where it is to be.
fn redjepsen(flags: &str, store: &Path, servers: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.arg("run").args(shlex::split(flags).unwrap()).arg("--store").arg(store).env("TMPDIR", store);
    servers.iter().for_each(|server| _ = command.args(["--server", server]));
    command.env("REDISCLI_AUTH", SECRET).stdin(Stdio::null());
    command
}

struct Outcome {
    code: Option<i32>,
    text: String,
    store: tempfile::TempDir,
}

fn run(flags: &str, servers: &[String]) -> Outcome {
    let store = tempfile::tempdir().unwrap();
    let output = redjepsen(flags, store.path(), servers).output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    Outcome { code: output.status.code(), text: text.split_whitespace().collect::<Vec<_>>().join(" "), store }
}

impl Outcome {
    fn expect(self, code: i32) -> Outcome {
        assert_eq!(self.code, Some(code), "{}", self.text);
        self
    }

    /// No file of the run, and nothing that was printed, has the password.
    fn is_silent(&self) {
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

/// What must stay, without the count of scripts that clients have sent: a server forgets no script by itself.
fn state(redis: &Redis, before: &[&str]) -> Vec<String> {
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
    // Not even a client that shows its environment has the password.
    let program = env!("CARGO_BIN_EXE_redjepsen");
    let shows = format!(
        "--client-cmd \"sh -c 'env >&2; exec {program} client'\" --workload redlock --nemesis none --time-limit 3s"
    );
    let shown = run(&format!("{shows} --seed 1 --allow-writes"), &urls).expect(0);
    shown.is_silent();
    // The repeated command has everything but the password.
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
    let mut child = redjepsen(flags, store.path(), &[redis.url()]);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let keys = || match redis.ask(auth, "KEYS *") {
        Value::Array(keys) => keys.len(),
        other => panic!("{other:?}"),
    };
    let until = Instant::now() + Duration::from_secs(60);
    // Until one holds the lock, which never ends by itself.
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
    // The lock may have been free at that moment; a key that is there stays until its server lets redjepsen in.
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
