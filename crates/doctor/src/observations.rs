//! The observations, as plain data without any secret.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The result of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen<T> {
    Known(T),
    /// The ACL forbids this user to run the command.
    Forbidden,
    /// The server, or a proxy in front of it, answered with this error.
    Refused(String),
    /// No answer in time, an answer of another shape, or not asked.
    #[default]
    Unknown,
}

impl<T> Seen<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Seen::Known(value) => Some(value),
            _ => None,
        }
    }

    pub fn is_known(&self) -> bool {
        self.known().is_some()
    }
}

/// All observations of the servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observations {
    pub servers: Vec<Server>,
    /// The duration, in milliseconds.
    pub took_ms: u64,
    /// The number of doctor's own keys that may stay until they expire.
    pub left_keys: u64,
    /// The number of announced addresses that were not asked, because there were too many.
    pub not_asked: u64,
}

/// One address, and the server behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// `host:port`
    pub address: String,
    /// The server that announces this address; None if the user named it.
    pub announced_by: Option<String>,
    /// Why no conversation was possible, as a sentence with a remedy.
    pub unreached: Option<String>,
    pub kind: Kind,
    pub version: Option<String>,
    /// The server's identity since its start.
    pub run_id: Option<String>,
    pub mode: Mode,
    pub role: Role,
    /// The primary of a replica, as the replica reports it.
    pub primary: Option<String>,
    /// True if a replica's link to its primary is up.
    pub link_up: Option<bool>,
    /// True if two connections to this address reached different servers.
    pub varies: Seen<bool>,
    /// True if the server sees another client address than this machine uses.
    pub translated: Seen<bool>,
    /// True if it writes an append-only file.
    pub append_only: Seen<bool>,
    /// `always`, `everysec` or `no`.
    pub fsync: Seen<String>,
    /// True if it saves snapshots by itself.
    pub snapshots: Seen<bool>,
    /// `min-replicas-to-write`
    pub min_replicas: Seen<u64>,
    pub replicas: Seen<Vec<Replica>>,
    /// Bytes.
    pub used_memory: Seen<u64>,
    /// In bytes; 0 means no limit.
    pub max_memory: Seen<u64>,
    /// `maxmemory-policy`
    pub policy: Seen<String>,
    /// `notify-keyspace-events`
    pub notifications: Seen<String>,
    /// True if Sentinels subscribe to its channel for them.
    pub watched: Seen<bool>,
    /// The report of a Redis Cluster node about the cluster.
    pub cluster: Seen<ClusterView>,
    /// Groups that a Sentinel watches.
    pub groups: Seen<Vec<Group>>,
    pub clock: Option<Clock>,
    pub abilities: BTreeMap<Ability, Seen<String>>,
    /// Channels and keys of libraries, and if this user may use them.
    pub names: BTreeMap<Name, Seen<String>>,
    /// The ACL rules that would allow the forbidden questions.
    pub missing_rules: BTreeSet<String>,
    /// The number of doctor's own keys that may stay.
    #[serde(skip)]
    pub(crate) left_keys: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Redis,
    Valkey,
    KeyDb,
    Dragonfly,
    #[default]
    Unknown,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Redis => "Redis",
            Kind::Valkey => "Valkey",
            Kind::KeyDb => "KeyDB",
            Kind::Dragonfly => "Dragonfly",
            Kind::Unknown => "a server of unknown kind",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Standalone,
    Cluster,
    Sentinel,
    #[default]
    Unknown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Primary,
    Replica,
    Sentinel,
    #[default]
    Unknown,
}

/// A replica, as its primary reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    pub address: String,
    pub online: bool,
    /// Seconds since its last report.
    pub lag_s: Option<u64>,
    /// The number of bytes that it has not acknowledged.
    pub behind: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterView {
    /// `ok` or `fail`.
    pub state: Option<String>,
    /// `cluster-node-timeout` in milliseconds.
    pub node_timeout_ms: Seen<u64>,
    pub shards: Vec<Shard>,
}

/// A range of slots with the nodes that serve it: the primary first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    pub first: u16,
    pub last: u16,
    pub addresses: Vec<String>,
}

/// A primary with its replicas, as a Sentinel reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub name: String,
    pub primary: String,
    pub replicas: Vec<String>,
    /// The number of replicas that the Sentinel counts.
    pub number_of_replicas: Option<u64>,
    pub down_after_ms: Option<u64>,
    pub failover_timeout_ms: Option<u64>,
    pub quorum: Option<u64>,
    /// The number of Sentinels besides the one that was asked.
    pub others: Option<u64>,
    /// True if the Sentinel takes the primary for dead.
    pub down: bool,
}

/// A server's wall clock compared with this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The server's lead, in microseconds.
    pub ahead_us: i64,
    /// The largest error of the lead.
    pub within_us: u64,
}

/// The abilities that locks use. Their order is that of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ability {
    SetNxPx,
    Get,
    Pttl,
    Del,
    Pexpire,
    SetIfeq,
    Delex,
    Delifeq,
    Eval,
    Evalsha,
    Functions,
    Wait,
    Waitaof,
    Publish,
    Subscribe,
    KeyspaceEvents,
}

/// The result of [`Ability::Wait`] if no replica answers in time.
pub const NOT_REPLICATED: &str = "no replica has the write";

impl Ability {
    pub const ALL: &[Ability] = &[
        Ability::SetNxPx,
        Ability::Get,
        Ability::Pttl,
        Ability::Del,
        Ability::Pexpire,
        Ability::SetIfeq,
        Ability::Delex,
        Ability::Delifeq,
        Ability::Eval,
        Ability::Evalsha,
        Ability::Functions,
        Ability::Wait,
        Ability::Waitaof,
        Ability::Publish,
        Ability::Subscribe,
        Ability::KeyspaceEvents,
    ];

    /// The least abilities. Without them no lock works, and doctor can observe little.
    pub const LEAST: &[Ability] = &[Ability::SetNxPx, Ability::Get, Ability::Pttl, Ability::Del];

    pub fn name(self) -> &'static str {
        match self {
            Ability::SetNxPx => "SET NX PX",
            Ability::Get => "GET",
            Ability::Pttl => "PTTL",
            Ability::Del => "DEL",
            Ability::Pexpire => "PEXPIRE",
            Ability::SetIfeq => "SET IFEQ",
            Ability::Delex => "DELEX",
            Ability::Delifeq => "DELIFEQ",
            Ability::Eval => "EVAL",
            Ability::Evalsha => "EVALSHA",
            Ability::Functions => "FCALL",
            Ability::Wait => "WAIT",
            Ability::Waitaof => "WAITAOF",
            Ability::Publish => "PUBLISH",
            Ability::Subscribe => "SUBSCRIBE",
            Ability::KeyspaceEvents => "keyspace events",
        }
    }

    /// The rule that allows the command.
    pub fn rule(self) -> &'static str {
        match self {
            Ability::SetNxPx | Ability::SetIfeq => "+set",
            Ability::Get => "+get",
            Ability::Pttl => "+pttl",
            Ability::Del => "+del",
            Ability::Pexpire => "+pexpire",
            Ability::Delex => "+delex",
            Ability::Delifeq => "+delifeq",
            Ability::Eval => "+eval",
            Ability::Evalsha => "+evalsha",
            Ability::Functions => "+fcall",
            Ability::Wait => "+wait",
            Ability::Waitaof => "+waitaof",
            Ability::Publish => "+publish",
            Ability::Subscribe => "+subscribe",
            Ability::KeyspaceEvents => "+config|get",
        }
    }
}

/// A name that a library derives from a lock's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    RedissonChannel,
    RedissonLatch,
}

impl Name {
    pub const ALL: &[Name] = &[Name::RedissonChannel, Name::RedissonLatch];

    /// The name, with `…` in place of the lock's name.
    pub fn pattern(self) -> &'static str {
        match self {
            Name::RedissonChannel => "redisson_lock__channel:{…}",
            Name::RedissonLatch => "redisson_unlock_latch:{…}",
        }
    }

    pub fn rule(self) -> &'static str {
        match self {
            Name::RedissonChannel => "&redisson_lock__channel:*",
            Name::RedissonLatch => "~redisson_unlock_latch:*",
        }
    }
}
