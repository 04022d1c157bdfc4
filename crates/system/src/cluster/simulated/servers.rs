//! The configuration of simulated servers: the same roles, groups and settings as real ones (see [`topology`](model::topology)).

use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use simulated_redis::{
    Action, Clocks, Config, Connection, Disk, ExecutedCommand, Persistence, Process, ProcessEvent, Sentinel,
    SentinelConfig, Server, Version,
};

use super::super::error::ClusterError;
use super::super::spec::{ClusterSpec, Member};
use crate::faults::{Held, LOCKS, NodeState, SeenCommand};
use base::members::Role;
use base::units::nanos;
use model::topology::{self, BUS, Layout, NamedServer};

#[derive(Clone)]
pub(super) enum Program {
    Redis(Config),
    Sentinel(SentinelConfig),
}

pub(super) enum RunningServer {
    Redis(Box<Server>),
    Sentinel(Box<Sentinel>),
}

/// An event of a server, with all its data, so that it can wait.
pub(super) enum ServerEvent {
    Accepted { connection: Connection, peer: SocketAddrV4, local: SocketAddrV4 },
    Connected(Connection),
    Refused(Connection),
    Received(Connection, Vec<u8>),
    Closed(Connection),
    Wake,
}

impl Program {
    /// The member's program; None if it is not a server. `number` is the member's index among the members of its role.
    pub fn of(spec: &ClusterSpec, layout: &Layout, member: &Member, number: usize, seed: u64) -> Option<Program> {
        let address = SocketAddrV4::new(member.address?, member.server.as_ref()?.port);
        let plain = Config { version: version(spec.server.as_ref()).ok()?, ..Config::new(address, seed) };
        let group = spec.topology.group();
        Some(match member.role {
            Role::Sentinel => Program::Sentinel(group?.simulated_sentinel(layout, number, address, seed)?),
            Role::Node => {
                let redis = Config { persistence: persistence(spec), ..plain };
                Program::Redis(match group {
                    Some(group) => group.simulated_node(layout, number, redis),
                    None => redis,
                })
            }
            _ => Program::Redis(plain),
        })
    }

    pub fn listens_on(&self, port: u16) -> bool {
        match self {
            Program::Redis(config) => {
                let own = config.address.port();
                port == own || (config.cluster.is_some() && port == own + BUS)
            }
            Program::Sentinel(config) => port == config.address.port(),
        }
    }

    pub fn start(&self, disk: Disk, clocks: Clocks) -> RunningServer {
        match self {
            Program::Redis(config) => RunningServer::Redis(Box::new(Server::start(config.clone(), disk, clocks))),
            Program::Sentinel(config) => {
                RunningServer::Sentinel(Box::new(Sentinel::start(config.clone(), disk, clocks)))
            }
        }
    }
}

impl RunningServer {
    pub fn handle(&mut self, event: ProcessEvent<'_>, clocks: Clocks, actions: &mut Vec<Action>) {
        match self {
            RunningServer::Redis(server) => server.handle(event, clocks, actions),
            RunningServer::Sentinel(sentinel) => sentinel.handle(event, clocks, actions),
        }
    }

    pub fn next_wake(&self) -> Option<Duration> {
        match self {
            RunningServer::Redis(server) => server.next_wake(),
            RunningServer::Sentinel(sentinel) => sentinel.next_wake(),
        }
    }

    /// The state of the node as an observer sees it; None for a Sentinel.
    pub fn look(&self, clocks: Clocks, true_wall: Duration) -> Option<NodeState> {
        let RunningServer::Redis(server) = self else { return None };
        let wall = i64::try_from(clocks.wall.as_millis()).unwrap_or(i64::MAX);
        let monotonic = nanos(clocks.monotonic);
        let ends = |ends: i64| {
            let left = u64::try_from(ends.saturating_sub(wall)).unwrap_or(0);
            monotonic.saturating_add(left.saturating_mul(1_000_000))
        };
        let held = |(key, value, end): (&[u8], &[u8], Option<i64>)| {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            (text(key), Held { value: text(value), ends: end.map(ends) })
        };
        let ahead = clocks.wall.as_secs_f64() - true_wall.as_secs_f64();
        let ahead_us = Some((ahead * 1e6).round() as i64);
        let keys = server.shows(LOCKS.as_bytes()).map(held).collect();
        Some(NodeState { keys, primary: Some(!server.is_replica()), ahead_us })
    }

    pub fn record_commands(&mut self) {
        if let RunningServer::Redis(server) = self {
            server.record_commands();
        }
    }

    /// The commands that the server has carried out since the last call.
    pub fn take_executed(&mut self) -> Vec<SeenCommand> {
        let RunningServer::Redis(server) = self else { return Vec::new() };
        let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
        let seen = |command: ExecutedCommand| SeenCommand {
            mono_ns: nanos(command.at),
            from: command.from.map(SocketAddr::V4),
            words: command.words.iter().map(text).collect(),
            missed: None,
        };
        server.take_executed().into_iter().map(seen).collect()
    }

    /// Removes the snapshot that a fault made the server write.
    pub fn forget_snapshot(&mut self) {
        if let RunningServer::Redis(server) = self {
            server.forget_snapshot();
        }
    }

    /// Ends the server at once and returns the content of its disk. With `unsynced_too`, data that the server had not synced is
    /// lost.
    pub fn end(self, unsynced_too: bool) -> Disk {
        match self {
            RunningServer::Redis(server) if unsynced_too => server.lose_power(),
            RunningServer::Redis(server) => server.kill(),
            RunningServer::Sentinel(sentinel) => sentinel.kill(),
        }
    }
}

/// The newest simulated server that is meant; the usual one if none is named.
pub(super) fn version(server: Option<&NamedServer>) -> Result<Version, ClusterError> {
    let Some(server) = server else { return Ok(Version::default()) };
    let meant = Version::ALL.into_iter().rfind(|version| server.means(version.name(), version.number()));
    meant.ok_or_else(|| {
        let known = Version::ALL.map(|version| format!("{}:{}", version.name(), version.number()));
        ClusterError::NotSimulatedServer { server: server.to_string(), known: known.join(", ") }
    })
}

fn persistence(spec: &ClusterSpec) -> Persistence {
    match spec.persistence {
        topology::Persistence::None => Persistence::None,
        topology::Persistence::Everysec => Persistence::Everysec,
        topology::Persistence::Always => Persistence::Always,
    }
}
