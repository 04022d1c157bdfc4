//! The command line as a user meets it, without an engine: what is refused, with which words and which exit code.

use std::fs;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
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
    refused(&["--workload", "redlok"], "unknown workload `redlok`; expected cas-token, none, redlock");
    refused(&["--nemesis", "paws"], "unknown nemesis `paws`; expected all, clock");
    refused(&["--workload", "missing/file.toml"], "missing/file.toml");
    refused(&["--expect", "victory"], "possible values: valid, violation");
    refused(&["--cluster", "cloud"], "possible values: auto, docker, local");
    refused(&["--subnet", "10.0.0.0/99"], "10.0.0.0/99");
    refused(&["--cluster", "docker", "--client-cmd", "./client"], "--client-image");
    refused(&["--cluster", "local", "--image", "redis:7"], "--image makes no sense with --cluster local");
    refused(&["--image", "redis:7", "--redis-server", "redis-server"], "cannot be used with");
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
    check("binary.jsonl", b"\xff\xfe\x00\n", "line 1: not UTF-8");
    check("later.jsonl", b"{\"index\":0,\"time\":5,\"type\":\"end\",\"completed\":true}\n{\"index\":1,\"time\":4,\"type\":\"end\",\"completed\":true}\n", "line 2: time runs backwards");
    redjepsen().args(["check", "/nonexistent"]).assert().code(255).stderr(contains("/nonexistent"));
    redjepsen().args(["report", "/nonexistent"]).assert().code(254).stderr(contains("not a run folder"));
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
        .stderr(contains("no amount of memory"));
    let twice = format!("{}\n{}\n", history.lines().next().unwrap(), history.lines().next().unwrap());
    redjepsen()
        .args(["check", "--model", "register", "-"])
        .write_stdin(twice)
        .assert()
        .code(255)
        .stderr(contains("line 2"));
}
