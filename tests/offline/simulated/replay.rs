//! `redjepsen replay` as a program, on simulated clusters; tests/clusters/replay.rs tests it on real clusters.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::hunts::{ONE_RUN, ended, files_in, fuzz, stopped, wait_for};

fn redjepsen(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.args(arguments.split(' ')).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The exit code and output of a replay on simulated clusters.
fn replay(folder: &Path, arguments: &str) -> (Option<i32>, String) {
    ended(redjepsen(folder, &format!("replay --cluster sim --store again {arguments}")).spawn().unwrap())
}

/// A folder in which a hunt has left a violation, and the violation's run.
fn violation() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let (code, said) = ended(fuzz(folder.path(), ONE_RUN).spawn().unwrap());
    assert_eq!(code, Some(1), "{said}");
    let kept = said.lines().find_map(|line| line.split("redjepsen replay ").nth(1)).unwrap().to_string();
    (folder, kept)
}

/// The number of runs that were kept below a store.
fn runs(store: PathBuf) -> usize {
    let cells = fs::read_dir(store).into_iter().flatten().flatten().map(|entry| entry.path());
    cells.filter(|cell| !cell.is_symlink()).map(|cell| files_in(cell, "Z").len()).sum()
}

#[test]
fn a_violation_comes_back_as_often_as_it_is_asked_for() {
    let (folder, run) = violation();
    let (code, said) = replay(folder.path(), &format!("--times 2 {run}"));
    assert_eq!(code, Some(0), "{said}");
    let verdict = "CAME BACK  lost update, flush of a node: in 2 of 2 runs on cluster sim (";
    assert!(said.contains(verdict) && said.contains("2 of 2: came back: lost update"), "{said}");
    assert_eq!(runs(folder.path().join("again")), 2);
    // A file of the run stands for the run, also from the run's own folder.
    for file in ["scenario.toml", "history.jsonl"] {
        let (code, said) = replay(&folder.path().join(&run), &format!("--times 1 {file}"));
        assert!(code == Some(0) && said.contains("in 1 of 1 run on cluster sim"), "{file}, {code:?}: {said}");
    }
}

/// The cause that a replay reports for a script's run on a lock.
fn cause(workload: &str, steps: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let script =
        format!("description = \"d\"\nstory = \"s\"\nprogress = \"any\"\npersistence = \"none\"\nscript = {steps:?}\n");
    fs::write(folder.path().join("script.toml"), script).unwrap();
    let run = format!("run --cluster sim --workload {workload} --nemesis script.toml --time-limit 9s --seed 1");
    let (code, said) = ended(redjepsen(folder.path(), &run).spawn().unwrap());
    assert_eq!(code, Some(1), "{steps:?}: {said}");
    let (_, said) = replay(folder.path(), "--times 1 store/latest");
    said.lines()
        .find_map(|line| line.strip_prefix("CAME BACK  "))
        .unwrap_or(&said)
        .split(": ")
        .next()
        .unwrap()
        .to_string()
}

#[test]
fn a_violation_is_put_down_to_what_its_report_blames() {
    let on_one = |fault: &str, heal: &str| {
        let heal = if heal.is_empty() { "wait 0.01ttl" } else { heal };
        let end = "await client:1 end within 0.3ttl or go on";
        cause("single", &["start client:0 to before-write", fault, heal, "start client:1", end, "go client:0"])
    };
    assert_eq!(on_one("flush node:0", ""), "lost update, flush of a node");
    assert_eq!(on_one("evict node:0", "heal evict node:0"), "lost update, eviction of a node");
    assert_eq!(on_one("power-loss node:0", "heal power-loss node:0"), "lost update, power loss of a node");
    // A quorum of five is three: one more node or one fewer changes nothing, in either order.
    let most = "flush node:0,node:1,node:4";
    for (one, other) in [(most, "evict node:3"), ("evict node:3", most)] {
        let end = "await client:1 end within 0.3ttl or go on";
        let steps =
            ["start client:0 to before-write", one, other, "heal evict node:3", "start client:1", end, "go client:0"];
        assert_eq!(cause("redlock", &steps), "lost update, flush of a node", "{one}, {other}");
    }
}

#[test]
fn a_violation_that_does_not_come_back_says_what_differed() {
    let (folder, run) = violation();
    let made = "run --cluster sim --workload perfect --nemesis none --time-limit 2s --seed 1 --store sound";
    let (code, said) = ended(redjepsen(folder.path(), made).spawn().unwrap());
    assert!(code.is_some_and(|code| code <= 2), "{said}");
    let sound = files_in(folder.path().join("sound/perfect-none"), "Z").remove(0);
    fs::copy(sound.join("scenario.toml"), folder.path().join(&run).join("scenario.toml")).unwrap();
    let (code, said) = replay(folder.path(), &format!("--times 1 {run}"));
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains(
            "DID NOT COME BACK  lost update, flush of a node: in 0 of 1 run on cluster sim (95% confidence: 0 to "
        ),
        "{said}"
    );
    assert!(said.contains("1 of 1: every step had the same outcome as before, without a violation · again/"), "{said}");

    let (code, said) = replay(folder.path(), sound.to_str().unwrap());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("NOTHING TO REPLAY  ") && said.contains(" has no violation"), "{said}");
}

#[test]
fn what_cannot_be_replayed_is_refused_with_its_name() {
    let (folder, run) = violation();
    let refused = |arguments: &str, expected: &str| {
        let (code, said) = replay(folder.path(), arguments);
        assert_eq!(code, Some(254), "{arguments}: {said}");
        assert!(said.contains(expected), "{arguments}: {said}");
        assert!(!folder.path().join("again").exists(), "{arguments}");
    };
    refused("nowhere", "nowhere: No such file or directory (os error 2); give the folder of a run");
    refused(&format!("--times 0 {run}"), "expected a whole number from 1 to 1000");
    refused(&format!("--times 1001 {run}"), "expected a whole number from 1 to 1000");
    let of = |file: &str| folder.path().join(&run).join(file);
    let scenario = fs::read_to_string(of("scenario.toml")).unwrap();
    fs::write(of("scenario.toml"), scenario.replace("clients = ", "clients = 10")).unwrap();
    refused(&run, "--clients 10");
    fs::write(of("scenario.toml"), scenario.replace("clients = ", "customers = ")).unwrap();
    refused(&run, "scenario.toml: ");
    fs::remove_file(of("scenario.toml")).unwrap();
    refused(&run, "scenario.toml: No such file or directory");
    fs::write(of("scenario.toml"), scenario).unwrap();
    fs::remove_file(of("history.jsonl")).unwrap();
    refused(&run, "history.jsonl: No such file or directory");
}

#[test]
fn a_replay_that_cannot_be_made_or_was_interrupted_is_not_told_as_one() {
    let (folder, run) = violation();
    // A file in place of the store: even root cannot write below it.
    fs::write(folder.path().join("again"), "not a folder").unwrap();
    let (code, said) = replay(folder.path(), &format!("--times 2 {run}"));
    assert_eq!(code, Some(255), "{said}");
    assert!(said.contains("NOT REPLAYED  lost update, flush of a node: no run finished"), "{said}");

    let many = format!("replay --cluster sim --store more --times 1000 {run}");
    let mut child = redjepsen(folder.path(), &many).spawn().unwrap();
    wait_for(&mut child, "1 of 1000: came back");
    let (code, said) = stopped(child, "-INT");
    assert_eq!(code, Some(2), "it came back each time, though not as often as it was asked for: {said}");
    assert!(said.contains("CAME BACK  lost update, flush of a node: in "), "{said}");
}
