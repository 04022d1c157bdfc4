//! How often a lock loses updates: from how often its clients stand still, and for how long, to updates lost a year.
//!
//! Such losses are rare: most runs would show none. So runs are not left to chance. Pauses are independent of what clients do,
//! so they come at any moment alike (arrivals of a Poisson process see time averages: Wolff, 1982, "Poisson arrivals see
//! time averages", Operations Research 30, 223-231). For one that lasts `d`, the updates that it costs are
//! the part of the time in which it can cost any, times the mean that it costs if it begins then, and a year's losses are the sum of this over the pauses of a year. The first factor comes from simulated runs without
//! faults, the second from the same runs with one pause at a moment drawn from that part: importance sampling, with weights
//! that are known exactly, since a simulated run repeats up to the pause. Pauses that end while the lock is still valid cost
//! nothing, and are not simulated.
//!
//! - [`distribution`]: measured lengths from a file, and profiles that come with the program
//! - `exposure`: runs without faults: when a pause could cost something
//! - `strikes`: runs with one fault in such a moment
//! - `interval`: what the numbers of runs and of measured lengths allow to be said
//!
//! That this comes to the same as counting in plain runs, where losses are frequent enough, is a test in
//! tests/offline/simulated/risk.rs.
//!
//! What is left out: two faults at once, which are rarer still; and lengths beyond the longest measured one, about which a
//! measurement says nothing. How runs are made is the caller's business.

pub mod distribution;
mod exposure;
mod interval;
pub mod page;
mod strikes;
mod table;
mod work;

use model::history::History;
use model::plan::{Plan, PlanError};
use model::scenario::Scenario;

pub use distribution::{Distribution, DistributionError};
pub use interval::Interval;
pub use table::{Guarded, Part, Risk, Row, assess};

/// Seconds of a year.
pub const YEAR: f64 = 365.25 * 24.0 * 3600.0;

/// What comes over a member at a moment that has nothing to do with what clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCause {
    /// A client stands still.
    Pause,
    /// Nothing passes between a client and the resource.
    Delay,
    /// The wall clock of a node jumps ahead.
    ClockStep,
}

impl FaultCause {
    /// Several of it, in a sentence.
    pub fn plural(self) -> &'static str {
        match self {
            FaultCause::Pause => "pauses",
            FaultCause::Delay => "delays",
            FaultCause::ClockStep => "clock steps",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Question {
    /// The same workload with one TTL after the other, without a nemesis.
    pub scenarios: Vec<Scenario>,
    /// Which of them the answer is about.
    pub asked: usize,
    /// What may come over members, and how often.
    pub faults: Vec<(FaultCause, Distribution)>,
    /// How many runs with a fault to make for each TTL and kind.
    pub runs: usize,
    /// How often each client dies, a day.
    pub crashes_per_day: f64,
    /// How many runs to make at the same time.
    pub threads: usize,
}

impl Question {
    /// How many runs the answer takes, unless updates are lost without any fault.
    pub fn planned_runs(&self) -> u64 {
        let of = |scenario: &Scenario| {
            let reach = |(_, distribution): &&(FaultCause, Distribution)| {
                !strikes::reaching(scenario, distribution, self.runs).is_empty()
            };
            exposure::RUNS + self.faults.iter().filter(reach).count() as u64 * self.runs as u64
        };
        let guarded = self.scenarios.get(self.asked).filter(|scenario| table::with_guard(scenario).is_some());
        self.scenarios.iter().chain(guarded).map(of).sum()
    }
}

/// Makes a run of this plan in virtual time. Same arguments, same history.
pub type Simulate<'a, E> = &'a (dyn Fn(&Scenario, &Plan) -> Result<History, E> + Sync);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RiskError<E> {
    #[error("a simulated run: {0}")]
    Run(E),
    #[error("{0}")]
    Plan(#[from] PlanError),
    #[error(
        "with a TTL of {ttl} no operation reached its write in the runs without faults; lower --rate or --hold, or raise \
         --acquire-timeout"
    )]
    Idle { ttl: String },
    #[error("interrupted")]
    Interrupted,
}
