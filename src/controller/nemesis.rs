//! Lets each planned fault come at its time and go at its time, and records what was ordered and what was seen.
//!
//! Faults of one series follow one another; several series run side by side. When the run stops, a fault in effect is
//! healed at once.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::{Run, RunError};
use crate::faults::{AgentError, Injection, Observation};
use crate::history::{Body, FaultStep, NemesisEvent};
use crate::plan::PlannedFault;
use crate::scenario::Target;

impl Run<'_> {
    /// Carries out one series of faults until the run stops.
    pub(super) async fn haunt(&self, series: usize, began: Instant) -> Result<(), RunError> {
        let mut stop = self.stop.subscribe();
        for fault in self.plan.faults.iter().filter(|fault| fault.series == series) {
            let at = began + Duration::from_millis(fault.at_ms);
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
                () = sleep_until(at) => {}
            }
            let lasts = Duration::from_millis(fault.lasts_ms);
            let member = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return self.skip(fault, "the run ended"),
                member = self.member(fault.target) => member,
                // Later than this it would run into the quiet time, or into the next fault.
                () = sleep_until(at + lasts) => {
                    self.skip(fault, "nobody came between its read and its write")?;
                    continue;
                }
            };
            self.inject(fault, &member).await?;
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => {}
                () = tokio::time::sleep(lasts) => {}
            }
            self.heal(fault, &member).await?;
        }
        Ok(())
    }

    /// The name of the member that a target means now.
    async fn member(&self, target: Target) -> String {
        match target {
            Target::Holder | Target::AnyClient => format!("c{}", self.board.fresh_holder().await),
            Target::Client(number) => format!("c{number}"),
            Target::AnyNode => "n0".to_string(),
            Target::Node(number) => format!("n{number}"),
        }
    }

    async fn inject(&self, fault: &PlannedFault, member: &str) -> Result<(), RunError> {
        self.record_fault(fault, member, FaultStep::Inject, false, String::new())?;
        let seen =
            self.cluster.agent.inject(fault.fault, &Injection::Pause { members: vec![member.to_string()] }).await;
        self.status.send_modify(|status| status.faults.push(format!("{member} paused")));
        self.record_seen(fault, member, FaultStep::Injected, seen)
    }

    async fn heal(&self, fault: &PlannedFault, member: &str) -> Result<(), RunError> {
        self.record_fault(fault, member, FaultStep::Heal, false, String::new())?;
        let seen = self.cluster.agent.heal(fault.fault).await;
        self.status.send_modify(|status| status.faults.retain(|text| !text.starts_with(&format!("{member} "))));
        self.record_seen(fault, member, FaultStep::Healed, seen)
    }

    /// Records what the agent saw; an order that it could not carry out was not observed.
    fn record_seen(
        &self,
        fault: &PlannedFault,
        member: &str,
        step: FaultStep,
        seen: Result<Observation, AgentError>,
    ) -> Result<(), RunError> {
        let (observed, text) = match seen {
            Ok(observation) => (observation.observed, observation.text),
            Err(error) => (false, error.to_string()),
        };
        info!(fault = fault.fault, member, ?step, observed, %text);
        self.record_fault(fault, member, step, observed, text)
    }

    fn skip(&self, fault: &PlannedFault, reason: &str) -> Result<(), RunError> {
        self.record_fault(fault, "", FaultStep::Skipped, false, reason.to_string())
    }

    fn record_fault(
        &self,
        fault: &PlannedFault,
        member: &str,
        step: FaultStep,
        observed: bool,
        text: String,
    ) -> Result<(), RunError> {
        let targets = if member.is_empty() { Vec::new() } else { vec![member.to_string()] };
        let event = NemesisEvent { fault: fault.fault, kind: fault.kind, step, targets, observed, text };
        self.recorder.append(Body::Nemesis(event))?;
        Ok(())
    }

    /// Undoes whatever is still in effect, whichever way the run ends. Does no harm where nothing is.
    pub(super) async fn heal_everything(&self) {
        match self.cluster.agent.heal_all().await {
            Ok(observations) => {
                for observation in observations.iter().filter(|observation| !observation.observed) {
                    warn!(text = observation.text, "a heal was not observed");
                }
            }
            // The agent heals by itself when it loses the controller.
            Err(error) => warn!(%error, "the agent could not be told to heal"),
        }
    }
}
