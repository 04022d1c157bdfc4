//! The test kit: simulated runs, simulated runs that look like real ones, histories that redjepsen would never write, and checks
//! of drawings.

pub mod histories;
mod odd;
pub mod planted;
mod svg;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use model::scenario::{Options, Scenario, catalogue};
use report::{Look, Report, RunFacts};
use runner::Checked;
use runner::simulate::simulate;

pub use odd::{bare, far_away, oddities, pause};
pub use svg::{malformed, text_boxes};

/// How many histories of each kind a property is tried on. `REDJEPSEN_CASES` asks for more, as the nightly CI does.
pub fn cases(usual: u32) -> u32 {
    std::env::var("REDJEPSEN_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

/// The options with which a workload of the catalogue can be simulated: a server that has the commands of its lock.
pub fn options(workload: &str) -> Options {
    let needs_ifeq = catalogue::workload(workload).is_ok_and(|(_, file)| file.lock.needs_ifeq());
    Options { server: if needs_ifeq { vec!["valkey:9.1".to_string()] } else { Vec::new() }, ..Options::default() }
}

/// A scenario of the catalogue with this time limit.
pub fn scenario(workload: &str, nemesis: &str, seed: u64, time_limit: &str) -> Scenario {
    let options = Options { time_limit: Some(time_limit.parse().unwrap()), ..options(workload) };
    options.scenario(workload, nemesis, seed, Path::new("")).unwrap()
}

/// A simulated run that reports treat as a run on real servers.
pub fn as_if_real(scenario: &Scenario) -> Checked {
    let Checked { mut history, scenario, .. } = simulate(scenario).unwrap();
    history.run.as_mut().unwrap().simulated = false;
    let named = scenario.as_ref().unwrap();
    let versions = [("docker", "29.0.1"), ("kernel", "6.12.8"), ("redis", "8.4.0"), ("redjepsen", "0.1.0")];
    let facts = RunFacts {
        cluster: "docker".into(),
        repeat: format!("redjepsen run --workload {} --nemesis {}", named.workload_name, named.nemesis_name),
        versions: versions.iter().map(|(name, version)| (name.to_string(), version.to_string())).collect(),
        image: "redis:8.4".into(),
        folder: "store/sample/20261120T101200Z".into(),
        late_ms: None,
    };
    Checked::new(history, scenario, facts)
}

/// The terminal's text about a run whose report is written.
pub fn terminal(report: &Report, look: Look, verbose: bool) -> String {
    report::summary(report, look, verbose) + &report::pointers(report.story.subject.facts, true)
}

/// The results of `work` for each of these, in order, computed on all processors.
pub fn on_all_processors<I: Sync, T: Send>(of: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let (next, threads) = (AtomicUsize::new(0), thread::available_parallelism().map_or(1, usize::from));
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let one = || {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = of.get(number) else { return done };
                done.push((number, work(item)));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
