//! Starts what a run needs and names its members: lock nodes `n0`, `n1`, …, Sentinels `s0`, …, the resource's own Redis
//! `resource`, client processes `c0`, `c1`, …, each at its own address in one network, and the `agent` that injects the
//! faults.
//!
//! There are three kinds of clusters behind one type. Members and faults see no difference between two of them: each
//! member has its own PID and network namespace and host name, our files are in [`FILES`], and the agent is on the same
//! machine. The third is simulated. A kind is a `provider`, which finds out whether it can be had and starts members, and
//! a `backend`, which works on them; nothing else tells the kinds apart.
//!
//! - `docker`: containers, made through the Engine API
//! - `local`, `sandbox`: programs of this machine, each in namespaces of its own
//! - `simulated`: servers, network and processes in memory and virtual time
//! - [`platform`](Platform): the list of kinds, and which of them can be had; `start`: from the `parts` that one makes to
//!   a cluster that answers; `starts`: how a start is given up
//! - [`cluster`](Cluster): operations on a running cluster; `ready` waits until members answer,
//!   [`lines`](ClientProcess) is the clients' stdio
//! - `reset`: resets a used cluster to its initial state, for another run
//! - `servers`, `databases`: what servers run; `group`: their roles, as the [`topology`](crate::topology) tells them
//! - `address`, `back_off`, `redis_program`, `installed`: what several kinds share
//! - [`clean`](clean()): removes what dead runs left, by the [`Owner`] that each run has
//!
//! Deliberately absent: faults (see [`faults`](crate::faults)), the clients' protocol, and any notion of time.

mod address;
mod back_off;
mod backend;
mod clean;
mod cleaned;
#[expect(clippy::module_inception, reason = "the cluster itself, among what it is made with")]
mod cluster;
mod databases;
mod docker;
mod error;
mod group;
mod installed;
mod lines;
mod local;
mod owner;
mod parts;
mod platform;
mod provider;
mod ready;
mod redis_program;
mod reset;
pub mod sandbox;
mod servers;
mod simulated;
mod start;
mod starts;

use std::net::Ipv4Addr;

pub use clean::clean;
pub use cleaned::{CleanOptions, Cleaned, CleanedRun, KeptRun};
pub use cluster::Cluster;
pub use docker::{Bundle, DEFAULT_NODE_IMAGE, Docker, Engine, Image, ImageRequest, Images, NodeImage};
pub use error::ClusterError;
pub use lines::{ClientOutput, ClientProcess};
pub use local::Local;
pub use owner::Owner;
pub use parts::Description;
pub use platform::Platform;
pub use provider::{ClientSource, NodeSource, PlatformRequest};
pub use reset::InitialState;
pub(crate) use simulated::BugInjector;
pub use simulated::{Distance, START_OF_TIME, Simulated, in_virtual_time};

use crate::members::{AGENT, RESOURCE, Role, client_name, node_name, sentinel_name};
pub use crate::topology::Roles;
use crate::topology::server::Server;
use crate::topology::{InstalledClient, OwnClient, Persistence, Program, Topology};

/// Where a member sees our files; each member sees only its own.
pub(crate) const FILES: &str = "/redjepsen";

/// What to start.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSpec {
    /// Names the run: letters, digits, `-`, `_` and `.`, at most 64 characters.
    pub run_id: String,
    /// Lock nodes.
    pub nodes: u32,
    /// What they run.
    pub program: Program,
    /// How Redis nodes form a group. Nodes of other programs always form one group.
    pub topology: Topology,
    pub clients: u32,
    /// How many of the clients share one process, which has the name of the first of them.
    pub threads: u32,
    pub client: ClientCommand,
    /// The network's addresses; chosen if `None`.
    pub subnet: Option<ipnet::Ipv4Net>,
    /// The process that the run lives and dies with.
    pub owner: Owner,
    pub persistence: Persistence,
    /// Whether our library is preloaded into members, to skew their wall clocks or to record what they sync.
    pub preload: bool,
    /// Whether packets between members can be tampered with: if so, the agent is told of the network.
    pub network_faults: bool,
}

impl ClusterSpec {
    /// How many members need an address: nodes, Sentinels, clients, and the resource if it has its own server.
    pub fn addresses(&self) -> u64 {
        let resource = u64::from(!self.program.keeps_resource());
        u64::from(self.nodes) + u64::from(self.topology.sentinels()) + self.client_processes() + resource
    }

    /// How many processes the clients are.
    pub fn client_processes(&self) -> u64 {
        u64::from(self.clients.div_ceil(self.threads.max(1)))
    }

    /// All members with an address in this network, in the order of their addresses.
    pub(crate) fn members(&self, subnet: ipnet::Ipv4Net) -> Vec<Member> {
        let nodes = (0..self.nodes).map(|node| (node_name(node), Role::Node));
        let sentinels = (0..self.topology.sentinels()).map(|sentinel| (sentinel_name(sentinel), Role::Sentinel));
        let clients =
            (0..self.clients).step_by(self.threads.max(1) as usize).map(|client| (client_name(client), Role::Client));
        let resource = (!self.program.keeps_resource()).then(|| (RESOURCE.to_string(), Role::Resource));
        let named = nodes.chain(sentinels).chain(resource).chain(clients);
        let member = |(place, (name, role))| {
            let address = address::address(subnet, place);
            Member { name, role, address, server: None, container: None }
        };
        let mut members: Vec<Member> = (0..).zip(named).map(member).collect();
        servers::assign_servers(self, &mut members);
        members
    }

    /// Whether the library is preloaded into members of this role.
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
    /// A workload's own.
    Installed(InstalledClient),
}

/// One member of a running cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// `n0`, `s0`, `resource`, `c0`, `agent`.
    pub name: String,
    pub role: Role,
    /// None for the agent, which is outside the members' network.
    pub address: Option<Ipv4Addr>,
    /// What it runs, if it is a server.
    pub(crate) server: Option<Server>,
    /// Id of its container, if it has one.
    pub container: Option<String>,
}

impl Member {
    /// The agent: no server, and outside the members' network.
    pub(crate) fn agent() -> Member {
        Member { name: AGENT.to_string(), role: Role::Agent, address: None, server: None, container: None }
    }

    /// Its URL; none if it is not a server.
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
