//! Simulated clusters: the same clients, faults and controller, with servers and a network in memory and in virtual time.
//!
//! Everything happens on one thread and by one clock, the runtime's, which must be [virtual](in_virtual_time). Whatever
//! is random is drawn from one seed, so the same scenario makes the same history, byte for byte.
//!
//! - `world`: machines with their clocks, what runs on them, and what will happen when
//! - `network`: connections, their segments, and what faults do to them; what follows from it is an effect that the world
//!   carries out
//! - `stream`: a client's end of a connection; `machine`: what a client sees of its machine
//! - `between`: where tests plant bugs that the tester must find
//! - `host`: faults on members; `run`: how members are started, and the agent as a task
//!
//! What the model of TCP has: order and retransmission within a connection, with timeouts that double as Linux's do, the
//! opening of connections, resets, and that a closed connection is noticed only when the network lets it be known. What
//! it has not: windows, congestion, and connections that are closed one way only.

mod between;
mod host;
mod machine;
mod network;
mod run;
mod servers;
mod stream;
#[cfg(test)]
mod tests;
mod world;

use std::net::Ipv4Addr;
use std::sync::Arc;

use ipnet::Ipv4Net;

use super::backend::Backend;
use super::cluster::{Cluster, Description, MemberHandle};
use super::error::ClusterError;
use super::{ClientCommand, ClusterSpec, Member, address};
use crate::members::Role;
use crate::topology::Program;

pub(crate) use self::between::Between;
pub(crate) use self::run::SimulatedRun;
pub use self::world::{START_OF_TIME, in_virtual_time};

/// The members' network.
const SUBNET: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 213, 0, 0), 16);

/// Makes simulated clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// Draws what the network does by itself, and what servers draw.
    pub seed: u64,
    pub distance: Distance,
}

/// How far the members are from each other, which is how long what they send is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distance {
    /// Machines of a data centre: mostly one or two milliseconds, at times eight.
    #[default]
    DataCentre,
    /// One machine, as where real clusters are started: mostly less than can be told from nothing.
    OneMachine,
}

impl Simulated {
    pub fn new(seed: u64) -> Simulated {
        Simulated { seed, distance: Distance::default() }
    }

    /// Whether this cluster can be simulated; the error says what can't be.
    pub fn check(self, spec: &ClusterSpec) -> Result<(), ClusterError> {
        let refuse = |reason: String| Err(ClusterError::Simulated { reason });
        match &spec.client {
            ClientCommand::BuiltIn => {}
            ClientCommand::Own(_) | ClientCommand::Installed(_) => {
                return refuse(
                    "only redjepsen's own clients live in virtual time, and this one is a program of its own"
                        .to_string(),
                );
            }
        }
        if spec.program != Program::Redis {
            return refuse(format!("{} is not simulated, only Redis is", spec.program));
        }
        address::check_room(subnet(spec), spec.addresses())
    }

    /// Starts a cluster and waits until every server answers and every client runs.
    ///
    /// Must be called in [virtual time](in_virtual_time).
    pub async fn start(self, spec: ClusterSpec) -> Result<Cluster, ClusterError> {
        self.start_with(spec, None).await
    }

    /// The same, with something between its parts.
    pub(crate) async fn start_with(
        self,
        spec: ClusterSpec,
        between: Option<Arc<dyn Between>>,
    ) -> Result<Cluster, ClusterError> {
        spec.check_run_id()?;
        self.check(&spec)?;
        let subnet = subnet(&spec);
        let members = spec.members(subnet);
        let run = SimulatedRun::new(self, between, &spec, &members, subnet);
        let agent = run.start_agent();
        let placed = members.into_iter().map(MemberHandle::new);
        let cluster = Cluster {
            run_id: spec.run_id.clone(),
            topology: spec.topology.clone(),
            description: Description {
                cluster: "sim",
                nodes: "simulated Redis".to_string(),
                server: String::new(),
                kernel: String::new(),
                engine: None,
                subnet,
            },
            handles: [MemberHandle::new(Member::agent())].into_iter().chain(placed).map(Arc::new).collect(),
            agent,
            backend: Backend::Simulated(run),
        };
        for handle in &cluster.handles {
            match handle.member.role {
                Role::Agent => {}
                role if role.is_server() => cluster.backend.start_server(&handle.member).await?,
                _ => handle.keep(cluster.backend.start_attached(&handle.member, &handle.log).await?),
            }
        }
        // One after the other, so that nothing depends on which of them is asked first.
        let server = cluster.make_all_ready(1).await?;
        Ok(cluster.called(format!("simulated {server}")))
    }
}

fn subnet(spec: &ClusterSpec) -> Ipv4Net {
    spec.subnet.map_or(SUBNET, |subnet| subnet.trunc())
}
