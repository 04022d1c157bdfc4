//! The answer: the lost updates at each TTL, and the cost of a longer TTL.

use std::time::Duration;

use super::exposure::{self, Exposure};
use super::interval::{Drawn, Interval, at_most, drawn};
use super::strikes::{self, Strike};
use super::{Distribution, FaultCause, Question, RiskError, Simulate};
use model::history::ResourceKind;
use model::scenario::{Fencing, Scenario};

/// The lost updates, TTL by TTL.
#[derive(Clone, Debug)]
pub struct Risk {
    pub rows: Vec<Row>,
    /// The result at the requested TTL if the resource uses compare-and-set. None if this was not simulated.
    pub guarded: Option<Guarded>,
    pub runs: u64,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub ttl: Duration,
    pub updates_per_s: f64,
    /// The average number of clients that hold the lock and have not written yet.
    pub exposed: f64,
    pub lost: Interval,
    /// Faults per second that cost at least one update.
    pub incidents: Interval,
    /// True if holders outlast the TTL by themselves, so that updates are lost without any fault. Then no fault was simulated.
    pub lost_without_faults: bool,
    /// The shortest fault that can cost an update.
    pub shortest: Duration,
    pub parts: Vec<Part>,
    /// Seconds per year in which no client can acquire the lock of a crashed holder, if each crash blocks the lock for the
    /// whole TTL.
    pub unavailable_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    pub kind: FaultCause,
    /// How many of the lengths can cost an update.
    pub reaching: f64,
    /// The number of runs with a fault of this kind, and of those in which updates were lost.
    pub runs: u64,
    pub hits: u64,
    /// Updates lost in all of these runs.
    pub lost: u64,
    /// The possible incidents per second from longer faults that are too rare to have been measured. None if a measured length
    /// can cost an update.
    pub unseen: Option<f64>,
}

/// The runs with a resource that uses compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarded {
    pub runs: u64,
    pub lost: u64,
}

/// Answers a question. Calls `done` after each run, and stops if it returns false.
pub fn assess<E: Send>(
    question: &Question,
    simulate: Simulate<E>,
    done: &(dyn Fn() -> bool + Sync),
) -> Result<Risk, RiskError<E>> {
    let (mut rows, mut guarded, mut runs) = (Vec::new(), None, 0);
    for (place, scenario) in question.scenarios.iter().enumerate() {
        let (row, without_faults) = row(question, scenario, simulate, done)?;
        runs += row.parts.iter().map(|part| part.runs).sum::<u64>() + without_faults;
        rows.push(row);
        if let Some(scenario) = with_guard(scenario).filter(|_| place == question.asked) {
            let (row, without_faults) = self::row(question, &scenario, simulate, done)?;
            let sum = |of: fn(&Part) -> u64| row.parts.iter().map(of).sum::<u64>();
            guarded = Some(Guarded { runs: sum(|part| part.runs), lost: sum(|part| part.lost) });
            runs += sum(|part| part.runs) + without_faults;
        }
    }
    Ok(Risk { rows, guarded, runs })
}

/// The scenario with a resource that refuses a write unless it replaces the value that its writer read. None if the resource
/// already does so, or cannot.
pub(super) fn with_guard(scenario: &Scenario) -> Option<Scenario> {
    let mut guarded = scenario.clone();
    let resource = &mut guarded.workload.resource;
    let can = matches!(resource.kind, ResourceKind::Register | ResourceKind::Counter | ResourceKind::List);
    if !can || resource.fencing == Fencing::CompareAndSet {
        return None;
    }
    resource.fencing = Fencing::CompareAndSet;
    Some(guarded)
}

/// A row, and the number of runs without faults that it needed.
type Made = (Row, u64);

fn row<E: Send>(
    question: &Question,
    scenario: &Scenario,
    simulate: Simulate<E>,
    done: &(dyn Fn() -> bool + Sync),
) -> Result<Made, RiskError<E>> {
    let exposure = exposure::measure(scenario, question.threads, simulate, done)?;
    let runs_without_faults = exposure.seeds.len() as u64;
    let exposed = exposure.mean();
    let mut row = Row {
        ttl: scenario.ttl,
        updates_per_s: exposure.updates_per_s,
        exposed,
        lost: Interval::default(),
        incidents: Interval::default(),
        lost_without_faults: exposure.lost_per_s > 0.0,
        shortest: strikes::shortest_that_can_cost(scenario),
        parts: Vec::new(),
        unavailable_s: exposed * question.crashes_per_day * 365.25 * scenario.ttl.as_secs_f64(),
    };
    if row.lost_without_faults {
        row.lost = Interval { mean: exposure.lost_per_s, low: 0.0, high: f64::INFINITY };
        row.incidents = row.lost;
        return Ok((row, runs_without_faults));
    }
    let (mut lost, mut incidents) = (Drawn::nothing(), Drawn::nothing());
    for (kind, distribution) in &question.faults {
        let lengths = strikes::reaching(scenario, distribution, question.runs);
        let howmany = (question.runs, question.threads);
        let strikes = strikes::strike(scenario, *kind, &lengths, &exposure, howmany, simulate, done)?;
        let times: Vec<f64> = lengths.iter().map(|(_, times)| *times).collect();
        let how = (distribution.over.as_secs_f64(), distribution.is_measured(), scenario.seed);
        lost = lost.and(&drawn(&exposure, &strikes, &times, how, |strike| strike.lost as f64));
        incidents = incidents.and(&drawn(&exposure, &strikes, &times, how, |strike| f64::from(strike.lost > 0)));
        row.parts.push(part(scenario, (*kind, distribution), &exposure, &times, &strikes));
    }
    row.lost = lost.interval();
    row.incidents = incidents.interval();
    Ok((row, runs_without_faults))
}

fn part(
    scenario: &Scenario,
    (kind, distribution): (FaultCause, &Distribution),
    exposure: &Exposure,
    times: &[f64],
    strikes: &[Strike],
) -> Part {
    let members = if kind == FaultCause::ClockStep { f64::from(scenario.nodes) } else { 1.0 };
    let unseen = (times.is_empty() && distribution.is_measured())
        .then(|| exposure.mean() * members * at_most(0.0) / distribution.over.as_secs_f64());
    Part {
        kind,
        reaching: times.iter().sum(),
        runs: strikes.len() as u64,
        hits: strikes.iter().filter(|strike| strike.lost > 0).count() as u64,
        lost: strikes.iter().map(|strike| strike.lost).sum(),
        unseen,
    }
}
