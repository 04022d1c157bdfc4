//! One suite on many machines, as far as one machine can show it. The tests use a job of a Docker Swarm, an array of Slurm tasks,
//! and the commands for Kubernetes and GitHub. However the parts are run, their merged matrix equals the matrix of one lane.
//!
//! [`NOT_TRIED`] lists the cases without a test.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::suite::{expect, json, table};
use crate::turns;

const NOT_TRIED: &str = "Not tried: more than one host (all nodes of the Swarm and of Slurm are this machine), a Kubernetes \
                         cluster, and GitHub.";

/// Four scenarios of two or three seconds each, one of them on a server other than Redis.
const SUITE: &str = r#"
description = "On many machines"
[with]
cluster = "local"
[[cells]]
workload = ["none", "redlock", "redlock-guarded", "etcd"]
nemesis = "pause-before-write"
"#;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(command: &mut Command) -> Output {
    let started = command.stdin(Stdio::null()).output();
    started.unwrap_or_else(|error| panic!("{command:?}: {error}; `docker/setup test` installs what is missing"))
}

/// Runs a command that must succeed, and returns its output.
fn told(program: &str, arguments: &[&str]) -> String {
    let output = run(Command::new(program).args(arguments));
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {text}{errors}", arguments.join(" "));
    text
}

/// PATH with a folder before all others.
fn path_with(folder: &Path) -> String {
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// The documents of a YAML file as JSON.
fn yaml(text: &str) -> Vec<Value> {
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.argv[1]))))";
    serde_json::from_str(&told("python3", &["-c", script, text])).unwrap()
}

/// A store with the suite in it, and the program under test.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("store")).unwrap();
        fs::write(folder.path().join("store/mine.toml"), SUITE).unwrap();
        Bench { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The table of the matrix in a store.
    fn table_in(&self, store: &str) -> Vec<[Value; 6]> {
        let matrix = json(&self.path(store).join("suites/mine/latest/matrix.json"));
        assert_eq!((&matrix["verdict"], &matrix["missing_shards"]), (&"as-expected".into(), &Value::Array(vec![])));
        assert_eq!(matrix["shards"].as_array().unwrap().len() > 1, store != "one-lane", "{matrix}");
        let cells = matrix["cells"].as_array().unwrap();
        for run in cells.iter().flat_map(|cell| cell["runs"].as_array().unwrap()) {
            let report = format!("{store}/suites/mine/latest/{}/report.html", run["folder"].as_str().unwrap());
            assert!(self.path(&report).is_file(), "{report}");
        }
        table(&matrix)
    }

    /// The matrix of the same suite on one machine, one run after another.
    fn one_lane(&self) -> Vec<[Value; 6]> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        command.args(["suite", "store/mine.toml", "--store", "one-lane"]).current_dir(self.folder.path());
        expect(&run(&mut command), 0);
        self.table_in("one-lane")
    }
}

/// The image that `redjepsen image` makes of the program under test, removed when dropped.
struct MachineImage(String);

impl MachineImage {
    fn make(bench: &Bench) -> MachineImage {
        // Debug information is most of the binary.
        let program = bench.path("redjepsen").display().to_string();
        told("strip", &["-o", &program, env!("CARGO_BIN_EXE_redjepsen")]);
        let name = told(&program, &["image"]);
        assert_eq!(told(&program, &["image"]), name, "it is made once");
        MachineImage(name)
    }
}

impl Drop for MachineImage {
    fn drop(&mut self) {
        let _ = run(Command::new("docker").args(["image", "rm", &self.0]));
    }
}

/// This machine as a swarm of one node. An existing swarm is used and left alone.
struct Swarm {
    /// Networks that this test added; None if the swarm existed before.
    made: Option<Vec<&'static str>>,
}

/// A label on the node, so that the swarm of a killed test can be recognized.
const OURS: &str = "redjepsen-test";

impl Swarm {
    fn join() -> Swarm {
        let state = || told("docker", &["info", "--format", "{{.Swarm.LocalNodeState}} {{.Swarm.ControlAvailable}}"]);
        match state().as_str() {
            "inactive false" => {}
            "active true" => {
                let labels = told("docker", &["node", "inspect", "self", "--format", "{{json .Spec.Labels}}"]);
                return Swarm { made: labels.contains(OURS).then(Vec::new) };
            }
            other => panic!("the engine is {other} in a swarm, and this test needs a manager of one, or none"),
        }
        let bridge = "docker_gwbridge";
        let before = run(Command::new("docker").args(["network", "inspect", bridge])).status.success();
        told("docker", &["swarm", "init", "--advertise-addr", "127.0.0.1", "--listen-addr", "127.0.0.1:2377"]);
        let swarm = Swarm { made: Some(if before { vec![] } else { vec![bridge] }) };
        told("docker", &["node", "update", "--label-add", OURS, &told("docker", &["node", "ls", "--quiet"])]);
        swarm
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        let Some(networks) = &self.made else { return };
        let _ = run(Command::new("docker").args(["swarm", "leave", "--force"]));
        for network in networks {
            let _ = run(Command::new("docker").args(["network", "rm", network]));
        }
    }
}

#[test]
fn a_job_of_a_swarm_comes_to_the_matrix_of_one_lane() {
    let _turn = turns::two_in_docker();
    let bench = Bench::new();
    let image = MachineImage::make(&bench);
    let swarm = Swarm::join();
    let store = bench.path("store").display().to_string();
    let job = |words: &[&str]| run(Command::new(root().join("docker/swarm")).args(words));
    let text = expect(&job(&["/store/mine.toml", "2", &store, &image.0]), 0);
    println!("{text}\n{NOT_TRIED}");
    assert!(text.contains("2 of 2 parts have ended") && text.contains("All 4 cells"), "{text}");
    assert_eq!(bench.table_in("store"), bench.one_lane());

    // Parts that can't run are reported with their own errors, and leave no matrix that passes.
    let text = expect(&job(&["/store/none.toml", "2", &store, &image.0]), 254);
    assert!(text.contains("part 1 could not run (exit code 254)") && text.contains("none.toml"), "{text}");
    // A path that would not exist on the parts' machines is refused.
    let text = expect(&job(&["mine.toml", "2", "./store", &image.0]), 255);
    assert!(text.contains("STORE is an absolute path"), "{text}");
    expect(&job(&["mine.toml", "none", &store, &image.0]), 254);
    let services = told("docker", &["service", "ls", "--quiet", "--filter", "name=redjepsen-"]);
    assert!(swarm.made.is_none() || services.is_empty(), "left behind: {services}");
}

/// The container of a manifest's Job as the engine's own flags.
fn as_docker_run(pod: &Value, store: &Path) -> Vec<String> {
    let container = &pod["containers"][0];
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value}")).to_string();
    let mut flags = vec!["run".to_string(), "--rm".to_string()];
    for capability in container["securityContext"]["capabilities"]["add"].as_array().into_iter().flatten() {
        flags.extend(["--cap-add".to_string(), text(capability)]);
    }
    if container["securityContext"]["appArmorProfile"]["type"] == "Unconfined" {
        flags.extend(["--security-opt", "apparmor=unconfined"].map(str::to_string));
    }
    for mount in container["volumeMounts"].as_array().unwrap() {
        let volume = pod["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        let target = text(&mount["mountPath"]);
        flags.extend(match (&volume["persistentVolumeClaim"], &volume["emptyDir"]["medium"]) {
            (Value::Object(_), _) => ["--volume".to_string(), format!("{}:{target}", store.display())],
            (_, Value::String(medium)) if medium == "Memory" => ["--tmpfs".to_string(), format!("{target}:exec")],
            _ => panic!("{volume}"),
        });
    }
    for variable in container["env"].as_array().into_iter().flatten() {
        let value = if variable["name"] == "SUITE" { "/store/mine.toml".to_string() } else { text(&variable["value"]) };
        flags.extend(["--env".to_string(), format!("{}={value}", text(&variable["name"]))]);
    }
    flags
}

/// The words after the image: the container's command, whose first word is the program.
fn command_of(container: &Value) -> Vec<&str> {
    container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

#[test]
fn what_kubernetes_is_told_to_run_comes_to_the_whole_matrix_in_containers() {
    let _turn = turns::docker();
    let bench = Bench::new();
    let text = fs::read_to_string(root().join("docker/kubernetes.yaml")).unwrap();
    let jobs = yaml(&text.replace("NIGHT", "20260101"));
    let [parts, merge] = &jobs[..] else { panic!("{jobs:?}") };
    for job in &jobs {
        assert_eq!((&job["apiVersion"], &job["kind"]), (&"batch/v1".into(), &"Job".into()));
        let name = job["metadata"]["name"].as_str().unwrap();
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{name}");
        assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Never");
    }
    let count = parts["spec"]["completions"].as_u64().unwrap();
    let environment = parts["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    let shards = environment.iter().find(|variable| variable["name"] == "REDJEPSEN_SHARDS").unwrap();
    assert_eq!((&parts["spec"]["parallelism"], &shards["value"]), (&count.into(), &count.to_string().into()));
    assert_eq!((&parts["spec"]["completionMode"], &merge["spec"]["suspend"]), (&"Indexed".into(), &true.into()));

    // A server that runs as another user is adopted as well.
    let postgres =
        "[[cells]]\nworkload = \"postgres\"\nnemesis = \"none\"\nexpect = \"valid\"\nwith = { time_limit = \"3s\" }\n";
    fs::write(bench.path("store/mine.toml"), format!("{SUITE}{postgres}")).unwrap();
    let image = MachineImage::make(&bench);
    let container = |job: &Value, index: Option<u64>| {
        let pod = &job["spec"]["template"]["spec"];
        let mut flags = as_docker_run(pod, &bench.path("store"));
        flags.extend(index.into_iter().flat_map(|index| ["--env".into(), format!("JOB_COMPLETION_INDEX={index}")]));
        let words = command_of(&pod["containers"][0]);
        let mut command = Command::new("docker");
        command.args(flags).args(["--entrypoint", words[0], &image.0]).args(&words[1..]);
        expect(&run(&mut command), 0)
    };
    (0..count).for_each(|index| drop(container(parts, Some(index))));
    let text = container(merge, None);
    assert!(text.contains("All 5 cells"), "{text}");
    assert_eq!(bench.table_in("store").len(), 5);
}

#[test]
fn a_pod_is_repeated_if_it_could_not_run_and_never_for_what_it_found() {
    let folder = tempfile::tempdir().unwrap();
    let stand_in = folder.path().join("redjepsen");
    let text = fs::read_to_string(root().join("docker/kubernetes.yaml")).unwrap();
    let jobs = yaml(&text);
    let words = command_of(&jobs[0]["spec"]["template"]["spec"]["containers"][0]);
    for (code, repeated) in [(0, false), (1, false), (2, false), (254, true), (255, true), (137, true)] {
        fs::write(&stand_in, format!("#!/bin/sh\nexit {code}\n")).unwrap();
        fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
        let output = run(Command::new(words[0]).args(&words[1..]).env("PATH", path_with(folder.path())));
        assert_eq!(!output.status.success(), repeated, "{code}: {output:?}");
    }
}

/// A port without a listener.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Slurm with two nodes, all on this machine's loopback device and in its own folder; ended when dropped.
struct Slurm {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
}

const NODES: [&str; 2] = ["w1", "w2"];

impl Slurm {
    fn start() -> Slurm {
        let mut slurm = Slurm { folder: tempfile::tempdir().unwrap(), daemons: Vec::new() };
        let folder = slurm.folder.path().display().to_string();
        let key: Vec<u8> = (0..64).flat_map(|_| std::process::id().to_le_bytes()).collect();
        fs::write(format!("{folder}/key"), key).unwrap();
        fs::set_permissions(format!("{folder}/key"), fs::Permissions::from_mode(0o600)).unwrap();
        let (host, user) = (told("hostname", &["-s"]), told("id", &["-un"]));
        let mut config = format!(
            "ClusterName=redjepsen\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\n\
             SlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/munge\nAuthInfo=socket={folder}/munge\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n\
             StateSaveLocation={folder}/state\nSlurmctldPidFile={folder}/slurmctld.pid\n\
             SlurmdSpoolDir={folder}/%n\nSlurmdPidFile={folder}/%n.pid\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\n\
             SchedulerParameters=batch_sched_delay=0,sched_interval=2\n\
             PartitionName=all Nodes=ALL Default=YES State=UP\n",
            free_port()
        );
        for node in NODES {
            let port = free_port();
            config += &format!("NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1\n");
        }
        fs::write(slurm.config(), config).unwrap();
        let [socket, key, pid, seed] = ["socket=munge", "key-file=key", "pid-file=munge.pid", "seed-file=seed"]
            .map(|flag| format!("--{}", flag.replace('=', &format!("={folder}/"))));
        slurm.daemon("munged", &["--foreground", "--force", &socket, &key, &pid, &seed]);
        slurm.wait_for("munge's socket", |_| Path::new(&format!("{folder}/munge")).exists());
        slurm.daemon("slurmctld", &["-D"]);
        for node in NODES {
            slurm.daemon("slurmd", &["-D", "-N", node]);
        }
        slurm.wait_for("two idle nodes", |slurm| {
            let output = slurm.command("sinfo").args(["--noheader", "--format=%T %D"]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).trim() == "idle 2"
        });
        slurm
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("slurm.conf")
    }

    fn log_of(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    /// A command that talks only to this Slurm.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.config()).stdin(Stdio::null());
        command
    }

    /// Starts a daemon in the foreground, with its log in a file.
    fn daemon(&mut self, name: &str, arguments: &[&str]) {
        let log = fs::File::create(self.log_of(&format!("{name}{}", self.daemons.len()))).unwrap();
        let mut command = self.command(format!("/usr/sbin/{name}"));
        command.args(arguments).stdout(log.try_clone().unwrap()).stderr(log);
        let started = command.spawn();
        let installed = "`docker/setup test` installs what is missing";
        self.daemons.push(started.unwrap_or_else(|error| panic!("{name}: {error}; {installed}")));
    }

    fn logs(&self) -> String {
        let mut logs = String::new();
        for entry in fs::read_dir(self.folder.path()).unwrap().flatten() {
            if entry.path().extension().is_some_and(|end| end == "log") {
                logs += &format!("{}:\n{}\n", entry.path().display(), fs::read_to_string(entry.path()).unwrap());
            }
        }
        logs
    }

    fn wait_for(&mut self, what: &str, there: impl Fn(&Slurm) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !there(self) {
            let ended = self.daemons.iter_mut().any(|daemon| daemon.try_wait().unwrap().is_some());
            assert!(!ended && Instant::now() < deadline, "no {what}: {}", self.logs());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // Only a failed test has left jobs.
        let _ = self.command("scancel").arg("--me").output();
        // The last daemon first: nodes, controller, munge.
        for daemon in self.daemons.iter_mut().rev() {
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
            let deadline = Instant::now() + Duration::from_secs(5);
            while daemon.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

#[test]
fn an_array_of_slurm_comes_to_the_matrix_of_one_lane() {
    let _turn = turns::two_local();
    let bench = Bench::new();
    let slurm = Slurm::start();
    let job = |words: &[&str]| {
        let mut command = slurm.command(root().join("slurm/suite"));
        command.args(words).env("REDJEPSEN", env!("CARGO_BIN_EXE_redjepsen")).current_dir(bench.folder.path());
        run(&mut command)
    };
    let text = expect(&job(&["store/mine.toml", "2", "store", "--time=10"]), 0);
    println!("{text}\n{NOT_TRIED}");
    assert!(text.contains("All 4 cells"), "{text}");
    assert_eq!(bench.table_in("store"), bench.one_lane());
    for (daemon, node) in (2..).zip(NODES) {
        let log = fs::read_to_string(slurm.log_of(&format!("slurmd{daemon}"))).unwrap();
        assert!(log.contains("batch job"), "{node} had no part: {log}");
    }
    // Parts that can't run leave no matrix that passes.
    let text = expect(&job(&["store/none.toml", "2", "store"]), 254);
    assert!(text.contains("--merge"), "{text}");
    expect(&job(&["store/mine.toml", "0", "store"]), 254);
    let left = slurm.command("squeue").arg("--noheader").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

/// The steps of the action for GitHub, carried out as its runner would. Shell steps run here; this test replaces steps that use
/// other actions.
struct Action {
    steps: Vec<Value>,
    inputs: Value,
    folder: PathBuf,
}

impl Action {
    fn new(folder: &Path) -> Action {
        let text = fs::read_to_string(root().join(".github/actions/suite/action.yml")).unwrap();
        let action = yaml(&text).remove(0);
        assert_eq!(action["runs"]["using"], "composite");
        let steps = action["runs"]["steps"].as_array().unwrap().clone();
        Action { steps, inputs: action["inputs"].clone(), folder: folder.to_path_buf() }
    }

    /// Runs one step in a workspace. Passes the inputs that the step names.
    fn step(&self, name: &str, workspace: &Path, inputs: &[(&str, &str)]) -> Output {
        let step = self.steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("no step `{name}`"));
        let mut command = Command::new("bash");
        // The same call as GitHub's runner makes.
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"].as_str().unwrap()]);
        for (variable, value) in step["env"].as_object().into_iter().flatten() {
            let input = value.as_str().unwrap().strip_prefix("${{ inputs.").and_then(|rest| rest.strip_suffix(" }}"));
            let input = input.unwrap_or_else(|| panic!("{variable}: {value} is no input"));
            let given = inputs.iter().find(|(name, _)| *name == input).map(|(_, value)| (*value).to_string());
            let default = || self.inputs[input]["default"].as_str().unwrap().to_string();
            command.env(variable, given.unwrap_or_else(default));
        }
        for file in ["GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"] {
            command.env(file, self.folder.join(file));
        }
        // Variables that earlier steps have exported.
        let exported = fs::read_to_string(self.folder.join("GITHUB_ENV")).unwrap_or_default();
        command.envs(exported.lines().filter_map(|line| line.split_once('=')));
        command.env("GITHUB_ACTION_PATH", root().join(".github/actions/suite"));
        // Tests must not change this machine's settings.
        command.env("PATH", path_with(&self.folder.join("bin")));
        run(command.current_dir(workspace))
    }
}

#[test]
fn the_action_for_github_runs_its_part_and_joins_the_parts() {
    let _turn = turns::local();
    let bench = Bench::new();
    let action = Action::new(bench.folder.path());
    let stand_in = bench.path("bin/sudo");
    fs::create_dir(bench.path("bin")).unwrap();
    fs::write(&stand_in, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();

    let inputs = [("program", env!("CARGO_BIN_EXE_redjepsen")), ("suite", "../store/mine.toml"), ("parts", "2")];
    let joined = bench.path("joined");
    fs::create_dir(&joined).unwrap();
    for part in ["0", "1"] {
        let workspace = bench.path(&format!("job-{part}"));
        fs::create_dir(&workspace).unwrap();
        let inputs = [&inputs[..], &[("part", part)]].concat();
        for step in ["Take the program that is there", "Run the suite, or a part of it", "Make the results smaller"] {
            expect(&action.step(step, &workspace, &inputs), 0);
        }
        // Stores and restores the part's artifact as GitHub does.
        fs::create_dir_all(joined.join("redjepsen-store/parts")).unwrap();
        let artifact = joined.join(format!("redjepsen-store/parts/redjepsen-part-{part}"));
        fs::rename(workspace.join("redjepsen-store"), artifact).unwrap();
    }
    let text = expect(&action.step("Join the parts", &joined, &inputs), 0);
    assert!(text.contains("All 4 cells"), "{text}");
    expect(&action.step("Write the summary", &joined, &inputs), 0);
    let summary = fs::read_to_string(bench.path("GITHUB_STEP_SUMMARY")).unwrap();
    assert!(summary.contains("redlock-guarded"), "{summary}");

    // A job outside a matrix, and a job that finds nothing to merge.
    expect(&action.step("Name the version", &joined, &inputs), 0);
    let version = fs::read_to_string(bench.path("GITHUB_OUTPUT")).unwrap();
    assert_eq!(version.trim().strip_prefix("sha256=").unwrap().len(), 64, "{version}");
    let empty = bench.path("empty");
    fs::create_dir_all(empty.join("redjepsen-store/parts")).unwrap();
    expect(&action.step("Join the parts", &empty, &inputs), 254);
}

/// All values in a document, at any depth.
fn values<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    found.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| values(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| values(field, found)),
        _ => {}
    }
}

/// Mistakes in a document's calls of the action and the program.
fn mistakes(document: &Value, inputs: &Value) -> Vec<String> {
    let mut found = Vec::new();
    values(document, &mut found);
    let mut mistakes = Vec::new();
    for step in found.iter().filter(|value| value["uses"].as_str().is_some_and(|uses| uses.contains("actions/suite"))) {
        let given = step["with"].as_object().into_iter().flatten();
        mistakes.extend(given.filter(|(name, _)| inputs[name].is_null()).map(|(name, _)| format!("no input {name}")));
    }
    let lines = found.iter().filter_map(|value| value.as_str()).flat_map(|text| text.split(['\n', ';', '&', '|']));
    for line in lines.map(|line| line.trim().replace("\"$REDJEPSEN\"", "redjepsen")) {
        let Some(words) = line.strip_prefix("redjepsen suite ").and_then(shlex::split) else { continue };
        let words = words.iter().filter(|word| *word != "$OPTIONS");
        let output = run(Command::new(env!("CARGO_BIN_EXE_redjepsen")).arg("suite").args(words).arg("--help"));
        if !output.status.success() {
            mistakes.push(format!("{line}: {}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    mistakes
}

#[test]
fn workflows_and_examples_call_what_there_is() {
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let action = yaml(&read(&root().join(".github/actions/suite/action.yml"))).remove(0);
    let mut documents = vec![action.clone()];
    for entry in fs::read_dir(root().join(".github/workflows")).unwrap() {
        documents.extend(yaml(&read(&entry.unwrap().path())));
    }
    let before = documents.len();
    let page = read(&root().join("docs/suites.md"));
    let examples = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    documents.extend(examples.flat_map(yaml));
    assert!(before == 4 && documents.len() >= 8, "{} documents", documents.len());
    for document in &documents {
        assert_eq!(mistakes(document, &action["inputs"]), Vec::<String>::new(), "{document}");
    }

    let wrong = "a: {uses: ./.github/actions/suite, with: {suit: x}}\nb: redjepsen suite nightly --shards auto\n";
    assert_eq!(mistakes(&yaml(wrong)[0], &action["inputs"]).len(), 2);
}
