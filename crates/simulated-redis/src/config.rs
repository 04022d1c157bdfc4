//! What a server is started with.

use std::net::SocketAddrV4;
use std::time::Duration;

use crate::version::Version;

/// What a server is started with. What it changes later by itself is kept on its [`Disk`](crate::Disk), as Redis keeps
/// it in its configuration file, and wins at the next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where others find it.
    pub address: SocketAddrV4,
    /// What the server keeps on disk.
    pub persistence: Persistence,
    /// The primary that it follows; None for a primary.
    pub replica_of: Option<SocketAddrV4>,
    /// Sentinels promote the replica with the lowest number, and never one with 0.
    pub replica_priority: u32,
    /// Set for a node of a Redis Cluster.
    pub cluster: Option<ClusterConfig>,
    /// Everything that the server draws comes from it.
    pub seed: u64,
    /// Which server it behaves as.
    pub version: Version,
}

impl Config {
    /// A primary that keeps nothing on its disk, with Redis's defaults.
    pub fn new(address: SocketAddrV4, seed: u64) -> Config {
        Config {
            address,
            persistence: Persistence::None,
            replica_of: None,
            replica_priority: 100,
            cluster: None,
            seed,
            version: Version::default(),
        }
    }
}

/// What a server keeps on its disk. No snapshots are taken (`save ""`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// Nothing: a restarted server is empty.
    #[default]
    None,
    /// An append-only file that is never synced by the server itself.
    Never,
    /// An append-only file, synced once a second.
    Everysec,
    /// An append-only file, synced before each answer.
    Always,
}

impl Persistence {
    /// Whether there is an append-only file.
    pub fn keeps_file(self) -> bool {
        self != Persistence::None
    }
}

/// A node of a Redis Cluster and what it knows of the others when it starts for the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// How long a node may be silent before the others take it for dead.
    pub node_timeout: Duration,
    /// All nodes, itself included.
    pub nodes: Vec<ClusterMember>,
}

/// A node of a Redis Cluster, as all know it at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMember {
    /// 40 hexadecimal digits.
    pub id: String,
    /// Where clients find it. Nodes find each other at this port plus 10,000.
    pub address: SocketAddrV4,
    /// The id of the primary that it follows; None for a primary.
    pub primary: Option<String>,
    /// First and last of each range of slots that it serves.
    pub slots: Vec<(u16, u16)>,
    /// The epoch of its slots: of two that claim a slot, the one with the greater epoch has it.
    pub epoch: u64,
}
