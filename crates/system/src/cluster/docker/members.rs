//! Operations on a member's container.

use std::time::Duration;

use async_trait::async_trait;
use bollard::container::{AttachContainerResults, LogOutput};
use bollard::models::ContainerSummaryStateEnum;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, KillContainerOptions, ListContainersOptionsBuilder, LogsOptionsBuilder,
    StartContainerOptions, WaitContainerOptions,
};
use futures_util::StreamExt;

use super::LABEL_RUN;
use super::ask::{ENGINE_LIMIT, ask, ask_within, in_words, label_filters};
use super::engine::Docker;
use crate::cluster::backend::Backend;
use crate::cluster::error::ClusterError;
use crate::cluster::lines::{ClientProcess, Log, Piece, follow};
use crate::cluster::spec::{Member, MemberState};
use model::topology::NamedServer;

#[async_trait]
impl Backend for Docker {
    async fn start_attached(&self, member: &Member, log: &Log) -> Result<ClientProcess, ClusterError> {
        let options = AttachContainerOptionsBuilder::new().stream(true).stdin(true).stdout(true).stderr(true).build();
        let attached = self.api.attach_container(member.container_id(), Some(options));
        let AttachContainerResults { output, input } = ask(format!("attach to {}", member.name), attached).await?;
        let pieces = output.filter_map(async |piece| match piece {
            Ok(LogOutput::StdOut { message } | LogOutput::Console { message }) => Some(Ok(Piece::Stdout(message))),
            Ok(LogOutput::StdErr { message }) => Some(Ok(Piece::Stderr(message))),
            Ok(LogOutput::StdIn { .. }) => None,
            Err(error) => Some(Err(in_words(&error).0)),
        });
        let process = follow(input, Box::pin(pieces), log.clone());
        self.start_server(member, None).await?;
        Ok(process)
    }

    async fn start_server(&self, member: &Member, program: Option<&NamedServer>) -> Result<(), ClusterError> {
        if let Some(server) = program {
            return Err(ClusterError::NoUpgrade { server: server.to_string() });
        }
        let start = self.api.start_container(member.container_id(), None::<StartContainerOptions>);
        ask(format!("start {}", member.name), start).await
    }

    async fn kill(&self, member: &Member) -> Result<(), ClusterError> {
        let kill = self.api.kill_container(member.container_id(), None::<KillContainerOptions>);
        match ask(format!("kill {}", member.name), kill).await {
            // The container had already ended.
            Err(error) if error.is_conflict() => {}
            other => other?,
        }
        self.wait_for_end(member, ENGINE_LIMIT).await
    }

    async fn wait_for_end(&self, member: &Member, limit: Duration) -> Result<(), ClusterError> {
        let mut end = self.api.wait_container(member.container_id(), None::<WaitContainerOptions>);
        let ended = async {
            match end.next().await {
                // bollard reports every exit code but 0 as an error.
                None | Some(Ok(_) | Err(bollard::errors::Error::DockerContainerWaitError { .. })) => Ok(()),
                Some(Err(error)) => Err(error),
            }
        };
        ask_within(limit, format!("wait until {} has exited", member.name), ended).await
    }

    async fn running_pid(&self, member: &Member) -> Result<Result<u32, String>, ClusterError> {
        let found =
            ask(format!("look at {}", member.name), self.api.inspect_container(member.container_id(), None)).await?;
        let state = found.state.unwrap_or_default();
        Ok(match state.pid.and_then(|pid| u32::try_from(pid).ok()) {
            Some(pid) if pid > 0 && state.running == Some(true) => Ok(pid),
            _ => Err(state
                .exit_code
                .map_or_else(|| "for an unknown reason".to_string(), |code| format!("exit code {code}"))),
        })
    }

    async fn states(&self, run_id: &str, members: Vec<&Member>) -> Result<Vec<MemberState>, ClusterError> {
        let filters = label_filters(vec![format!("{LABEL_RUN}={run_id}")]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let found = ask("list the run's containers", self.api.list_containers(Some(options))).await?;
        let state_of = |member: &Member| {
            let container = found.iter().find(|found| found.id == member.container);
            let state = container.and_then(|container| container.state);
            MemberState {
                name: member.name.clone(),
                role: member.role,
                running: state == Some(ContainerSummaryStateEnum::RUNNING),
                text: container.and_then(|found| found.status.clone()).unwrap_or_else(|| "removed".to_string()),
            }
        };
        Ok(members.into_iter().map(state_of).collect())
    }

    async fn server_log(&self, member: &Member, last_lines: Option<u32>) -> Result<Vec<u8>, ClusterError> {
        let tail = last_lines.map_or_else(|| "all".to_string(), |lines| lines.to_string());
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).tail(&tail).build();
        let mut pieces = self.api.logs(member.container_id(), Some(options));
        ask(format!("read the log of {}", member.name), async {
            let mut text = Vec::new();
            while let Some(piece) = pieces.next().await {
                let piece: LogOutput = piece?;
                text.extend_from_slice(piece.as_ref());
            }
            Ok(text)
        })
        .await
    }

    /// Does not wait for a start of the run: once a cluster exists, its start is over.
    async fn remove(&self, run_id: &str) -> Result<(), ClusterError> {
        self.remove_remains(run_id).await
    }

    fn firewall(&self) -> Option<&'static str> {
        Some(
            "a firewall may drop packets between containers; to find the rule, look at the counters of `sudo iptables -vnL \
             FORWARD` and `DOCKER-USER`, or at `sudo nft list ruleset`",
        )
    }
}
