//! Records the commands that the lock's nodes carry out, beside the history. Verdicts do not use them; all diagnoses do.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tracing::warn;

use super::{Run, RunError};
use crate::faults::SeenCommand;
use base::files;
use model::history::{ClockBound, RecordedCommand};

impl Run<'_> {
    /// Makes the lock's nodes report every command from now on, if the run records commands.
    pub(super) async fn begin_to_record_commands(&self) -> Result<(), RunError> {
        match self.cluster.record_commands(self.scenario.record_commands == Some(true)).await {
            Err(error) if self.scenario.record_commands == Some(true) => Err(error.into()),
            Err(error) => {
                warn!(%error, "not every node reports its commands");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Writes the nodes' commands into the run's folder, ordered by time. A run in memory alone has no folder.
    pub(super) async fn write_commands(&self, clock: ClockBound) -> Result<(), RunError> {
        if !self.records_commands() || self.folder.as_os_str().is_empty() {
            return Ok(());
        }
        let names: BTreeMap<IpAddr, &str> = self
            .cluster
            .members()
            .filter_map(|member| Some((IpAddr::V4(member.address?), member.name.as_str())))
            .collect();
        let start = u64::try_from(clock.mono_at_start_ns).unwrap_or_default();
        // Each node's commands keep their order, even where its clock went back.
        let mut latest: BTreeMap<String, u64> = BTreeMap::new();
        let mut is_of_a_member = false;
        let mut commands: Vec<RecordedCommand> = Vec::new();
        let recorded = match self.cluster.recorded_commands().await {
            Err(error) if self.scenario.record_commands != Some(true) => {
                warn!(%error, "the commands of the nodes are unknown");
                return Ok(());
            }
            recorded => recorded?,
        };
        for (node, seen) in recorded {
            let SeenCommand { mono_ns, from, words, missed } = seen;
            let member = from.and_then(|from| names.get(&from.ip()));
            if missed.is_none() {
                is_of_a_member = if from.is_some() { member.is_some() } else { is_of_a_member };
                if !is_of_a_member {
                    continue;
                }
            }
            let words = words.into_iter().map(|word| self.cluster.as_in_the_history(word)).collect();
            let latest = latest.entry(node.clone()).or_default();
            *latest = mono_ns.saturating_sub(start).max(*latest);
            commands.push(RecordedCommand {
                time: *latest,
                node,
                from: member.map(|name| (*name).to_string()),
                port: from.map(|from| from.port()),
                in_script: from.is_none() && missed.is_none(),
                words,
                missed,
            });
        }
        commands.sort_by_key(|command| command.time);
        if commands.is_empty() {
            return Ok(());
        }
        let lines = commands.iter().map(|command| serde_json::to_string(command).unwrap_or_default() + "\n");
        files::write(&self.folder.join(RecordedCommand::FILE), lines.collect::<String>())?;
        Ok(())
    }

    /// True if commands are recorded: as the scenario says, or else as the caller's default for this run.
    pub(super) fn records_commands(&self) -> bool {
        self.scenario.record_commands.unwrap_or(self.record_commands)
    }
}
