//! Simulated clusters: the same clients, faults and controller, with servers and a network in memory and in virtual time.
//!
//! Everything happens on one thread and by one clock, the runtime's, which must be [virtual](in_virtual_time). Whatever
//! is random is drawn from one seed, so the same scenario makes the same history, byte for byte.
//!
//! - `world`: machines with their clocks, what runs on them, and what will happen when
//! - `network`: connections, their segments, and what faults do to them; what follows from it is an effect that the world
//!   carries out
//! - `stream`: a client's end of a connection; `machine`: what a client sees of its machine
//! - `bug_injector`: where tests plant bugs that the tester must find
//! - `host`: faults on members; `run`: how members are started, and the agent as a task
//!
//! What the model of TCP has: order and retransmission within a connection, with timeouts that double as Linux's do, the
//! opening of connections, resets, and that a closed connection is noticed only when the network lets it be known. What
//! it has not: windows, congestion, and connections that are closed one way only.

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
                    "only redjepsen's own clients can run in virtual time, and this client is a separate program"
                        .to_string(),
                );
            }
        }
        if spec.program != Program::Redis {
            return refuse(format!("{} cannot be simulated, only Redis can", spec.program));
        }
        if !spec.config.is_empty() {
            return refuse("--redis-config is for real servers; use --cluster local or --cluster docker".to_string());
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
                role if role.is_server() => run.start_server(&handle.member).await?,
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
        // One after the other, so that nothing depends on which of them is asked first.
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

    /// It goes with its tasks.
    async fn remove(&self, _: &str) -> Result<(), ClusterError> {
        Ok(())
    }

    async fn patience(&self, _: Duration) {}

    fn traces(&self, _: &str) -> String {
        "nothing".to_string()
    }
}

/// A simulated cluster lacks nothing.
pub(super) fn find(request: &PlatformRequest) -> Arc<dyn Provider> {
    Arc::new(Simulated::new(request.seed))
}

fn subnet(spec: &ClusterSpec) -> Ipv4Net {
    spec.subnet.map_or(SUBNET, |subnet| subnet.trunc())
}
