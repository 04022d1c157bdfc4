//! What a cluster does differently depending on where it runs. All other code is shared.
//!
//! To add a kind, add a variant here and to [`Platform`](super::Platform), with a `start` that makes a
//! [`Cluster`](super::Cluster) from its members and its agent; the compiler then names each missing operation. It is an
//! enum and not a trait because the operations are async: a trait object would need each of them boxed, and nobody
//! outside this crate adds a kind.

use std::time::Duration;

use super::docker::Docker;
use super::error::ClusterError;
use super::lines::{ClientProcess, Log};
use super::local::LocalRun;
use super::simulated::SimulatedRun;
use super::{Member, MemberState};

/// Where a cluster runs.
pub(crate) enum Backend {
    Docker(Docker),
    Local(LocalRun),
    Simulated(SimulatedRun),
}

impl Backend {
    /// Starts a client's process and returns its stdio. No earlier process of the client may be running.
    pub async fn start_attached(&self, member: &Member, log: &Log) -> Result<ClientProcess, ClusterError> {
        match self {
            Backend::Docker(docker) => docker.start_attached(member, log).await,
            Backend::Local(local) => local.start_attached(member, log).await,
            Backend::Simulated(run) => run.start_attached(member, log).await,
        }
    }

    /// Starts a server's process. No earlier process of the server may be running.
    pub async fn start_server(&self, member: &Member) -> Result<(), ClusterError> {
        match self {
            Backend::Docker(docker) => docker.start_container(member).await,
            Backend::Local(local) => local.start_server(member).await,
            Backend::Simulated(run) => run.start_server(member).await,
        }
    }

    /// Kills every process of a member and waits until they are gone.
    pub async fn kill(&self, member: &Member) -> Result<(), ClusterError> {
        match self {
            Backend::Docker(docker) => docker.kill_container(member).await,
            Backend::Local(local) => local.kill(member).await,
            Backend::Simulated(run) => run.kill(member),
        }
    }

    /// Waits until none of a member's processes run. Returns [`ClusterError::Timeout`] after `limit`.
    pub async fn wait_for_end(&self, member: &Member, limit: Duration) -> Result<(), ClusterError> {
        match self {
            Backend::Docker(docker) => docker.wait_for_end(member, limit).await,
            Backend::Local(local) => local.wait_for_end(member, limit).await,
            Backend::Simulated(run) => run.wait_for_end(member, limit).await,
        }
    }

    /// The PID of a member's first process as the agent sees it, or how it ended, in words.
    pub async fn running_pid(&self, member: &Member) -> Result<Result<u32, String>, ClusterError> {
        match self {
            Backend::Docker(docker) => docker.running_pid(member).await,
            Backend::Local(local) => local.running_pid(member).await,
            Backend::Simulated(run) => run.running_pid(member),
        }
    }

    /// Whether each member is running.
    pub async fn states(&self, run_id: &str, members: Vec<&Member>) -> Result<Vec<MemberState>, ClusterError> {
        match self {
            Backend::Docker(docker) => docker.states(run_id, members).await,
            Backend::Local(local) => local.states(members).await,
            Backend::Simulated(run) => run.states(members),
        }
    }

    /// A server's log, or the last lines of it.
    pub async fn server_log(&self, member: &Member, last_lines: Option<u32>) -> Result<Vec<u8>, ClusterError> {
        match self {
            Backend::Docker(docker) => docker.log_of(member, last_lines).await,
            Backend::Local(local) => local.server_log(member, last_lines).await,
            // It has nothing to say.
            Backend::Simulated(_) => Ok(Vec::new()),
        }
    }

    /// Removes everything of the run. Safe to call at any time and more than once.
    pub async fn remove(&self, run_id: &str) -> Result<(), ClusterError> {
        match self {
            Backend::Docker(docker) => docker.remove_run(run_id).await,
            Backend::Local(local) => local.remove().await,
            Backend::Simulated(run) => {
                run.remove();
                Ok(())
            }
        }
    }
}
