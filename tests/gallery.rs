//! Every scenario of the catalogue, with every lock that it says something of: what it breaks must break, what it spares
//! must be spared, on real servers. One test a scenario, so that a failure names it. On this machine with every lock; in
//! Docker, where the same code does the same, with one that it breaks and one that it spares.

use std::process::{Command, Stdio};

use redjepsen::catalogue;
use redjepsen::scenario::Expectation;

/// Plays a scenario with each of its locks, and holds the runs to what it expects.
fn with_every_lock(scenario: &str) {
    let (_, nemesis) = catalogue::nemesis(scenario).unwrap();
    play(scenario, "local", nemesis.expect.iter());
}

/// Plays a scenario with one lock that it breaks, and one that it spares.
fn with_one_of_each(scenario: &str) {
    let (_, nemesis) = catalogue::nemesis(scenario).unwrap();
    let first = |wanted| nemesis.expect.iter().find(|(_, expectation)| **expectation == wanted);
    play(scenario, "docker", [Expectation::Violation, Expectation::Valid].into_iter().filter_map(first));
}

fn play<'e>(scenario: &str, cluster: &str, expected: impl Iterator<Item = (&'e String, &'e Expectation)>) {
    let mut failures = Vec::new();
    let mut played = 0;
    for (workload, expectation) in expected {
        played += 1;
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
    assert!(played > 0, "{scenario} expects nothing of any lock");
    assert!(failures.is_empty(), "{scenario} on {cluster}:\n{}", failures.join("\n"));
}

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        mod docker {
            $(#[test] fn $name() { super::with_one_of_each(&stringify!($name).replace('_', "-")); })*
        }
        mod local {
            $(#[test] fn $name() { super::with_every_lock(&stringify!($name).replace('_', "-")); })*
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
    crash_holder,
    crash_in_acquisition,
    crash_no_persistence,
    crash_synced,
    delayed_restart,
    delayed_restart_clock_jump,
    delayed_write,
    double_pause,
    eviction,
    failover,
    failover_in_sync,
    late_release,
    lost_ack,
    lost_reply,
    lost_write,
    no_random_delay,
    pause_before_write,
    pause_in_acquisition,
    pause_in_release,
    release_without_write,
    repeated_release,
    slow_client_clock,
    thief_chain,
    thief_crash,
    uneven_tokens,
    victim_unreachable,
);
