//! Starts what a run needs in Docker, and names its members: lock nodes `n0`, `n1`, …, the resource's own Redis `store`,
//! client processes `c0`, `c1`, …, each in a container with an address of its own, and the `agent` that carries faults out.
//!
//! Everything goes through the Engine API, so the engine may be elsewhere or in a virtual machine: no docker program, no
//! compose, no root here. In the order of a run:
//!
//! - [`engine`](Docker): the connection
//! - [`images`](ImageRequest): which images, and where they come from without a registry ([`bundle`](Bundle), `made`)
//! - `network`, `containers`, `upload`, `start`: a network and the members, all at once
//! - [`cluster`](Cluster): what one can do with a running cluster
//! - [`lines`](ClientProcess): the clients' stdio
//! - `clean`: removal, of a run's own things and of what dead runs left
//!
//! Whatever is made carries the run's labels and its owner's ([`Owner`]), and removal goes by labels, so that it also finds
//! what a start that failed half-way had made. Deliberately absent: faults (see [`faults`](crate::faults)), the protocol
//! spoken with clients, and any notion of time.

mod bundle;
mod clean;
#[expect(clippy::module_inception, reason = "the cluster itself, among what it is made with")]
mod cluster;
mod containers;
mod engine;
mod error;
mod images;
mod lines;
mod local_redis;
mod made;
mod network;
mod nft;
mod owner;
mod server;
mod start;
mod starts;
mod upload;

use std::collections::HashMap;
use std::net::Ipv4Addr;

pub use bundle::Bundle;
pub use clean::{CleanOptions, Cleaned, CleanedRun, KeptRun};
pub use cluster::{Cluster, Description, MemberState};
pub use engine::{Docker, Engine};
pub use error::ClusterError;
pub use images::{DEFAULT_NODE_IMAGE, Image, ImageRequest, Images, NodeImage, NodeSource};
pub use lines::{ClientOutput, ClientProcess};
pub use owner::Owner;

use crate::scenario::Persistence;

/// On everything that redjepsen makes in an engine.
pub(crate) const LABEL: &str = "redjepsen";
/// The run that it belongs to.
pub(crate) const LABEL_RUN: &str = "redjepsen.run";
/// What it is in that run: `node`, `store`, `client`, `agent`, `network`.
pub(crate) const LABEL_ROLE: &str = "redjepsen.role";

/// The port that every server listens on.
pub const REDIS_PORT: u16 = 6379;
/// The name of the resource's own Redis.
pub const STORE: &str = "store";
/// The name of the agent.
pub const AGENT: &str = "agent";

/// What to start.
#[derive(Clone, Debug)]
pub struct ClusterSpec {
    /// Names the run: letters, digits, `-`, `_` and `.`, at most 64.
    pub run_id: String,
    /// Independent lock nodes.
    pub nodes: u32,
    pub clients: u32,
    /// As [`Docker::prepare`] returned them.
    pub images: Images,
    pub client: ClientCommand,
    /// The network's addresses; chosen when not given.
    pub subnet: Option<ipnet::Ipv4Net>,
    /// The process that the run lives and dies with.
    pub owner: Owner,
    pub persistence: Persistence,
    /// Whether members' wall clocks are to go wrong, or what they sync is to be known: they are started with our
    /// library preloaded.
    pub preload: bool,
    /// Whether packets between members are to be tampered with: the agent is told of the network.
    pub network_faults: bool,
}

impl ClusterSpec {
    /// How many members need an address of their own: nodes, clients, and the store.
    pub fn addresses(&self) -> u64 {
        u64::from(self.nodes) + u64::from(self.clients) + 1
    }
}

/// What a client's container runs.
#[derive(Clone, Debug)]
pub enum ClientCommand {
    /// `redjepsen client`, from the runtime image.
    BuiltIn,
    /// A user's own client, in [`Images::client`], or in the runtime image (which has no other programs) when there is none.
    Custom {
        /// Program and arguments; the image's own entrypoint and command do not count.
        argv: Vec<String>,
        /// Files and folders of the engine's machine that the client needs.
        mounts: Vec<ClientMount>,
        /// Environment variables in addition to the image's.
        env: Vec<(String, String)>,
    },
}

/// A file or folder that a client sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientMount {
    /// Absolute path on the engine's machine.
    pub source: String,
    /// Absolute path in the container.
    pub target: String,
    pub read_only: bool,
}

/// One member of a running cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// `n0`, `store`, `c0`, `agent`.
    pub name: String,
    pub role: Role,
    /// None for the agent, which has the engine's own network.
    pub address: Option<Ipv4Addr>,
    /// Id of its container.
    pub container: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Node,
    Store,
    Client,
    Agent,
}

impl Role {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Role::Node => "node",
            Role::Store => "store",
            Role::Client => "client",
            Role::Agent => "agent",
        }
    }

    /// Whether it is a Redis server.
    pub fn is_server(self) -> bool {
        matches!(self, Role::Node | Role::Store)
    }
}

/// The name of lock node number `node`, counted from 0.
pub fn node_name(node: u32) -> String {
    format!("n{node}")
}

/// The name of client number `client`, counted from 0.
pub fn client_name(client: u32) -> String {
    format!("c{client}")
}

pub(crate) fn network_name(run_id: &str) -> String {
    format!("redjepsen-{run_id}")
}

pub(crate) fn container_name(run_id: &str, member: &str) -> String {
    format!("redjepsen-{run_id}-{member}")
}

pub(crate) fn labels_of(spec: &ClusterSpec, role: &str) -> HashMap<String, String> {
    let mut labels = HashMap::from(spec.owner.labels());
    labels.insert(LABEL.to_string(), "1".to_string());
    labels.insert(LABEL_RUN.to_string(), spec.run_id.clone());
    labels.insert(LABEL_ROLE.to_string(), role.to_string());
    labels
}
