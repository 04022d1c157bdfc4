//! Members that did not run although their machine did. The agent notes them while clients work; then they go into the history.

use tracing::warn;

use super::{Run, RunError};
use crate::faults::{AgentError, Waited};
use model::history::{Body, ClockBound};

impl Run<'_> {
    /// Makes the agent watch from now on. If the agent can't watch, a missed deadline counts against the lock.
    pub(super) async fn begin_to_watch(&self) {
        if let Err(error) = self.cluster.watch(self.least_stall()).await {
            warn!(%error, "redjepsen cannot record how long processes wait for a processor, so each missed deadline counts \
            against the lock");
        }
    }

    /// Writes the agent's notes into the history, and ends the watch, because the agent has a connection to each server.
    pub(super) async fn write_waits(&self) -> Result<(), RunError> {
        let (noted, clock) = match self.noted().await {
            Ok(noted) => noted,
            Err(error) => {
                warn!(%error, "redjepsen does not know how long processes waited for a processor, so each missed deadline \
                counts against the lock");
                return Ok(());
            }
        };
        let start = u64::try_from(clock.mono_at_start_ns).unwrap_or_default();
        for Waited { members, why, from_ns, to_ns, waited_ns } in noted {
            let members = members.iter().flat_map(|member| self.as_recorded(member)).collect();
            let (from_ns, to_ns) = (from_ns.saturating_sub(start), to_ns.saturating_sub(start));
            self.recorder.append(Body::Waited(Waited { members, why, from_ns, to_ns, waited_ns }))?;
        }
        Ok(())
    }

    /// The agent's notes, by its clock.
    async fn noted(&self) -> Result<(Vec<Waited>, ClockBound), AgentError> {
        let noted = self.cluster.waits().await?;
        Ok((noted, self.cluster.agent.clock_bound(self.recorder.start()).await?))
    }
}
