//! Runs in virtual time that leave nothing behind but their histories, for those who make thousands.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::request::{ClusterRequest, KeepCluster, header};
use super::{Checked, RunnerError};
use base::interrupt::Interrupt;
use base::sync::lock;
use model::history::{self, History, Recorder};
use model::plan::Plan;
use model::scenario::Scenario;
use model::topology::InstalledClient;
use report::RunFacts;
use system::cluster::{BugInjector, ClusterSpec, Simulated, in_virtual_time};
use system::controller::{self, RunRequest, Status};

/// The name of a history that is in no file, for messages.
const IN_MEMORY: &str = "the simulated history";
const RUN_ID: &str = "simulated";

/// Whether runs of this scenario can be simulated. The error says what can't be, in the same words for every command.
pub fn can_be_simulated(scenario: &Scenario) -> Result<(), RunnerError> {
    // A client of its own is one, installed or not.
    let own = scenario.workload.client.as_ref().map(|_| InstalledClient::default());
    let request = ClusterRequest::of(scenario, own, KeepCluster::No)?;
    usual(scenario).check(&request.spec).map_err(RunnerError::request)
}

/// Makes a run of this scenario in virtual time and checks it. The scenario's own kind of cluster does not matter.
pub fn simulate(scenario: &Scenario) -> Result<Checked, RunnerError> {
    let cut_short = || RunnerError::could_not_run("a simulated run stopped early, although it was not interrupted");
    simulate_unless(&never(), usual(scenario), scenario)?.ok_or_else(cut_short)
}

/// The same on a cluster that draws by a seed of its own, or whose members are at another distance. None if the run was cut
/// short, since the user wants to stop: it shows nothing then.
pub fn simulate_unless(
    interrupt: &Interrupt,
    cluster: Simulated,
    scenario: &Scenario,
) -> Result<Option<Checked>, RunnerError> {
    let plan = Plan::draw(scenario).map_err(RunnerError::request)?;
    let history = history_of(&|| interrupt.clone(), scenario, &plan, cluster, None)?;
    history.map(|history| checked(&history, scenario)).transpose()
}

/// The same as [`simulate`], for a scenario that may have no end of its own: None if it takes longer than `limit` in virtual time.
pub fn simulate_within(limit: Duration, scenario: &Scenario) -> Result<Option<Checked>, RunnerError> {
    let plan = Plan::draw(scenario).map_err(RunnerError::request)?;
    let history = history_of(&|| never().or_after(limit), scenario, &plan, usual(scenario), None)?;
    history.map(|history| checked(&history, scenario)).transpose()
}

fn checked(history: &[u8], scenario: &Scenario) -> Result<Checked, RunnerError> {
    let history = history::load_reader(history, IN_MEMORY).map_err(RunnerError::could_not_run)?;
    Ok(Checked::new(history, Some(scenario.clone()), RunFacts::default()))
}

/// Makes a run of this scenario in virtual time. Returns its history as a file would have it: the same bytes for the same
/// scenario, always.
pub fn simulated_history(scenario: &Scenario) -> Result<Vec<u8>, RunnerError> {
    history_with(scenario, None)
}

/// The same, with `bugs` planted in the cluster.
fn history_with(scenario: &Scenario, bugs: Option<Arc<dyn BugInjector>>) -> Result<Vec<u8>, RunnerError> {
    let plan = Plan::draw(scenario).map_err(RunnerError::request)?;
    Ok(history_of(&never, scenario, &plan, usual(scenario), bugs)?.unwrap_or_default())
}

/// Makes a run of this scenario in virtual time, with a plan whose faults the caller has placed.
pub fn simulate_plan(scenario: &Scenario, plan: &Plan) -> Result<History, RunnerError> {
    let history = history_of(&never, scenario, plan, usual(scenario), None)?.unwrap_or_default();
    history::load_reader(&history[..], IN_MEMORY).map_err(RunnerError::could_not_run)
}

/// An interrupt that nobody raises.
fn never() -> Interrupt {
    Interrupt::new().1
}

/// A cluster that draws by the scenario's seed.
pub fn usual(scenario: &Scenario) -> Simulated {
    Simulated::new(scenario.seed)
}

/// None if it was cut short by an interrupt, which is made in the runtime of the run.
fn history_of(
    interrupt: &(dyn Fn() -> Interrupt + Sync),
    scenario: &Scenario,
    plan: &Plan,
    cluster: Simulated,
    bugs: Option<Arc<dyn BugInjector>>,
) -> Result<Option<Vec<u8>>, RunnerError> {
    let request = ClusterRequest::of(scenario, None, KeepCluster::No)?;
    let spec = ClusterSpec { run_id: RUN_ID.to_string(), ..request.spec };
    let memory = Memory::default();
    let recorded = memory.clone();
    let run = async || {
        let cluster = cluster.start_with(spec, bugs).await.map_err(RunnerError::could_not_run)?;
        let request = RunRequest {
            scenario,
            plan,
            header: header(scenario, plan, true),
            recorder: Recorder::to(recorded),
            presence: None,
            observe: false,
            // Who wants to stop drops the run: healing a simulated cluster helps nobody.
            interrupt: never(),
            status: watch::channel(Status::default()).0,
        };
        // A run that breaks off is not an error here: its history says so.
        let _ = controller::run(&cluster, request).await;
        Ok::<(), RunnerError>(())
    };
    let ended = in_virtual_time(async || interrupt().unless(run()).await).map_err(RunnerError::could_not_run)?;
    let Ok(ended) = ended else { return Ok(None) };
    ended?;
    let mut bytes = lock(&memory.0);
    Ok(Some(std::mem::take(&mut *bytes)))
}

#[cfg(test)]
mod tests;

/// A history that is being written.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
