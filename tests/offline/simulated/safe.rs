//! Locks that never lose an update are never accused, under random scripts from the whole language of faults.

use std::ops::Range;
use std::path::Path;

use checker::Validity;
use labs::fuzz::{Cause, draw};
use model::history::{FaultKind, ResourceKind};
use model::scenario::{Options, Scenario, catalogue};
use model::topology::Program;
use runner::simulate::simulate;

use crate::kit::cases;
use crate::kit::on_all_processors;

/// The locks that according to theory keep their claims, each with the faults under which they do. The lock with tokens lacks
/// the faults that make a node forget its data, because its tokens then go backwards.
fn safe_locks() -> [(&'static str, Vec<FaultKind>); 6] {
    [
        ("perfect", draw::kinds()),
        ("perfect-semaphore", draw::kinds()),
        ("perfect-shared", draw::kinds()),
        ("redlock-guarded", draw::kinds()),
        ("replicated-guarded", draw::kinds()),
        ("fenced-reads", FORGETTING_NOTHING.to_vec()),
    ]
}

const FORGETTING_NOTHING: [FaultKind; 7] = [
    FaultKind::Pause,
    FaultKind::Clock,
    FaultKind::Partition,
    FaultKind::Loss,
    FaultKind::Delay,
    FaultKind::Reset,
    FaultKind::Call,
];

fn base(workload: &str) -> Scenario {
    Options::default().scenario(workload, "none", 1, Path::new("")).unwrap()
}

/// The seeds with a violation, each with its cause if the cause is clear.
fn accused(workload: &str, kinds: &[FaultKind], seeds: Range<u64>) -> Vec<(u64, Option<Cause>)> {
    let base = base(workload);
    let seeds: Vec<u64> = seeds.collect();
    let shown = on_all_processors(&seeds, |seed| {
        let checked = simulate(&draw::scenario(&base, kinds, *seed)).unwrap();
        let is_violation = checked.verdict.valid == Validity::Invalid;
        is_violation.then(|| (*seed, Cause::of(&checked.history, &checked.verdict)))
    });
    shown.into_iter().flatten().collect()
}

/// `redjepsen fuzz --workload perfect --runs 100000` does the same for longer.
#[test]
fn a_safe_lock_is_never_accused() {
    for (workload, kinds) in safe_locks() {
        let accused = accused(workload, &kinds, 1..1 + u64::from(cases(100)));
        assert!(accused.is_empty(), "{workload}: {accused:?}");
    }
}

#[test]
fn an_unsafe_one_is() {
    for workload in ["redlock", "single", "fenced", "fenced-reads"] {
        let accused = accused(workload, &draw::kinds(), 1..101);
        assert!(accused.iter().any(|(_, cause)| cause.is_some()), "{workload}");
    }
}

/// The nightly job fuzzes each reference lock that can be simulated, with the right expectation.
#[test]
fn every_lock_is_fuzzed_each_night() {
    let job = include_str!("../../../.github/workflows/nightly.yml");
    let list = |name: &str| -> Vec<&str> {
        let (_, after) = job.split_once(name).unwrap();
        after.split_whitespace().filter(|word| *word != ">-").take_while(|word| !word.ends_with(':')).collect()
    };
    let (safe, unsafe_ones, of_newer_servers) = (list("SAFE: "), list("UNSAFE: "), list("NEEDS_IFEQ: "));
    let mut named = [&safe[..], &unsafe_ones[..], &of_newer_servers[..]].concat();
    named.sort_unstable();
    let is_lock_of_ours = |name: &&str| {
        let (_, workload) = catalogue::workload(name).unwrap();
        let program = workload.lock.program();
        workload.library.is_none() && program == Program::Redis && workload.resource.kind != ResourceKind::Replicated
    };
    let mut all: Vec<&str> = catalogue::WORKLOADS.iter().map(|(name, _)| *name).filter(is_lock_of_ours).collect();
    all.sort_unstable();
    assert_eq!(named, all);
    for workload in all {
        let needs_ifeq = catalogue::workload(workload).unwrap().1.lock.needs_ifeq();
        assert_eq!(of_newer_servers.contains(&workload), needs_ifeq, "{workload}");
    }
    for (workload, kinds) in safe_locks() {
        assert_eq!(safe.contains(&workload), kinds.len() == draw::kinds().len(), "{workload}");
    }
}
