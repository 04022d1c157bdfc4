//! Makes one run or a series of runs: it decides how long a cluster lives, which runs share one, and how the user stops
//! everything.
//!
//! - [`Runner`]: makes a scenario's run, from its cluster to its report, and can keep the cluster for the next run
//! - `log`: a run's log, in its folder
//! - `installation`: the clients of published libraries, in the user's `cache`, made by an `installer` from `ingredients`
//! - `servers`: Redis servers from packages, installed beside the clients
//! - [`Checked`]: a history with everything derived from it; [`PendingReport`]: a run whose report is not written yet
//! - [`Series`]: the runs of a suite, in one or more parallel lanes; runs that can share a cluster follow each other in a lane
//! - [`worker`]: a process that makes such runs, and its protocol
//! - [`signals`]: Ctrl-C, SIGTERM, SIGHUP, and the end of the parent process
//!
//! Deliberately absent: flags, verdicts, exit codes, and any display ([`Console`], [`SeriesProgress`]).

mod artifacts;
mod cache;
mod checked;
mod events;
mod failures;
mod ingredients;
mod installation;
mod installer;
mod installer_error;
mod lane;
mod log;
pub mod open;
mod pace;
mod published;
mod queue;
mod remedies;
mod request;
mod run;
mod series;
mod servers;
pub mod signals;
pub mod simulate;
pub mod worker;

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use cache::clean_cache;
pub use checked::{Checked, PendingReport};
pub use installation::install;
pub use pace::{Jobs, MOST_JOBS};
pub use published::published;
pub use request::KeepCluster;
pub use run::{Place, RunSettings, Runner};
pub use series::{Ended, Outlook, Prepared, Series, SeriesProgress, prepare};
pub use servers::{InstalledServer, install_servers};

use base::interrupt::Interrupted;
use model::scenario::{Scenario, TRUST, quoted};
use system::controller::Status;

/// This program's own file, even if the file at its path was replaced.
pub const PROGRAM: &str = "/proc/self/exe";

/// Where runs report their progress.
#[derive(Clone, Copy)]
pub struct Console {
    /// Prints a line.
    pub say: fn(&str),
    /// Prints a line, unless the user wants no progress.
    pub progress: fn(&str),
    /// Shows the status of a run, until its sender is dropped.
    pub show: fn(watch::Receiver<Status>) -> JoinHandle<()>,
    /// Exits the program at once, with the code for a run that could not be made.
    pub leave: fn() -> !,
}

/// Why no run was made.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    #[error("{0}")]
    Request(String),
    #[error("{0}")]
    CouldNotRun(String),
}

impl From<Interrupted> for RunnerError {
    fn from(_: Interrupted) -> RunnerError {
        RunnerError::CouldNotRun("interrupted before the first operation; no report was written".to_string())
    }
}

impl RunnerError {
    pub fn request(error: impl ToString) -> RunnerError {
        RunnerError::Request(error.to_string())
    }

    pub fn could_not_run(error: impl ToString) -> RunnerError {
        RunnerError::CouldNotRun(error.to_string())
    }
}

/// The command that repeats the run in this folder from its saved scenario.
fn repeat_saved(folder: &str, scenario: &Scenario) -> String {
    let trust = if scenario.programs_of_others().is_empty() { String::new() } else { format!(" {TRUST}") };
    format!("redjepsen run --scenario {}{trust}", quoted(folder))
}
