//! Starts what a run needs, and names its members: lock nodes `n0`, `n1`, …, Sentinels `s0`, …, the resource's own Redis
//! `resource`, client processes `c0`, `c1`, …, each at an address of its own in one network, and the `agent` that carries
//! out faults.
//!
//! Two kinds of clusters, behind one type. To members, and to faults, they look alike: each member has its own process
//! and network namespace and host name, files of ours lie in [`FILES`], and the agent is close by.
//!
//! - [`platform`](Platform): where it is to run, and what is there
//! - `docker`: containers, made through the Engine API
//! - `local`, `sandbox`: programs of this machine, each in namespaces of its own
//! - [`cluster`](Cluster): what one can do with a running cluster; `backend` tells the kinds apart, `ready` waits until
//!   members answer, [`lines`](ClientProcess) is the clients' stdio
//! - `reset`: makes a cluster as new, for another run
//! - `server`, `databases`, `group_files`: what servers run, and start with where they belong together; [`group`](Roles): who is what
//!   among them
//! - `address`, `back_off`, `redis_program`, `installed`: what both kinds share
//! - [`clean`](clean()): removes what dead runs left, by the [`Owner`] that each run has
//!
//! Deliberately absent: faults (see [`faults`](crate::faults)), the protocol spoken with clients, and any notion of time.

mod address;
mod back_off;
mod backend;
mod clean;
#[expect(clippy::module_inception, reason = "the cluster itself, among what it is made with")]
mod cluster;
mod databases;
mod docker;
mod error;
mod group;
mod group_files;
mod installed;
mod lines;
mod local;
mod owner;
mod platform;
mod ready;
mod redis_program;
mod reset;
pub mod sandbox;
mod server;

use std::net::Ipv4Addr;

pub use clean::{CleanOptions, Cleaned, CleanedRun, KeptRun, clean};
pub use cluster::{Cluster, Description};
pub use docker::{Bundle, DEFAULT_NODE_IMAGE, Docker, Engine, Image, ImageRequest, Images, NodeImage, NodeSource};
pub use error::ClusterError;
pub use group::Roles;
pub use lines::{ClientOutput, ClientProcess};
pub use local::Local;
pub use owner::Owner;
pub use platform::{Platform, PlatformRequest};
pub use reset::InitialState;
use server::Server;

use crate::members::{AGENT, RESOURCE, Role, client_name, node_name, sentinel_name};
use crate::topology::{OwnClient, Persistence, Program, Topology};

/// Where a member sees files of ours, which others do not see.
pub(crate) const FILES: &str = "/redjepsen";

/// What to start.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSpec {
    /// Names the run: letters, digits, `-`, `_` and `.`, at most 64.
    pub run_id: String,
    /// Lock nodes.
    pub nodes: u32,
    /// What they run.
    pub program: Program,
    /// How those of Redis belong together. Those of other programs are one group by nature.
    pub topology: Topology,
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
    /// How many members need an address of their own: nodes, Sentinels, clients, and the resource where it has a server of its own.
    pub fn addresses(&self) -> u64 {
        let resource = u64::from(!self.program.keeps_resource());
        u64::from(self.nodes) + u64::from(self.topology.sentinels()) + u64::from(self.clients) + resource
    }

    /// All members that have an address in this network, in the order of their addresses.
    pub(crate) fn members(&self, subnet: ipnet::Ipv4Net) -> Vec<Member> {
        let nodes = (0..self.nodes).map(|node| (node_name(node), Role::Node));
        let sentinels = (0..self.topology.sentinels()).map(|sentinel| (sentinel_name(sentinel), Role::Sentinel));
        let clients = (0..self.clients).map(|client| (client_name(client), Role::Client));
        let resource = (!self.program.keeps_resource()).then(|| (RESOURCE.to_string(), Role::Resource));
        let named = nodes.chain(sentinels).chain(resource).chain(clients);
        let member = |(place, (name, role))| {
            let address = address::address(subnet, place);
            Member { name, role, address, server: None, container: None }
        };
        let mut members: Vec<Member> = (0..).zip(named).map(member).collect();
        server::equip(self, &mut members);
        members
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCommand {
    /// `redjepsen client`.
    BuiltIn,
    Own(OwnClient),
}

/// One member of a running cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// `n0`, `s0`, `resource`, `c0`, `agent`.
    pub name: String,
    pub role: Role,
    /// None for the agent, which is outside of the members' network.
    pub address: Option<Ipv4Addr>,
    /// What it runs, if it is a server.
    pub(crate) server: Option<Server>,
    /// Id of its container, where it has one.
    pub container: Option<String>,
}

impl Member {
    /// The agent: no server, and outside of the members' network.
    pub(crate) fn agent() -> Member {
        Member { name: AGENT.to_string(), role: Role::Agent, address: None, server: None, container: None }
    }

    /// How it is reached; nothing for those that are no servers.
    pub(crate) fn url(&self) -> Option<String> {
        Some(self.server.as_ref()?.url(self.address?))
    }

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
