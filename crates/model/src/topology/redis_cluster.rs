//! A Redis Cluster: half of the nodes are primaries, each for a part of the keys. Each of the others is a replica of one primary.
//!
//! Each node starts with a file that names all nodes. So no node must be introduced, and the cluster waits only for the nodes'
//! own first checks.
//!
//! Source: the documented format of a Redis Cluster's nodes.conf, and the documentation of CLUSTER NODES.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use simulated_redis::{ClusterConfig, ClusterMember, Config};

use super::group::{Group, Layout, Roles, SYNC_AT_ONCE, Servers, field, majority};
use super::server::{DATA, Server, ServerFile, Settings, as_arguments};
use super::{LockGroup, REDIS_PORT, check_length};
use base::members::{Role, node_name};
use base::slots::{self, ClusterNode, SLOTS};
use base::units::{Length, as_text};

/// The file in a node's folder with its knowledge of the other nodes.
const NODES_FILE: &str = "nodes.conf";
/// The difference between a node's port for other nodes and its port for clients.
pub const BUS: u16 = 10_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterOptions {
    /// How long a node may be silent before the others consider it dead.
    #[serde(with = "as_text")]
    pub node_timeout: Duration,
}

impl fmt::Display for ClusterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redis Cluster, a replica for each primary: node timeout {}", Length::Absolute(self.node_timeout))
    }
}

#[async_trait]
impl Group for ClusterOptions {
    fn called(&self) -> &'static str {
        "The Redis Cluster"
    }

    fn check(&self, nodes: u32) -> Result<(), String> {
        if !(6..=18).contains(&nodes) || !nodes.is_multiple_of(2) {
            return Err(format!(
                "a Redis Cluster has 3 or more primaries with a replica each, 6, 8, … 18 nodes, not {nodes}"
            ));
        }
        check_length("node_timeout", self.node_timeout)
    }

    fn primaries(&self, nodes: u32) -> u32 {
        nodes / 2
    }

    fn splits_keys(&self) -> bool {
        true
    }

    fn node(&self, layout: &Layout, number: usize, mut settings: Settings) -> Server {
        let own = [
            SYNC_AT_ONCE,
            PING_OFTEN,
            ("dir", DATA),
            ("cluster-enabled", "yes"),
            ("cluster-config-file", NODES_FILE),
            ("cluster-node-timeout", &self.node_timeout.as_millis().to_string()),
            // A replica may be promoted however long ago it heard from its primary. With the default of 10, a cut of
            // some seconds would leave no replica to promote.
            ("cluster-replica-validity-factor", "0"),
        ];
        settings.extend(own.map(|(name, value)| (name, value.to_string())));
        let file = ServerFile { path: format!("{DATA}/{NODES_FILE}"), content: nodes_file(layout, number) };
        Server::redis(as_arguments(&settings), vec![file], true)
    }

    fn simulated_node(&self, layout: &Layout, _: usize, redis: Config) -> Config {
        let nodes = (0..).zip(&layout.nodes).map(|(node, at)| member(layout, node, *at)).collect();
        Config { cluster: Some(ClusterConfig { node_timeout: self.node_timeout, nodes }), ..redis }
    }

    fn for_clients(&self, _: Vec<String>) -> LockGroup {
        LockGroup::Cluster
    }

    async fn primary_of(&self, servers: &dyn Servers, key: &str) -> Option<String> {
        let slot = slots::slot(key.as_bytes());
        let serving = |nodes: Vec<ClusterNode>| {
            nodes.iter().find(|node| node.serves(slot)).and_then(|node| servers.node_at(&node.address))
        };
        let nodes = servers.of_role(Role::Node);
        let views = join_all(nodes.iter().map(|node| nodes_by(servers, node))).await;
        let views: Vec<String> = views.into_iter().filter_map(Result::ok).filter_map(serving).collect();
        majority(&views, nodes.len())
    }

    async fn replicas_of(&self, servers: &dyn Servers, primary: &str) -> Vec<String> {
        for node in servers.of_role(Role::Node) {
            if let Ok(view) = nodes_by(servers, node).await {
                return roles_in(servers, &view).primaries.remove(primary).unwrap_or_default();
            }
        }
        Vec::new()
    }

    async fn roles(&self, servers: &dyn Servers) -> Result<Roles, String> {
        let views = servers.of_role(Role::Node).into_iter().map(async |node| {
            let info = servers.ask(node, &["CLUSTER", "INFO"]).await?;
            if field(&info, "cluster_state") != Some("ok") {
                return Err(format!("{node} reports that the cluster is incomplete"));
            }
            let nodes = nodes_by(servers, node).await?;
            if let Some(doubtful) = nodes.iter().find(|node| node.doubtful) {
                return Err(format!("{node} reports that {} may be down", doubtful.address));
            }
            // The nodes for clients. The answer omits a replica until it is known to have replicated data.
            let slots = servers.ask(node, &["CLUSTER", "SLOTS"]).await?;
            let told = |node: &ClusterNode| slots.lines().any(|line| node.address.split(':').next() == Some(line));
            match nodes.iter().find(|node| node.replicates.is_some() && !told(node)) {
                Some(left_out) => Err(format!("{node} does not announce {} to clients yet", left_out.address)),
                None => Ok((node, nodes)),
            }
        });
        let views = join_all(views).await.into_iter().collect::<Result<Vec<_>, String>>()?;
        let Some((first, view)) = views.first() else { return Err("the cluster has no nodes".to_string()) };
        match views.iter().find(|(_, other)| other != view) {
            Some((other, _)) => Err(format!("{first} and {other} disagree about the nodes' roles")),
            None => Ok(roles_in(servers, view)),
        }
    }

    /// The command goes to the replica itself.
    async fn failover(&self, servers: &dyn Servers, replicas: &[String]) -> Option<(String, Vec<String>)> {
        let next = replicas.first().filter(|next| servers.of_role(Role::Node).contains(&next.as_str()));
        next.map(|next| (next.clone(), ["CLUSTER", "FAILOVER"].map(str::to_string).to_vec()))
    }
}

/// A primary without writes sends its replicas a first byte within a second, not ten.
const PING_OFTEN: (&str, &str) = ("repl-ping-replica-period", "1");

async fn nodes_by(servers: &dyn Servers, node: &str) -> Result<Vec<ClusterNode>, String> {
    servers.ask(node, &["CLUSTER", "NODES"]).await.map(|answer| slots::parse(&answer))
}

fn roles_in(servers: &dyn Servers, view: &[ClusterNode]) -> Roles {
    let name = |address: &str| servers.node_at(address).unwrap_or_else(|| address.to_string());
    let replicas_of = |primary: &ClusterNode| {
        let replicas = view.iter().filter(|node| node.replicates.as_ref() == Some(&primary.address));
        replicas.map(|node| name(&node.address)).collect()
    };
    let primaries = view.iter().filter(|node| node.primary);
    Roles { primaries: primaries.map(|primary| (name(&primary.address), replicas_of(primary))).collect() }
}

/// A node's knowledge of all nodes: the slots and the replicas of each primary.
fn nodes_file(layout: &Layout, number: usize) -> String {
    let primaries = layout.primaries.max(1);
    let mut text = String::new();
    for (node, address) in layout.nodes.iter().enumerate() {
        let ClusterMember { id, primary, slots, epoch, .. } = member(layout, node, *address);
        let role = if primary.is_some() { "slave" } else { "master" };
        let primary = primary.unwrap_or_else(|| "-".to_string());
        let myself = if node == number { "myself," } else { "" };
        let slots = slots.iter().map(|(first, last)| format!(" {first}-{last}")).collect::<String>();
        let address = format!("{address}:{REDIS_PORT}@{}", REDIS_PORT + BUS);
        text.push_str(&format!("{id} {address} {myself}{role} {primary} 0 0 {epoch} connected{slots}\n"));
    }
    text + &format!("vars currentEpoch {primaries} lastVoteEpoch 0\n")
}

/// A node's state at the start; the primaries share the slots equally.
fn member(layout: &Layout, node: usize, at: Ipv4Addr) -> ClusterMember {
    let primaries = layout.primaries.max(1);
    let id = |node: usize| layout.id(&node_name(node));
    let (of, is_primary) = (node % primaries, node < layout.primaries);
    let edge = |part: usize| u16::try_from(usize::from(SLOTS) * part / primaries).unwrap_or(SLOTS);
    ClusterMember {
        id: id(node),
        address: SocketAddrV4::new(at, REDIS_PORT),
        primary: (!is_primary).then(|| id(of)),
        slots: if is_primary { vec![(edge(of), edge(of + 1) - 1)] } else { Vec::new() },
        epoch: of as u64 + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_make_sense_are_accepted_and_others_are_refused() {
        let cluster = |millis| ClusterOptions { node_timeout: Duration::from_millis(millis) };
        cluster(500).check(6).unwrap();
        for (millis, nodes, expected) in [(500, 5, "not 5"), (500, 7, "not 7"), (99, 6, "node_timeout")] {
            let error = cluster(millis).check(nodes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_node_starts_with_the_whole_cluster_in_its_file() {
        let nodes = (1..=6).map(|last| Ipv4Addr::new(10, 0, 0, last)).collect();
        let layout = Layout { run_id: "r".to_string(), nodes, sentinels: Vec::new(), primaries: 3 };
        let text = nodes_file(&layout, 4);
        let nodes = slots::parse(&text);
        assert_eq!(nodes.iter().filter(|node| node.primary).count(), 3);
        assert_eq!(nodes.iter().flat_map(|node| &node.slots).map(|(first, last)| last - first + 1).sum::<u16>(), SLOTS);
        assert_eq!(nodes[4].replicates.as_deref(), Some("10.0.0.2:6379"));
        assert!(
            text.lines().nth(4).unwrap().contains(" myself,slave ") && text.ends_with(" lastVoteEpoch 0\n"),
            "{text}"
        );
    }
}
