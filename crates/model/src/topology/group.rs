//! What differs from one kind of group to another: how its servers start, real or simulated, and whom to ask who is the
//! primary. Each kind is a file beside this one.

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
    /// What sentences call it.
    fn called(&self) -> &'static str;

    /// Refuses nodes and options that make no valid group; the error says what would.
    fn check(&self, nodes: u32) -> Result<(), String>;

    /// How many of this many nodes are primaries at the start: the first ones.
    fn primaries(&self, nodes: u32) -> u32;

    /// How many Sentinels there are besides the nodes.
    fn sentinels(&self) -> u32 {
        0
    }

    /// Whether keys are spread over several primaries, so that a lock needs all of its keys in one.
    fn splits_keys(&self) -> bool;

    /// What a node runs, given the settings of any Redis.
    fn node(&self, layout: &Layout, number: usize, settings: Settings) -> Server;

    /// What a Sentinel runs.
    fn sentinel(&self, layout: &Layout, number: usize) -> Option<Server> {
        let _ = (layout, number);
        None
    }

    /// What stands for a node in virtual time, given what stands for any Redis.
    fn simulated_node(&self, layout: &Layout, number: usize, redis: simulated_redis::Config)
    -> simulated_redis::Config;

    /// What stands for a Sentinel in virtual time.
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

    /// The name of the node that is now the primary of a key, by a majority of those who decide. `None` while they
    /// disagree.
    async fn primary_of(&self, servers: &dyn Servers, key: &str) -> Option<String>;

    /// The replicas of a primary as most of the others see them, the next in line first.
    async fn replicas_of(&self, servers: &dyn Servers, primary: &str) -> Vec<String>;

    /// The roles, once all who decide agree; until then, an error that says what is missing.
    async fn roles(&self, servers: &dyn Servers) -> Result<Roles, String>;

    /// The operator's command that makes a replica take over: the server that it goes to, and its words. `None` if there
    /// is no server to send it to.
    async fn failover(&self, servers: &dyn Servers, replicas: &[String]) -> Option<(String, Vec<String>)>;
}

/// The servers of a group that runs.
#[async_trait]
pub trait Servers: Sync {
    /// The names of those in a role, in order.
    fn of_role(&self, role: Role) -> Vec<&str>;

    /// The name of the node at `host` or `host:port`.
    fn node_at(&self, address: &str) -> Option<String>;

    /// A server's answer to a command, in lines; the error names the server.
    async fn ask(&self, server: &str, words: &[&str]) -> Result<String, String>;
}

/// The roles of the nodes in a group, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Each primary with its replicas, the next in line first.
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

/// Where the servers of a group are.
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
        let digest = Sha256::digest(format!("{}/{name}", self.run_id));
        digest.iter().take(20).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A replica that comes back is synced at once, without waiting for others that may come too.
pub(super) const SYNC_AT_ONCE: (&str, &str) = ("repl-diskless-sync-delay", "0");

/// A field of an INFO answer.
pub fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// What more than half of `voters` say.
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
