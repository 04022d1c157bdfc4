//! The description of a cluster to start, and its members.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use super::error::ClusterError;
use super::owner::Owner;
use base::members::{AGENT, Role};
use model::topology::server::Server;
use model::topology::{InstalledClient, NamedServer, OwnClient, Persistence, Program, Topology};

/// The path where a member sees redjepsen's files; each member sees only its own files.
pub const FILES: &str = "/redjepsen";

#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSpec {
    /// The name of the run: letters, digits, `-`, `_` and `.`, at most 64 characters.
    pub run_id: String,
    pub nodes: u32,
    pub program: Program,
    /// Which server a simulated Redis behaves as; None for the usual one.
    pub server: Option<NamedServer>,
    /// The servers to which faults upgrade nodes, each with its program; None in virtual time.
    pub upgrades: Vec<(NamedServer, Option<PathBuf>)>,
    /// The lock that needs `SET … IFEQ` on its nodes, by the workload's name, if it does.
    pub needs_ifeq: Option<String>,
    /// How Redis nodes form a group. Nodes of other programs always form one group.
    pub topology: Topology,
    pub clients: u32,
    /// How many clients share one process. The process has the name of its first client.
    pub threads: u32,
    pub client: ClientCommand,
    /// The subnet of all members; None to choose one.
    pub subnet: Option<ipnet::Ipv4Net>,
    pub owner: Owner,
    pub persistence: Persistence,
    /// Further settings of the lock's nodes, each as a name and its values.
    pub config: Vec<Vec<String>>,
    /// True if redjepsen's library is preloaded into members, to skew their wall clocks or to record what they sync.
    pub preload: bool,
    /// True if faults may affect packets between members: if so, the agent learns the network.
    pub network_faults: bool,
}

#[cfg(test)]
impl ClusterSpec {
    /// Five independent Redis nodes and five clients.
    pub fn for_test() -> ClusterSpec {
        ClusterSpec {
            run_id: "r".to_string(),
            nodes: 5,
            program: Program::Redis,
            server: None,
            upgrades: Vec::new(),
            needs_ifeq: None,
            topology: Topology::Independent,
            clients: 5,
            threads: 1,
            client: ClientCommand::BuiltIn,
            subnet: None,
            owner: Owner::current(),
            persistence: Persistence::None,
            config: Vec::new(),
            preload: false,
            network_faults: true,
        }
    }
}

impl ClusterSpec {
    /// How many members need an address: nodes, Sentinels, clients, and the resource if it has its own server.
    pub fn addresses(&self) -> u64 {
        let resource = u64::from(!self.program.keeps_resource());
        u64::from(self.nodes) + u64::from(self.topology.sentinels()) + self.client_processes() + resource
    }

    /// How many processes the clients have.
    pub fn client_processes(&self) -> u64 {
        u64::from(self.clients.div_ceil(self.threads.max(1)))
    }

    /// True if the library is preloaded into members of this role.
    pub fn preloads(&self, role: Role) -> bool {
        self.preload && matches!(role, Role::Node | Role::Client)
    }

    pub fn check_run_id(&self) -> Result<(), ClusterError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let first = self.run_id.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
        if first && self.run_id.len() <= 64 && self.run_id.chars().all(allowed) {
            return Ok(());
        }
        Err(ClusterError::BadRunId { run_id: self.run_id.clone() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCommand {
    /// `redjepsen client`.
    BuiltIn,
    Own(OwnClient),
    Installed(InstalledClient),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// For example `n0`, `s0`, `resource`, `c0` or `agent`.
    pub name: String,
    pub role: Role,
    /// None for the agent, which is outside the members' network.
    pub address: Option<Ipv4Addr>,
    /// The member's server; None if it is not a server.
    pub server: Option<Server>,
    pub container: Option<String>,
}

impl Member {
    /// The agent. It is not a server, and it is outside the members' network.
    pub fn agent() -> Member {
        Member { name: AGENT.to_string(), role: Role::Agent, address: None, server: None, container: None }
    }

    /// The member's URL; None if it is not a server.
    pub fn url(&self) -> Option<String> {
        Some(self.server.as_ref()?.url(self.address?))
    }

    pub fn container_id(&self) -> &str {
        self.container.as_deref().unwrap_or_default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberState {
    pub name: String,
    pub role: Role,
    pub running: bool,
    /// A text for messages, such as `Exited (137) 2 seconds ago`.
    pub text: String,
}
