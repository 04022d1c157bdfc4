//! A running cluster: its members, their processes and logs, and its removal.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{LocalBoxFuture, join_all};

use super::backend::Backend;
use super::error::ClusterError;
use super::lines::ClientProcess;
use super::parts::{Description, MemberHandle, Parts};
use super::spec::{ClusterSpec, Member, MemberState};
use crate::faults::{Agent, AgentError, SeenCommand, Sighting, Waited};
use base::files;
use base::members::{Role, client_name};
use model::topology::{NamedServer, Program, Topology};

/// Time limit for starting MONITOR. A server that answers at all answers MONITOR at once.
const MONITOR_LIMIT: Duration = Duration::from_secs(2);

/// Time limit for the end of a killed process. It is known to be gone within milliseconds.
const KILLED_LIMIT: Duration = Duration::from_secs(5);

/// A running cluster. In Docker it does not end when it is dropped: see [`Cluster::stop`].
pub struct Cluster {
    pub run_id: String,
    pub description: Description,
    pub topology: Topology,
    /// As in [`ClusterSpec::needs_ifeq`].
    pub needs_ifeq: Option<String>,
    pub handles: Vec<Arc<MemberHandle>>,
    /// Injects faults and talks to the servers.
    pub agent: Agent,
    pub backend: Box<dyn Backend>,
}

impl Cluster {
    pub fn new(spec: &ClusterSpec, parts: Parts) -> Cluster {
        let Parts { description, handles, agent, backend, at_once: _ } = parts;
        let (run_id, topology, needs_ifeq) = (spec.run_id.clone(), spec.topology.clone(), spec.needs_ifeq.clone());
        Cluster { run_id, description, topology, needs_ifeq, handles, agent, backend }
    }

    /// All members: nodes, the resource, clients, the agent.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.handles.iter().map(|handle| &handle.member)
    }

    pub fn node_urls(&self) -> Vec<String> {
        let nodes = self.members().filter(|member| member.role == Role::Node);
        nodes.filter_map(Member::url).collect()
    }

    /// The name of a key of the history on clients, servers and the resource.
    pub fn named_for_clients(&self, key: &str) -> String {
        format!("{}{key}", self.backend.key_prefix())
    }

    /// The address of the existing server that a node stands for. None if redjepsen started the node.
    pub fn behind(&self, node: &str) -> Option<String> {
        self.backend.behind(node)
    }

    /// The same text with each key as the history names it.
    pub fn as_in_the_history(&self, text: String) -> String {
        match self.backend.key_prefix() {
            "" => text,
            prefix => text.replace(prefix, ""),
        }
    }

    /// The member that holds the resource: a separate Redis, or the database that also holds the lock.
    pub fn resource(&self) -> Option<&Member> {
        let of = |role| self.members().find(|member| member.role == role);
        of(Role::Resource).or_else(|| of(Role::Node))
    }

    pub fn resource_url(&self) -> String {
        self.resource().and_then(Member::url).unwrap_or_default()
    }

    pub fn describe(&self) -> &Description {
        &self.description
    }

    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The process of client number `client`, which the cluster started. Every further call starts a new process.
    pub async fn start_client(&self, client: u32) -> Result<ClientProcess, ClusterError> {
        match self.client_handle(client)?.take() {
            Some(process) => Ok(process),
            None => self.restart_client(client).await,
        }
    }

    /// Kills every process of client number `client` and starts a new process at the same address.
    pub async fn restart_client(&self, client: u32) -> Result<ClientProcess, ClusterError> {
        let handle = self.client_handle(client)?;
        drop(handle.take());
        self.backend.kill(&handle.member).await?;
        let process = self.backend.start_attached(&handle.member, &handle.log).await?;
        self.make_ready(handle).await?;
        Ok(process)
    }

    /// Kills every process of client number `client` and waits until they are gone.
    pub async fn kill_client(&self, client: u32) -> Result<(), ClusterError> {
        self.backend.kill(&self.client_handle(client)?.member).await
    }

    /// Kills every client process, even if paused, and waits until it is gone, so that it can send nothing more.
    pub async fn stop_clients(&self) -> Result<(), ClusterError> {
        let clients = self.members().filter(|member| member.role == Role::Client);
        let killed = join_all(clients.map(|client| self.backend.kill(client))).await;
        killed.into_iter().collect()
    }

    /// Restarts a killed server with the same address and files, and waits until it answers. From then on, faults apply to the
    /// new process.
    pub async fn restart_server(&self, name: &str) -> Result<(), ClusterError> {
        self.restart_server_as(name, None).await
    }

    /// Kills a server and starts it again as its own program.
    pub async fn restart_as_before(&self, name: &str) -> Result<(), ClusterError> {
        self.backend.kill(&self.handle(name)?.member).await?;
        self.restart_server_as(name, None).await
    }

    /// The same as `restart_server`, as another program if there is one.
    pub async fn restart_server_as(&self, name: &str, program: Option<&NamedServer>) -> Result<(), ClusterError> {
        let handle = self.handle(name)?;
        if !handle.member.role.is_server() {
            return Err(ClusterError::NoServer { member: name.to_string() });
        }
        match self.backend.wait_for_end(&handle.member, KILLED_LIMIT).await {
            Err(ClusterError::Timeout { .. }) => return Err(ClusterError::StillRuns { member: name.to_string() }),
            other => other?,
        }
        self.backend.start_server(&handle.member, program).await?;
        self.make_ready(handle).await
    }

    /// Watches the contents of the lock's nodes from now on, if they are Redis servers. Members do not notice, except that real
    /// servers answer a few more requests.
    pub async fn observe(&self) -> Result<(), AgentError> {
        if self.backend.observe() {
            return Ok(());
        }
        match self.redis_nodes() {
            nodes if nodes.is_empty() => Ok(()),
            nodes => self.agent.observe(nodes).await,
        }
    }

    /// The lock's nodes that are Redis servers, by name and URL.
    fn redis_nodes(&self) -> Vec<(String, String)> {
        let is_redis = |member: &&Member| member.server.as_ref().is_some_and(|server| server.program == Program::Redis);
        let nodes = self.members().filter(|member| member.role == Role::Node).filter(is_redis);
        nodes.filter_map(|node| Some((node.name.clone(), node.url()?))).collect()
    }

    /// Records from now on which commands the lock's nodes carry out, if they are Redis servers. Real servers must run MONITOR,
    /// which slows them down; existing servers only do so if the user `asked` for it. An error names the first node that refuses; the
    /// others are still recorded.
    pub async fn record_commands(&self, asked: bool) -> Result<(), AgentError> {
        if let Some(begun) = self.backend.record_commands(asked).await {
            return begun.map_err(AgentError::Refused);
        }
        let nodes = self.redis_nodes();
        let asked = nodes.iter().map(|(_, url)| self.agent.monitor(url, MONITOR_LIMIT));
        join_all(asked).await.into_iter().collect()
    }

    /// Ends the recording and returns the commands that members sent and nodes carried out. Each has its node's name, and a time
    /// of the members' monotonic clock.
    pub async fn recorded_commands(&self) -> Result<Vec<(String, SeenCommand)>, AgentError> {
        if let Some(recorded) = self.backend.recorded_commands() {
            return Ok(recorded);
        }
        let of = self.members().filter_map(|member| member.address).collect();
        let mut all = Vec::new();
        for (node, url) in self.redis_nodes() {
            all.extend(self.agent.monitored(&url, &of).await?.into_iter().map(|command| (node.clone(), command)));
        }
        Ok(all)
    }

    /// Ends the watch and returns what it saw. Times are those of the members' monotonic clock.
    pub async fn observed(&self) -> Result<Vec<Sighting>, AgentError> {
        match self.backend.observed() {
            Some(seen) => Ok(seen),
            None => self.agent.sightings().await,
        }
    }

    /// Notes from now on when a member does not run for `least` or longer, or a server does not answer, although no fault stops
    /// it. Does nothing in simulated time, where every member always runs.
    pub async fn watch(&self, least: Duration) -> Result<(), AgentError> {
        if self.description.kernel.is_empty() {
            return Ok(());
        }
        let is_redis = |member: &&Member| member.url().is_some_and(|url| url.starts_with("redis:"));
        let servers = self.members().filter(is_redis);
        let servers = servers.filter_map(|server| Some((server.name.clone(), server.url()?))).collect();
        self.agent.watch(servers, least).await
    }

    /// Ends these notes and returns them. Times are those of the members' monotonic clock.
    pub async fn waits(&self) -> Result<Vec<Waited>, AgentError> {
        if self.description.kernel.is_empty() {
            return Ok(Vec::new());
        }
        self.agent.waits().await
    }

    pub async fn member_states(&self) -> Result<Vec<MemberState>, ClusterError> {
        self.backend.states(&self.run_id, self.members().collect()).await
    }

    /// Writes every member's log into its own folder in `dir`: `client.log`, `agent.log`, or the server program's log name. For a
    /// server, writes only the part that is new since the last call. An error does not stop the other logs; returns the first
    /// error.
    pub fn collect_logs<'a>(&'a self, dir: &'a Path) -> LocalBoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            let collected = join_all(self.handles.iter().map(async |handle| {
                let file = match &handle.member.server {
                    Some(server) => server.program.log_name().to_string(),
                    None => format!("{}.log", handle.member.role.word()),
                };
                let mut text = self.log_of(handle, None).await?;
                if handle.member.role.is_server() {
                    let earlier = handle.collected.swap(text.len(), Ordering::Relaxed);
                    // The log is shorter than before: the engine has dropped its beginning.
                    text.drain(..if earlier <= text.len() { earlier } else { 0 });
                }
                // An agent usually logs nothing.
                if handle.member.role == Role::Agent && text.is_empty() {
                    return Ok(());
                }
                let folder = dir.join(&handle.member.name);
                let written = files::create_folder(&folder).and_then(|()| files::write(&folder.join(file), text));
                written.map_err(ClusterError::File)
            }));
            collected.await.into_iter().collect()
        })
    }

    /// A member's log, or its last lines. A client's log is its standard error.
    pub async fn log_of(&self, handle: &MemberHandle, last_lines: Option<u32>) -> Result<Vec<u8>, ClusterError> {
        if handle.member.role.is_server() {
            self.backend.server_log(&handle.member, last_lines).await
        } else {
            Ok(handle.log.text())
        }
    }

    /// Removes the cluster and everything that belongs to it. Safe to call at any time and more than once.
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
