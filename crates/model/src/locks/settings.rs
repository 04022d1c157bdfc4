//! A lock in the client protocol: every length is resolved, in milliseconds.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::topology::LockGroup;

/// A lock by its name in the catalogue; the `lock` in the protocol's `hello`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockSettings {
    pub name: String,
    pub ttl_ms: u64,
    /// The URLs of the lock's nodes, `redis://` if they are Redis.
    pub nodes: Vec<String>,
    /// How the nodes form a group, if they do. Then the lock is on the primary for its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<LockGroup>,
    pub options: LockOptions,
}

impl LockSettings {
    /// Bounds of the wait between attempts.
    pub fn retry_delay(&self) -> Result<(Duration, Duration), String> {
        let delay = self.options.retry_delay_ms;
        let (low, high) = delay.ok_or_else(|| format!("lock {} needs `retry_delay_ms`", self.name))?;
        Ok((Duration::from_millis(low), Duration::from_millis(high)))
    }

    /// How long one request to a node may take: the TTL unless configured otherwise.
    pub fn node_timeout(&self) -> Duration {
        Duration::from_millis(self.options.node_timeout_ms.unwrap_or(self.ttl_ms))
    }

    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// The options that only this lock has. The error names the first missing option.
    pub(super) fn own<T: DeserializeOwned>(&self) -> Result<T, String> {
        let own = serde_json::from_value(Value::Object(self.options.own.clone()));
        own.map_err(|error| format!("lock {}: {error}", self.name))
    }
}

/// A lock's options: the common ones and its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockOptions {
    /// How long one request to one node may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_timeout_ms: Option<u64>,
    /// Bounds of the wait between attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_delay_ms: Option<(u64, u64)>,
    /// True if the client uses the time of day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_clock: Option<bool>,
    /// True if the holder checks its validity again right before it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recheck: Option<bool>,
    /// True if that check asks the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<bool>,
    /// How often a holder renews its lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_every_ms: Option<u64>,
    /// True if the holder renews the lock itself while it works; false if a background task does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extends: Option<bool>,
    /// The lock's own options, beside the common ones in the protocol. Each lock has a type for them in its file.
    #[serde(flatten)]
    pub own: Map<String, Value>,
}

impl LockOptions {
    /// Adds the lock's own options: the fields of `own`.
    pub(super) fn with(mut self, own: &impl Serialize) -> LockOptions {
        if let Ok(Value::Object(fields)) = serde_json::to_value(own) {
            self.own.extend(fields);
        }
        self
    }

    /// Adds the options of only one client.
    pub fn extend(&mut self, of_client: LockOptions) {
        self.own.extend(of_client.own);
    }
}
