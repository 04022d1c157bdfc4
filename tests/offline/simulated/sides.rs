//! Each scenario of the catalogue has a lock that fails it and a lock that passes it. A scenario that no lock fails may do
//! nothing, and a scenario that no lock passes may fail every lock. Most scenarios have both sides in their `[expect]`. This file
//! names and tests the missing sides, or says that no known lock shows them.

use std::collections::BTreeMap;
use std::path::Path;

use checker::Validity;
use model::nemesis::Expectation;
use model::scenario::{Options, catalogue};
use runner::simulate::simulate;

use crate::kit::on_all_processors;

/// Where to find a side that a scenario's `[expect]` does not have.
#[derive(Clone, Copy)]
pub enum Elsewhere {
    /// The scenario is one half of a pair: in the other half, this lock has the other result.
    In(&'static str),
    /// In this scenario, but only in some runs: in virtual time, in a run with one of these seeds.
    SomeRuns([u64; 2]),
    /// In this scenario, if the resource refuses a write unless it replaces the value that its writer read.
    Guarded,
    /// In this scenario, with an additional line below `[lock.…]` in its file.
    With(&'static str),
    /// No known lock has this side. Only for scenarios that no built-in client can run, because they need an event loop, or a
    /// call that can be cancelled.
    NotKnown,
}

/// A side that is missing, the lock that shows it, and where.
pub struct OneSided {
    pub scenario: &'static str,
    pub missing: Expectation,
    pub lock: &'static str,
    pub elsewhere: Elsewhere,
}

const fn one_sided(scenario: &'static str, missing: Expectation, lock: &'static str, elsewhere: Elsewhere) -> OneSided {
    OneSided { scenario, missing, lock, elsewhere }
}

pub const ONE_SIDED: [OneSided; 22] = [
    // A blocked holder of a lock that expires is as helpless as under `pause`.
    one_sided("blocked-holder", Expectation::Valid, "redis-py-asyncio", Elsewhere::NotKnown),
    // All locks that were tried release the lock when they are cancelled.
    one_sided("cancelled-holder", Expectation::Violation, "redis-py-asyncio", Elsewhere::NotKnown),
    one_sided("contender-in-acquisition", Expectation::Violation, "single", Elsewhere::In("clock-jump-in-acquisition")),
    // Depends on Redis's own clock: a write is lost unless a second of this clock began after it.
    one_sided("crash-everysec", Expectation::Violation, "redlock", Elsewhere::SomeRuns([1, 2])),
    one_sided("crash-synced", Expectation::Violation, "redlock", Elsewhere::In("crash-no-persistence")),
    one_sided("failover-in-sync", Expectation::Violation, "replicated", Elsewhere::In("failover")),
    // The library reports a lost permit, but not that a permit granted late has expired.
    one_sided("late-permit", Expectation::Valid, "redis-semaphore-of-two", Elsewhere::In("one-too-many")),
    one_sided("late-thief", Expectation::Violation, "steal", Elsewhere::In("pause-before-write")),
    one_sided("lost-ack", Expectation::Violation, "steal-hasty", Elsewhere::In("victim-unreachable")),
    one_sided("minority-counts", Expectation::Violation, "redlock-tokens", Elsewhere::In("uneven-tokens")),
    // The holder's lock has expired and the next holder has released its own: a late release has nothing to remove.
    one_sided("outlived-and-taken-again", Expectation::Violation, "single-constant", Elsewhere::In("late-release")),
    one_sided("outlived-by-threads", Expectation::Violation, "single-constant", Elsewhere::In("late-release")),
    one_sided("pause-after-extension", Expectation::Violation, "redlock-extend", Elsewhere::In("delayed-write")),
    // Its first thread does not know whether the thread that renews its lock still runs.
    one_sided("pause-background", Expectation::Valid, "python-redis-lock-renewed", Elsewhere::NotKnown),
    one_sided("pause-between-extensions", Expectation::Violation, "redlock-extend", Elsewhere::In("delayed-write")),
    // A lock that comes to `half-released` has the gap, and releases the next holder's lock.
    one_sided("pause-in-release", Expectation::Valid, "single-get-del", Elsewhere::Guarded),
    // Every library that was tried keeps readers and writers apart.
    one_sided("reader-beside-writer", Expectation::Violation, "perfect-shared", Elsewhere::With("holders = 2")),
    one_sided("robbed-at-work", Expectation::Violation, "steal-hasty", Elsewhere::In("thief-crash")),
    one_sided("rolling-restart-synced", Expectation::Violation, "redlock", Elsewhere::In("rolling-restart")),
    one_sided("stopped-while-three-become-five", Expectation::Violation, "redlock", Elsewhere::In("three-become-five")),
    one_sided("three-become-four", Expectation::Violation, "redlock", Elsewhere::In("three-become-five")),
    one_sided("upgrade-in-place", Expectation::Violation, "redlock", Elsewhere::In("rolling-restart")),
];

impl OneSided {
    /// The cell for the table of scenarios.
    pub fn cell(&self) -> String {
        let lock = self.lock;
        match self.elsewhere {
            Elsewhere::In(scenario) => {
                let does = if self.missing == Expectation::Violation { "fails" } else { "passes" };
                format!("none here; `{lock}` {does} [`{scenario}`](../nemeses/{scenario}.toml)")
            }
            Elsewhere::SomeRuns(_) => format!("`{lock}`, in some runs"),
            Elsewhere::Guarded => format!("`{lock}` with `fencing = \"compare-and-set\"`"),
            Elsewhere::With(line) => format!("`{lock}` with `{line}`"),
            Elsewhere::NotKnown => "none that is known".to_string(),
        }
    }
}

/// The expectation for each workload under this nemesis, from either file.
fn expected(nemesis: &str) -> BTreeMap<String, Expectation> {
    let mut expected = catalogue::nemesis(nemesis).unwrap().1.expect;
    for (workload, _) in catalogue::WORKLOADS {
        let of_workload = catalogue::workload(workload).unwrap().1.expect;
        expected.extend(of_workload.get(nemesis).map(|what| (workload.to_string(), *what)));
    }
    expected
}

/// The verdicts of simulated runs with these seeds.
fn verdicts(workload: &str, scenario: &str, seeds: &[u64]) -> Vec<Validity> {
    on_all_processors(seeds, |seed| {
        let scenario = Options::default().scenario(workload, scenario, *seed, Path::new("")).unwrap();
        simulate(&scenario).unwrap().verdict.valid
    })
}

#[test]
fn each_scenario_has_a_lock_that_it_breaks_and_one_that_it_spares() {
    let scenarios = catalogue::NEMESES.iter().map(|(name, _)| *name);
    let scripted = scenarios.filter(|name| !catalogue::nemesis(name).unwrap().1.script.is_empty());
    let missing: Vec<(&str, Expectation)> = scripted
        .flat_map(|scenario| {
            let expected = expected(scenario);
            let sides = [Expectation::Violation, Expectation::Valid].into_iter();
            sides.filter(move |side| !expected.values().any(|what| what == side)).map(move |side| (scenario, side))
        })
        .collect();
    assert_eq!(missing, ONE_SIDED.map(|of| (of.scenario, of.missing)));
}

#[test]
fn the_other_half_of_a_pair_has_the_other_outcome() {
    for OneSided { scenario, missing, lock, elsewhere } in &ONE_SIDED {
        let Elsewhere::In(other) = elsewhere else { continue };
        let here = expected(scenario);
        assert!(here.contains_key(*lock) && here[*lock] != *missing, "{lock} is to be played in {scenario}");
        assert_eq!(expected(other).get(*lock), Some(missing), "{lock} in {other}");
        let (_, file) = catalogue::nemesis(scenario).unwrap();
        assert!(file.story.contains(other), "the story of {scenario} names {other}");
    }
}

#[test]
fn a_side_that_only_some_runs_have_is_shown_by_some() {
    for OneSided { scenario, missing, lock, elsewhere } in &ONE_SIDED {
        let Elsewhere::SomeRuns(seeds) = elsewhere else { continue };
        assert_eq!(*missing, Expectation::Violation);
        let verdicts = verdicts(lock, scenario, seeds);
        assert!(
            verdicts.contains(&Validity::Invalid) && verdicts.contains(&Validity::Valid),
            "{scenario}: {verdicts:?}"
        );
    }
}

#[test]
fn a_side_that_a_changed_lock_has_is_shown_with_one() {
    let folder = tempfile::tempdir().unwrap();
    for OneSided { scenario, missing, lock, elsewhere } in &ONE_SIDED {
        let Elsewhere::With(line) = elsewhere else { continue };
        assert_eq!(*missing, Expectation::Violation);
        let (_, text) = catalogue::WORKLOADS.iter().find(|(name, _)| name == lock).unwrap();
        let (before, _) = text.split_once("[expect]").unwrap();
        let place = before.find("[lock.").map(|at| at + before[at..].find('\n').unwrap() + 1).unwrap();
        let path = folder.path().join("changed.toml");
        std::fs::write(&path, format!("{}{line}\n{}", &before[..place], &before[place..])).unwrap();
        assert_eq!(verdicts(path.to_str().unwrap(), scenario, &[1, 2, 3]), [Validity::Invalid; 3], "{scenario}");
        assert_eq!(verdicts(lock, scenario, &[1]), [Validity::Valid], "the pair, as it is");
    }
}

#[test]
fn a_side_that_a_guarded_resource_has_is_shown_with_one() {
    let folder = tempfile::tempdir().unwrap();
    for OneSided { scenario, missing, lock, elsewhere } in &ONE_SIDED {
        let Elsewhere::Guarded = elsewhere else { continue };
        assert_eq!(*missing, Expectation::Valid);
        let (_, text) = catalogue::WORKLOADS.iter().find(|(name, _)| name == lock).unwrap();
        let (before, _) = text.split_once("[expect]").unwrap();
        let guarded = before.replace("fencing = \"none\"", "fencing = \"compare-and-set\"");
        assert_ne!(guarded, before);
        let path = folder.path().join("guarded.toml");
        std::fs::write(&path, guarded).unwrap();
        assert_eq!(verdicts(path.to_str().unwrap(), scenario, &[1, 2, 3]), [Validity::Valid; 3], "{scenario}");
        assert_eq!(verdicts(lock, scenario, &[1]), [Validity::Invalid], "the pair, without the guard");
    }
}
