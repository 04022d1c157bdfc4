//! Every scenario of the catalogue, with every lock that it says something of: what it breaks must break, what it spares
//! must be spared, on real servers. One test a scenario, so that a failure names it.

use std::process::{Command, Stdio};

use redjepsen::catalogue;
use redjepsen::scenario::Expectation;

/// Plays a scenario with each of its locks, and holds the runs to what it expects.
fn play(scenario: &str, cluster: &str) {
    let (_, nemesis) = catalogue::nemesis(scenario).unwrap();
    assert!(!nemesis.expect.is_empty(), "{scenario} expects nothing of any lock");
    let mut failures = Vec::new();
    for (workload, expectation) in &nemesis.expect {
        let expected = match expectation {
            Expectation::Valid => "valid",
            Expectation::Violation => "violation",
        };
        let store = tempfile::tempdir().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
            .args(["run", "--workload", workload, "--nemesis", scenario, "--cluster", cluster, "--expect", expected])
            .arg("--store")
            .arg(store.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        if output.status.code() != Some(0) {
            let text = [output.stdout, output.stderr].concat();
            failures.push(format!("{workload} was to be {expected}:\n{}", String::from_utf8_lossy(&text)));
        }
    }
    assert!(failures.is_empty(), "{scenario} on {cluster}:\n{}", failures.join("\n"));
}

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        mod docker {
            $(#[test] fn $name() { super::play(&stringify!($name).replace('_', "-"), "docker"); })*
        }
        mod local {
            $(#[test] fn $name() { super::play(&stringify!($name).replace('_', "-"), "local"); })*
        }

        #[test]
        fn every_scenario_is_played() {
            let played = [$(stringify!($name).replace('_', "-")),*];
            let scripted = catalogue::NEMESES.iter().map(|(name, _)| *name).filter(|name| {
                !catalogue::nemesis(name).unwrap().1.script.is_empty()
            });
            assert_eq!(scripted.collect::<Vec<_>>(), played);
        }
    };
}

scenarios!(
    clock_jump_forward,
    crash_everysec,
    crash_no_persistence,
    crash_synced,
    delayed_restart,
    delayed_restart_clock_jump,
    delayed_write,
    eviction,
    lost_reply,
    pause_before_write,
    pause_in_acquisition,
    slow_client_clock,
);
