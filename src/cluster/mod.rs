//! Starts what a run needs, and names its members: lock nodes `n0`, `n1`, …, the resource's own Redis `store`, client
//! processes `c0`, `c1`, …, each at an address of its own in one network, and the `agent` that carries faults out.
//!
//! Two kinds of clusters, behind one type. To members, and to faults, they look alike: each member has its own process
//! and network namespace and host name, files of ours lie in [`FILES`], and the agent is close by.
//!
//! - [`platform`](Platform): where it is to run, and what is there
//! - `docker`: containers, made through the Engine API
//! - `local`, `hub`: programs of this machine, each in namespaces of its own
//! - [`cluster`](Cluster): what one can do with a running cluster; `backend` tells the kinds apart, `settle` waits until
//!   members answer, [`lines`](ClientProcess) is the clients' stdio
//! - `address`, `server`, `back_off`, `redis_program`: what both kinds share
//! - [`clean`](clean()): removes what dead runs left, by the [`Owner`] that each run has
//!
//! Deliberately absent: faults (see [`faults`](crate::faults)), the protocol spoken with clients, and any notion of time.

mod address;
mod back_off;
mod backend;
mod clean;
#[expect(clippy::module_inception, reason = "the cluster itself, among what it is made with")]
mod cluster;
mod docker;
mod error;
pub mod hub;
mod lines;
mod local;
mod owner;
mod platform;
mod redis_program;
mod server;
mod settle;

use std::net::Ipv4Addr;

pub use clean::{CleanOptions, Cleaned, CleanedRun, KeptRun, clean};
pub use cluster::{Cluster, Description};
pub use docker::{Bundle, DEFAULT_NODE_IMAGE, Docker, Engine, Image, ImageRequest, Images, NodeImage, NodeSource};
pub use error::ClusterError;
pub use lines::{ClientOutput, ClientProcess};
pub use local::Local;
pub use owner::Owner;
pub use platform::{Platform, PlatformKind, PlatformRequest};

use crate::scenario::Persistence;

/// The port that every server listens on.
pub const REDIS_PORT: u16 = 6379;
/// The name of the resource's own Redis.
pub const STORE: &str = "store";
/// The name of the agent.
pub const AGENT: &str = "agent";
/// Where a member sees files of ours, which others do not see.
pub(crate) const FILES: &str = "/redjepsen";

/// What to start.
#[derive(Clone, Debug)]
pub struct ClusterSpec {
    /// Names the run: letters, digits, `-`, `_` and `.`, at most 64.
    pub run_id: String,
    /// Independent lock nodes.
    pub nodes: u32,
    pub clients: u32,
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

    /// All members that have an address, in the order of their addresses.
    pub(crate) fn members(&self) -> impl Iterator<Item = (String, Role)> {
        let nodes = (0..self.nodes).map(|node| (node_name(node), Role::Node));
        let clients = (0..self.clients).map(|client| (client_name(client), Role::Client));
        nodes.chain([(STORE.to_string(), Role::Store)]).chain(clients)
    }

    /// Only what is under test keeps anything; the store has to be there at the end all the same.
    pub(crate) fn persistence_of(&self, role: Role) -> Persistence {
        if role == Role::Node { self.persistence } else { Persistence::None }
    }

    /// Whether members of this role get the library.
    pub(crate) fn preloads(&self, role: Role) -> bool {
        self.preload && matches!(role, Role::Node | Role::Client)
    }

    pub(crate) fn check_run_id(&self) -> Result<(), ClusterError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let first = self.run_id.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
        if first && self.run_id.len() <= 64 && self.run_id.chars().all(allowed) {
            return Ok(());
        }
        Err(ClusterError::BadRunId { run_id: self.run_id.clone() })
    }
}

/// What a client runs.
#[derive(Clone, Debug)]
pub enum ClientCommand {
    /// `redjepsen client`.
    BuiltIn,
    /// A user's own client. In Docker it runs in [`Images::client`], or in the runtime image (which has no other
    /// programs) when there is none.
    Custom {
        /// Program and arguments; an image's own entrypoint and command do not count.
        argv: Vec<String>,
        /// Files and folders of the engine's machine that the client needs. A local one sees them as they are.
        mounts: Vec<ClientMount>,
        /// Environment variables in addition to the image's, or to this process's.
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
    /// None for the agent, which is outside of the members' network.
    pub address: Option<Ipv4Addr>,
    /// Id of its container, where it has one.
    pub container: Option<String>,
}

impl Member {
    pub(crate) fn container_id(&self) -> &str {
        self.container.as_deref().unwrap_or_default()
    }
}

/// Whether a member runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberState {
    pub name: String,
    pub role: Role,
    pub running: bool,
    /// For people, such as `Exited (137) 2 seconds ago`.
    pub text: String,
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

/// How a server is reached.
fn url(address: Ipv4Addr) -> String {
    format!("redis://{address}:{REDIS_PORT}")
}
