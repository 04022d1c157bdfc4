//! A controller that is killed at any moment, some of them inside an injection, leaves a machine that `redjepsen clean` puts
//! back as it was.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a machine has that a run could leave on it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Machine {
    /// Processes of ours, by command line, and whatever stands still.
    processes: BTreeSet<String>,
    mounts: BTreeSet<String>,
    /// Namespaces that some process is in.
    namespaces: BTreeSet<String>,
    links: BTreeSet<String>,
    tables: String,
    containers: String,
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Machine {
    fn now() -> Machine {
        let mut machine = Machine {
            mounts: fs::read_to_string("/proc/mounts").unwrap().lines().map(str::to_string).collect(),
            links: fs::read_dir("/sys/class/net")
                .unwrap()
                .map(|link| link.unwrap().file_name().into_string().unwrap())
                .collect(),
            tables: said_by("nft", &["list", "tables", "bridge"]),
            containers: engine_has(),
            ..Machine::default()
        };
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let folder = entry.path();
            let Ok(command) = fs::read(folder.join("cmdline")) else { continue };
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            let state = fs::read_to_string(folder.join("stat")).unwrap_or_default();
            let stopped = state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'));
            if stopped || ["redjepsen", "redis-server"].iter().any(|name| command.contains(name)) {
                // This test itself, and what started it.
                if !command.contains("killed") {
                    machine.processes.insert(format!("{}: {command}", folder.display()));
                }
            }
            for kind in ["net", "mnt", "pid", "user"] {
                if let Ok(link) = fs::read_link(folder.join("ns").join(kind)) {
                    machine.namespaces.insert(link.display().to_string());
                }
            }
        }
        machine
    }
}

/// Containers and networks of ours, as the engine lists them.
fn engine_has() -> String {
    use std::io::{Read, Write};
    let mut all = String::new();
    for path in ["/containers/json?all=1", "/networks"] {
        let mut stream =
            std::os::unix::net::UnixStream::connect("/var/run/docker.sock").expect("a Docker engine must answer");
        let filter = "%7B%22label%22%3A%5B%22redjepsen%22%5D%7D";
        let separator = if path.contains('?') { '&' } else { '?' };
        write!(stream, "GET {path}{separator}filters={filter} HTTP/1.0\r\nHost: docker\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let body: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        for found in body.as_array().unwrap() {
            all.push_str(&format!("{} {}\n", found["Id"], found["Names"]));
        }
    }
    all
}

fn redjepsen(arguments: &[&str], store: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.args(arguments).stdin(Stdio::null()).current_dir(store);
    command
}

/// Kills a run after each of these times, and holds the machine against what it was.
fn killed(cluster: &str, moments_ms: &[u64]) {
    let store = tempfile::tempdir().unwrap();
    let before = Machine::now();
    for moment in moments_ms {
        // Faults all the time, several at once.
        let run = [
            "run",
            "--cluster",
            cluster,
            "--nemesis",
            "all",
            "--ttl",
            "300ms",
            "--clients",
            "3",
            "--time-limit",
            "20s",
        ];
        let mut controller = redjepsen(&run, store.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(*moment));
        controller.kill().unwrap();
        controller.wait().unwrap();

        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let cleaned = redjepsen(&["clean"], store.path()).output().unwrap();
            let now = Machine::now();
            if cleaned.status.success() && now == before {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "killed after {moment} ms on a {cluster} cluster, cleaned ({}), and still:\n{now:#?}\nwhere it was\n{before:#?}",
                String::from_utf8_lossy(&cleaned.stdout)
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Moments from the start of the cluster to the middle of its faults, a different set in each run of the test.
fn moments(count: u64, start_ms: u64) -> Vec<u64> {
    let seed = u64::from(std::process::id());
    (0..count).map(|number| start_ms + (seed * 7919 + number * 104_729) % 4000).collect()
}

#[test]
fn a_local_run_that_is_killed_leaves_nothing() {
    killed("local", &moments(10, 50));
}

#[test]
fn a_run_in_docker_that_is_killed_leaves_nothing_after_clean() {
    killed("docker", &moments(10, 200));
}
