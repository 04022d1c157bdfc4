//! What simulated servers start with: the same roles, groups and settings as real ones (see `server` and `group_files`).

use std::net::SocketAddrV4;

use simulated_redis::{
    Action, Clocks, ClusterConfig, ClusterMember, Config, Connection, Disk, Event, Persistence, Process, Sentinel,
    SentinelConfig, Server,
};

use super::super::group_files::{GROUP_NAME, Group};
use super::super::{ClusterSpec, Member};
use crate::members::{Role, node_name, sentinel_name};
use crate::topology::{self, REDIS_PORT, Topology};

/// How far a node's port for other nodes of a Redis Cluster is above that for clients.
const BUS: u16 = 10_000;

/// A server's program, with what it starts with.
#[derive(Clone)]
pub(super) enum Program {
    Redis(Config),
    Sentinel(SentinelConfig),
}

/// A server that runs.
pub(super) enum Running {
    Redis(Box<Server>),
    Sentinel(Box<Sentinel>),
}

/// An event of a server, with what it needs to wait.
pub(super) enum Happened {
    Accepted { connection: Connection, peer: SocketAddrV4, local: SocketAddrV4 },
    Connected(Connection),
    Refused(Connection),
    Received(Connection, Vec<u8>),
    Closed(Connection),
    Wake,
}

impl Program {
    /// What this member runs, if it is a server. `number` counts those of its role.
    pub fn of(spec: &ClusterSpec, group: &Group, member: &Member, number: usize, seed: u64) -> Option<Program> {
        let address = SocketAddrV4::new(member.address?, member.server.as_ref()?.port);
        let plain = Config::new(address, seed);
        Some(match (member.role, &spec.topology) {
            (Role::Sentinel, Topology::Sentinel(options)) => {
                let (sentinels, replicas) = (&group.sentinels, group.nodes.iter().skip(1));
                let others = sentinels.iter().enumerate().filter(|(other, _)| *other != number);
                Program::Sentinel(SentinelConfig {
                    address,
                    id: group.id(&sentinel_name(u32::try_from(number).ok()?)),
                    group: GROUP_NAME.to_string(),
                    primary: SocketAddrV4::new(*group.nodes.first()?, REDIS_PORT),
                    quorum: sentinels.len() / 2 + 1,
                    down_after: options.down_after,
                    failover_timeout: options.failover_timeout,
                    parallel_syncs: group.nodes.len().saturating_sub(1).max(1),
                    replicas: replicas.map(|replica| SocketAddrV4::new(*replica, REDIS_PORT)).collect(),
                    sentinels: others
                        .map(|(other, at)| {
                            let name = sentinel_name(u32::try_from(other).unwrap_or_default());
                            (SocketAddrV4::new(*at, address.port()), group.id(&name))
                        })
                        .collect(),
                    seed,
                })
            }
            (Role::Node, Topology::Sentinel(_)) => {
                let primary = group.nodes.first().filter(|_| number > 0);
                Program::Redis(Config {
                    persistence: persistence(spec),
                    replica_of: primary.map(|primary| SocketAddrV4::new(*primary, REDIS_PORT)),
                    replica_priority: u32::try_from(10 * (number + 1)).unwrap_or(u32::MAX),
                    ..plain
                })
            }
            (Role::Node, Topology::Cluster(options)) => {
                let nodes = (0..).zip(&group.nodes).map(|(node, at)| cluster_member(group, node, *at)).collect();
                let cluster = Some(ClusterConfig { node_timeout: options.node_timeout, nodes });
                Program::Redis(Config { persistence: persistence(spec), cluster, ..plain })
            }
            (Role::Node, Topology::Independent) => Program::Redis(Config { persistence: persistence(spec), ..plain }),
            _ => Program::Redis(plain),
        })
    }

    /// Whether it accepts connections at this port.
    pub fn listens_on(&self, port: u16) -> bool {
        match self {
            Program::Redis(config) => {
                let own = config.address.port();
                port == own || (config.cluster.is_some() && port == own + BUS)
            }
            Program::Sentinel(config) => port == config.address.port(),
        }
    }

    pub fn start(&self, disk: Disk, clocks: Clocks) -> Running {
        match self {
            Program::Redis(config) => Running::Redis(Box::new(Server::start(config.clone(), disk, clocks))),
            Program::Sentinel(config) => Running::Sentinel(Box::new(Sentinel::start(config.clone(), disk, clocks))),
        }
    }
}

impl Running {
    pub fn handle(&mut self, event: Event<'_>, clocks: Clocks, actions: &mut Vec<Action>) {
        match self {
            Running::Redis(server) => server.handle(event, clocks, actions),
            Running::Sentinel(sentinel) => sentinel.handle(event, clocks, actions),
        }
    }

    pub fn next_wake(&self) -> Option<std::time::Duration> {
        match self {
            Running::Redis(server) => server.next_wake(),
            Running::Sentinel(sentinel) => sentinel.next_wake(),
        }
    }

    /// What is left on its disk when it ends at once; without what it had not synced if the power is gone as well.
    pub fn end(self, unsynced_too: bool) -> Disk {
        match self {
            Running::Redis(server) if unsynced_too => server.lose_power(),
            Running::Redis(server) => server.kill(),
            Running::Sentinel(sentinel) => sentinel.kill(),
        }
    }
}

fn persistence(spec: &ClusterSpec) -> Persistence {
    match spec.persistence {
        topology::Persistence::None => Persistence::None,
        topology::Persistence::Everysec => Persistence::Everysec,
        topology::Persistence::Always => Persistence::Always,
    }
}

fn cluster_member(group: &Group, node: usize, at: std::net::Ipv4Addr) -> ClusterMember {
    let id = |node: usize| group.id(&node_name(u32::try_from(node).unwrap_or_default()));
    let of = node % group.primaries.max(1);
    let is_primary = node < group.primaries;
    let slot = |edge: usize| u16::try_from(edge).unwrap_or(u16::MAX);
    let (first, last) = group.slots_of(of);
    ClusterMember {
        id: id(node),
        address: SocketAddrV4::new(at, REDIS_PORT),
        primary: (!is_primary).then(|| id(of)),
        slots: if is_primary { vec![(slot(first), slot(last))] } else { Vec::new() },
        epoch: of as u64 + 1,
    }
}
