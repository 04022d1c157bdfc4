//! A running cluster: where its members are, their processes, their logs, its end.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;

use super::backend::Backend;
use super::error::ClusterError;
use super::lines::{ClientProcess, Log};
use super::{Member, MemberState};
use crate::faults::Agent;
use crate::members::{Role, client_name};
use crate::topology::Topology;

/// It is known within milliseconds that a process was killed.
const KILLED_LIMIT: Duration = Duration::from_secs(5);

/// A cluster that was started. In Docker it does not end by itself: see [`Cluster::stop`].
pub struct Cluster {
    pub(crate) run_id: String,
    pub(crate) description: Description,
    pub(crate) topology: Topology,
    pub(crate) handles: Vec<Arc<MemberHandle>>,
    /// Carries out faults and speaks to the servers.
    pub agent: Agent,
    pub(crate) backend: Backend,
}

/// A member and what belongs to it on this side.
pub(crate) struct MemberHandle {
    pub member: Member,
    pub log: Log,
    /// A client process that was started with the cluster and not yet asked for.
    waiting: Mutex<Option<ClientProcess>>,
    /// How much of its log earlier runs have in their folders, in bytes.
    collected: AtomicUsize,
}

/// What a cluster runs on, for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// `docker` or `local`.
    pub cluster: &'static str,
    /// What the nodes run: an image, or the path of a program.
    pub nodes: String,
    /// What the servers call themselves, such as `redis 7.0.15`.
    pub server: String,
    /// The kernel that all members share.
    pub kernel: String,
    /// The engine's version, where there is one.
    pub engine: Option<String>,
    pub subnet: ipnet::Ipv4Net,
}

impl MemberHandle {
    pub fn new(member: Member) -> MemberHandle {
        MemberHandle { member, log: Log::default(), waiting: Mutex::new(None), collected: AtomicUsize::new(0) }
    }

    /// Keeps a process until it is asked for.
    pub fn keep(&self, process: ClientProcess) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
    }

    /// The process that was kept.
    pub fn take(&self) -> Option<ClientProcess> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Cluster {
    /// All members: nodes, the resource, clients, the agent.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.handles.iter().map(|handle| &handle.member)
    }

    /// How the lock nodes are reached, in their order.
    pub fn node_urls(&self) -> Vec<String> {
        let nodes = self.members().filter(|member| member.role == Role::Node);
        nodes.filter_map(Member::url).collect()
    }

    /// The member that keeps the resource: a Redis of its own, or the database that keeps the lock as well.
    pub fn resource(&self) -> Option<&Member> {
        let of = |role| self.members().find(|member| member.role == role);
        of(Role::Resource).or_else(|| of(Role::Node))
    }

    /// How the resource is reached.
    pub fn resource_url(&self) -> String {
        self.resource().and_then(Member::url).unwrap_or_default()
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
        match self.client_handle(client)?.take() {
            Some(process) => Ok(process),
            None => self.restart_client(client).await,
        }
    }

    /// Kills whatever runs as client number `client` and starts a new process at the same address.
    pub async fn restart_client(&self, client: u32) -> Result<ClientProcess, ClusterError> {
        let handle = self.client_handle(client)?;
        drop(handle.take());
        self.backend.kill(&handle.member).await?;
        let process = self.backend.start_attached(&handle.member, &handle.log).await?;
        self.make_ready(handle).await?;
        Ok(process)
    }

    /// Kills whatever runs as client number `client` and waits until it is gone.
    pub async fn kill_client(&self, client: u32) -> Result<(), ClusterError> {
        self.backend.kill(&self.client_handle(client)?.member).await
    }

    /// Ends every client process and waits until it is gone, stopped ones too, so that none can send anything any more.
    pub async fn stop_clients(&self) -> Result<(), ClusterError> {
        let clients = self.members().filter(|member| member.role == Role::Client);
        let killed = join_all(clients.map(|client| self.backend.kill(client))).await;
        killed.into_iter().collect()
    }

    /// Starts a server again that was killed, at the same address and with the files that it had, and waits until it
    /// answers. Faults reach the new process from then on.
    pub async fn restart_server(&self, name: &str) -> Result<(), ClusterError> {
        let handle = self.handle(name)?;
        if !handle.member.role.is_server() {
            return Err(ClusterError::NoServer { member: name.to_string() });
        }
        match self.backend.wait_for_end(&handle.member, KILLED_LIMIT).await {
            Err(ClusterError::Timeout { .. }) => return Err(ClusterError::StillRuns { member: name.to_string() }),
            other => other?,
        }
        self.backend.start_server(&handle.member).await?;
        self.make_ready(handle).await
    }

    /// Whether each member runs.
    pub async fn member_states(&self) -> Result<Vec<MemberState>, ClusterError> {
        self.backend.states(&self.run_id, self.members().collect()).await
    }

    /// Writes every member's log into its own folder in `dir`: `client.log`, `agent.log`, servers' by their programs. Of a server,
    /// what it has written since this was last called. Collects what it can, and then returns the first problem.
    pub async fn collect_logs(&self, dir: &Path) -> Result<(), ClusterError> {
        let collected = join_all(self.handles.iter().map(async |handle| {
            let file = match &handle.member.server {
                Some(server) => server.program.log_name().to_string(),
                None => format!("{}.log", handle.member.role.word()),
            };
            let mut text = self.log_of(handle, None).await?;
            if handle.member.role.is_server() {
                let earlier = handle.collected.swap(text.len(), Ordering::Relaxed);
                // Shorter than it was: the engine keeps no more than this.
                text.drain(..if earlier <= text.len() { earlier } else { 0 });
            }
            // An agent that has nothing to say is the usual case and no news.
            if handle.member.role == Role::Agent && text.is_empty() {
                return Ok(());
            }
            let folder = dir.join(&handle.member.name);
            let path = folder.join(file);
            let failed = |source| ClusterError::Write { path: path.display().to_string(), source };
            tokio::fs::create_dir_all(&folder).await.map_err(failed)?;
            tokio::fs::write(&path, text).await.map_err(failed)
        }));
        collected.await.into_iter().collect()
    }

    /// A member's log, or its last lines: a client's from what it wrote on stderr.
    pub(crate) async fn log_of(&self, handle: &MemberHandle, last_lines: Option<u32>) -> Result<Vec<u8>, ClusterError> {
        if handle.member.role.is_server() {
            self.backend.server_log(&handle.member, last_lines).await
        } else {
            Ok(handle.log.text())
        }
    }

    /// Removes the cluster with everything that belongs to it. May be called at any time and again.
    pub async fn stop(&self) -> Result<(), ClusterError> {
        self.backend.remove(&self.run_id).await
    }

    fn client_handle(&self, client: u32) -> Result<&Arc<MemberHandle>, ClusterError> {
        self.handle(&client_name(client))
    }

    fn handle(&self, name: &str) -> Result<&Arc<MemberHandle>, ClusterError> {
        let found = self.handles.iter().find(|handle| handle.member.name == name);
        found.ok_or_else(|| ClusterError::UnknownMember { member: name.to_string() })
    }
}
