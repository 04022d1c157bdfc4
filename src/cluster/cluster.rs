//! A running cluster: where its members are, their processes, their logs, its end.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::query_parameters::{
    KillContainerOptions, ListContainersOptionsBuilder, LogsOptionsBuilder, StartContainerOptions, WaitContainerOptions,
};
use futures_util::StreamExt;
use futures_util::future::join_all;

use super::engine::{Docker, Engine};
use super::error::{ClusterError, ENGINE_LIMIT, ask, ask_within};
use super::images::{Image, label_filters};
use super::lines::{ClientProcess, Log};
use super::start::url;
use super::{LABEL_RUN, Member, Role, client_name};
use crate::faults::Agent;

/// The engine notes within milliseconds that a process was killed.
const KILLED_LIMIT: Duration = Duration::from_secs(5);

/// A cluster that was started. It does not end by itself: see [`Cluster::stop`].
pub struct Cluster {
    pub(crate) docker: Docker,
    pub(crate) run_id: String,
    pub(crate) description: Description,
    pub(crate) seats: Vec<Arc<Seat>>,
    /// Carries out faults and speaks to the servers.
    pub agent: Agent,
}

/// A member and what belongs to it on this side.
pub(crate) struct Seat {
    pub member: Member,
    pub log: Log,
    /// A client process that was started with the cluster and not yet asked for.
    pub waiting: Mutex<Option<ClientProcess>>,
}

/// What a cluster runs on, for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub engine: Engine,
    pub node_image: Image,
    /// What the servers call themselves, such as `redis 7.0.15`.
    pub server: String,
    pub subnet: ipnet::Ipv4Net,
}

/// Whether a member's container runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberState {
    pub name: String,
    pub role: Role,
    pub running: bool,
    /// In the engine's words, such as `Exited (137) 2 seconds ago`.
    pub text: String,
}

impl Cluster {
    /// All members: nodes, the store, clients, the agent.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.seats.iter().map(|seat| &seat.member)
    }

    /// How the lock nodes are reached, in their order.
    pub fn node_urls(&self) -> Vec<String> {
        let nodes = self.members().filter(|member| member.role == Role::Node);
        nodes.filter_map(|member| member.address).map(url).collect()
    }

    /// How the resource's own Redis is reached.
    pub fn store_url(&self) -> String {
        let store = self.members().find(|member| member.role == Role::Store);
        store.and_then(|member| member.address).map(url).unwrap_or_default()
    }

    /// What the cluster runs on.
    pub fn describe(&self) -> &Description {
        &self.description
    }

    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The process of client number `client`, which was started with the cluster. A second call replaces the process.
    pub async fn start_client(&self, client: u32) -> Result<ClientProcess, ClusterError> {
        let seat = self.client_seat(client)?;
        let waiting = seat.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        match waiting {
            Some(process) => Ok(process),
            None => self.restart_client(client).await,
        }
    }

    /// Kills whatever runs as client number `client` and starts a new process at the same address.
    pub async fn restart_client(&self, client: u32) -> Result<ClientProcess, ClusterError> {
        let seat = self.client_seat(client)?;
        drop(seat.waiting.lock().unwrap_or_else(PoisonError::into_inner).take());
        let (name, container) = (&seat.member.name, &seat.member.container);
        self.kill(name, container).await?;
        let process = self.docker.start_attached(name, container, &seat.log).await?;
        self.settle(seat).await?;
        Ok(process)
    }

    /// Ends every client process and waits until it is gone, stopped ones too, so that none can send anything any more.
    pub async fn stop_clients(&self) -> Result<(), ClusterError> {
        let clients = self.members().filter(|member| member.role == Role::Client);
        let killed = join_all(clients.map(|client| self.kill(&client.name, &client.container))).await;
        killed.into_iter().collect()
    }

    /// Starts a server again that was killed, at the same address and with the files that it had, and waits until it
    /// answers. Faults reach the new process from then on.
    pub async fn restart_server(&self, name: &str) -> Result<(), ClusterError> {
        let seat = self.seat(name)?;
        if !seat.member.role.is_server() {
            return Err(ClusterError::NoServer { member: name.to_string() });
        }
        let container = &seat.member.container;
        match self.wait_for_end(name, container, KILLED_LIMIT).await {
            Err(ClusterError::Timeout { .. }) => return Err(ClusterError::StillRuns { member: name.to_string() }),
            other => other?,
        }
        let start = self.docker.api.start_container(container, None::<StartContainerOptions>);
        ask(format!("start {name}"), start).await?;
        self.settle(seat).await
    }

    async fn kill(&self, name: &str, container: &str) -> Result<(), ClusterError> {
        let kill = self.docker.api.kill_container(container, None::<KillContainerOptions>);
        match ask(format!("kill {name}"), kill).await {
            // It had ended by itself.
            Err(error) if error.is_conflict() => {}
            other => other?,
        }
        self.wait_for_end(name, container, ENGINE_LIMIT).await
    }

    /// Waits until a container runs no more: one that still does would be "started" without anything being started.
    async fn wait_for_end(&self, name: &str, container: &str, limit: Duration) -> Result<(), ClusterError> {
        let mut end = self.docker.api.wait_container(container, None::<WaitContainerOptions>);
        let ended = async {
            match end.next().await {
                // bollard makes an error of every exit code but 0.
                None | Some(Ok(_) | Err(bollard::errors::Error::DockerContainerWaitError { .. })) => Ok(()),
                Some(Err(error)) => Err(error),
            }
        };
        ask_within(limit, format!("wait for the end of {name}"), ended).await
    }

    /// Whether each member's container runs. One that somebody removed does not.
    pub async fn member_states(&self) -> Result<Vec<MemberState>, ClusterError> {
        let filters = label_filters(vec![format!("{LABEL_RUN}={}", self.run_id)]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let found = ask("list the run's containers", self.docker.api.list_containers(Some(options))).await?;
        let state_of = |member: &Member| {
            let container = found.iter().find(|found| found.id.as_ref() == Some(&member.container));
            let state = container.and_then(|container| container.state);
            MemberState {
                name: member.name.clone(),
                role: member.role,
                running: state == Some(bollard::models::ContainerSummaryStateEnum::RUNNING),
                text: container.and_then(|found| found.status.clone()).unwrap_or_else(|| "removed".to_string()),
            }
        };
        Ok(self.members().map(state_of).collect())
    }

    /// Writes every member's log into its own folder in `dir`: `redis.log`, `client.log`, `agent.log`. Collects what it
    /// can, and then returns the first problem.
    pub async fn collect_logs(&self, dir: &Path) -> Result<(), ClusterError> {
        let collected = join_all(self.seats.iter().map(async |seat| {
            let file = match seat.member.role {
                Role::Node | Role::Store => "redis.log",
                Role::Client => "client.log",
                Role::Agent => "agent.log",
            };
            let text = self.log_of(seat, None).await?;
            // An agent that has nothing to say is the usual case and no news.
            if seat.member.role == Role::Agent && text.is_empty() {
                return Ok(());
            }
            let folder = dir.join(&seat.member.name);
            let path = folder.join(file);
            let failed = |source| ClusterError::Write { path: path.display().to_string(), source };
            tokio::fs::create_dir_all(&folder).await.map_err(failed)?;
            tokio::fs::write(&path, text).await.map_err(failed)
        }));
        collected.await.into_iter().collect()
    }

    /// A member's log, or its last lines: a server's from the engine, a client's from what it wrote on stderr.
    pub(crate) async fn log_of(&self, seat: &Seat, last_lines: Option<u32>) -> Result<Vec<u8>, ClusterError> {
        if !seat.member.role.is_server() {
            return Ok(seat.log.text());
        }
        let tail = last_lines.map_or_else(|| "all".to_string(), |lines| lines.to_string());
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).tail(&tail).build();
        let mut pieces = self.docker.api.logs(&seat.member.container, Some(options));
        ask(format!("give the log of {}", seat.member.name), async {
            let mut text = Vec::new();
            while let Some(piece) = pieces.next().await {
                let piece: LogOutput = piece?;
                text.extend_from_slice(piece.as_ref());
            }
            Ok(text)
        })
        .await
    }

    /// Removes the cluster with everything that belongs to it. May be called at any time and again.
    pub async fn stop(&self) -> Result<(), ClusterError> {
        self.docker.remove_run(&self.run_id).await
    }

    /// Takes a handle that can stop the cluster from elsewhere, such as after a signal.
    pub fn docker(&self) -> &Docker {
        &self.docker
    }

    fn client_seat(&self, client: u32) -> Result<&Arc<Seat>, ClusterError> {
        self.seat(&client_name(client))
    }

    fn seat(&self, name: &str) -> Result<&Arc<Seat>, ClusterError> {
        let found = self.seats.iter().find(|seat| seat.member.name == name);
        found.ok_or_else(|| ClusterError::UnknownMember { member: name.to_string() })
    }
}
