//! The parts of a cluster: its kind, the program and persistence of its servers, their group, and the user's own client.
//!
//! To add a kind of group, add a file with its options that is a [`Group`], and a variant of [`Topology`]. In `client`, add a
//! file that finds its primary.

mod existing;
mod group;
mod kinds;
mod named_server;
mod redis_cluster;
pub mod redis_config;
mod sentinel;
pub mod server;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use existing::ExistingServers;
pub use group::{Group, Layout, Roles, Servers, field};
pub use kinds::{ClusterKind, KINDS, Kind};
pub use named_server::NamedServer;
pub use redis_cluster::{BUS, ClusterOptions};
pub use sentinel::SentinelOptions;

use base::units::Length;

pub const REDIS_PORT: u16 = 6379;
/// The program of a server. A cluster in Docker has an image for each program, a local one uses a program of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    /// A Redis-compatible server; with `--sentinel` it watches others.
    #[default]
    Redis,
    Etcd,
    Zookeeper,
    /// A PostgreSQL server, started by redjepsen's script.
    Postgres,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnClient {
    /// Program and arguments; an image's own entrypoint and command do not count.
    pub command: Vec<String>,
    /// The image in Docker that it runs in; by default redjepsen's own, which has no other programs.
    pub image: Option<String>,
    /// Files and folders of this machine that are visible in its container. A local client sees them as they are.
    #[serde(default)]
    pub mounts: Vec<ClientMount>,
    /// The folder that a local client starts in; by default this process's folder.
    pub folder: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledClient {
    /// The program's absolute path, and its arguments.
    pub command: Vec<String>,
    pub environment: BTreeMap<String, String>,
    /// The image in Docker with such a program; if None, one is built from this machine's program.
    pub image: Option<String>,
    /// Absolute paths of the folders that it reads; they are the same in any cluster.
    pub folders: Vec<PathBuf>,
    /// Files that belong to the program itself, such as a language's standard library. An image that is built contains them too.
    pub runtime: Vec<PathBuf>,
}

/// A file or folder that is visible in a client's container, read-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientMount {
    /// Absolute path on the engine's machine.
    pub source: String,
    /// Absolute path in the container.
    pub target: String,
}

/// The data that the lock's nodes store on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// Nothing: a restarted node is empty.
    #[default]
    None,
    /// An append-only file, synced once per second.
    Everysec,
    /// An append-only file, synced before each answer.
    Always,
}

/// How the nodes of a lock form a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    #[default]
    Independent,
    /// A primary, its replicas, and Sentinels that promote a replica when the primary is gone.
    Sentinel(SentinelOptions),
    /// A Redis Cluster: half of the nodes are primaries, each for a part of the keys. Each of the others is a replica of one
    /// primary.
    Cluster(ClusterOptions),
}

/// How a client finds the primary among a lock's nodes, in the client protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockGroup {
    /// It asks Sentinels at these `redis://` URLs for the primary with this name.
    Sentinel { sentinels: Vec<String>, name: String },
    /// It asks any node which one serves the key's slot, and follows redirections.
    Cluster,
}

/// With shorter times servers would consider slow servers dead.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);

/// Refuses a length that servers can't use. The error names the option.
fn check_length(name: &str, length: Duration) -> Result<(), String> {
    if (SHORTEST..=LONGEST).contains(&length) {
        return Ok(());
    }
    let [length, shortest, longest] = [length, SHORTEST, LONGEST].map(Length::Absolute);
    Err(format!("`{name} = \"{length}\"` must lie between {shortest} and {longest}"))
}

impl Topology {
    /// The functions of this kind of group; `None` if the nodes form no group.
    pub fn group(&self) -> Option<&dyn Group> {
        match self {
            Topology::Independent => None,
            Topology::Sentinel(options) => Some(options),
            Topology::Cluster(options) => Some(options),
        }
    }

    pub fn sentinels(&self) -> u32 {
        self.group().map_or(0, Group::sentinels)
    }

    /// How many of this many nodes are primaries at the start; these are the first ones.
    pub fn primaries(&self, nodes: u32) -> u32 {
        self.group().map_or(nodes, |group| group.primaries(nodes))
    }

    /// How many replicas each primary has at the start, with this many nodes.
    pub fn replicas_each(&self, nodes: u32) -> u32 {
        nodes.checked_div(self.primaries(nodes)).map_or(0, |group| group - 1)
    }

    /// True if a node's role depends on the others and may change.
    pub fn has_roles(&self) -> bool {
        self.group().is_some()
    }

    pub fn is_independent(&self) -> bool {
        self.group().is_none()
    }

    /// Refuses nodes and options that make no valid group. The error describes a valid one.
    pub fn check(&self, nodes: u32) -> Result<(), String> {
        self.group().map_or(Ok(()), |group| group.check(nodes))
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group() {
            Some(group) => group.fmt(f),
            None => f.write_str("independent nodes"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Program::Redis => "Redis",
            Program::Etcd => "etcd",
            Program::Zookeeper => "ZooKeeper",
            Program::Postgres => "PostgreSQL",
        })
    }
}

impl Program {
    pub const ALL: [Program; 4] = [Program::Redis, Program::Etcd, Program::Zookeeper, Program::Postgres];

    /// True if the lock's node also stores the resource, so that there is no separate Redis for it.
    pub fn keeps_resource(self) -> bool {
        self == Program::Postgres
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primaries_come_first() {
        Topology::Independent.check(1).unwrap();
        assert_eq!((Topology::Independent.primaries(5), Topology::Independent.replicas_each(5)), (5, 0));
        let millis = Duration::from_millis;
        let sentinel = SentinelOptions {
            name: "lock".to_string(),
            sentinels: 3,
            down_after: millis(500),
            failover_timeout: millis(2000),
        };
        let group = Topology::Sentinel(sentinel);
        assert_eq!((group.primaries(3), group.replicas_each(3)), (1, 2));
        let cluster = Topology::Cluster(ClusterOptions { node_timeout: millis(500) });
        assert_eq!((cluster.primaries(6), cluster.replicas_each(6)), (3, 1));
    }
}
