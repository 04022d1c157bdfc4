//! What a cluster is made of: where it runs, which program its servers run, what they keep on disk, how they form a
//! group, and the user's own client.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{Length, as_text};

/// The port that every Redis server listens on.
pub const REDIS_PORT: u16 = 6379;
/// Which program a server is. A cluster in Docker has an image for each, a local one a program of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Program {
    /// A Redis-compatible server; with `--sentinel` it is one that watches others.
    #[default]
    Redis,
    /// A member of an etcd cluster.
    Etcd,
    /// A member of a ZooKeeper ensemble.
    Zookeeper,
    /// A PostgreSQL server, started by a script of ours.
    Postgres,
}

/// Where a cluster runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterKind {
    /// In Docker where an engine answers, else on this machine.
    #[default]
    Auto,
    /// In containers.
    Docker,
    /// On this machine: its own programs, each in namespaces of its own.
    Local,
    /// In memory and virtual time: simulated servers, network and processes, which repeat by their seed.
    Sim,
    /// As auto, or simulated where there is neither Docker nor Redis.
    Any,
}

/// A user's own lock client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnClient {
    /// Program and arguments; an image's own entrypoint and command do not count.
    pub command: Vec<String>,
    /// The image that it runs in, in Docker; by default redjepsen's own, which has no other programs.
    #[serde(default)]
    pub image: Option<String>,
    /// Files and folders of this machine that it sees in its container. A local client sees them as they are.
    #[serde(default)]
    pub mounts: Vec<ClientMount>,
    /// The folder that a local client starts in; by default that of this process.
    #[serde(default)]
    pub folder: Option<PathBuf>,
}

/// A client that is installed on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledClient {
    /// The program's absolute path, and its arguments.
    pub command: Vec<String>,
    pub environment: BTreeMap<String, String>,
    /// The image that has such a program, in Docker; if None, one is made of this machine's.
    pub image: Option<String>,
    /// Absolute paths of the folders that it reads, at which it finds them in any cluster.
    pub folders: Vec<PathBuf>,
    /// What belongs to the program itself, such as a language's standard library: an image that is made has it too.
    pub runtime: Vec<PathBuf>,
}

/// A file or folder that a client sees in its container, read-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientMount {
    /// Absolute path on the engine's machine.
    pub source: String,
    /// Absolute path in the container.
    pub target: String,
}

/// What the lock's nodes keep on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// Nothing: a restarted node is empty.
    #[default]
    None,
    /// An append-only file, synced once a second.
    Everysec,
    /// An append-only file, synced before each answer.
    Always,
}

/// How the nodes of a lock form a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// They know nothing of each other.
    #[default]
    Independent,
    /// A primary, its replicas, and Sentinels that promote a replica when the primary is gone.
    Sentinel(SentinelOptions),
    /// A Redis Cluster: half of the nodes are primaries for a part of the keys each, the others a replica of one each.
    Cluster(ClusterOptions),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentinelOptions {
    /// How many Sentinels there are; a majority of them must agree.
    pub sentinels: u32,
    /// How long a primary may be silent before a Sentinel takes it for dead.
    #[serde(with = "as_text")]
    pub down_after: Duration,
    /// How long a failover may take before another one is tried.
    #[serde(with = "as_text")]
    pub failover_timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterOptions {
    /// How long a node may be silent before the others take it for dead.
    #[serde(with = "as_text")]
    pub node_timeout: Duration,
}

/// Shorter times make servers take slow ones for dead.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);

impl Topology {
    /// How many Sentinels there are besides the nodes.
    pub fn sentinels(&self) -> u32 {
        match self {
            Topology::Sentinel(options) => options.sentinels,
            Topology::Independent | Topology::Cluster(_) => 0,
        }
    }

    /// How many of this many nodes are primaries at the start: the first ones.
    pub fn primaries(&self, nodes: u32) -> u32 {
        match self {
            Topology::Independent => nodes,
            Topology::Sentinel(_) => 1,
            Topology::Cluster(_) => nodes / 2,
        }
    }

    /// How many replicas each primary has at the start, with this many nodes.
    pub fn replicas_each(&self, nodes: u32) -> u32 {
        nodes.checked_div(self.primaries(nodes)).map_or(0, |group| group - 1)
    }

    /// Whether a node's role depends on the others and may change.
    pub fn has_roles(&self) -> bool {
        !self.is_independent()
    }

    pub fn is_independent(&self) -> bool {
        *self == Topology::Independent
    }

    /// Refuses nodes and options that make no valid group; the error says what would.
    pub fn check(&self, nodes: u32) -> Result<(), String> {
        let length = |name: &str, length: Duration| match (SHORTEST..=LONGEST).contains(&length) {
            true => Ok(()),
            false => {
                let text = |length| Length::Absolute(length).to_string();
                Err(format!(
                    "`{name} = \"{}\"` must lie between {} and {}",
                    text(length),
                    text(SHORTEST),
                    text(LONGEST)
                ))
            }
        };
        match self {
            Topology::Independent => Ok(()),
            Topology::Sentinel(options) => {
                if !(2..=9).contains(&nodes) {
                    return Err(format!("a Sentinel group has a primary and its replicas, 2 to 9 nodes, not {nodes}"));
                }
                if !(1..=9).contains(&options.sentinels) {
                    return Err(format!("`sentinels = {}` must lie between 1 and 9", options.sentinels));
                }
                length("down_after", options.down_after)?;
                length("failover_timeout", options.failover_timeout)
            }
            Topology::Cluster(options) => {
                if !(6..=18).contains(&nodes) || !nodes.is_multiple_of(2) {
                    return Err(format!(
                        "a Redis Cluster has 3 or more primaries with a replica each, 6, 8, … 18 nodes, not {nodes}"
                    ));
                }
                length("node_timeout", options.node_timeout)
            }
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |length| Length::Absolute(length);
        match self {
            Topology::Independent => f.write_str("independent nodes"),
            Topology::Sentinel(SentinelOptions { sentinels, down_after, failover_timeout }) => write!(
                f,
                "a primary and its replicas, watched by {sentinels} Sentinels: down after {}, failover timeout {}",
                text(*down_after),
                text(*failover_timeout)
            ),
            Topology::Cluster(ClusterOptions { node_timeout }) => {
                write!(f, "Redis Cluster, a replica for each primary: node timeout {}", text(*node_timeout))
            }
        }
    }
}

impl ClusterKind {
    /// As the user types it.
    pub fn word(self) -> &'static str {
        match self {
            ClusterKind::Auto => "auto",
            ClusterKind::Docker => "docker",
            ClusterKind::Local => "local",
            ClusterKind::Sim => "sim",
            ClusterKind::Any => "any",
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
    pub(crate) const ALL: [Program; 4] = [Program::Redis, Program::Etcd, Program::Zookeeper, Program::Postgres];

    /// Whether the lock's node also keeps the resource, so that there is no separate Redis for it.
    pub fn keeps_resource(self) -> bool {
        self == Program::Postgres
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentinel() -> SentinelOptions {
        let millis = Duration::from_millis;
        SentinelOptions { sentinels: 3, down_after: millis(500), failover_timeout: millis(2000) }
    }

    #[test]
    fn groups_that_make_sense_are_accepted_and_others_are_refused() {
        let cluster = |millis| Topology::Cluster(ClusterOptions { node_timeout: Duration::from_millis(millis) });
        Topology::Independent.check(1).unwrap();
        Topology::Sentinel(sentinel()).check(3).unwrap();
        cluster(500).check(6).unwrap();
        for (topology, nodes, expected) in [
            (Topology::Sentinel(sentinel()), 1, "2 to 9 nodes, not 1"),
            (Topology::Sentinel(sentinel()), 10, "2 to 9 nodes, not 10"),
            (Topology::Sentinel(SentinelOptions { sentinels: 0, ..sentinel() }), 3, "`sentinels = 0`"),
            (Topology::Sentinel(SentinelOptions { down_after: Duration::ZERO, ..sentinel() }), 3, "down_after"),
            (cluster(500), 5, "not 5"),
            (cluster(500), 7, "not 7"),
            (cluster(99), 6, "node_timeout"),
        ] {
            let error = topology.check(nodes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn primaries_come_first() {
        assert_eq!((Topology::Independent.primaries(5), Topology::Independent.replicas_each(5)), (5, 0));
        let group = Topology::Sentinel(sentinel());
        assert_eq!((group.primaries(3), group.replicas_each(3)), (1, 2));
        let cluster = Topology::Cluster(ClusterOptions { node_timeout: Duration::from_millis(500) });
        assert_eq!((cluster.primaries(6), cluster.replicas_each(6)), (3, 1));
    }
}
