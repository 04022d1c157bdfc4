//! The same count the plain way: runs in which pauses come as they come. It takes a distribution so harsh that runs of some
//! minutes show losses, and is there to check the other way.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::exposure::window;
use super::interval::{Interval, exponential};
use super::strikes::{clock_step, millis, unreachable_resource};
use super::{Distribution, Kind, RiskError, Simulate, work};
use crate::checker;
use crate::history::FaultKind;
use crate::nemesis::{Fault, Target, Targets};
use crate::plan::{Plan, PlannedFault};
use crate::scenario::Scenario;
use crate::units::nanos;

/// How often everything is drawn again for the interval.
const DRAWS: usize = 2000;

/// Lost updates a second, from so many runs of the scenario's time limit.
pub fn count<E: Send>(
    scenario: &Scenario,
    (kind, distribution): (Kind, &Distribution),
    (runs, threads): (u64, usize),
    simulate: Simulate<E>,
    done: &(dyn Fn() -> bool + Sync),
) -> Result<Interval, RiskError<E>> {
    let seeds: Vec<u64> = (0..runs).map(|number| scenario.seed.wrapping_add(number)).collect();
    let (from, _) = window(scenario);
    let seconds = scenario.time_limit.saturating_sub(from).as_secs_f64();
    let lost = work::all(&seeds, threads, done, |seed| {
        let scenario = Scenario { seed: *seed, ..scenario.clone() };
        let mut plan = Plan::draw(&scenario)?;
        plan.faults = faults(&scenario, kind, distribution, from);
        let history = simulate(&scenario, &plan).map_err(RiskError::Run)?;
        Ok(checker::check(&history).lost_updates.count as f64 / seconds)
    })?;
    let mut rng = ChaCha8Rng::seed_from_u64(scenario.seed);
    let drawn = (0..DRAWS).map(|_| {
        let weights: Vec<f64> = lost.iter().map(|_| exponential(&mut rng)).collect();
        lost.iter().zip(&weights).map(|(lost, weight)| lost * weight).sum::<f64>() / weights.iter().sum::<f64>()
    });
    let drawn = drawn.collect();
    Ok(Interval::of(lost.iter().sum::<f64>() / lost.len().max(1) as f64, drawn))
}

/// For each member, faults at the times of a Poisson process. One that would begin before the last is over begins then.
fn faults(scenario: &Scenario, kind: Kind, distribution: &Distribution, from: Duration) -> Vec<PlannedFault> {
    let every = distribution.over.as_secs_f64() / distribution.count().max(f64::MIN_POSITIVE);
    let members = if kind == Kind::ClockStep { scenario.nodes } else { scenario.clients };
    let mut rng = ChaCha8Rng::seed_from_u64(scenario.seed);
    rng.set_stream(u64::MAX);
    let mut faults = Vec::new();
    for member in 0..members {
        let mut at = from.as_secs_f64() + every * exponential(&mut rng);
        while at < scenario.time_limit.as_secs_f64() {
            let length = drawn_length(distribution, rng.random::<f64>());
            let (what, lasts) = match kind {
                Kind::Pause => (Fault::on(FaultKind::Pause, Targets::one(Target::Client(member))), length),
                Kind::Delay => (unreachable_resource(member), length),
                Kind::ClockStep => (clock_step(member, length), Duration::from_secs(1)),
            };
            let at_ms = nanos(Duration::from_secs_f64(at)) / 1_000_000;
            let series = member as usize;
            faults.push(PlannedFault { fault: 0, what, key: None, at_ms, lasts_ms: millis(lasts), series });
            at += (every * exponential(&mut rng)).max(lasts.as_secs_f64() + 0.01);
        }
    }
    faults.sort_by_key(|fault| (fault.at_ms, fault.series));
    for (number, fault) in (0..).zip(&mut faults) {
        fault.fault = number;
    }
    faults
}

/// The length at this share of all, from 0 to 1.
fn drawn_length(distribution: &Distribution, share: f64) -> Duration {
    let mut left = share * distribution.count();
    for (length, times) in &distribution.lengths {
        if left < *times {
            return *length;
        }
        left -= times;
    }
    distribution.longest()
}
