//! What the lock's nodes were sent, for runs that are made to see what a library sends.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Run, RunError};
use crate::cluster::Member;
use base::files;
use base::members::Role;
use model::history::{ClockBound, RecordedCommand};

/// A server that answers at all answers this at once.
const LIMIT: Duration = Duration::from_secs(2);

impl Run<'_> {
    /// Has the lock's nodes tell every command from now on, if the scenario wants that.
    pub(super) async fn begin_to_record_commands(&self) -> Result<(), RunError> {
        for (_, url) in self.recorded_nodes() {
            self.cluster.agent.monitor(&url, LIMIT).await?;
        }
        Ok(())
    }

    /// Writes what they told into the run's folder, in the order of time.
    pub(super) async fn write_commands(&self, clock: ClockBound) -> Result<(), RunError> {
        if !self.scenario.record_commands {
            return Ok(());
        }
        let address = |member: &Member| Some((member.address?, member.name.clone()));
        let names: BTreeMap<_, _> = self.cluster.members().filter_map(address).collect();
        let mut commands = Vec::new();
        for (node, url) in self.recorded_nodes() {
            commands.extend(self.cluster.agent.monitored(&url).await?.into_iter().map(|seen| RecordedCommand {
                time: u64::try_from(seen.mono_ns.saturating_sub(clock.mono_at_start_ns)).unwrap_or_default(),
                node: node.clone(),
                from: seen.from.and_then(|address| names.get(&address).cloned()),
                in_script: seen.in_script,
                words: seen.words,
            }));
        }
        commands.sort_by_key(|command| command.time);
        let lines = commands.iter().map(|command| serde_json::to_string(command).unwrap_or_default() + "\n");
        files::write(&self.folder.join(RecordedCommand::FILE), lines.collect::<String>())?;
        Ok(())
    }

    fn recorded_nodes(&self) -> Vec<(String, String)> {
        let nodes = self.cluster.members().filter(|member| self.scenario.record_commands && member.role == Role::Node);
        nodes.filter_map(|node| Some((node.name.clone(), node.url()?))).collect()
    }
}
