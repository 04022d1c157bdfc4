//! The differences between kinds of groups: how their servers start, real or simulated, and which server names the primary. Each
//! kind is a file beside this one.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use async_trait::async_trait;
use sha2::{Digest, Sha256};

use super::LockGroup;
use super::server::{Server, Settings};
use base::members::Role;

/// Redis nodes whose roles depend on each other.
#[async_trait]
pub trait Group: fmt::Display + Sync {
    fn called(&self) -> &'static str;

    /// Refuses nodes and options that make no valid group. The error describes a valid one.
    fn check(&self, nodes: u32) -> Result<(), String>;

    /// How many of this many nodes are primaries at the start; these are the first ones.
    fn primaries(&self, nodes: u32) -> u32;

    fn sentinels(&self) -> u32 {
        0
    }

    /// True if keys are spread over several primaries, so that all keys of a lock must be on one primary.
    fn splits_keys(&self) -> bool;

    /// The server of a node, given the settings of any Redis.
    fn node(&self, layout: &Layout, number: usize, settings: Settings) -> Server;

    fn sentinel(&self, layout: &Layout, number: usize) -> Option<Server> {
        let _ = (layout, number);
        None
    }

    /// The simulated server of a node, given the configuration of any simulated Redis.
    fn simulated_node(&self, layout: &Layout, number: usize, redis: simulated_redis::Config)
    -> simulated_redis::Config;

    fn simulated_sentinel(
        &self,
        layout: &Layout,
        number: usize,
        address: SocketAddrV4,
        seed: u64,
    ) -> Option<simulated_redis::SentinelConfig> {
        let _ = (layout, number, address, seed);
        None
    }

    /// How a client finds the primary, given the Sentinels' URLs.
    fn for_clients(&self, sentinels: Vec<String>) -> LockGroup;

    /// The name of the node that is now the primary of a key, according to a majority of the servers that decide. `None` while
    /// they disagree.
    async fn primary_of(&self, servers: &dyn Servers, key: &str) -> Option<String>;

    /// The replicas of a primary as most of the others see them, in the order of promotion.
    async fn replicas_of(&self, servers: &dyn Servers, primary: &str) -> Vec<String>;

    /// The roles, once all servers that decide agree. Until then, the error says what is missing.
    async fn roles(&self, servers: &dyn Servers) -> Result<Roles, String>;

    /// The operator's command that makes a replica the primary: the server that receives it, and its words. `None` if no server
    /// can receive it.
    async fn failover(&self, servers: &dyn Servers, replicas: &[String]) -> Option<(String, Vec<String>)>;
}

#[async_trait]
pub trait Servers: Sync {
    /// The names of the servers in a role, in order.
    fn of_role(&self, role: Role) -> Vec<&str>;

    /// The name of the node at `host` or `host:port`.
    fn node_at(&self, address: &str) -> Option<String>;

    /// A server's answer to a command, in lines. The error names the server.
    async fn ask(&self, server: &str, words: &[&str]) -> Result<String, String>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Each primary with its replicas, in the order of promotion.
    pub primaries: BTreeMap<String, Vec<String>>,
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.primaries.iter().map(|(primary, replicas)| match replicas.is_empty() {
            true => format!("{primary} primary"),
            false => format!("{primary} primary of {}", replicas.join(" and ")),
        });
        f.write_str(&groups.collect::<Vec<_>>().join(", "))
    }
}

/// The addresses of a group's servers.
pub struct Layout {
    pub run_id: String,
    pub nodes: Vec<Ipv4Addr>,
    pub sentinels: Vec<Ipv4Addr>,
    /// How many of the nodes are primaries; these come first.
    pub primaries: usize,
}

impl Layout {
    /// A server's id: 40 hexadecimal digits, unique within the run.
    pub fn id(&self, name: &str) -> String {
        base::words::hex(&Sha256::digest(format!("{}/{name}", self.run_id))[..20])
    }
}

/// A primary syncs a returning replica at once, without waiting for others that may come too.
pub(super) const SYNC_AT_ONCE: (&str, &str) = ("repl-diskless-sync-delay", "0");

/// The value of a field in an INFO answer.
pub fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The name in more than half of `voters` views; None if there is none.
pub(super) fn majority(views: &[String], voters: usize) -> Option<String> {
    let votes = |name: &String| views.iter().filter(|view| *view == name).count();
    views.iter().find(|name| votes(name) * 2 > voters).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_told_in_words() {
        let primaries = [("n0", vec!["n1", "n2"]), ("n3", vec![])].map(|(primary, replicas)| {
            (primary.to_string(), replicas.into_iter().map(str::to_string).collect::<Vec<_>>())
        });
        assert_eq!(Roles { primaries: primaries.into() }.to_string(), "n0 primary of n1 and n2, n3 primary");
    }

    #[test]
    fn half_is_no_majority() {
        let views = ["n0", "n1", "n0"].map(str::to_string);
        assert_eq!(majority(&views, 3).as_deref(), Some("n0"));
        assert_eq!(majority(&views, 4), None);
    }
}
