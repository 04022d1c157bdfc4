//! Operations on the members of a running cluster, for every kind of cluster.

use std::time::Duration;

use async_trait::async_trait;

use super::error::ClusterError;
use super::lines::{ClientProcess, Log};
use super::spec::{Member, MemberState};
use crate::faults::{SeenCommand, Sighting};
use model::topology::NamedServer;

/// The environment that members run in. Each kind of cluster has its own.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Starts a client's process and returns its stdio. No earlier process of the client may be running.
    async fn start_attached(&self, member: &Member, log: &Log) -> Result<ClientProcess, ClusterError>;

    /// Starts a server's process, as its own program or as another one. No earlier process of the server may be running.
    async fn start_server(&self, member: &Member, program: Option<&NamedServer>) -> Result<(), ClusterError>;

    /// Kills every process of a member and waits until they are gone.
    async fn kill(&self, member: &Member) -> Result<(), ClusterError>;

    /// Waits until none of a member's processes run. Returns [`ClusterError::Timeout`] after `limit`.
    async fn wait_for_end(&self, member: &Member, limit: Duration) -> Result<(), ClusterError>;

    /// The PID of a member's first process as the agent sees it. If the process has ended, a text that says how.
    async fn running_pid(&self, member: &Member) -> Result<Result<u32, String>, ClusterError>;

    /// Says whether each member is running.
    async fn states(&self, run_id: &str, members: Vec<&Member>) -> Result<Vec<MemberState>, ClusterError>;

    async fn server_log(&self, member: &Member, last_lines: Option<u32>) -> Result<Vec<u8>, ClusterError>;

    /// Removes everything of the run. Safe to call at any time and more than once.
    async fn remove(&self, run_id: &str) -> Result<(), ClusterError>;

    /// The prefix of key names, for clients and on servers. Histories leave it out.
    fn key_prefix(&self) -> &str {
        ""
    }

    /// The address of the existing server that a member stands for. None if redjepsen started the member.
    fn behind(&self, _member: &str) -> Option<String> {
        None
    }

    /// Watches the contents of the lock's nodes from within, unnoticed by the nodes. Returns false if the agent has to ask the nodes.
    fn observe(&self) -> bool {
        false
    }

    /// Ends the watch and returns what it saw, with times of the monotonic clock. None if the agent has the results.
    fn observed(&self) -> Option<Vec<Sighting>> {
        None
    }

    /// Records from within which commands the lock's nodes carry out; None if the agent has to ask them. `asked` is true if the
    /// user asked for it. The error is a sentence.
    async fn record_commands(&self, _asked: bool) -> Option<Result<(), String>> {
        None
    }

    /// Ends the recording and returns the commands with the nodes' names. None if the agent has the results.
    fn recorded_commands(&self) -> Option<Vec<(String, SeenCommand)>> {
        None
    }

    /// The firewall to check if members do not reach each other although the agent reaches all of them. None if this machine's
    /// firewall does not see their network.
    fn firewall(&self) -> Option<&'static str> {
        None
    }
}
