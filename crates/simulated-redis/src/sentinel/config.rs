//! The configuration of a Sentinel, and the state that it saves.

use std::net::SocketAddrV4;
use std::time::Duration;

/// The configuration of a Sentinel. It watches one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentinelConfig {
    /// Its announced address.
    pub address: SocketAddrV4,
    /// The id: 40 hexadecimal digits.
    pub id: String,
    /// The name of the group.
    pub group: String,
    /// The first primary.
    pub primary: SocketAddrV4,
    /// The quorum.
    pub quorum: usize,
    /// `down-after-milliseconds`.
    pub down_after: Duration,
    /// The time limit of a failover; a new failover may begin after twice this time.
    pub failover_timeout: Duration,
    /// `parallel-syncs`: the number of replicas that turn to a new primary at once.
    pub parallel_syncs: usize,
    /// The replicas known at the start.
    pub replicas: Vec<SocketAddrV4>,
    /// The other Sentinels known at the start, with their ids.
    pub sentinels: Vec<(SocketAddrV4, String)>,
    /// The seed of all random choices.
    pub seed: u64,
}

/// The state that a Sentinel writes into its configuration file after each change.
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
