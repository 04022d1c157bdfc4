//! The configuration of a server.

use std::net::SocketAddrV4;
use std::time::Duration;

use crate::version::Version;

/// The configuration of a server. The server keeps later changes on its [`Disk`](crate::Disk), as Redis does in its
/// configuration file. They take precedence at the next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The address for clients and other servers.
    pub address: SocketAddrV4,
    /// What the server keeps on disk.
    pub persistence: Persistence,
    /// The primary that it follows; None for a primary.
    pub replica_of: Option<SocketAddrV4>,
    /// Sentinels promote the replica with the lowest number, and never one with 0.
    pub replica_priority: u32,
    /// Set for a node of a Redis Cluster.
    pub cluster: Option<ClusterConfig>,
    /// The seed of all random choices.
    pub seed: u64,
    /// The server program to imitate.
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
    /// An append-only file, synced once per second.
    Everysec,
    /// An append-only file, synced before each answer.
    Always,
}

impl Persistence {
    /// True if there is an append-only file.
    pub fn keeps_file(self) -> bool {
        self != Persistence::None
    }
}

/// The configuration of a Redis Cluster node, and the nodes that it knows at its first start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The silence after which other nodes consider a node down.
    pub node_timeout: Duration,
    /// All nodes, including this node.
    pub nodes: Vec<ClusterMember>,
}

/// A Redis Cluster node, as all nodes know it at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMember {
    /// The id: 40 hexadecimal digits.
    pub id: String,
    /// The address for clients. For other nodes, the port is 10,000 higher.
    pub address: SocketAddrV4,
    /// The id of the primary that it follows; None for a primary.
    pub primary: Option<String>,
    /// First and last of each range of slots that it serves.
    pub slots: Vec<(u16, u16)>,
    /// The epoch of its slots. If two nodes claim a slot, the node with the greater epoch owns it.
    pub epoch: u64,
}
