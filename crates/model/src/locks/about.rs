//! Facts that the program knows about a lock without running it. Each lock's file has an [`About`] and a type for its
//! `[lock.NAME]` table, which is a [`LockTable`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::settings::LockOptions;
use crate::topology::Program;
use base::units::{Length, LengthRange, millis};

#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name in workload files and in the protocol.
    pub name: &'static str,
    pub called: &'static str,
    /// Its name in sentences if nodes have roles, if that is different.
    pub called_on_primary: Option<&'static str>,
    pub program: Program,
    /// True if it needs only one key on one node, so that it can be on any primary.
    pub on_one_key: bool,
    pub independent_nodes: bool,
    /// True if it has no nodes, since the controller grants it.
    pub granted_by_controller: bool,
    /// True if it is acquired in two steps, so that a client may stop half-way.
    pub halves: bool,
    /// True if it expires by itself some time after a client acquired or renewed it.
    pub expires: bool,
    /// True if its TTL is a whole number of seconds.
    pub whole_seconds: bool,
    /// True if each acquisition comes with a fencing token.
    pub tokens: bool,
    /// True if a client may acquire it from its holder.
    pub steals: bool,
    pub needs_ifeq: bool,
}

impl About {
    /// The facts that most locks on one Redis share.
    pub(super) const ON_ONE_NODE: About = About {
        name: "",
        called: "The single-node lock",
        called_on_primary: Some("The lock on the primary"),
        on_one_key: true,
        ..About::OF_ITS_OWN
    };

    /// A lock with nothing special except its required name.
    pub(super) const OF_ITS_OWN: About = About {
        name: "",
        called: "",
        called_on_primary: None,
        program: Program::Redis,
        on_one_key: false,
        independent_nodes: false,
        granted_by_controller: false,
        halves: false,
        expires: true,
        whole_seconds: false,
        tokens: false,
        steals: false,
        needs_ifeq: false,
    };
}

pub trait LockTable {
    /// The options for the clients, with every length resolved against the TTL. The error names the option and says what is
    /// allowed.
    fn resolve(&self, ttl: Duration) -> Result<LockOptions, String>;

    /// For the report: the chosen options, to be written after the lock's name.
    fn describe(&self) -> String;

    fn of_client(&self, client: u32) -> LockOptions {
        let _ = client;
        LockOptions::default()
    }

    /// How many replicas must acknowledge the lock.
    fn replicas(&self) -> u32 {
        0
    }

    /// The number of clients to which the controller grants it at once; None for the number in the workload.
    fn holders(&self) -> Option<u32> {
        None
    }

    /// Adjusts the facts of the lock that depend on its options.
    fn refine(&self, about: About) -> About {
        about
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeOptions {
    /// How long one request to the node may take.
    pub node_timeout: Length,
    /// How long to wait before the next attempt, drawn each time.
    pub retry_delay: LengthRange,
}

impl LockTable for NodeOptions {
    fn resolve(&self, ttl: Duration) -> Result<LockOptions, String> {
        asking(self.node_timeout, self.retry_delay, ttl)
    }

    fn describe(&self) -> String {
        format!(": node timeout {}, retry after {}", self.node_timeout, self.retry_delay)
    }
}

/// The options of every lock on nodes: how long a request may take, and how long to wait between attempts.
pub(super) fn asking(node_timeout: Length, retry_delay: LengthRange, ttl: Duration) -> Result<LockOptions, String> {
    Ok(LockOptions {
        node_timeout_ms: Some(within_ttls("node_timeout", node_timeout, 10, ttl)?),
        retry_delay_ms: Some(range(retry_delay, ttl)?),
        ..LockOptions::default()
    })
}

/// Returns the length in milliseconds. The error names the option if its length is out of range.
pub(super) fn within_ttls(name: &str, length: Length, most: u32, ttl: Duration) -> Result<u64, String> {
    let resolved = length.resolve(ttl);
    if resolved > ttl * most || resolved < Duration::from_millis(1) {
        let ttl = Length::Absolute(ttl);
        let ttls = if most == 1 { "the TTL".to_string() } else { format!("{most} TTLs") };
        return Err(format!("`{name} = \"{length}\"` must lie between 1 ms and {ttls} of {ttl}"));
    }
    Ok(millis(resolved))
}

/// Returns the shortest and the longest length in milliseconds.
pub(super) fn range(range: LengthRange, ttl: Duration) -> Result<(u64, u64), String> {
    range.resolve(ttl).map(|(low, high)| (millis(low), millis(high))).map_err(|error| error.to_string())
}

/// For serde: the defaults of options, which are not written.
pub(super) fn yes() -> bool {
    true
}

pub(super) fn is_yes(value: &bool) -> bool {
    *value
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
