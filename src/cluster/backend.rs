//! What can be done with the members of a running cluster, whatever kind it is of.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::error::ClusterError;
use super::lines::{ClientProcess, Log};
use super::spec::{Member, MemberState};
use crate::faults::Sighting;

/// What an operation on members comes to.
pub(crate) type Outcome<'a, T> = BoxFuture<'a, Result<T, ClusterError>>;

/// What members run in. Each kind of cluster has its own.
pub(crate) trait Backend: Send + Sync {
    /// Starts a client's process and returns its stdio. No earlier process of the client may be running.
    fn start_attached<'a>(&'a self, member: &'a Member, log: &'a Log) -> Outcome<'a, ClientProcess>;

    /// Starts a server's process. No earlier process of the server may be running.
    fn start_server<'a>(&'a self, member: &'a Member) -> Outcome<'a, ()>;

    /// Kills every process of a member and waits until they are gone.
    fn kill<'a>(&'a self, member: &'a Member) -> Outcome<'a, ()>;

    /// Waits until none of a member's processes run. Returns [`ClusterError::Timeout`] after `limit`.
    fn wait_for_end<'a>(&'a self, member: &'a Member, limit: Duration) -> Outcome<'a, ()>;

    /// The PID of a member's first process as the agent sees it, or how it ended, in words.
    fn running_pid<'a>(&'a self, member: &'a Member) -> Outcome<'a, Result<u32, String>>;

    /// Whether each member is running.
    fn states<'a>(&'a self, run_id: &'a str, members: Vec<&'a Member>) -> Outcome<'a, Vec<MemberState>>;

    /// A server's log, or the last lines of it.
    fn server_log<'a>(&'a self, member: &'a Member, last_lines: Option<u32>) -> Outcome<'a, Vec<u8>>;

    /// Removes everything of the run. Safe to call at any time and more than once.
    fn remove<'a>(&'a self, run_id: &'a str) -> Outcome<'a, ()>;

    /// Watches what the lock's nodes hold from within, which nobody there notices; false if the agent has to ask them.
    fn observe(&self) -> bool {
        false
    }

    /// What was seen since, which ends it; its times are those of the monotonic clock. None if the agent has to say.
    fn observed(&self) -> Option<Vec<Sighting>> {
        None
    }

    /// Where to look for a firewall between members that do not reach each other, though the agent reaches them all;
    /// none if this machine's firewall does not see their network.
    fn firewall(&self) -> Option<&'static str> {
        None
    }
}
