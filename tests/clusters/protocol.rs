//! Clients that break the protocol, each in one way: each is reported clearly, and none makes a run valid.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use crate::turns;

/// How the client breaks the protocol, and the message that its author must read.
const BREAKAGES: [(&str, &str); 27] = [
    // Either the start of the cluster or the controller notices this first: in both cases, the client's last output is quoted.
    ("dies-at-once", "RuntimeError: no lock library here"),
    ("another-protocol", "it speaks protocol 7, this run needs 1"),
    (
        "no-name",
        "its line is not a message of the protocol (missing field `name`): {\"type\": \"ready\", \"protocol\": 1}",
    ),
    ("phase-for-ready", "it sent {\"type\":\"phase\",\"id\":1,\"phase\":\"acquired\"} instead of `ready`"),
    ("refuses", "it cannot start: this lock takes five nodes"),
    (
        "dies",
        "it ended with exit code 3; last lines on standard error: the first of its last words | the last of them (",
    ),
    ("no-json", "its line is not a message of the protocol (it is not JSON): what a library prints"),
    ("unknown-phase", "unknown word `reading`, expected one of `acquiring`, `half-acquired`, `acquired`"),
    ("stamps-in-words", "invalid type: string \"soon\", expected a whole number"),
    ("old-is-a-list", "invalid type: list, expected a string"),
    ("another-operation", "it sent {\"type\":\"ok\",\"id\":"),
    ("answers-twice", "while no operation is in progress"),
    ("early-answer", "while no operation is in progress"),
    ("another-value", "it reports that it wrote 'other' instead of 'c"),
    ("read-first", "it reported 'acquiring' after 'read'"),
    ("acquired-late", "it reported 'acquired' after 'written'"),
    ("extended-late", "it reported 'extended' after 'released'"),
    ("falling-stamps", "it stamped 'read' "),
    ("another-old", "it reported that it read "),
    ("no-old", "it answered 'ok' without 'old', though its 'read' phase said "),
    ("no-stamps", "clients must send 'mono_ns'"),
    ("some-stamps", "does this in only "),
    ("no-end-stamps", "clients must send 'mono_ns'"),
    ("another-clock", "clients must send 'mono_ns' (CLOCK_MONOTONIC)"),
    ("future-stamps", "clients must send 'mono_ns' (CLOCK_MONOTONIC)"),
    ("no-beginning", "clients must send 'mono_ns'"),
    ("no-end", "clients must send 'mono_ns'"),
];

/// Clients that only leave no operation acknowledged.
const MUTE: [(&str, &str); 3] = [
    ("fail-after-written", "0 updates acknowledged"),
    ("not-acquired-after-acquired", "0 updates acknowledged"),
    ("always-unsure", "0 updates acknowledged"),
];

fn run(how: &str) -> (Option<i32>, String) {
    let store = tempfile::tempdir().unwrap();
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clusters/clients/breaks_protocol.py");
    let flags = "run -v --cluster local --workload single --nemesis none --time-limit 2s --ttl 500ms --clients 2 --rate 60 --hold 1ms..5ms";
    let output = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
        .args(flags.split(' '))
        .args(["--client-cmd", &format!("python3 -u '{client}' {how}"), "--store"])
        .arg(store.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    // The terminal folds lines; the joined words do not depend on it.
    let said = String::from_utf8(text).unwrap();
    (output.status.code(), said.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn whoever_breaks_the_protocol_is_told_how_and_never_valid() {
    let _turn = turns::local();
    let (code, text) = run("none");
    assert_eq!(code, Some(0), "who breaks nothing is valid: {text}");
    let due = Mutex::new(BREAKAGES.iter().chain(&MUTE));
    let next = || due.lock().unwrap().next();
    let wrong: Mutex<Vec<String>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((how, expected)) = next() {
                    let (code, text) = run(how);
                    let told = text.contains(expected) && !text.contains("Some(") && !text.contains("PhaseMessage");
                    if !matches!(code, Some(2 | 255)) || !told {
                        wrong.lock().unwrap().push(format!("{how}: {code:?}, expected `{expected}`: {text}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_library_of_another_version_than_its_workload_says_is_refused() {
    let _turn = turns::local();
    for (version, code, expected) in [
        ("1.0", 0, "VALID sound 1.0 kept all"),
        ("2.0", 255, "it reports that it is `breaks none 1.0`, but its workload gives version 2.0; make `version` in"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let client = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clusters/clients/breaks_protocol.py");
        let workload = format!(
            "description = \"A sound lock\"\nsource = \"Here\"\nnodes = 1\n\
             claims = [\"updates\", \"mutual-exclusion\", \"liveness\", \"promises\"]\n\
             resource = {{ kind = \"register\", fencing = \"none\" }}\n\
             [library]\nname = \"sound\"\nversion = \"{version}\"\n\
             [client.command]\ncommand = [\"python3\", \"-u\", \"{client}\", \"none\"]\n\
             [lock.library]\nnode_timeout = \"0.2ttl\"\nretry_delay = \"20ms..100ms\"\n"
        );
        let file = folder.path().join("sound.toml");
        std::fs::write(&file, workload).unwrap();
        let flags = "--nemesis none --time-limit 2s --ttl 500ms --clients 2 --rate 60 --hold 1ms..5ms --cluster local";
        let output = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
            .args(["run", "-v"])
            .arg("--workload")
            .arg(&file)
            .args(flags.split(' '))
            .arg("--store")
            .arg(folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}
