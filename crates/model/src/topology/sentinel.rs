//! A primary, its replicas, and Sentinels that promote a replica when the primary is gone.
//!
//! All of them start with files that name the others. So none must be introduced, and the group waits only for the servers' own
//! first checks.
//!
//! Source: the documented format of sentinel.conf, and the documentation of the commands of a Sentinel.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddrV4;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use simulated_redis::{Config, SentinelConfig};

use super::group::{Group, Layout, Roles, SYNC_AT_ONCE, Servers, majority};
use super::server::{DATA, Server, ServerFile, Settings, as_file};
use super::{LockGroup, REDIS_PORT, check_length};
use base::members::{Role, sentinel_name};
use base::units::{Length, as_text};

const SENTINEL_PORT: u16 = 26379;
/// The name under which redjepsen's Sentinels watch the primary.
const GROUP_NAME: &str = "lock";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentinelOptions {
    /// The name under which Sentinels watch the primary.
    #[serde(default = "usual_name", skip_serializing_if = "is_usual_name")]
    pub name: String,
    /// The number of Sentinels; a majority of them must agree.
    pub sentinels: u32,
    /// How long a primary may be silent before a Sentinel considers it dead.
    #[serde(with = "as_text")]
    pub down_after: Duration,
    /// How long a failover may take before Sentinels try another one.
    #[serde(with = "as_text")]
    pub failover_timeout: Duration,
}

fn usual_name() -> String {
    GROUP_NAME.to_string()
}

fn is_usual_name(name: &str) -> bool {
    name == GROUP_NAME
}

impl fmt::Display for SentinelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SentinelOptions { sentinels, down_after, failover_timeout, .. } = self;
        write!(
            f,
            "a primary and its replicas, watched by {sentinels} Sentinels: down after {}, failover timeout {}",
            Length::Absolute(*down_after),
            Length::Absolute(*failover_timeout)
        )
    }
}

#[async_trait]
impl Group for SentinelOptions {
    fn called(&self) -> &'static str {
        "The Sentinel group"
    }

    fn check(&self, nodes: u32) -> Result<(), String> {
        if !(2..=9).contains(&nodes) {
            return Err(format!("a Sentinel group has a primary and its replicas, 2 to 9 nodes, not {nodes}"));
        }
        if !(1..=9).contains(&self.sentinels) {
            return Err(format!("`sentinels = {}` must lie between 1 and 9", self.sentinels));
        }
        check_length("down_after", self.down_after)?;
        check_length("failover_timeout", self.failover_timeout)
    }

    fn primaries(&self, _: u32) -> u32 {
        1
    }

    fn sentinels(&self) -> u32 {
        self.sentinels
    }

    fn splits_keys(&self) -> bool {
        false
    }

    /// Started from a file, in which the node records its role. So it still knows its role after a restart.
    fn node(&self, layout: &Layout, number: usize, mut settings: Settings) -> Server {
        let (sync, at_once) = SYNC_AT_ONCE;
        settings.push((sync, at_once.to_string()));
        if let (1.., Some(primary)) = (number, layout.nodes.first()) {
            settings.push(("replicaof", format!("{primary} {REDIS_PORT}")));
        }
        settings.push(("replica-priority", priority(number).to_string()));
        let path = format!("{DATA}/redis.conf");
        let file = ServerFile { path: path.clone(), content: as_file(&settings) };
        Server::redis(vec![path], vec![file], true)
    }

    fn sentinel(&self, layout: &Layout, number: usize) -> Option<Server> {
        let path = format!("{DATA}/sentinel.conf");
        let file = ServerFile { path: path.clone(), content: self.sentinel_file(layout, number) };
        let server = Server::redis(vec![path, "--sentinel".to_string()], vec![file], true);
        Some(Server { port: SENTINEL_PORT, ..server })
    }

    fn simulated_node(&self, layout: &Layout, number: usize, redis: Config) -> Config {
        let primary = layout.nodes.first().filter(|_| number > 0);
        Config {
            replica_of: primary.map(|primary| SocketAddrV4::new(*primary, REDIS_PORT)),
            replica_priority: priority(number),
            ..redis
        }
    }

    fn simulated_sentinel(
        &self,
        layout: &Layout,
        number: usize,
        address: SocketAddrV4,
        seed: u64,
    ) -> Option<SentinelConfig> {
        let (primary, replicas) = layout.nodes.split_first()?;
        let others = layout.sentinels.iter().enumerate().filter(|(other, _)| *other != number);
        Some(SentinelConfig {
            address,
            id: id(layout, number),
            group: self.name.clone(),
            primary: SocketAddrV4::new(*primary, REDIS_PORT),
            quorum: quorum(layout),
            down_after: self.down_after,
            failover_timeout: self.failover_timeout,
            parallel_syncs: replicas.len().max(1),
            replicas: replicas.iter().map(|replica| SocketAddrV4::new(*replica, REDIS_PORT)).collect(),
            sentinels: others.map(|(other, at)| (SocketAddrV4::new(*at, address.port()), id(layout, other))).collect(),
            seed,
        })
    }

    fn for_clients(&self, sentinels: Vec<String>) -> LockGroup {
        LockGroup::Sentinel { sentinels, name: self.name.clone() }
    }

    async fn primary_of(&self, servers: &dyn Servers, _: &str) -> Option<String> {
        let sentinels = servers.of_role(Role::Sentinel);
        let views = join_all(sentinels.iter().map(|sentinel| self.primary_by(servers, sentinel))).await;
        majority(&views.into_iter().flatten().collect::<Vec<_>>(), sentinels.len())
    }

    async fn replicas_of(&self, servers: &dyn Servers, primary: &str) -> Vec<String> {
        let others = servers.of_role(Role::Node).into_iter().filter(move |name| *name != primary);
        others.map(str::to_string).collect()
    }

    async fn roles(&self, servers: &dyn Servers) -> Result<Roles, String> {
        let views = servers.of_role(Role::Sentinel).into_iter().map(|sentinel| self.settled_view(servers, sentinel));
        let views = join_all(views).await.into_iter().collect::<Result<Vec<_>, String>>()?;
        let primary = views.first().cloned().unwrap_or_default();
        if views.iter().any(|view| *view != primary) {
            return Err(format!("the Sentinels do not agree: {}", views.join(", ")));
        }
        let replicas = self.replicas_of(servers, &primary).await;
        Ok(Roles { primaries: BTreeMap::from([(primary, replicas)]) })
    }

    /// The command goes to a Sentinel that answers.
    async fn failover(&self, servers: &dyn Servers, _: &[String]) -> Option<(String, Vec<String>)> {
        let answers = servers.of_role(Role::Sentinel).into_iter().map(async |sentinel| {
            let primary = self.primary_by(servers, sentinel).await;
            primary.map(|_| sentinel)
        });
        let told = join_all(answers).await.into_iter().flatten().next()?;
        Some((told.to_string(), ["SENTINEL", "FAILOVER", &self.name].map(str::to_string).to_vec()))
    }
}

impl SentinelOptions {
    fn sentinel_file(&self, layout: &Layout, number: usize) -> String {
        let [primary, replicas @ ..] = &layout.nodes[..] else { return String::new() };
        let mut settings: Settings = vec![
            ("port", SENTINEL_PORT.to_string()),
            ("bind", "0.0.0.0".to_string()),
            ("protected-mode", "no".to_string()),
            ("dir", DATA.to_string()),
        ];
        let name = &self.name;
        let mut sentinel = |words: String| settings.push(("sentinel", words));
        sentinel(format!("myid {}", id(layout, number)));
        sentinel(format!("monitor {name} {primary} {REDIS_PORT} {}", quorum(layout)));
        sentinel(format!("down-after-milliseconds {name} {}", self.down_after.as_millis()));
        sentinel(format!("failover-timeout {name} {}", self.failover_timeout.as_millis()));
        sentinel(format!("parallel-syncs {name} {}", replicas.len().max(1)));
        for replica in replicas {
            sentinel(format!("known-replica {name} {replica} {REDIS_PORT}"));
        }
        for (other, address) in layout.sentinels.iter().enumerate().filter(|(other, _)| *other != number) {
            sentinel(format!("known-sentinel {name} {address} {SENTINEL_PORT} {}", id(layout, other)));
        }
        as_file(&settings)
    }

    /// The primary's name according to a Sentinel.
    async fn primary_by(&self, servers: &dyn Servers, sentinel: &str) -> Option<String> {
        let answer = servers.ask(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.name]).await.ok()?;
        servers.node_at(answer.lines().next()?)
    }

    /// The same, once the Sentinel considers every server healthy. Until then, the error names what the Sentinel does not know yet.
    async fn settled_view(&self, servers: &dyn Servers, sentinel: &str) -> Result<String, String> {
        let quorum = servers.ask(sentinel, &["SENTINEL", "CKQUORUM", &self.name]).await?;
        if !quorum.starts_with("OK") {
            return Err(format!("{sentinel}: {quorum}"));
        }
        for whom in ["MASTER", "REPLICAS", "SENTINELS"] {
            let answer = servers.ask(sentinel, &["SENTINEL", whom, &self.name]).await?;
            let doubt = answer.lines().zip(answer.lines().skip(1)).find_map(|(name, value)| doubt(name, value));
            if let Some(doubt) = doubt {
                return Err(format!("{sentinel} reports a problem with a server: {doubt}"));
            }
        }
        self.primary_by(servers, sentinel).await.ok_or_else(|| format!("{sentinel} does not know a primary"))
    }
}

/// Sentinels promote the lowest priority first, so the order of promotion is fixed.
fn priority(number: usize) -> u32 {
    u32::try_from(10 * (number + 1)).unwrap_or(u32::MAX)
}

fn id(layout: &Layout, number: usize) -> String {
    layout.id(&sentinel_name(number))
}

fn quorum(layout: &Layout) -> usize {
    layout.sentinels.len() / 2 + 1
}

/// Flags without meaning here: a member's role, and that another Sentinel once considered a primary down, which stays until it is
/// asked again.
const SAYS_NOTHING: [&str; 5] = ["master", "slave", "replica", "sentinel", "master_down"];

/// Why a Sentinel does not trust a server yet, judging by one field of its answer.
fn doubt(name: &str, value: &str) -> Option<String> {
    match name {
        // For example `s_down,master`.
        "flags" if value.split(',').any(|flag| !SAYS_NOTHING.contains(&flag)) => Some(value.to_string()),
        // Milliseconds since it last answered INFO, or since 1970 if it never did.
        "info-refresh" if value.parse().is_ok_and(|millis: u64| millis > 60_000) => Some("not known yet".to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_not_heard_of_or_is_doubted_is_no_settled_one() {
        assert_eq!(doubt("flags", "master"), None);
        assert_eq!(doubt("flags", "sentinel,master_down"), None, "seen with Valkey 9.1");
        assert!(doubt("flags", "s_down,slave").is_some() && doubt("flags", "s_down,sentinel,master_down").is_some());
        assert!(doubt("flags", "slave,s_down").is_some() && doubt("flags", "sentinel,disconnected").is_some());
        assert_eq!(doubt("info-refresh", "812"), None);
        assert!(doubt("info-refresh", "1763754000000").is_some());
        assert_eq!(doubt("name", "a,b"), None);
    }

    #[test]
    fn groups_that_make_sense_are_accepted_and_others_are_refused() {
        let millis = Duration::from_millis;
        let sentinel = SentinelOptions {
            name: usual_name(),
            sentinels: 3,
            down_after: millis(500),
            failover_timeout: millis(2000),
        };
        sentinel.check(3).unwrap();
        for (options, nodes, expected) in [
            (sentinel.clone(), 1, "2 to 9 nodes, not 1"),
            (sentinel.clone(), 10, "2 to 9 nodes, not 10"),
            (SentinelOptions { sentinels: 0, ..sentinel.clone() }, 3, "`sentinels = 0`"),
            (SentinelOptions { down_after: Duration::ZERO, ..sentinel }, 3, "down_after"),
        ] {
            let error = options.check(nodes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
