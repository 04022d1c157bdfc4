//! The interface of a kind of cluster: checks whether the kind is available here, and starts clusters.

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

/// A place where clusters of one kind can be started, with their programs or images.
#[async_trait]
pub trait Provider: fmt::Debug + Send + Sync {
    fn kind(&self) -> ClusterKind;

    /// Checks whether this cluster can run here, as far as this is known before the start.
    async fn check(&self, spec: &ClusterSpec) -> Result<(), ClusterError>;

    /// Makes all members and starts their processes. If it fails, it removes everything it made.
    async fn start(&self, spec: &ClusterSpec, start: &Start) -> Result<Parts, ClusterError>;

    /// The starts in progress on this provider. None if a start ends as soon as its caller stops waiting.
    fn starts(&self) -> Option<&Starts> {
        None
    }

    /// Removes everything left by a start of this run that failed or was cancelled. Does nothing if nothing is left.
    async fn remove(&self, run_id: &str) -> Result<(), ClusterError>;

    /// Resolves when waiting longer for a removal is pointless: `enough` time has passed, or the removal cannot finish.
    async fn patience(&self, enough: Duration);

    /// Describes, for messages, the objects of a run that are left to `redjepsen clean`.
    fn traces(&self, run_id: &str) -> String;
}

/// Gets a line about each slow step, and about everything else that the user should know.
pub type Note<'a> = &'a mut (dyn FnMut(String) + Send);

/// A kind of cluster that is available here, or why it is not.
pub type FoundProvider = Result<Arc<dyn Provider>, ClusterError>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformRequest {
    pub kind: ClusterKind,
    /// The source of the nodes' Redis. A local cluster takes no image.
    pub node: NodeSource,
    pub program: Program,
    /// The image for the user's own client, in Docker.
    pub client: ClientSource,
    /// The seed for all random choices of a simulated cluster; 0 for other kinds.
    pub seed: u64,
}

/// The source of the lock nodes' Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodeSource {
    /// The usual image, or an image made from this machine's redis-server.
    #[default]
    Default,
    Named(String),
    /// An image made from this server program, such as a user's own build.
    Program(PathBuf),
    Existing(ExistingServers),
}

/// The image that a client runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientSource {
    /// redjepsen's own image.
    #[default]
    Runtime,
    /// This image.
    Named(String),
    /// An image made from a client that is installed on this machine.
    Installed(InstalledClient),
}
