//! Files that servers of a group start with, so that they know each other from the first moment. Nothing has to
//! introduce them, and there is nothing to wait for but their own first checks.
//!
//! Source: the documented formats of sentinel.conf and of a Redis Cluster's nodes.conf.

use std::net::Ipv4Addr;

use sha2::{Digest, Sha256};

use super::server::{DATA, SENTINEL_PORT, Settings, as_file};
use super::{ClusterSpec, Member};
use crate::members::{Role, node_name, sentinel_name};
use crate::slots::SLOTS;
use crate::topology::{REDIS_PORT, SentinelOptions, Topology};

/// The name under which Sentinels watch the primary.
pub(super) const GROUP_NAME: &str = "lock";
/// The file in which a Redis Cluster node keeps what it knows of the others, in its folder.
pub(super) const NODES_FILE: &str = "nodes.conf";

/// The servers of a group.
pub(super) struct Group {
    topology: Topology,
    run_id: String,
    pub nodes: Vec<Ipv4Addr>,
    pub sentinels: Vec<Ipv4Addr>,
    /// How many of the nodes are primaries; these come first.
    pub primaries: usize,
}

impl Group {
    pub fn new(spec: &ClusterSpec, members: &[Member]) -> Group {
        let of_role = |role| {
            let members = members.iter().filter(|member| member.role == role);
            members.map(|member| member.address.unwrap_or(Ipv4Addr::UNSPECIFIED)).collect()
        };
        Group {
            topology: spec.topology.clone(),
            run_id: spec.run_id.clone(),
            nodes: of_role(Role::Node),
            sentinels: of_role(Role::Sentinel),
            primaries: spec.topology.primaries(spec.nodes) as usize,
        }
    }

    /// A node's settings besides those of any Redis.
    pub fn settings(&self, number: usize) -> Settings {
        // A replica that comes back is synced at once, without waiting for others that may come too.
        let at_once = ("repl-diskless-sync-delay", "0".to_string());
        match &self.topology {
            Topology::Independent => Settings::new(),
            Topology::Sentinel(_) => {
                let mut settings = vec![at_once];
                if let (1.., Some(primary)) = (number, self.nodes.first()) {
                    settings.push(("replicaof", format!("{primary} {REDIS_PORT}")));
                }
                // The lowest is promoted first, so that the next in line is not left to chance.
                settings.push(("replica-priority", (10 * (number + 1)).to_string()));
                settings
            }
            Topology::Cluster(options) => vec![
                at_once,
                ("dir", DATA.to_string()),
                ("cluster-enabled", "yes".to_string()),
                ("cluster-config-file", NODES_FILE.to_string()),
                ("cluster-node-timeout", options.node_timeout.as_millis().to_string()),
                // A replica may be promoted however long ago it heard from its primary. With the default of 10, a cut
                // of some seconds would leave no replica to promote.
                ("cluster-replica-validity-factor", "0".to_string()),
            ],
        }
    }

    /// A Sentinel's configuration.
    pub fn sentinel_file(&self, number: usize) -> String {
        let Topology::Sentinel(SentinelOptions { down_after, failover_timeout, .. }) = &self.topology else {
            return String::new();
        };
        let mut settings: Settings = vec![
            ("port", SENTINEL_PORT.to_string()),
            ("bind", "0.0.0.0".to_string()),
            ("protected-mode", "no".to_string()),
            ("dir", DATA.to_string()),
        ];
        let mut sentinel = |words: String| settings.push(("sentinel", words));
        let [primary, replicas @ ..] = &self.nodes[..] else { return String::new() };
        let quorum = self.sentinels.len() / 2 + 1;
        sentinel(format!("myid {}", self.id(&sentinel_name(number))));
        sentinel(format!("monitor {GROUP_NAME} {primary} {REDIS_PORT} {quorum}"));
        sentinel(format!("down-after-milliseconds {GROUP_NAME} {}", down_after.as_millis()));
        sentinel(format!("failover-timeout {GROUP_NAME} {}", failover_timeout.as_millis()));
        sentinel(format!("parallel-syncs {GROUP_NAME} {}", replicas.len().max(1)));
        for replica in replicas {
            sentinel(format!("known-replica {GROUP_NAME} {replica} {REDIS_PORT}"));
        }
        for (other, address) in self.sentinels.iter().enumerate().filter(|(other, _)| *other != number) {
            let id = self.id(&sentinel_name(other));
            sentinel(format!("known-sentinel {GROUP_NAME} {address} {SENTINEL_PORT} {id}"));
        }
        as_file(&settings)
    }

    /// What a Redis Cluster node knows of all nodes: who serves which slots, and who replicates whom.
    pub fn nodes_file(&self, number: usize) -> String {
        let primaries = self.primaries.max(1);
        let bus_port = REDIS_PORT + 10_000;
        let mut text = String::new();
        for (node, address) in self.nodes.iter().enumerate() {
            let of = node % primaries;
            let (role, primary) = match node < primaries {
                true => ("master", "-".to_string()),
                false => ("slave", self.id(&node_name(of))),
            };
            let myself = if node == number { "myself," } else { "" };
            let (first, last) = self.slots_of(node % primaries);
            let slots = if node < primaries { format!(" {first}-{last}") } else { String::new() };
            let id = self.id(&node_name(node));
            let epoch = of + 1;
            let address = format!("{address}:{REDIS_PORT}@{bus_port}");
            text.push_str(&format!("{id} {address} {myself}{role} {primary} 0 0 {epoch} connected{slots}\n"));
        }
        text + &format!("vars currentEpoch {primaries} lastVoteEpoch 0\n")
    }

    /// An equal share of the slots: the first and the last.
    pub fn slots_of(&self, primary: usize) -> (usize, usize) {
        let edge = |part: usize| usize::from(SLOTS) * part / self.primaries.max(1);
        (edge(primary), edge(primary + 1) - 1)
    }

    /// A server's id: 40 hexadecimal digits, unique within the run.
    pub fn id(&self, name: &str) -> String {
        let digest = Sha256::digest(format!("{}/{name}", self.run_id));
        digest.iter().take(20).map(|byte| format!("{byte:02x}")).collect()
    }
}
