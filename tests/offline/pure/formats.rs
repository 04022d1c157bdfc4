//! `redjepsen check` on histories from anywhere, as users see it.

use std::fs;
use std::io::Write;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::{contains, starts_with};

const REGISTER: &str =
    "{:process 0, :type :invoke, :f :write, :value 5}\n{:process 0, :type :ok, :f :write, :value 5}\n";
const RUN: &str = include_str!("../../fixtures/pause-healed-in-time.jsonl");

fn check(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("redjepsen").unwrap();
    command.arg("check").args(arguments);
    command
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn standard_input_is_checked_like_a_file() {
    for input in [REGISTER.as_bytes().to_vec(), gzip(REGISTER.as_bytes()), zstd(REGISTER.as_bytes())] {
        check(&["-"]).write_stdin(input).assert().stdout(contains("register, chosen from the operations"));
    }
    let assert = check(&["-", "--json", "--initial", "-3"]).write_stdin(REGISTER).assert();
    let json: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(
        (&json["model"], &json["model_chosen"], &json["initial"]),
        (&"register".into(), &true.into(), &"-3".into())
    );
    assert_eq!((&json["operations"], &json["outcomes"]["ok"], &json["keys"]), (&1.into(), &1.into(), &1.into()));
    assert_eq!((&json["file"], &json["format"]), (&"standard input".into(), &"edn".into()));
    assert_eq!(json["results"][0]["operations"], 1);
    for field in ["valid", "summary", "failed_cas", "compression", "truncated_at_line", "load_seconds", "check_seconds"]
    {
        assert!(json.get(field).is_some(), "{field}");
    }
}

#[test]
fn a_run_is_judged_as_a_run_however_it_is_packed_and_against_a_model_where_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("history.jsonl", RUN.as_bytes().to_vec()),
        ("history.jsonl.zst", zstd(RUN.as_bytes())),
        ("history.jsonl.gz", gzip(RUN.as_bytes())),
    ] {
        let run = folder.path().join(name.replace('.', "-"));
        fs::create_dir(&run).unwrap();
        fs::write(run.join(name), bytes).unwrap();
        check(&[run.to_str().unwrap()]).assert().code(0).stdout(contains("VALID"));
        check(&[run.join(name).to_str().unwrap()]).assert().code(0);
        check(&[run.to_str().unwrap(), "--model", "rmw"]).assert().stdout(contains("model       rmw\n"));
    }
    check(&["-"]).write_stdin(RUN).assert().code(0);
    let assert = check(&["-", "--json"]).write_stdin(RUN).assert().code(0);
    let json: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(json["valid"], true);
    assert!(json["lost_updates"]["count"].is_number(), "the JSON of a run is its results.json");
}

#[test]
fn what_can_not_be_checked_is_said_with_the_right_exit_code() {
    check(&["-", "--model", "queue"])
        .write_stdin(REGISTER)
        .assert()
        .code(254)
        .stderr(contains("there is no model `queue`").and(contains("owner-mutex")));
    let mixed = REGISTER.to_string() + "{:process 1, :type :invoke, :f :acquire}";
    check(&["-"])
        .write_stdin(mixed)
        .assert()
        .code(254)
        .stderr(contains("no model has all of the operations write, acquire"));
    check(&["-"])
        .write_stdin("")
        .assert()
        .code(255)
        .stderr(starts_with("redjepsen: standard input: the file is empty"));
    let broken = REGISTER.replace(":ok", ":okay");
    check(&["-"]).write_stdin(broken).assert().code(255).stderr(contains("line 2: unknown type `okay`"));
    check(&["/nonexistent.edn"]).assert().code(255).stderr(contains("/nonexistent.edn"));
    check(&["-", "--memory", "much"]).assert().code(254).stderr(contains("not an amount of memory"));
    check(&["-", "--timeout", "2ttl"]).assert().code(254);
    check(&["-", "--failed-cas", "maybe"]).assert().code(254).stderr(contains("check, drop"));
    // The history has no operations, so it proves nothing.
    check(&["-"]).write_stdin("[]").assert().code(2).stdout(contains("no operations"));
}
