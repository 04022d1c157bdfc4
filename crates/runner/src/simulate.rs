//! Simulated runs that leave only their histories, for callers that make thousands.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::request::{cluster_spec, header};
use super::{Checked, RunnerError};
use base::interrupt::Interrupt;
use base::sync::lock;
use model::history::{self, History, Recorder};
use model::plan::Plan;
use model::scenario::Scenario;
use model::topology::InstalledClient;
use report::RunFacts;
use system::cluster::{BugInjector, ClusterError, ClusterSpec, Simulated, in_virtual_time};
use system::controller::{self, RunRequest, Status};

/// The name of a history in memory, for messages.
const IN_MEMORY: &str = "the simulated history";
const RUN_ID: &str = "simulated";

/// Checks that runs of this scenario can be simulated. The error names the obstacle, in the same words for every command.
pub fn can_be_simulated(scenario: &Scenario) -> Result<(), RunnerError> {
    if let Some(name) = scenario.nemesis.hooks_in_use().next() {
        return Err(RunnerError::request(format!("`hook {name}` disturbs real servers, so it cannot be simulated")));
    }
    // A client of its own counts, installed or not.
    let own = scenario.workload.client.as_ref().map(|_| InstalledClient::default());
    usual(scenario).check(&cluster_spec(scenario, own)?).map_err(RunnerError::request)
}

/// Refuses a scenario whose servers are known to lack a command of its lock, before one is started.
pub(super) fn can_have_its_lock(scenario: &Scenario) -> Result<(), RunnerError> {
    match usual(scenario).check(&cluster_spec(scenario, None)?) {
        Err(lacks @ ClusterError::NoIfeq { .. }) => Err(RunnerError::could_not_run(lacks)),
        _ => Ok(()),
    }
}

/// Simulates a run of this scenario and checks it. The scenario's own kind of cluster does not matter.
pub fn simulate(scenario: &Scenario) -> Result<Checked, RunnerError> {
    let cut_short = || RunnerError::could_not_run("a simulated run stopped early, although it was not interrupted");
    simulate_unless(&never(), usual(scenario), scenario)?.ok_or_else(cut_short)
}

/// Like [`simulate`], on a cluster with its own seed or distance. None if the user interrupted the run, which then shows
/// nothing.
pub fn simulate_unless(
    interrupt: &Interrupt,
    cluster: Simulated,
    scenario: &Scenario,
) -> Result<Option<Checked>, RunnerError> {
    let plan = Plan::draw(scenario).map_err(RunnerError::request)?;
    let history = history_of(&|| interrupt.clone(), scenario, &plan, cluster, None)?;
    history.map(|history| checked(&history, scenario)).transpose()
}

/// Like [`simulate`], for a scenario that may never end. None if it takes longer than `limit` in virtual time.
pub fn simulate_within(limit: Duration, scenario: &Scenario) -> Result<Option<Checked>, RunnerError> {
    let plan = Plan::draw(scenario).map_err(RunnerError::request)?;
    let history = history_of(&|| never().or_after(limit), scenario, &plan, usual(scenario), None)?;
    history.map(|history| checked(&history, scenario)).transpose()
}

fn checked(history: &[u8], scenario: &Scenario) -> Result<Checked, RunnerError> {
    let history = history::load_reader(history, IN_MEMORY).map_err(RunnerError::could_not_run)?;
    Ok(Checked::new(history, Some(scenario.clone()), RunFacts::default()))
}

/// Simulates a run of this scenario. Returns its history in the form of a file: always the same bytes for the same scenario.
pub fn simulated_history(scenario: &Scenario) -> Result<Vec<u8>, RunnerError> {
    history_with(scenario, None)
}

/// Like [`simulated_history`], with `bugs` planted in the cluster.
fn history_with(scenario: &Scenario, bugs: Option<Arc<dyn BugInjector>>) -> Result<Vec<u8>, RunnerError> {
    let plan = Plan::draw(scenario).map_err(RunnerError::request)?;
    Ok(history_of(&never, scenario, &plan, usual(scenario), bugs)?.unwrap_or_default())
}

/// Simulates a run of this scenario, with a plan whose faults the caller has placed.
pub fn simulate_plan(scenario: &Scenario, plan: &Plan) -> Result<History, RunnerError> {
    let history = history_of(&never, scenario, plan, usual(scenario), None)?.unwrap_or_default();
    history::load_reader(&history[..], IN_MEMORY).map_err(RunnerError::could_not_run)
}

fn never() -> Interrupt {
    Interrupt::new().1
}

/// A cluster with the scenario's seed.
pub fn usual(scenario: &Scenario) -> Simulated {
    Simulated::new(scenario.seed)
}

/// The history. None if an interrupt ended the run. The interrupt is created in the run's runtime.
fn history_of(
    interrupt: &(dyn Fn() -> Interrupt + Sync),
    scenario: &Scenario,
    plan: &Plan,
    cluster: Simulated,
    bugs: Option<Arc<dyn BugInjector>>,
) -> Result<Option<Vec<u8>>, RunnerError> {
    let spec = ClusterSpec { run_id: RUN_ID.to_string(), ..cluster_spec(scenario, None)? };
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
            // An interrupted run is dropped: a simulated cluster needs no healing.
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
