//! Planted bugs: wrong locks and a wrong checker, each with what finds it. A build with debug assertions takes the name of a bug
//! from its environment, once, so each is planted in a process of its own: this test program again, told to run one test.
//!
//! The fixtures say of each lock how many of the scenarios that it passes find the bug, with seed 1, and of a bug of the checker how many
//! tests of `pure::checker`, without those by brute force and by oracles.
#![cfg(debug_assertions)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use redjepsen::checker::Validity;
use redjepsen::runner::simulate::simulate;

use crate::kit::{on_all_processors, scenario};

/// Bug, workload, how many scenarios the lock passes, how many of them find the bug, one of these, and why if there is none.
const LOCKS: &str = include_str!("../../fixtures/mutants.csv");
/// Bug, how many tests find it, and one of them.
const CHECKER: &str = include_str!("../../fixtures/checker-mutants.csv");
/// What a child process is to play: a workload and a nemesis.
const PLAYS: &str = "REDJEPSEN_PLAYS";

/// The lines of a table below its head, in so many columns.
fn rows<const COLUMNS: usize>(table: &'static str) -> Vec<[&'static str; COLUMNS]> {
    let cells = |line: &'static str| line.split(',').collect::<Vec<_>>().try_into().expect("all columns");
    table.lines().skip(1).map(cells).collect()
}

#[test]
#[ignore = "plays what another test of this file tells it"]
fn planted_bug_is_played() {
    let Ok(plays) = std::env::var(PLAYS) else { return };
    let (workload, nemesis) = plays.split_once(' ').unwrap();
    let verdict = simulate(&scenario(workload, nemesis, 1, "12s")).unwrap().verdict;
    println!("\nverdict: {:?} {}", verdict.valid, verdict.reasons.join("; "));
}

/// This test program with a planted bug, running one test.
fn child(bug: &str, test: &str, plays: &str) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--include-ignored", "--nocapture"]).env("REDJEPSEN_PLANTED", bug).env(PLAYS, plays);
    child.output().unwrap()
}

/// What a run shows with this bug.
fn shown(bug: &str, workload: &str, nemesis: &str) -> String {
    let output = child(bug, "simulated::mutants::planted_bug_is_played", &format!("{workload} {nemesis}"));
    let out = String::from_utf8(output.stdout).unwrap();
    out.lines().find_map(|line| line.strip_prefix("verdict: ")).unwrap_or(&out).to_string()
}

fn none_of(missed: Vec<Option<String>>) {
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{}:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn planted_bugs_of_locks_are_found_or_explained() {
    let runs = rows::<6>(LOCKS);
    assert!(runs.len() >= 60);
    none_of(on_all_processors(&runs, |[bug, workload, _, found, by, why]| {
        if *found == "0" {
            let is_explained = why.starts_with("equivalent: ") || why.starts_with("open: ");
            return (!is_explained).then(|| format!("{bug} of {workload} is not found; say why"));
        }
        let shown = shown(bug, workload, by);
        (!shown.starts_with(&format!("{:?}", Validity::Invalid))).then(|| format!("{bug}, {workload}, {by}: {shown}"))
    }));
}

#[test]
fn planted_bugs_of_the_checker_are_found() {
    let bugs = rows::<3>(CHECKER);
    assert!(bugs.len() >= 30);
    none_of(on_all_processors(&bugs, |[bug, _, test]| {
        let output = child(bug, test, "");
        let failed = String::from_utf8_lossy(&output.stdout).contains("test result: FAILED. 0 passed; 1 failed");
        (!failed).then(|| format!("{bug} is not found by {test}"))
    }));
}

/// The other side: each of these scenarios passes with the lock as it is.
#[test]
fn correct_locks_pass_scenarios_that_find_bugs() {
    let found = rows::<6>(LOCKS).into_iter().filter(|row| row[3] != "0");
    let runs: BTreeSet<(&str, &str)> = found.map(|[_, workload, _, _, by, _]| (workload, by)).collect();
    let runs: Vec<_> = runs.into_iter().collect();
    none_of(on_all_processors(&runs, |(workload, nemesis)| {
        let verdict = simulate(&scenario(workload, nemesis, 1, "12s")).unwrap().verdict;
        (verdict.valid != Validity::Valid).then(|| format!("{workload} under {nemesis}: {:?}", verdict.reasons))
    }));
}

/// The names that the code asks for, except those that it makes of the names of gates and anomalies.
fn planted_in(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            planted_in(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let named = text.split("planted(\"").skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(named.map(str::to_string));
        }
    }
}

#[test]
fn every_bug_in_the_code_is_in_a_table() {
    let mut found = BTreeSet::new();
    planted_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let listed: BTreeSet<&str> =
        rows::<6>(LOCKS).iter().map(|row| row[0]).chain(rows::<3>(CHECKER).iter().map(|row| row[0])).collect();
    let unlisted: Vec<&String> = found.iter().filter(|bug| !listed.contains(bug.as_str())).collect();
    assert!(!found.is_empty() && unlisted.is_empty(), "{unlisted:?}");
}
