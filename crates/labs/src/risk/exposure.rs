//! Runs without faults. They show when a fault of one member could cost an update, and how many updates a run makes otherwise.

use std::time::Duration;

use super::work;
use super::{RiskError, Simulate};
use base::units::nanos;
use model::history::{ClientStep, Function, History, Operation, Outcome, Phase, Process};
use model::plan::{Plan, seed_after};
use model::scenario::Scenario;

pub const RUNS: u64 = 16;
/// The number of operations in the observed part of a run, once all clients are at work.
const OPERATIONS: f64 = 40.0;
/// Plans use whole milliseconds, so the times around an exposed time are drawn too.
const PRECISION_NS: u64 = 1_000_000;

/// A time in which a client holds the lock, or may hold it without knowing yet, and has not written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exposed {
    pub run: usize,
    pub client: u32,
    /// In nanoseconds since the clients began.
    pub from: u64,
    pub to: u64,
}

/// The results of runs without faults.
#[derive(Clone, Debug)]
pub struct Exposure {
    pub seeds: Vec<u64>,
    pub times: Vec<Exposed>,
    /// The average number of exposed clients, for each run.
    pub exposed: Vec<f64>,
    pub updates_per_s: f64,
    /// Lost updates per second, without any fault.
    pub lost_per_s: f64,
}

impl Exposure {
    /// The average number of exposed clients, over all runs.
    pub fn mean(&self) -> f64 {
        self.exposed.iter().sum::<f64>() / self.exposed.len().max(1) as f64
    }

    /// The number of clients that are exposed at this time of a run.
    pub fn at(&self, run: usize, moment: u64) -> u64 {
        let then = |time: &&Exposed| time.run == run && (time.from..time.to).contains(&moment);
        self.times.iter().filter(then).count() as u64
    }
}

/// The observed part of a run. It starts when the clients are no longer in step with each other.
fn window(scenario: &Scenario) -> (Duration, Duration) {
    let cycle = f64::from(scenario.clients) / scenario.rate;
    let from = Duration::from_secs_f64((2.0 * cycle).max(1.0));
    (from, from + Duration::from_secs_f64((OPERATIONS / scenario.rate).max(2.0)))
}

pub fn measure<E: Send>(
    scenario: &Scenario,
    threads: usize,
    simulate: Simulate<E>,
    done: &(dyn Fn() -> bool + Sync),
) -> Result<Exposure, RiskError<E>> {
    let (from, to) = window(scenario);
    let seeds: Vec<u64> = (0..RUNS).map(|number| seed_after(scenario.seed, number)).collect();
    let runs = work::all(&seeds, threads, done, |seed| {
        let scenario = Scenario { seed: *seed, time_limit: to, ..scenario.clone() };
        simulate(&scenario, &Plan::draw(&scenario)?).map_err(RiskError::Run)
    })?;
    let (from, to) = (nanos(from), nanos(to));
    let seconds = (to - from) as f64 / 1e9;
    let mut exposure = Exposure { seeds, times: Vec::new(), exposed: Vec::new(), updates_per_s: 0.0, lost_per_s: 0.0 };
    for (run, history) in runs.iter().enumerate() {
        let times = exposed_times(run, history, scenario.clients, (from, to));
        exposure.exposed.push(times.iter().map(|time| (time.to - time.from) as f64 / 1e9).sum::<f64>() / seconds);
        exposure.times.extend(times);
        let began = began(history);
        let within = |time: u64| (began + from..began + to).contains(&time);
        let updates = history.operations.iter().filter(|operation| {
            let is_update = operation.f == Function::Rmw && operation.outcome == Outcome::Ok;
            is_update && operation.completed.is_some_and(within)
        });
        exposure.updates_per_s += updates.count() as f64 / seconds / runs.len() as f64;
        let lost = checker::check(history).lost_updates.count as f64;
        exposure.lost_per_s += lost / (to as f64 / 1e9) / runs.len() as f64;
    }
    if exposure.times.is_empty() {
        let ttl = humantime::format_duration(scenario.ttl).to_string();
        return Err(RiskError::Idle { ttl });
    }
    Ok(exposure)
}

pub fn began(history: &History) -> u64 {
    let ready = history.clients.iter().filter(|(_, event)| event.step == ClientStep::Ready);
    ready.map(|(time, _)| *time).max().unwrap_or_default()
}

/// The times in which each client of a run held the lock and had not written yet. They begin with the successful attempt and
/// end with the write.
fn exposed_times(run: usize, history: &History, clients: u32, (from, to): (u64, u64)) -> Vec<Exposed> {
    let began = began(history);
    let phases = |phase: Phase| move |operation: &Operation| Some(operation.phase(phase)?.received);
    let (asked, acquired, written) = (phases(Phase::Acquiring), phases(Phase::Acquired), phases(Phase::Written));
    let took = |operation: &Operation| Some(acquired(operation)? - asked(operation)?);
    // The history has the whole time that an operation waits, but not the start of its last attempt. The fastest operation had
    // the lock at once, and without faults no attempt takes much longer.
    let attempt = history.operations.iter().filter_map(took).min().unwrap_or_default() * 5 + 5 * PRECISION_NS;
    let mut times = Vec::new();
    for operation in &history.operations {
        let (Some(asked), Some(acquired), Some(written), Process::Client(process)) =
            (asked(operation), acquired(operation), written(operation), operation.process)
        else {
            continue;
        };
        let first = asked.max(acquired.saturating_sub(attempt)).saturating_sub(began + PRECISION_NS).max(from);
        let last = (written + PRECISION_NS).saturating_sub(began).min(to);
        if first < last {
            times.push(Exposed { run, client: process % clients.max(1), from: first, to: last });
        }
    }
    times
}
