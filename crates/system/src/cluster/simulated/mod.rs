//! Simulated clusters: the same clients, faults and controller, with servers and a network in memory and in virtual time.
//!
//! Everything happens on one thread and by one clock, the runtime's, which must be [virtual](in_virtual_time). All random choices
//! follow from one seed, so the same scenario makes the same history, byte for byte.
//!
//! - `world`: machines with their clocks, their processes, and the future events
//! - `network`: connections, their segments, and the effects of faults on them; the world carries out effects outside the network
//! - `stream`: a client's end of a connection; `machine`: a client's view of its machine
//! - `bug_injector`: the places where tests plant bugs that redjepsen must find
//! - `host`: faults on members; `run`: how members are started, and the agent as a task
//!
//! The model of TCP has order and retransmission within a connection, with timeouts that double as Linux's do. It also has
//! opening handshakes and resets, and an end notices a close only when the network delivers it. It does not have windows,
//! congestion, or connections that are closed in one direction only.

mod bug_injector;
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
use std::time::Duration;

use async_trait::async_trait;
use ipnet::Ipv4Net;

use super::address;
use super::backend::Backend;
use super::error::ClusterError;
use super::parts::{Description, MemberHandle, Parts};
use super::provider::{PlatformRequest, Provider};
use super::spec::{ClientCommand, ClusterSpec, Member};
use super::starts::Start;
use base::members::Role;
use model::topology::{ClusterKind, Program};

pub use self::bug_injector::BugInjector;
use self::run::SimulatedRun;
pub use self::world::{START_OF_TIME, in_virtual_time};

/// The members' network.
const SUBNET: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 213, 0, 0), 16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// The seed for the random choices of the network and of the servers.
    pub seed: u64,
    pub distance: Distance,
}

/// The distance between members, which determines how long segments are in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distance {
    /// Machines of a data centre: mostly one or two milliseconds, sometimes eight.
    #[default]
    DataCentre,
    /// One machine, as in real local clusters: mostly a negligible time.
    OneMachine,
}

impl Simulated {
    pub fn new(seed: u64) -> Simulated {
        Simulated { seed, distance: Distance::default() }
    }

    /// Checks whether this cluster can be simulated; the error says what can't be.
    pub fn check(self, spec: &ClusterSpec) -> Result<(), ClusterError> {
        let refuse = |reason: String| Err(ClusterError::Simulated { reason });
        match &spec.client {
            ClientCommand::BuiltIn => {}
            ClientCommand::Own(_) | ClientCommand::Installed(_) => {
                return refuse(
                    "only redjepsen's own clients can be simulated, and this client is a separate program".to_string(),
                );
            }
        }
        let version = servers::version(spec.server.as_ref())?;
        if let Some(workload) = spec.needs_ifeq.clone().filter(|_| !version.has_ifeq()) {
            let server = match &spec.server {
                Some(server) => server.to_string(),
                None => format!("the simulated {} {}", version.name(), version.number()),
            };
            return Err(ClusterError::NoIfeq { workload, server, install: "" });
        }
        spec.upgrades.iter().try_for_each(|(server, _)| servers::version(Some(server)).map(|_| ()))?;
        if spec.program != Program::Redis {
            return refuse(format!("{} cannot be simulated, only Redis can", spec.program));
        }
        if !spec.config.is_empty() {
            return refuse("--redis-config cannot be simulated".to_string());
        }
        address::check_room(subnet(spec), spec.addresses())
    }

    /// Starts all members, with `bugs` planted.
    pub(super) async fn parts(
        self,
        spec: &ClusterSpec,
        bugs: Option<Arc<dyn BugInjector>>,
    ) -> Result<Parts, ClusterError> {
        self.check(spec)?;
        let subnet = subnet(spec);
        let members = spec.members(subnet);
        let run = SimulatedRun::new(self, bugs, spec, &members, subnet);
        let agent = run.start_agent();
        let placed = members.into_iter().map(MemberHandle::new);
        let handles: Vec<_> = [MemberHandle::new(Member::agent())].into_iter().chain(placed).map(Arc::new).collect();
        for handle in &handles {
            match handle.member.role {
                Role::Agent => {}
                role if role.is_server() => run.start_server(&handle.member, None).await?,
                _ => handle.keep(run.start_attached(&handle.member, &handle.log).await?),
            }
        }
        let description = Description {
            cluster: self.kind().word(),
            nodes: "simulated Redis".to_string(),
            server: "simulated ".to_string(),
            kernel: String::new(),
            engine: None,
            subnet,
        };
        // Members are checked one after another, so that no result depends on the order of replies.
        Ok(Parts { description, handles, agent, backend: Box::new(run), at_once: 1 })
    }
}

#[async_trait]
impl Provider for Simulated {
    fn kind(&self) -> ClusterKind {
        ClusterKind::SIM
    }

    async fn check(&self, spec: &ClusterSpec) -> Result<(), ClusterError> {
        Simulated::check(*self, spec)
    }

    async fn start(&self, spec: &ClusterSpec, _: &Start) -> Result<Parts, ClusterError> {
        self.parts(spec, None).await
    }

    /// A simulated cluster ends with its tasks, so nothing is left to remove.
    async fn remove(&self, _: &str) -> Result<(), ClusterError> {
        Ok(())
    }

    async fn patience(&self, _: Duration) {}

    fn traces(&self, _: &str) -> String {
        "nothing".to_string()
    }
}

/// A simulated cluster needs nothing, so it is always available.
pub(super) fn find(request: &PlatformRequest) -> Arc<dyn Provider> {
    Arc::new(Simulated::new(request.seed))
}

fn subnet(spec: &ClusterSpec) -> Ipv4Net {
    spec.subnet.map_or(SUBNET, |subnet| subnet.trunc())
}
