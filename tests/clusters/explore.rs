//! Violations that the model finds also happen on real Redis.

use std::process::Command;

use crate::turns;

/// Explores with these flags, runs the command that it prints, and expects a violation.
fn comes_back(flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let redjepsen = || Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    let explored =
        redjepsen().arg("explore").args(flags).arg("--out").arg(folder.path().join("explored")).output().unwrap();
    let text = String::from_utf8(explored.stdout).unwrap();
    assert_eq!(explored.status.code(), Some(1), "{flags:?}: {text}");
    let command = text.lines().find_map(|line| line.trim().strip_prefix("redjepsen ")).unwrap();
    let run = redjepsen()
        .args(shlex::split(command).unwrap())
        .args(["--expect", "violation", "--store"])
        .arg(folder.path().join("store"))
        .output()
        .unwrap();
    let text = [run.stdout, run.stderr].concat();
    assert_eq!(run.status.code(), Some(0), "{command}: {}", String::from_utf8_lossy(&text));
}

#[test]
fn a_client_whose_clock_lags_while_it_asks() {
    let _turn = turns::local();
    comes_back(&[]);
}

#[test]
fn a_holder_that_stops_for_longer_than_its_lock_lives() {
    let _turn = turns::local();
    comes_back(&["--clocks", "perfect"]);
}

#[test]
fn a_node_that_forgets() {
    let _turn = turns::local();
    comes_back(&["--clocks", "perfect", "--holding", "while-valid", "--crash", "lose"]);
}

#[test]
fn an_update_that_is_lost_in_spite_of_tokens() {
    let _turn = turns::local();
    comes_back(&["--clocks", "perfect", "--fencing", "token"]);
}
