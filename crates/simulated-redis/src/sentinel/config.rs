//! What a Sentinel is started with, and what it keeps.

use std::net::SocketAddrV4;
use std::time::Duration;

/// What a Sentinel is started with. It watches one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentinelConfig {
    /// Where others find it.
    pub address: SocketAddrV4,
    /// 40 hexadecimal digits.
    pub id: String,
    /// The name of the group.
    pub group: String,
    /// The primary at first.
    pub primary: SocketAddrV4,
    /// How many Sentinels must take the primary for down before a failover begins.
    pub quorum: usize,
    /// How long a server may be silent before it is taken for down.
    pub down_after: Duration,
    /// How long a failover may take; after twice that another one may begin.
    pub failover_timeout: Duration,
    /// How many replicas are turned to a new primary at once.
    pub parallel_syncs: usize,
    /// The replicas that are known at first.
    pub replicas: Vec<SocketAddrV4>,
    /// The other Sentinels that are known at first, with their ids.
    pub sentinels: Vec<(SocketAddrV4, String)>,
    /// Everything that it draws comes from it.
    pub seed: u64,
}

/// What a Sentinel writes into its configuration file whenever it changes.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    pub primary: SocketAddrV4,
    pub replicas: Vec<SocketAddrV4>,
    pub sentinels: Vec<(SocketAddrV4, String)>,
    pub current_epoch: u64,
    pub config_epoch: u64,
    pub leader_epoch: u64,
}

impl Saved {
    pub fn first(config: &SentinelConfig) -> Saved {
        Saved {
            primary: config.primary,
            replicas: config.replicas.clone(),
            sentinels: config.sentinels.clone(),
            current_epoch: 0,
            config_epoch: 0,
            leader_epoch: 0,
        }
    }
}
