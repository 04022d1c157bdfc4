//! The command line as a user meets it, without an engine: what is refused, with which words and which exit code.

use std::fs;

use assert_cmd::Command;
use predicates::str::{contains, starts_with};

fn redjepsen() -> Command {
    let mut command = Command::cargo_bin("redjepsen").unwrap();
    // Nothing here may start anything: an engine that is not there proves that the refusal came before.
    command.env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    command
}

fn refused(arguments: &[&str], words: &str) {
    let assert = redjepsen().arg("run").args(arguments).assert().code(254);
    let error = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(error.contains(words), "{arguments:?}: {error}");
}

#[test]
fn help_and_version_are_no_mistakes() {
    redjepsen().arg("--help").assert().code(0).stdout(contains("Exit codes: 0 valid, 1 invalid, 2 unknown"));
    redjepsen().arg("--version").assert().code(0).stdout(starts_with("redjepsen 0."));
    redjepsen().args(["run", "--help"]).assert().code(0).stdout(contains("--nemesis"));
}

#[test]
fn flags_that_make_no_sense_are_refused_before_anything_starts() {
    redjepsen().assert().code(254);
    redjepsen().arg("walk").assert().code(254).stderr(contains("walk"));
    refused(&["--ttl", "1"], "`1` is not a length of time");
    refused(&["--ttl", "0s"], "--ttl 0s makes no sense");
    refused(&["--ttl", "2ttl"], "a multiple of the TTL makes no sense here");
    refused(&["--time-limit", "9years"], "longer than a week");
    refused(&["--time-limit", "3s"], "no fault fits into --time-limit 3s");
    refused(&["--clients", "0"], "--clients 0 makes no sense; it may be from 1 to 100");
    refused(&["--clients", "-1"], "-1");
    refused(&["--nodes", "99"], "--nodes 99 makes no sense; it may be from 1 to 31");
    refused(&["--rate", "nan"], "--rate NaN makes no sense");
    refused(&["--hold", "2s..1s"], "write the shorter one first");
    refused(&["--workload", "redlok"], "unknown workload `redlok`; expected cas-token, none, redlock, single");
    refused(&["--nemesis", "paws"], "unknown nemesis `paws`; expected none, pause, pause-node");
    refused(&["--workload", "missing/file.toml"], "missing/file.toml");
    refused(&["--expect", "victory"], "possible values: valid, violation");
    refused(&["--cluster", "cloud"], "possible values: docker");
    refused(&["--subnet", "10.0.0.0/99"], "10.0.0.0/99");
    refused(&["--client-cmd", "./client"], "--client-image");
    refused(&["--client-cmd", "'open", "--client-image", "x"], "a quote is not closed");
    refused(&["--client-cmd", "c", "--client-image", "x", "--mount", "here"], "expected HOST:CONTAINER");
    refused(&["--client-cmd", "c", "--client-image", "x", "--mount", "/nonexistent:/x"], "/nonexistent");
}

#[test]
fn a_nemesis_file_with_a_mistake_gets_its_place_and_what_was_expected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    fs::write(
        &path,
        "description = \"mine\"\nstory = \"mine\"\n\n[[faults]]\nfault = \"paus\"\ntarget = \"holder\"\nevery = \"3ttl\"\nfor = \"2ttl\"\n",
    )
    .unwrap();
    refused(&["--nemesis", path.to_str().unwrap()], "line 5");
    refused(&["--nemesis", path.to_str().unwrap()], "unknown variant `paus`, expected `pause`");
}

#[test]
fn an_engine_that_is_not_there_is_one_clear_line() {
    let folder = tempfile::tempdir().unwrap();
    let assert = redjepsen().current_dir(&folder).arg("run").assert().code(255);
    let error = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("no Docker engine answers at unix:///nonexistent/docker.sock"), "{error}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing was written");
}

#[test]
fn the_catalogue_can_be_read() {
    redjepsen().arg("list").assert().code(0).stdout(contains("redlock")).stdout(contains("pause-node"));
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
        .stderr(contains("there is no workload or nemesis `nothing`"));
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
    check("binary.jsonl", b"\xff\xfe\x00\n", "not UTF-8");
    check("later.jsonl", b"{\"index\":0,\"time\":5,\"type\":\"end\",\"completed\":true}\n{\"index\":1,\"time\":4,\"type\":\"end\",\"completed\":true}\n", "line 2: time runs backwards");
    redjepsen().args(["check", "/nonexistent"]).assert().code(255).stderr(contains("/nonexistent"));
    redjepsen().args(["report", "/nonexistent"]).assert().code(254).stderr(contains("not a run folder"));
}
