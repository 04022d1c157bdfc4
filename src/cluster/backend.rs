//! What a cluster does differently depending on where it runs. Everything else is the same code.
//!
//! A further kind is a variant here and one of [`Platform`](super::Platform), with a `start` that makes a
//! [`Cluster`](super::Cluster) of its members and its agent; the compiler then names each operation that is missing. It is an
//! enum and no trait: the operations are async, so every kind would have to box each of them for a trait object, and nobody
//! outside of this crate adds a kind.

use std::time::Duration;

use super::docker::Docker;
use super::error::ClusterError;
use super::lines::{ClientProcess, Log};
use super::local::LocalRun;
use super::{Member, MemberState};

/// Where a cluster runs.
pub(crate) enum Backend {
    Docker(Docker),
    Local(LocalRun),
}

impl Backend {
    /// Starts a client's process with its stdio in hand. Nothing of an earlier one may run.
    pub async fn start_attached(&self, member: &Member, log: &Log) -> Result<ClientProcess, ClusterError> {
        match self {
            Backend::Docker(docker) => docker.start_attached(member, log).await,
            Backend::Local(local) => local.start_attached(member, log).await,
        }
    }

    /// Starts a server's process. Nothing of an earlier one may run.
    pub async fn start_server(&self, member: &Member) -> Result<(), ClusterError> {
        match self {
            Backend::Docker(docker) => docker.start_container(member).await,
            Backend::Local(local) => local.start_server(member).await,
        }
    }

    /// Kills every process of a member and waits until they are gone.
    pub async fn kill(&self, member: &Member) -> Result<(), ClusterError> {
        match self {
            Backend::Docker(docker) => docker.kill_container(member).await,
            Backend::Local(local) => local.kill(member).await,
        }
    }

    /// Waits until nothing of a member runs any more. Past the limit that is a [`ClusterError::Timeout`].
    pub async fn wait_for_end(&self, member: &Member, limit: Duration) -> Result<(), ClusterError> {
        match self {
            Backend::Docker(docker) => docker.wait_for_end(member, limit).await,
            Backend::Local(local) => local.wait_for_end(member, limit).await,
        }
    }

    /// The PID of a member's first process, as the agent counts, or in words how it ended.
    pub async fn running_pid(&self, member: &Member) -> Result<Result<u32, String>, ClusterError> {
        match self {
            Backend::Docker(docker) => docker.running_pid(member).await,
            Backend::Local(local) => local.running_pid(member).await,
        }
    }

    /// Whether each member runs.
    pub async fn states(&self, run_id: &str, members: Vec<&Member>) -> Result<Vec<MemberState>, ClusterError> {
        match self {
            Backend::Docker(docker) => docker.states(run_id, members).await,
            Backend::Local(local) => local.states(members).await,
        }
    }

    /// A server's log, or the last lines of it.
    pub async fn server_log(&self, member: &Member, last_lines: Option<u32>) -> Result<Vec<u8>, ClusterError> {
        match self {
            Backend::Docker(docker) => docker.log_of(member, last_lines).await,
            Backend::Local(local) => local.server_log(member, last_lines).await,
        }
    }

    /// Removes everything of the run. May be called at any time and again.
    pub async fn remove(&self, run_id: &str) -> Result<(), ClusterError> {
        match self {
            Backend::Docker(docker) => docker.remove_run(run_id).await,
            Backend::Local(local) => local.remove().await,
        }
    }
}
