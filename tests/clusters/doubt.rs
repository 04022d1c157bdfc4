//! A client whose write got no answer keeps its lock until the write can no longer arrive. Only this keeps a lock from being
//! blamed for its client's write. On local clusters, which need a redis-server.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::turns;

/// The run's exit code, output and history.
struct Outcome {
    code: Option<i32>,
    text: String,
    history: Vec<Value>,
}

/// Makes a run on a local cluster with this script as its nemesis.
fn run(script: &[&str], arguments: &str) -> Outcome {
    let store = tempfile::tempdir().unwrap();
    let nemesis = store.path().join("script.toml");
    let file =
        format!("description = \"a script\"\nstory = \"\"\nprogress = \"any\"\nclients = 2\nscript = {script:?}\n");
    fs::write(&nemesis, file).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.args(["run", "--cluster", "local", "--nemesis"]).arg(&nemesis).arg("--store").arg(store.path());
    let output = command.args(shlex::split(arguments).unwrap()).stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    let history = fs::read_to_string(store.path().join("latest/history.jsonl")).unwrap_or_else(|_| panic!("{text}"));
    let history = history.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Outcome { code: output.status.code(), text, history }
}

impl Outcome {
    /// The index in the history of the last line with these fields.
    fn last(&self, fields: &[(&str, &str)]) -> Option<usize> {
        self.history.iter().rposition(|line| fields.iter().all(|(name, value)| line[*name] == *value))
    }
}

/// The answer comes after every client has stopped waiting for it, but long before the lock expires.
const LATE: [&str; 8] = [
    "start client:0 to before-write",
    "delay 1m client:0 to resource",
    "go client:0",
    "start client:1",
    "wait 2500ms",
    "heal delay 1m client:0 to resource",
    "await client:0 end",
    "await client:1 end",
];

#[test]
fn who_does_not_know_what_became_of_its_write_keeps_the_lock() {
    let _turn = turns::local();
    let python = "workloads/clients/python/client.py";
    let careless = format!(
        "import runpy\nfrom redjepsen.resource import Server\n\
         Server.cut_off = lambda self, within, meanwhile: True\nrunpy.run_path('{python}', run_name='__main__')\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("careless.py");
    fs::write(&path, careless).unwrap();
    let own =
        |path: &Path| format!("--client-cmd 'env PYTHONPATH=workloads/clients/python python3 -u {}'", path.display());
    for (client, keeps) in [(String::new(), true), (own(Path::new(python)), true), (own(&path), false)] {
        let outcome = run(&LATE, &format!("--workload single --ttl 6s --hold 10ms --seed 1 {client}"));
        let text = &outcome.text;
        assert!(outcome.last(&[("type", "info"), ("f", "rmw"), ("error", "timeout")]).is_some(), "in doubt: {text}");
        let healed = outcome.last(&[("f", "delay"), ("step", "heal")]).expect(text);
        let taken = |line: &Value| line["process"] == 1 && line["phase"] == "acquired";
        let taken_before = outcome.history.iter().take(healed).rposition(taken).expect(text);
        let delayed = outcome.last(&[("f", "delay"), ("step", "injected")]).expect(text);
        assert_eq!(taken_before < delayed, keeps, "{client}: {text}");
        if keeps {
            assert_eq!(outcome.code, Some(0), "{text}");
        }
    }
}

/// The holder crashes while its write is still in the network.
const DEAD: [&str; 9] = [
    "start client:0 to before-write",
    "delay 1m client:0 to resource",
    "go client:0",
    "wait 100ms",
    "kill client:0",
    "start client:1",
    "await client:1 end within 3ttl",
    // Until then, no new process can reach the resource.
    "heal delay 1m client:0 to resource",
    "heal kill client:0",
];

#[test]
fn the_perfect_lock_is_free_once_nothing_of_a_dead_holder_can_arrive() {
    let _turn = turns::local();
    let perfect = run(&DEAD, "--workload perfect --ttl 1s --seed 1");
    assert_eq!(perfect.code, Some(0), "{}", perfect.text);
    // Without this protection, the dead client's write arrives.
    let single = run(&DEAD, "--workload single --ttl 1s --seed 1");
    assert_eq!(single.code, Some(1), "{}", single.text);
}

#[test]
fn nodes_that_are_not_there_are_refused_before_anything_is_started() {
    let store = tempfile::tempdir().unwrap();
    for nemesis in ["pause-node", "partition", "eviction", "pause voter"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        command.args(["run", "--cluster", "local", "--workload", "perfect", "--nemesis", nemesis]);
        let output = command.arg("--store").arg(store.path()).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(254) && text.contains("needs nodes, but workload perfect has none"),
            "{nemesis}: {text}"
        );
    }
    assert!(!store.path().join("latest").exists());
}
