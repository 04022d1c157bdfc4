//! Runs in virtual time that leave nothing behind but their histories, for those who make thousands.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::run::{ClusterRequest, header};
use super::{Checked, KeepCluster, RunnerError};
use crate::cluster::{Between, ClusterSpec, Simulated, in_virtual_time};
use crate::controller::{self, Request, Status};
use crate::history::{self, History, Recorder};
use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::report::RunFacts;
use crate::scenario::Scenario;

/// The name of a history that is in no file, for messages.
const IN_MEMORY: &str = "the simulated history";
const RUN_ID: &str = "simulated";

/// Makes a run of this scenario in virtual time and checks it. The scenario's own kind of cluster does not matter.
pub fn simulate(scenario: &Scenario) -> Result<Checked, RunnerError> {
    simulate_on(usual(scenario), scenario)
}

/// The same on a cluster that draws by a seed of its own, or whose members are at another distance.
pub fn simulate_on(cluster: Simulated, scenario: &Scenario) -> Result<Checked, RunnerError> {
    let plan = Plan::draw(scenario).map_err(RunnerError::request)?;
    let history = history_of(scenario, &plan, cluster, None)?;
    let history = history::load_reader(&history[..], IN_MEMORY).map_err(RunnerError::could_not_run)?;
    Ok(Checked::new(history, Some(scenario.clone()), RunFacts::default()))
}

/// Makes a run of this scenario in virtual time. Returns its history as a file would have it: the same bytes for the same
/// scenario, always.
pub fn simulated_history(scenario: &Scenario) -> Result<Vec<u8>, RunnerError> {
    history_with(scenario, None)
}

/// The same, with something between the cluster's parts.
fn history_with(scenario: &Scenario, between: Option<Arc<dyn Between>>) -> Result<Vec<u8>, RunnerError> {
    let plan = Plan::draw(scenario).map_err(RunnerError::request)?;
    history_of(scenario, &plan, usual(scenario), between)
}

/// Makes a run of this scenario in virtual time, with a plan whose faults somebody else has placed.
pub fn simulate_plan(scenario: &Scenario, plan: &Plan) -> Result<History, RunnerError> {
    history::load_reader(&history_of(scenario, plan, usual(scenario), None)?[..], IN_MEMORY)
        .map_err(RunnerError::could_not_run)
}

fn usual(scenario: &Scenario) -> Simulated {
    Simulated::new(scenario.seed)
}

fn history_of(
    scenario: &Scenario,
    plan: &Plan,
    cluster: Simulated,
    between: Option<Arc<dyn Between>>,
) -> Result<Vec<u8>, RunnerError> {
    let request = ClusterRequest::of(scenario, None, KeepCluster::No)?;
    let spec = ClusterSpec { run_id: RUN_ID.to_string(), ..request.spec };
    let memory = Memory::default();
    let recorded = memory.clone();
    let run = async || {
        let cluster = cluster.start_with(spec, between).await.map_err(RunnerError::could_not_run)?;
        let request = Request {
            scenario,
            plan,
            header: header(scenario, plan, true),
            recorder: Recorder::to(recorded),
            presence: None,
            // Nobody raises it: such a run is over before anybody could.
            interrupt: Interrupt::new().1,
            status: watch::channel(Status::default()).0,
        };
        // A run that breaks off is not an error here: its history says so.
        let _ = controller::run(&cluster, request).await;
        Ok::<(), RunnerError>(())
    };
    in_virtual_time(run).map_err(RunnerError::could_not_run)??;
    let mut bytes = memory.0.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut *bytes))
}

#[cfg(test)]
mod tests;

/// A history that is being written.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
