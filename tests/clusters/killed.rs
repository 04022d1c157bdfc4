//! If a controller is killed at any moment, even during an injection, `redjepsen clean` removes everything that its run left.
//! Only the run's own objects are checked: a separate redis-server next to it is not counted, and stays alive.
//!
//! A run that gets one signal stops at once, in any stage, and removes everything itself. After a second signal, it names what
//! `clean` must remove. If the agent, the sandbox, a client or a node is killed or stopped from outside, the run is not valid and
//! leaves nothing. REDJEPSEN_KILLS=100 tries this a hundred times on each kind of cluster, at random moments, and prints a table.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::turns;

/// The facts about one run that are needed to find what it left.
struct Traces<'a> {
    /// The run's working directory and its folder for temporary files; no other process uses it.
    folder: &'a Path,
    controller: u32,
    /// Ids of its containers. Namespaces are not used: the kernel reuses the number of a namespace that is gone, so by now it may
    /// belong to another run.
    containers: BTreeSet<String>,
    /// Names of its containers and networks, and of the network devices that the engine created for it.
    names: BTreeSet<String>,
}

impl Traces<'_> {
    /// Everything of the run that exists now. Remembers its finds, because later finds depend on them.
    fn left(&mut self) -> Vec<String> {
        let mut left = self.in_engine();
        left.extend(self.processes());
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let folder = self.folder.display().to_string();
        left.extend(mounts.lines().filter(|mount| mount.contains(&folder)).map(|mount| format!("mount {mount}")));
        for entry in fs::read_dir("/sys/class/net").unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            left.extend(self.names.contains(&name).then(|| format!("network device {name}")));
        }
        let tables = said_by("nft", &["list", "tables"]);
        let words: BTreeSet<&str> = tables.split_whitespace().collect();
        left.extend(self.names.iter().filter(|name| words.contains(name.as_str())).map(|name| format!("table {name}")));
        let files = fs::read_dir(self.folder).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        left.extend(files.filter(|name| name.starts_with("redjepsen-run-")));
        left
    }

    fn in_engine(&mut self) -> Vec<String> {
        let label = format!("redjepsen.controller.pid={}", self.controller);
        let filters = format!("%7B%22label%22%3A%5B%22{}%22%5D%7D", label.replace('=', "%3D"));
        let mut left = Vec::new();
        for container in listed(&format!("/containers/json?all=1&filters={filters}")) {
            let id = container["Id"].as_str().unwrap();
            left.push(format!("container {}", container["Names"]));
            self.containers.insert(id.to_string());
        }
        for network in listed(&format!("/networks?filters={filters}")) {
            let (name, id) = (network["Name"].as_str().unwrap(), network["Id"].as_str().unwrap());
            left.push(format!("network {name}"));
            // The table of the run's packet rules has the same name as its network.
            self.names.insert(name.to_string());
            let bridge = network["Options"]["com.docker.network.bridge.name"].as_str();
            self.names.insert(bridge.map_or_else(|| format!("br-{}", &id[..12]), str::to_string));
        }
        left
    }

    fn processes(&self) -> Vec<String> {
        let run = self.folder;
        let is_of = |process: &Path| {
            let beneath = |link: &str| fs::read_link(process.join(link)).is_ok_and(|to| to.starts_with(run));
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            let run = run.as_os_str().as_bytes();
            let groups = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
            beneath("root")
                || beneath("cwd")
                || environment.windows(run.len()).any(|part| part == run)
                || self.containers.iter().any(|container| groups.contains(container))
        };
        let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let left = all.filter(|process| is_of(process));
        left.map(|process| {
            let command = fs::read(process.join("cmdline")).unwrap_or_default();
            format!("{}: {}", process.display(), String::from_utf8_lossy(&command).replace('\0', " "))
        })
        .collect()
    }
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The body of the engine's answer to a GET.
fn engine(path: &str) -> String {
    let mut stream = UnixStream::connect("/var/run/docker.sock").expect("a Docker engine must answer");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_string()
}

fn listed(path: &str) -> Vec<Value> {
    let body = engine(path);
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
}

/// The program with its temporary files in this folder, so that everything it leaves is in this folder.
fn redjepsen(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.args(arguments).stdin(Stdio::null()).current_dir(folder).env("TMPDIR", folder);
    // Under `nohup`, these tests would pass an ignored SIGHUP on to the program, which would then ignore it too.
    let heed = || {
        // SAFETY: `signal` is safe to call between fork and exec.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: see above; the closure does nothing else.
    unsafe { command.pre_exec(heed) };
    command
}

/// Kills a run after this long, and cleans up until nothing is left. Returns what existed at the kill.
fn killed_after(cluster: &str, moment: Duration) -> Vec<String> {
    let own = tempfile::tempdir().unwrap();
    // The path in the form that the kernel reports.
    let folder = own.path().canonicalize().unwrap();
    // Constant faults, several at once.
    let flags = "--nemesis all --ttl 300ms --clients 3 --time-limit 20s --cluster";
    let run: Vec<&str> = ["run"].into_iter().chain(flags.split(' ')).chain([cluster]).collect();
    let mut controller = redjepsen(&run, &folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(moment);
    let mut traces =
        Traces { folder: &folder, controller: controller.id(), containers: BTreeSet::new(), names: BTreeSet::new() };
    let found = traces.left();
    controller.kill().unwrap();
    controller.wait().unwrap();

    clean(&mut traces, &format!("killed after {moment:?} on a {cluster} cluster"));
    found
}

/// Cleans up until nothing is left.
fn clean(traces: &mut Traces, what: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let cleaned = redjepsen(&["clean"], traces.folder).output().unwrap();
        let left = traces.left();
        if cleaned.status.success() && left.is_empty() {
            return;
        }
        let said = String::from_utf8_lossy(&cleaned.stdout);
        assert!(Instant::now() < deadline, "{what}, cleaned ({said}): {left:#?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A server outside any run, started before any run.
struct Stranger {
    server: Child,
    _folder: tempfile::TempDir,
}

impl Stranger {
    fn start() -> Stranger {
        let folder = tempfile::tempdir().unwrap();
        // Debian's Redis tools package includes the server too, under another name.
        let start = |program: &str| {
            let mut server = Command::new(program);
            server.arg0("redis-server").args(["--port", "0", "--save", "", "--unixsocket"]);
            server.arg(folder.path().join("socket"));
            server.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
        };
        let server = start("redis-server").or_else(|_| start("redis-check-rdb"));
        Stranger { server: server.expect("this test needs a redis-server"), _folder: folder }
    }

    fn is_well(&mut self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.server.id())).unwrap();
        let stopped = stat.rsplit(") ").next().unwrap().starts_with(['T', 'Z']);
        self.server.try_wait().unwrap().is_none() && !stopped
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Kills ten runs, at moments from the start of the cluster to the middle of its faults; each execution of the test uses other
/// moments. Two runs are active at a time, and do not affect each other.
fn killed(cluster: &str, first: Duration, of_a_run: &[&str]) {
    let mut stranger = Stranger::start();
    let seed = u64::from(std::process::id());
    let moments = |half: u64| {
        let numbers = (0..10).filter(move |number| number % 2 == half);
        numbers.map(move |number| first + Duration::from_millis((seed * 7919 + number * 104_729) % 4000))
    };
    let kill_all = |half| moments(half).flat_map(|moment| killed_after(cluster, moment)).collect::<Vec<String>>();
    let found = std::thread::scope(|scope| {
        let other = scope.spawn(|| kill_all(1));
        let mut found = kill_all(0);
        found.extend(other.join().unwrap());
        found
    });
    // The search finds things: before the cleanup the runs had all of this, without the other server.
    for what in of_a_run {
        assert!(found.iter().any(|found| found.contains(what)), "no {what} of any run was seen: {found:#?}");
    }
    let stranger_is = format!("/proc/{}:", stranger.server.id());
    assert!(!found.iter().any(|found| found.starts_with(&stranger_is)), "{found:#?}");
    assert!(stranger.is_well(), "a stranger's server was hit");
}

#[test]
fn a_local_run_that_is_killed_leaves_nothing() {
    let _turn = turns::cleaning();
    killed("local", Duration::from_millis(50), &["redis-server", "sandbox", "redjepsen-run-"]);
}

#[test]
fn a_run_in_docker_that_is_killed_leaves_nothing_after_clean() {
    let _turn = turns::cleaning_docker();
    killed("docker", Duration::from_millis(200), &["redis-server", "container", "network device"]);
}

/// A hang would last at least this long. Not a measurement.
const SOON: Duration = Duration::from_secs(10);

/// A run in progress, and its output.
struct Running {
    _own: tempfile::TempDir,
    folder: PathBuf,
    child: Child,
    lines: Receiver<String>,
    said: String,
}

impl Running {
    fn start(folder: tempfile::TempDir, arguments: &str, engine: Option<&Path>) -> Running {
        let path = folder.path().canonicalize().unwrap();
        let mut command = redjepsen(&arguments.split(' ').collect::<Vec<_>>(), &path);
        if let Some(socket) = engine {
            command.env("DOCKER_HOST", format!("unix://{}", socket.display()));
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || stderr.lines().for_each(|line| _ = sender.send(line.unwrap())));
        Running { _own: folder, folder: path, child, lines, said: String::new() }
    }

    /// Waits until the output contains these words.
    fn wait_for(&mut self, words: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.said.contains(words) {
            let line = self.lines.recv_timeout(deadline - Instant::now());
            let line = line.unwrap_or_else(|_| panic!("it did not say `{words}`: {}", self.said));
            self.said.push_str(&format!("{line}\n"));
        }
    }

    fn signal(&self, name: &str) {
        said_by("kill", &[name, &self.child.id().to_string()]);
    }

    /// Waits for the run's end; returns the exit code.
    fn end(&mut self) -> Option<i32> {
        let began = Instant::now();
        let code = self.child.wait().unwrap().code();
        self.said.extend(self.lines.iter().map(|line| format!("{line}\n")));
        println!("ended after {:?}", began.elapsed());
        assert!(began.elapsed() < SOON, "after {:?}: {}", began.elapsed(), self.said);
        code
    }

    fn traces<'f>(&self, folder: &'f Path) -> Traces<'f> {
        Traces { folder, controller: self.child.id(), containers: BTreeSet::new(), names: BTreeSet::new() }
    }

    /// Sends a signal to stop, and expects that the run leaves nothing behind.
    fn stop(mut self, name: &str) -> (Option<i32>, String) {
        let folder = self.folder.clone();
        let mut traces = self.traces(&folder);
        assert!(!traces.left().is_empty(), "there is something to remove: {}", self.said);
        self.signal(name);
        let code = self.end();
        assert_eq!(traces.left(), Vec::<String>::new(), "{name}: {}", self.said);
        (code, self.said)
    }
}

/// A proxy for the engine that passes everything to the real engine until `hangs` is set.
struct Engine {
    socket: PathBuf,
    hangs: Arc<AtomicBool>,
}

impl Engine {
    fn start(folder: &Path) -> Engine {
        let (socket, hangs) = (folder.join("engine"), Arc::new(AtomicBool::new(false)));
        let listener = UnixListener::bind(&socket).unwrap();
        let stops = Arc::clone(&hangs);
        std::thread::spawn(move || {
            for ours in listener.incoming() {
                let ours = ours.unwrap();
                let real = UnixStream::connect("/var/run/docker.sock").unwrap();
                for (from, to) in [(&ours, &real), (&real, &ours)] {
                    let (from, to, stops) = (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(&stops));
                    std::thread::spawn(move || pass_on(from, to, &stops));
                }
            }
        });
        Engine { socket, hangs }
    }

    fn hang(&self) {
        self.hangs.store(true, Ordering::SeqCst);
    }
}

fn pass_on(mut from: UnixStream, mut to: UnixStream, stops: &AtomicBool) {
    let mut bytes = [0; 8 << 10];
    loop {
        let length = from.read(&mut bytes).unwrap_or(0);
        while stops.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_secs(1));
        }
        if length == 0 || to.write_all(&bytes[..length]).is_err() {
            let _ = to.shutdown(std::net::Shutdown::Write);
            return;
        }
    }
}

#[test]
fn a_local_run_that_is_told_to_stop_leaves_nothing_in_any_stage() {
    let _turn = turns::cleaning();
    let folder = tempfile::tempdir().unwrap();
    let server = folder.path().join("redis-server");
    // A server that starts and then never listens.
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Redis server v=7.0.0' && exit\nexec sleep 60\n";
    fs::write(&server, script).unwrap();
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = format!("run --cluster local --redis-server {}", server.display());
    let mut starting = Running::start(tempfile::tempdir().unwrap(), &arguments, None);
    starting.wait_for("starting the cluster");
    std::thread::sleep(Duration::from_millis(700));
    let (code, said) = starting.stop("-INT");
    assert!(code == Some(255) && said.contains("interrupted before the first operation"), "{said}");

    for name in ["-HUP", "-TERM"] {
        let arguments = "run --cluster local --nemesis all --ttl 300ms --time-limit 60s";
        let mut running = Running::start(tempfile::tempdir().unwrap(), arguments, None);
        running.wait_for("running");
        std::thread::sleep(Duration::from_millis(1000));
        let (code, said) = running.stop(name);
        assert!(matches!(code, Some(1 | 2)), "{code:?}: {said}");
    }
}

#[test]
fn a_run_in_docker_that_is_told_to_stop_leaves_nothing_in_any_stage() {
    let _turn = turns::cleaning_docker();
    let arguments = "run --cluster docker --nemesis all --ttl 300ms --clients 3 --time-limit 60s";
    let mut starting = Running::start(tempfile::tempdir().unwrap(), arguments, None);
    let folder = starting.folder.clone();
    let mut traces = starting.traces(&folder);
    while !traces.in_engine().iter().any(|left| left.starts_with("container")) {
        assert!(starting.child.try_wait().unwrap().is_none());
    }
    let (code, said) = starting.stop("-INT");
    assert!(code == Some(255) && said.contains("interrupted"), "{code:?}: {said}");

    let mut running = Running::start(tempfile::tempdir().unwrap(), arguments, None);
    running.wait_for("running");
    let (code, said) = running.stop("-HUP");
    assert!(matches!(code, Some(1 | 2 | 255)), "{code:?}: {said}");
}

#[test]
fn a_run_in_docker_that_is_told_twice_ends_at_once_and_says_what_clean_removes() {
    let _turn = turns::cleaning_docker();
    let own = tempfile::tempdir().unwrap();
    let engine = Engine::start(own.path());
    let arguments = "run --cluster docker --clients 3 --time-limit 60s";
    let mut run = Running::start(own, arguments, Some(&engine.socket));
    run.wait_for("running");
    let folder = run.folder.clone();
    let mut traces = run.traces(&folder);
    let before = traces.left();
    engine.hang();
    run.signal("-INT");
    run.wait_for("stopping");
    std::thread::sleep(Duration::from_millis(150));
    run.signal("-INT");
    assert_eq!(run.end(), Some(255));
    let network = before.iter().find_map(|left| left.strip_prefix("network redjepsen-")).expect("a network");
    let told = format!("the containers and the network redjepsen-{network}; `redjepsen clean` removes it");
    assert!(run.said.contains(&told), "{told}: {}", run.said);
    assert!(!traces.left().is_empty(), "the engine did not do anything more");
    clean(&mut traces, "told twice");
}

#[test]
fn a_run_in_docker_whose_engine_hangs_ends_and_says_what_clean_removes() {
    let _turn = turns::cleaning_docker();
    let own = tempfile::tempdir().unwrap();
    let engine = Engine::start(own.path());
    let mut run = Running::start(own, "run --cluster docker --clients 3 --time-limit 60s", Some(&engine.socket));
    let folder = run.folder.clone();
    let mut traces = run.traces(&folder);
    while !traces.in_engine().iter().any(|left| left.starts_with("container")) {
        assert!(run.child.try_wait().unwrap().is_none());
    }
    engine.hang();
    run.signal("-INT");
    assert_eq!(run.end(), Some(255), "{}", run.said);
    assert!(run.said.contains("could not be removed") && run.said.contains("`redjepsen clean`"), "{}", run.said);
    clean(&mut traces, "the engine hung");
}

/// A suite whose only run is in progress, and the PID of the process that makes the run.
fn suite_at_work() -> (Running, u32) {
    let own = tempfile::tempdir().unwrap();
    // Its holders think for so long that no operation ends soon.
    let with = "cluster = \"local\"\ntime_limit = \"60s\"\nttl = \"5s\"\nhold = \"3s\"\n";
    let cells = "[[cells]]\nworkload = \"single\"\nnemesis = \"none\"\n";
    let suite = format!("description = \"mine\"\n[with]\n{with}{cells}");
    fs::write(own.path().join("mine.toml"), suite).unwrap();
    let run = Running::start(own, "suite ./mine.toml", None);
    let folder = run.folder.clone();
    let deadline = Instant::now() + Duration::from_secs(30);
    let log = folder.join("store/suites/mine/latest/lane-1.log");
    while !fs::read_to_string(&log).is_ok_and(|log| log.contains("running")) {
        assert!(Instant::now() < deadline, "{}", run.said);
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(1));
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let lane = pids.find(|pid| parent(*pid) == Some(run.child.id())).expect("a process that makes the run");
    (run, lane)
}

#[test]
fn a_suite_whose_run_is_stopped_ends_when_it_is_told_to_and_leaves_nothing() {
    let _turn = turns::cleaning();
    let (mut run, lane) = suite_at_work();
    let folder = run.folder.clone();
    let mut traces = run.traces(&folder);
    said_by("kill", &["-STOP", &lane.to_string()]);
    run.signal("-INT");
    let code = run.end();
    assert!(code.is_some_and(|code| code != 0), "{code:?}: {}", run.said);
    assert_eq!(traces.left(), Vec::<String>::new(), "{}", run.said);
}

#[test]
fn a_suite_whose_run_does_not_end_kills_it_and_removes_what_it_leaves() {
    let _turn = turns::cleaning();
    let (mut run, lane) = suite_at_work();
    let folder = run.folder.clone();
    let mut traces = run.traces(&folder);
    run.signal("-INT");
    // The lane does not continue, even when it is stopped repeatedly.
    let began = Instant::now();
    while run.child.try_wait().unwrap().is_none() {
        said_by("kill", &["-STOP", &lane.to_string()]);
        assert!(began.elapsed() < Duration::from_secs(40), "{}", run.said);
        std::thread::sleep(Duration::from_millis(1));
    }
    run.end();
    assert_eq!(traces.left(), Vec::<String>::new(), "{}", run.said);
}

#[test]
fn a_suite_that_is_told_twice_ends_at_once_with_its_run() {
    let _turn = turns::cleaning();
    let (mut run, _) = suite_at_work();
    let folder = run.folder.clone();
    let mut traces = run.traces(&folder);
    run.signal("-INT");
    std::thread::sleep(Duration::from_millis(150));
    run.signal("-INT");
    assert_eq!(run.end(), Some(255), "{}", run.said);
    assert!(run.said.contains("the folder") && run.said.contains("redjepsen-run-"), "{}", run.said);
    clean(&mut traces, "a suite told twice");
}

/// The process that is hit from outside, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Hit {
    Nobody,
    KillAgent,
    StopAgent,
    /// The sandbox's outer process, which only waits for the inner process.
    KillSandbox,
    KillClient,
    KillNode,
}

impl Hit {
    fn signal(self) -> &'static str {
        if self == Hit::StopAgent { "-STOP" } else { "-KILL" }
    }

    /// The PID of the process to hit, if the run has one now.
    fn victim(self, traces: &Traces, cluster: &str, number: u64) -> Option<u32> {
        let mut found = if cluster == "docker" { self.in_docker(traces) } else { self.locally(traces) };
        found.sort();
        let at = usize::try_from(number).unwrap() % found.len().max(1);
        found.get(at).copied()
    }

    fn locally(self, traces: &Traces) -> Vec<u32> {
        let described = traces.processes();
        // The form is `/proc/7: redjepsen client `.
        let processes = described.iter().filter_map(|line| line.trim_start_matches("/proc/").split_once(": "));
        let processes: Vec<(u32, &str)> =
            processes.filter_map(|(pid, command)| Some((pid.parse().ok()?, command))).collect();
        let with = |word: &'static str| {
            processes.iter().filter(move |(_, command)| command.contains(word)).map(|(pid, _)| *pid)
        };
        // The outer process is the controller's child, and the inner process is the outer process's child.
        let is_outer = |pid: &u32| parent(*pid) == Some(traces.controller);
        match self {
            Hit::Nobody => Vec::new(),
            Hit::KillAgent | Hit::StopAgent => with(" sandbox").filter(|pid| !is_outer(pid)).collect(),
            Hit::KillSandbox => with(" sandbox").filter(is_outer).collect(),
            Hit::KillClient => with("redjepsen client").collect(),
            // The resource's Redis has the same name, and its loss has the same effect.
            Hit::KillNode => with("redis-server").collect(),
        }
    }

    fn in_docker(self, traces: &Traces) -> Vec<u32> {
        let role = match self {
            Hit::Nobody => return Vec::new(),
            Hit::KillAgent | Hit::StopAgent | Hit::KillSandbox => "agent",
            Hit::KillClient => "client",
            Hit::KillNode => "node",
        };
        let labels = [format!("redjepsen.controller.pid={}", traces.controller), format!("redjepsen.role={role}")];
        let filters = format!("{{\"label\":{labels:?}}}").replace('"', "%22").replace(' ', "");
        let pids = listed(&format!("/containers/json?filters={filters}")).into_iter().filter_map(|container| {
            let details = engine(&format!("/containers/{}/json", container["Id"].as_str()?));
            let details: Value = serde_json::from_str(&details).ok()?;
            u32::try_from(details["State"]["Pid"].as_u64()?).ok().filter(|pid| *pid > 0)
        });
        pids.collect()
    }
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
}

/// The end of a run after a process was hit.
struct Ending {
    /// True if a process was hit that the run still needed.
    hit: bool,
    code: Option<i32>,
    /// The time from the hit to the end.
    took: Duration,
    /// The objects that the run left, before `clean`.
    left: Vec<String>,
    said: String,
}

/// Makes a run, hits one of its processes after this time, and waits for the end. Fails if `clean` leaves anything.
fn hit_after(cluster: &str, hit: Hit, moment: Duration, number: u64) -> Ending {
    let own = tempfile::tempdir().unwrap();
    let folder = own.path().canonicalize().unwrap();
    let seed = number.to_string();
    let flags = "--workload redlock-guarded --nemesis all --ttl 300ms --clients 3 --time-limit 8s --cluster";
    let run: Vec<&str> = ["run"].into_iter().chain(flags.split(' ')).chain([cluster, "--seed", &seed]).collect();
    let said = fs::File::create(folder.join("said")).unwrap();
    let mut controller =
        redjepsen(&run, &folder).stdout(said.try_clone().unwrap()).stderr(said).process_group(0).spawn().unwrap();
    let mut traces =
        Traces { folder: &folder, controller: controller.id(), containers: BTreeSet::new(), names: BTreeSet::new() };
    // All clients are ready by then, and all processes work for eight seconds.
    let begun =
        || fs::read_to_string(folder.join("store/latest/history.jsonl")).is_ok_and(|text| text.contains("invoke"));
    let limit = Instant::now() + Duration::from_secs(60);
    while !begun() && Instant::now() < limit && controller.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(moment);
    traces.left();
    let victim = hit.victim(&traces, cluster, number);
    // On a busy machine it may be too late: a process without remaining work may die.
    let log = fs::read_to_string(folder.join("store/latest/redjepsen.log")).unwrap();
    let works = !log.contains("finishing operations");
    let hit_it = victim.filter(|_| works).is_some_and(|pid| {
        let kill = Command::new("kill").arg(hit.signal()).arg(pid.to_string()).status();
        kill.unwrap().success()
    });
    let began = Instant::now();
    while controller.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(90), "{cluster}, {hit:?} after {moment:?}: it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    let took = began.elapsed();
    let code = controller.wait().unwrap().code();
    // The kernel takes a moment to remove a killed process's objects.
    let soon = Instant::now() + Duration::from_secs(3);
    let mut left = traces.left();
    while !left.is_empty() && Instant::now() < soon {
        std::thread::sleep(Duration::from_millis(50));
        left = traces.left();
    }
    if !left.is_empty() {
        redjepsen(&["clean"], &folder).output().unwrap();
        let for_good = traces.left();
        assert!(for_good.is_empty(), "{cluster}, {hit:?} after {moment:?}, cleaned: {for_good:#?}");
    }
    let said = fs::read_to_string(folder.join("said")).unwrap();
    Ending { hit: hit_it, code, took, left, said }
}

/// Hits this many runs, several at a time, each at another moment. Fails if a hit run is valid or leaves anything.
fn hit_many(cluster: &str, kinds: &[Hit], times: u64, at_once: u64) {
    let seed = u64::from(std::process::id());
    let moment = |number: u64| Duration::from_millis((seed * 7919 + number * 104_729) % 6500);
    let lane = |lane: u64| {
        let numbers = (0..times).filter(|number| number % at_once == lane);
        let one = |number: u64| {
            let hit = kinds[usize::try_from(number).unwrap() % kinds.len()];
            (hit, moment(number), hit_after(cluster, hit, moment(number), number))
        };
        numbers.map(one).collect::<Vec<_>>()
    };
    let endings: Vec<(Hit, Duration, Ending)> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..at_once).map(|number| scope.spawn(move || lane(number))).collect();
        lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect()
    });
    println!(
        "| {cluster} | hit | valid | invalid | unknown | other | left | longest to the end, s |\n|---|---|---|---|---|---|---|---|"
    );
    for kind in kinds {
        let of_kind = endings.iter().filter(|(hit, _, ending)| hit == kind && (ending.hit || *kind == Hit::Nobody));
        let of_kind: Vec<_> = of_kind.collect();
        let code = |code| of_kind.iter().filter(|(.., ending)| ending.code == Some(code)).count();
        let (valid, invalid, unknown) = (code(0), code(1), code(2));
        let other = of_kind.len() - valid - invalid - unknown;
        let left = of_kind.iter().filter(|(.., ending)| !ending.left.is_empty()).count();
        let longest = of_kind.iter().map(|(.., ending)| ending.took).max().unwrap_or_default().as_secs_f64();
        let hit = of_kind.len();
        println!("| {kind:?} | {hit} | {valid} | {invalid} | {unknown} | {other} | {left} | {longest:.1} |");
    }
    for (hit, moment, Ending { hit: hit_it, code, took, left, said }) in &endings {
        let told = format!("{cluster}, {hit:?} after {moment:?}, over after {took:?}: {left:#?}\n{said}");
        if *hit == Hit::Nobody {
            assert_ne!(*code, Some(1), "{told}");
            continue;
        }
        if !hit_it {
            continue;
        }
        assert_eq!(*code, Some(2), "{told}");
        assert!(left.is_empty(), "{told}");
        if matches!(hit, Hit::KillAgent | Hit::StopAgent | Hit::KillSandbox) {
            let (_, why) = said.split_once("the run stopped early: ").unwrap_or_else(|| panic!("{told}"));
            assert!(why.lines().next().is_some_and(|why| why.contains("redjepsen's fault agent")), "{told}");
        }
    }
    let meant = endings.iter().filter(|(hit, ..)| *hit != Hit::Nobody).count();
    let hits = endings.iter().filter(|(.., ending)| ending.hit).count();
    assert!(meant == 0 || hits * 2 > meant, "{hits} of {meant} were there to be hit");
    let undisturbed = endings.iter().filter(|(hit, ..)| *hit == Hit::Nobody);
    assert!(undisturbed.clone().count() == 0 || undisturbed.clone().any(|(.., ending)| ending.code == Some(0)));
}

const HITS: [Hit; 5] = [Hit::KillAgent, Hit::StopAgent, Hit::KillSandbox, Hit::KillClient, Hit::KillNode];

/// How often to hit runs on each kind of cluster; `usually` unless the environment says otherwise.
fn times(usually: u64) -> u64 {
    std::env::var("REDJEPSEN_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(usually)
}

#[test]
fn a_local_run_whose_processes_somebody_else_kills_is_not_valid_and_leaves_nothing() {
    let _turn = turns::cleaning();
    // Runs alone, since its TTL is short: it must be valid, so that the other runs' results come from their hits.
    hit_many("local", &[Hit::Nobody], 1, 1);
    hit_many("local", &HITS, times(5), 5);
}

#[test]
fn a_run_in_docker_whose_processes_somebody_else_kills_is_not_valid_and_leaves_nothing() {
    let _turn = turns::cleaning_docker();
    hit_many("docker", &[Hit::StopAgent, Hit::KillAgent, Hit::KillClient, Hit::KillNode], times(1), 2);
}
