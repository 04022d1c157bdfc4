//! Runs seed after seed on all processors, until a limit is reached.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::cause::Cause;
use base::interrupt::Interrupt;
use base::sync::lock;
use checker::{Validity, Verdict};
use model::plan::seed_after;
use model::scenario::Scenario;
use runner::RunnerError;
use runner::simulate::{simulate_unless, usual};

/// At most this many seeds are kept for each cause. Some scenarios need a lucky network delay, others do not.
const SEEDS_KEPT: usize = 12;

/// The limits of a hunt. The first limit to be reached ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    pub runs: Option<u64>,
    /// No run begins after this time.
    pub time: Option<Duration>,
    /// If true, the first violation ends the hunt.
    pub first_violation: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Hunt {
    pub runs: u64,
    pub valid: u64,
    /// The number of inconclusive runs, by the first gate that failed.
    pub nothing: BTreeMap<String, u64>,
    /// The number of violations without a [`Cause`]: the script broke off, a fault was not observed, or the violation happened
    /// outside the script.
    pub unclear: u64,
    pub found: BTreeMap<Cause, Found>,
    /// The total time, not simulated.
    pub took: Duration,
}

#[derive(Clone, Debug)]
pub struct Found {
    pub count: u64,
    /// The seeds of the first runs.
    pub seeds: Vec<u64>,
    /// The time until the first such run, not simulated.
    pub after: Duration,
}

impl Hunt {
    pub fn add(&mut self, later: &Hunt) {
        for (cause, found) in &later.found {
            let after = self.took + found.after;
            let known = self.found.entry(cause.clone()).or_insert(Found { count: 0, seeds: Vec::new(), after });
            known.count += found.count;
            known.seeds.extend(found.seeds.iter().take(SEEDS_KEPT.saturating_sub(known.seeds.len())));
        }
        self.runs += later.runs;
        self.valid += later.valid;
        for (gate, count) in &later.nothing {
            *self.nothing.entry(gate.clone()).or_default() += count;
        }
        self.unclear += later.unclear;
        self.took += later.took;
    }

    pub fn violations(&self) -> u64 {
        self.found.values().map(|found| found.count).sum()
    }

    /// The number of inconclusive runs.
    pub fn unknown(&self) -> u64 {
        self.nothing.values().sum()
    }
}

/// The first gate that failed, so that the verdict is unknown.
fn first_failed(verdict: &Verdict) -> String {
    let failed = verdict.gates.iter().find(|gate| !gate.passed);
    failed.map_or_else(|| "too little evidence".to_string(), |gate| gate.name.clone())
}

/// Runs `scenario_of` for one seed after the other, starting with `first`, on this many threads. If `over` is raised, the hunt
/// ends at once and does not count runs in progress. The hunt calls `show` with its results about ten times per second.
pub fn hunt(
    scenario_of: impl Fn(u64) -> Scenario + Sync,
    first: u64,
    threads: usize,
    until: Until,
    over: &Interrupt,
    mut show: impl FnMut(&Hunt),
) -> Result<Hunt, RunnerError> {
    const SHOW_EVERY: Duration = Duration::from_millis(100);
    let began = Instant::now();
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (seen, failed) = (Mutex::new(Hunt::default()), Mutex::new(None));
    let enough = |hunt: &Hunt| {
        until.time.is_some_and(|time| began.elapsed() >= time) || (until.first_violation && !hunt.found.is_empty())
    };
    let work = || {
        while !stop.load(Ordering::Relaxed) && !over.is_raised() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if until.runs.is_some_and(|runs| number >= runs) {
                break;
            }
            let seed = seed_after(first, number);
            let scenario = scenario_of(seed);
            match simulate_unless(over, usual(&scenario), &scenario) {
                Ok(None) => break,
                Ok(Some(checked)) => {
                    let mut hunt = lock(&seen);
                    hunt.runs += 1;
                    match Cause::of(&checked.history, &checked.verdict) {
                        Some(cause) => {
                            let after = began.elapsed();
                            let found = hunt.found.entry(cause).or_insert(Found { count: 0, seeds: Vec::new(), after });
                            found.count += 1;
                            if found.seeds.len() < SEEDS_KEPT {
                                found.seeds.push(seed);
                            }
                        }
                        None if checked.verdict.valid == Validity::Valid => hunt.valid += 1,
                        None if checked.verdict.valid == Validity::Invalid => hunt.unclear += 1,
                        None => *hunt.nothing.entry(first_failed(&checked.verdict)).or_default() += 1,
                    }
                    if enough(&hunt) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
                Err(error) => {
                    lock(&failed).get_or_insert(error);
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
    };
    thread::scope(|scope| {
        // Use as many threads as the system grants.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let workers: Vec<_> = (0..threads.max(1)).map_while(spawn).collect();
        if workers.is_empty() {
            work();
        }
        let mut shown = Instant::now();
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(2));
            if shown.elapsed() >= SHOW_EVERY {
                shown = Instant::now();
                let now = lock(&seen).clone();
                show(&Hunt { took: began.elapsed(), ..now });
            }
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    Ok(Hunt { took: began.elapsed(), ..seen.into_inner().unwrap_or_else(PoisonError::into_inner) })
}
