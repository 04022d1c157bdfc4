//! Simulated clusters against real ones: the same scripted scenario takes the same steps and ends with the same verdict.
//!
//! A sample with each lock and each kind of fault that scripts have. The nightly suite compares all others with their
//! expectations, here and in virtual time (`tests/offline/simulated/nightly.rs`). The sample leaves out scenarios in which a step
//! depends on chance, such as how long ago a server last synced its file (`crash-everysec`).

use std::path::Path;
use std::process::Command;

use checker::{Validity, Verdict};
use model::history::{self, Claim, History, StepOutcome};
use model::scenario::Options;
use runner::simulate::simulate;

use crate::turns;

const SAMPLE: [(&str, &str); 14] = [
    ("none", "pause-before-write"),
    ("single", "retry-after-applied"),
    ("single-get-del", "pause-in-release"),
    ("single-constant", "late-release"),
    ("setnx-expire", "between-set-and-expire"),
    ("incr", "lost-release-reply"),
    ("fenced", "eviction"),
    ("fenced-reads", "delayed-write"),
    ("paired-token", "release-without-write"),
    ("redlock", "clock-jump-forward"),
    ("redlock-guarded", "crash-synced"),
    ("redlock-tokens", "uneven-tokens"),
    ("steal", "thief-crash"),
    ("perfect", "crash-holder"),
];

const SEED: u64 = 3;

/// The results of a run that must not depend on the kind of cluster.
#[derive(Debug, PartialEq)]
struct Shown {
    valid: Validity,
    broken: Vec<Claim>,
    steps: Vec<(String, StepOutcome)>,
}

fn shown(history: &History, verdict: &Verdict) -> Shown {
    let broken = verdict.claims.iter().filter(|claim| claim.claimed && claim.valid == Validity::Invalid);
    let steps = history.steps.iter().map(|(_, step)| (step.step.clone(), step.outcome));
    Shown { valid: verdict.valid, broken: broken.map(|claim| claim.claim).collect(), steps: steps.collect() }
}

fn real(workload: &str, nemesis: &str) -> Shown {
    let store = tempfile::tempdir().unwrap();
    let command = format!("run --cluster local --workload {workload} --nemesis {nemesis} --seed {SEED} --store");
    let output =
        Command::new(env!("CARGO_BIN_EXE_redjepsen")).args(command.split(' ')).arg(store.path()).output().unwrap();
    let history = history::load(&store.path().join("latest/history.jsonl"))
        .unwrap_or_else(|error| panic!("{command}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert!(!history.is_simulated());
    shown(&history, &checker::check(&history))
}

fn simulated(workload: &str, nemesis: &str) -> Shown {
    let scenario = Options::default().scenario(workload, nemesis, SEED, Path::new("")).unwrap();
    let checked = simulate(&scenario).unwrap();
    shown(&checked.history, &checked.verdict)
}

#[test]
fn scripted_scenarios_take_the_same_steps_and_end_alike_on_simulated_and_on_local_clusters() {
    let _turn = turns::local();
    let mut different = Vec::new();
    for (workload, nemesis) in SAMPLE {
        let (simulated, real) = (simulated(workload, nemesis), real(workload, nemesis));
        assert!(!real.steps.is_empty(), "{nemesis} has no script");
        if simulated != real {
            different.push(format!("{workload} under {nemesis}\n  simulated {simulated:?}\n  real      {real:?}"));
        }
    }
    assert!(different.is_empty(), "{} of {}:\n{}", different.len(), SAMPLE.len(), different.join("\n"));
}

/// The other side: a lock that fails and a lock that passes give different results.
#[test]
fn scenarios_that_end_differently_are_told_apart() {
    let _turn = turns::local();
    let (broken, held) =
        (simulated("single", "pause-before-write"), simulated("redlock-guarded", "pause-before-write"));
    assert_ne!((broken.valid, broken.broken), (held.valid, held.broken));
}
