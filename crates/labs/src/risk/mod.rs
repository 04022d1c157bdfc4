//! Estimates how many updates a lock loses per year, given how often its clients pause and for how long.
//!
//! Such losses are rare: most runs would show none. So runs are not left to chance. Pauses are independent of what clients do,
//! so a pause is equally likely at any time. See Wolff, 1982, "Poisson arrivals see time averages", Operations Research 30,
//! 223-231.
//!
//! The expected cost of a pause of length `d` is a product. The first factor is the share of the time in which the pause can
//! cost any update. The second is its mean cost if it begins then. The losses per year are the sum over all pauses of a year.
//! The first factor comes from simulated runs without faults. The second comes from the same runs with one pause, at a time
//! drawn from that share. This is importance sampling with exactly known weights, since a simulated run repeats up to the
//! pause. Pauses that end while the lock is still valid cost nothing and are not simulated.
//!
//! - [`distribution`]: measured lengths from a file, and built-in profiles
//! - `exposure`: runs without faults, which show when a pause could cost an update
//! - `strikes`: runs with one fault at such a time
//! - `interval`: the uncertainty of the estimates
//!
//! If losses are frequent enough, plain runs give the same result: see the test in tests/offline/simulated/risk.rs.
//!
//! Not included: two faults at once, which are rarer still, and lengths beyond the longest measured one. The caller decides how
//! runs are made.

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

/// Seconds per year.
pub const YEAR: f64 = 365.25 * 24.0 * 3600.0;

/// An event that happens to a member at a random time, independent of what clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCause {
    Pause,
    /// No messages pass between a client and the resource.
    Delay,
    /// The wall clock of a node jumps ahead.
    ClockStep,
}

impl FaultCause {
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
    /// The same workload with each TTL, without a nemesis.
    pub scenarios: Vec<Scenario>,
    /// The index of the scenario that the answer is about.
    pub asked: usize,
    /// The events that may happen to members, and their frequency.
    pub faults: Vec<(FaultCause, Distribution)>,
    /// The number of runs with a fault, for each TTL and kind.
    pub runs: usize,
    pub crashes_per_day: f64,
    /// The number of runs at the same time.
    pub threads: usize,
}

impl Question {
    /// The number of runs that the answer needs, unless updates are lost without any fault.
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

/// Makes a run of this plan in virtual time. The same arguments give the same history.
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
