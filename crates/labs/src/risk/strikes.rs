//! Runs with one fault, at a time at which it could cost an update. They show how many updates it costs.

use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::exposure::Exposure;
use super::{Distribution, FaultCause, RiskError, Simulate, work};
use base::units::{Length, nanos};
use model::history::FaultKind;
use model::nemesis::{Argument, ClockChange, Fault, LinkSelector, Target, TargetSpec, Targets};
use model::plan::{Plan, PlannedFault};
use model::scenario::Scenario;

/// How long a run continues after a fault, beside the holder's work time. Enough for the late write and the final read.
const AFTER: Duration = Duration::from_secs(1);
/// A lock may be gone this much earlier than its TTL: clients subtract drift and the time of the acquisition, and messages take
/// time.
const MARGIN: Duration = Duration::from_millis(100);
const MARGIN_OF_TTL: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strike {
    /// The index of the run without faults that it repeats up to the fault.
    pub run: usize,
    /// The index of its length among those that can cost an update.
    pub length: usize,
    /// How many such faults this one represents, given its time.
    pub weight: f64,
    /// The number of acknowledged updates that were lost.
    pub lost: u64,
}

struct Placed {
    run: usize,
    seed: u64,
    length: usize,
    weight: f64,
    at: u64,
    fault: Fault,
    lasts: Duration,
}

/// The shortest fault that can cost an update. After a shorter pause, the holder still has a valid lock when it writes.
pub fn shortest_that_can_cost(scenario: &Scenario) -> Duration {
    let (_, longest_hold) = scenario.hold.resolve(scenario.ttl).unwrap_or_default();
    scenario.ttl.saturating_sub(longest_hold + MARGIN + scenario.ttl.mul_f64(MARGIN_OF_TTL))
}

/// The lengths of a distribution that can cost an update, at most `most` of them. If there are more, a sample in even steps,
/// each representing several.
pub fn reaching(scenario: &Scenario, distribution: &Distribution, most: usize) -> Vec<(Duration, f64)> {
    let shortest = shortest_that_can_cost(scenario);
    let all: Vec<_> = distribution.lengths.iter().filter(|(length, _)| *length >= shortest).copied().collect();
    if all.len() <= most {
        return all;
    }
    let chosen = |number: usize| all[(number * all.len() + all.len() / 2) / most];
    let times: f64 = (0..most).map(|number| chosen(number).1).sum();
    let whole: f64 = all.iter().map(|(_, times)| times).sum();
    (0..most).map(|number| (chosen(number).0, chosen(number).1 * whole / times)).collect()
}

/// Makes `count` runs, spread evenly over the lengths, each at a moment drawn from the exposed times.
pub fn strike<E: Send>(
    scenario: &Scenario,
    kind: FaultCause,
    lengths: &[(Duration, f64)],
    exposure: &Exposure,
    (count, threads): (usize, usize),
    simulate: Simulate<E>,
    done: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Strike>, RiskError<E>> {
    if lengths.is_empty() {
        return Ok(Vec::new());
    }
    let mut rng = ChaCha8Rng::seed_from_u64(scenario.seed);
    rng.set_stream(u64::MAX - kind as u64);
    let mut order: Vec<usize> = (0..count.max(lengths.len())).map(|number| number % lengths.len()).collect();
    order.shuffle(&mut rng);
    let placed: Vec<Placed> = order
        .into_iter()
        .map(|length| place(&mut rng, scenario, kind, (length, lengths[length].0), exposure))
        .collect();
    work::all(&placed, threads, done, |placed| {
        let lost = lost(scenario, placed, simulate)?;
        Ok(Strike { run: placed.run, length: placed.length, weight: placed.weight, lost })
    })
}

/// Draws a time for a fault of this length from the exposed times.
fn place(
    rng: &mut impl Rng,
    scenario: &Scenario,
    kind: FaultCause,
    (length, lasts): (usize, Duration),
    exposure: &Exposure,
) -> Placed {
    let whole: u64 = exposure.times.iter().map(|time| time.to - time.from).sum();
    let mut left = rng.random_range(0..whole.max(1));
    let mut drawn = exposure.times[0];
    for time in &exposure.times {
        drawn = *time;
        if left < time.to - time.from {
            break;
        }
        left -= time.to - time.from;
    }
    let at = drawn.from + left.min(drawn.to - drawn.from);
    let (fault, weight) = match kind {
        FaultCause::Pause => (Fault::on(FaultKind::Pause, Targets::one(Target::Client(drawn.client))), 1.0),
        FaultCause::Delay => (unreachable_resource(drawn.client), 1.0),
        // A clock step hits every holder at once. If several clients are exposed at a time, that time is drawn too often by
        // this factor.
        FaultCause::ClockStep => {
            let node = rng.random_range(0..scenario.nodes.max(1));
            let clock = clock_step(node, lasts);
            let exposed = exposure.at(drawn.run, at).max(1) as f64;
            (clock, f64::from(scenario.nodes) / exposed)
        }
    };
    Placed { run: drawn.run, seed: exposure.seeds[drawn.run], length, weight, at, fault, lasts }
}

/// A fault that stops all messages between a client and the resource.
fn unreachable_resource(client: u32) -> Fault {
    let (one, other) = (Targets::one(Target::Client(client)), Targets::one(Target::Resource));
    let whom = TargetSpec::Links(vec![LinkSelector::both_ways(one, other)]);
    Fault { kind: FaultKind::Partition, whom, with: Argument::None }
}

/// A fault that moves the wall clock of a node ahead by this much.
fn clock_step(node: u32, ahead: Duration) -> Fault {
    let with = Argument::Clock(ClockChange::Ahead(Length::Absolute(ahead)));
    Fault { with, ..Fault::on(FaultKind::Clock, Targets::one(Target::Node(node))) }
}

/// The number of acknowledged updates that a run with this fault loses.
fn lost<E>(scenario: &Scenario, placed: &Placed, simulate: Simulate<E>) -> Result<u64, RiskError<E>> {
    let (_, longest_hold) = scenario.hold.resolve(scenario.ttl).unwrap_or_default();
    let settles = longest_hold + AFTER;
    let lasts = match placed.fault.kind {
        // The lock is gone at once, and the holder goes on.
        FaultKind::Clock => settles,
        // Delayed data is sent again at doubling intervals. The last interval may be as long as the fault itself.
        FaultKind::Partition => placed.lasts * 2,
        _ => placed.lasts,
    };
    let at = Duration::from_nanos(placed.at);
    let scenario = Scenario { seed: placed.seed, time_limit: at + lasts + settles, ..scenario.clone() };
    let mut plan = Plan::draw(&scenario)?;
    plan.faults = vec![PlannedFault {
        fault: 0,
        what: placed.fault.clone(),
        key: None,
        at_ms: nanos(at) / 1_000_000,
        lasts_ms: millis(if placed.fault.kind == FaultKind::Partition { placed.lasts } else { lasts }),
        series: 0,
    }];
    let history = simulate(&scenario, &plan).map_err(RiskError::Run)?;
    Ok(checker::check(&history).lost_updates.count)
}

/// The length in whole milliseconds, at least one.
fn millis(duration: Duration) -> u64 {
    base::units::millis(duration).max(1)
}
