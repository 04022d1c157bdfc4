//! What a kind of cluster has: a way to find out whether it can be had here, and a way to start one.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::error::ClusterError;
use super::parts::Parts;
use super::spec::ClusterSpec;
use super::starts::{Start, Starts};
use model::topology::{ClusterKind, ExistingServers, InstalledClient, Program};

/// Where clusters of one kind can be started, with what they are made of.
#[async_trait]
pub trait Provider: fmt::Debug + Send + Sync {
    fn kind(&self) -> ClusterKind;

    /// Whether this cluster can run here, as far as that can be told before the start.
    async fn check(&self, spec: &ClusterSpec) -> Result<(), ClusterError>;

    /// Makes all members and starts their processes. If it fails, it removes what it made.
    async fn start(&self, spec: &ClusterSpec, start: &Start) -> Result<Parts, ClusterError>;

    /// The starts under way here, if one may go on when it is no longer waited for.
    fn starts(&self) -> Option<&Starts> {
        None
    }

    /// Removes what a start of this run has made that failed or was given up. Does nothing if there is nothing.
    async fn remove(&self, run_id: &str) -> Result<(), ClusterError>;

    /// Resolves when waiting longer for a removal is pointless: `enough` time has passed, or there is nothing to wait for.
    async fn patience(&self, enough: Duration);

    /// What `redjepsen clean` removes of a run that this process no longer removes, for people.
    fn traces(&self, run_id: &str) -> String;
}

/// A kind of cluster that can be had here, or why it can't.
pub type FoundProvider = Result<Arc<dyn Provider>, ClusterError>;

/// What the user asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformRequest {
    pub kind: ClusterKind,
    /// Where the nodes' Redis comes from. A local cluster takes no image.
    pub node: NodeSource,
    /// What the lock nodes run.
    pub program: Program,
    /// Where a client that is not redjepsen's own runs, in Docker.
    pub client: ClientSource,
    /// Draws what a simulated cluster does by itself; 0 for the others.
    pub seed: u64,
}

/// Where the lock nodes' Redis comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodeSource {
    /// The usual image, or one made from this machine's redis-server.
    #[default]
    Default,
    /// This image and no other.
    Named(String),
    /// An image made from this server program, such as a user's own build.
    Program(PathBuf),
    /// Servers that already run.
    Existing(ExistingServers),
}

/// What a client runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientSource {
    /// redjepsen's own image.
    #[default]
    Runtime,
    /// This image.
    Named(String),
    /// An image made from what is installed on this machine.
    Installed(InstalledClient),
}
