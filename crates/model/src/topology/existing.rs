//! Servers that already run, as the nodes of a lock.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The addresses of the servers and the settings to connect to them, without passwords.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExistingServers {
    /// `redis://host:port`, or `rediss://host:port` for TLS: one for each node, in order. For a Redis Cluster, some of its nodes;
    /// for a Sentinel group, its Sentinels.
    pub addresses: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A file with the password in its first line; if None, the environment variable REDISCLI_AUTH has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// A PEM file with certificates to trust; if None, the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Accept any certificate.
    pub insecure: bool,
    /// The user allows redjepsen to write its own keys on these servers.
    pub allow_writes: bool,
    /// The user allows failovers of these servers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_failover: bool,
}
