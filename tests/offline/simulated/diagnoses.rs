//! What a run says of a lock's defect: on the terminal, in results.json and on the page, from the commands beside its history.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A simulated run in a folder of its own, and what it printed.
fn run(store: &Path, words: &str) -> (PathBuf, String) {
    let arguments = format!("run --cluster sim --seed 1 --time-limit 12s {words} --store");
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    let output = command.args(arguments.split(' ')).arg(store).output().unwrap();
    assert!(matches!(output.status.code(), Some(0..=2)), "{}", String::from_utf8_lossy(&output.stderr));
    (store.join("latest").canonicalize().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn results(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("results.json")).unwrap()).unwrap()
}

#[test]
fn a_release_in_two_commands_is_named_wherever_the_run_is_told() {
    let store = tempfile::tempdir().unwrap();
    let (folder, printed) = run(store.path(), "--workload single-get-del --nemesis between-check-and-delete");
    let title = "the release compares the key in one command and deletes it in another (RJ002).";
    assert!(printed.lines().next().unwrap().ends_with(title), "{printed}");
    let results = results(&folder);
    let diagnosis = &results["diagnoses"][0];
    let sentence = diagnosis["findings"][0]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("c0's DEL at ") && sentence.contains("removed c1's key"), "{sentence}");
    assert!(results["headline"].as_str().unwrap().ends_with(title) && diagnosis["incidents"] == serde_json::json!([1]));
    assert_eq!(results["incidents"][0]["diagnosis"]["code"], "RJ002");
    // c1, whose key it was, and c2, who took the lock then, are in the incident; c0 is named all the same.
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("id=\"RJ002\"") && page.contains("What became of its key"));
    // Each line that it cites is there, and is what it says.
    let commands = fs::read_to_string(folder.join("commands.jsonl")).unwrap();
    let cited = diagnosis["findings"][0]["commands"].as_array().unwrap();
    let last = cited.last().unwrap().as_u64().unwrap() as usize;
    let command: Value = serde_json::from_str(commands.lines().nth(last - 1).unwrap()).unwrap();
    assert_eq!((command["from"].as_str(), command["words"][0].as_str()), (Some("c0"), Some("DEL")));
}

#[test]
fn what_is_inherent_is_told_as_such_and_a_sound_run_has_nothing() {
    let store = tempfile::tempdir().unwrap();
    let (folder, printed) = run(store.path(), "--workload single --nemesis pause-before-write");
    assert!(printed.contains("RJ022"), "{printed}");
    assert_eq!(results(&folder)["diagnoses"][0]["inherent"], true);

    let (folder, printed) = run(store.path(), "--workload single --nemesis late-release");
    assert!(printed.starts_with("VALID") && !printed.contains("RJ0"), "{printed}");
    assert!(results(&folder).get("diagnoses").is_none() && folder.join("commands.jsonl").exists());
}

#[test]
fn without_commands_there_is_the_same_verdict_and_no_diagnosis() {
    let store = tempfile::tempdir().unwrap();
    let words = "--workload single-get-del --nemesis between-check-and-delete";
    let (with, _) = run(store.path(), words);
    let (without, printed) = run(store.path(), &format!("{words} --record-commands=false"));
    assert!(printed.starts_with("INVALID") && !printed.contains("RJ0"), "{printed}");
    assert!(!without.join("commands.jsonl").exists() && results(&without).get("diagnoses").is_none());
    let history = |folder: &Path| fs::read(folder.join("history.jsonl")).unwrap();
    assert!(history(&with) == history(&without), "nobody in a run notices that it is recorded");
}

#[test]
fn the_lock_that_does_it_right_is_valid_where_the_diagnosis_says_so() {
    let store = tempfile::tempdir().unwrap();
    let mut pairs: Vec<(&str, &str)> = diagnosis::KINDS.iter().filter_map(|kind| kind.right).collect();
    pairs.sort_unstable();
    pairs.dedup();
    // A published library is no part of a simulation.
    pairs.retain(|(workload, _)| model::scenario::catalogue::workload(workload).unwrap().1.library.is_none());
    assert!(pairs.len() > 8, "{pairs:?}");
    for (workload, nemesis) in pairs {
        let (_, printed) = run(store.path(), &format!("--workload {workload} --nemesis {nemesis}"));
        assert!(printed.starts_with("VALID"), "{workload} under {nemesis}: {printed}");
    }
}
