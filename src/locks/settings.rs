//! A lock as the client protocol describes it: every length resolved, in milliseconds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A lock by its name in the catalogue; the `lock` in the protocol's `hello`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockSettings {
    pub name: String,
    pub ttl_ms: u64,
    /// The URLs of the lock's nodes, `redis://` if they are Redis.
    pub nodes: Vec<String>,
    /// How the nodes form a group, if they do: then the lock is on whichever node is the primary for its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<LockGroup>,
    pub options: LockOptions,
}

impl LockSettings {
    /// Bounds of the wait between attempts.
    pub(super) fn retry_delay(&self) -> Result<(Duration, Duration), String> {
        let delay = self.options.retry_delay_ms;
        let (low, high) = delay.ok_or_else(|| format!("lock {} needs `retry_delay_ms`", self.name))?;
        Ok((Duration::from_millis(low), Duration::from_millis(high)))
    }

    /// How long one request to a node may take: the TTL unless configured otherwise.
    pub fn node_timeout(&self) -> Duration {
        Duration::from_millis(self.options.node_timeout_ms.unwrap_or(self.ttl_ms))
    }
}

/// How a client finds the primary among a lock's nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockGroup {
    /// By asking Sentinels at these `redis://` URLs for the primary that they know by this name.
    Sentinel { sentinels: Vec<String>, name: String },
    /// By asking any node which one serves the key's slot, and following redirections.
    Cluster,
}

/// Options of every lock; a lock ignores those that it does not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockOptions {
    /// How long one request to one node may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_timeout_ms: Option<u64>,
    /// Bounds of the wait between attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_delay_ms: Option<(u64, u64)>,
    /// Fraction of the TTL by which clocks may drift apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_factor: Option<f64>,
    /// Whether nodes are asked one after another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential: Option<bool>,
    /// Whether the time that asking took counts against the validity, as it should; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_elapsed: Option<bool>,
    /// Whether the client uses the time of day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_clock: Option<bool>,
    /// Whether all nodes are told of a release, not only those that said yes; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_on_all: Option<bool>,
    /// Whether the holder checks its validity again right before it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recheck: Option<bool>,
    /// How often a holder renews its lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_every_ms: Option<u64>,
    /// Who may take the lock from whom: the higher priority from the lower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Fraction of the TTL for which a thief waits for its victim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_consistency_factor: Option<f64>,
    /// How many replicas must acknowledge the lock before it counts as acquired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_replicas: Option<u32>,
}
