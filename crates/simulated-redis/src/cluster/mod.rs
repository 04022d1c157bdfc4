//! Redis Cluster: nodes that share the slots, watch each other, and replace primaries that are down.
//!
//! Source: the Redis Cluster specification, and the behaviour of Redis 7.0. The set of nodes is known from the start; slots do
//! not migrate, and replicas stay with their shard. Times are milliseconds of the wall clock, as in Redis.

mod bus;
mod election;
mod health;
mod manual;
mod messages;
mod slots;
mod view;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use crate::commands::Command;
use crate::config::{ClusterConfig, Config};
use crate::data::CommandWords;
use crate::disk::Disk;
use crate::process::Connection;
use crate::reply::Reply;
use crate::server::Server;

use bus::BusLink;
use election::Election;
use manual::Handover;
use slots::Ranges;
pub(crate) use slots::Slots;
pub(crate) use slots::slot;

/// The port of the bus is greater than the port for clients by this number.
const BUS_PORT_OFFSET: u16 = 10_000;

/// The content of `nodes.conf`, written after each change.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    /// Each node's primary and epoch.
    nodes: Vec<(Option<usize>, u64)>,
    ranges: Vec<Ranges>,
    current_epoch: u64,
    last_vote: u64,
}

/// One node's view of another node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    id: String,
    address: SocketAddrV4,
    /// The primary that it follows; None for a primary.
    primary: Option<usize>,
    /// The epoch of its slots.
    epoch: u64,
    /// The time of the unanswered ping; 0 if there is none.
    ping_sent: i64,
    pong_received: i64,
    data_received: i64,
    maybe_failed: bool,
    failed: Option<i64>,
    /// Primaries that report it as failing, each with the time of the report.
    reports: BTreeMap<usize, i64>,
    /// The time of the last vote for one of its replicas.
    voted: i64,
    offset: u64,
    link: Option<BusLink>,
}

#[derive(Default)]
pub(crate) struct Cluster {
    nodes: Vec<Node>,
    me: usize,
    /// The owner of each slot.
    owners: Vec<Option<usize>>,
    /// The slots of each node, derived from `owners` after each change.
    ranges: Vec<Ranges>,
    current_epoch: u64,
    last_vote: u64,
    is_ok: bool,
    /// The time at which it began to judge the cluster.
    first_judged: Option<i64>,
    /// The last time at which it was in a minority.
    in_minority: i64,
    inbound: BTreeMap<Connection, Vec<u8>>,
    election: Election,
    handover: Handover,
    ticks: u64,
}

impl Cluster {
    pub fn new(config: &Config, cluster: &ClusterConfig, disk: &Disk) -> Cluster {
        let place = |id: &String| cluster.nodes.iter().position(|node| node.id == *id);
        let nodes = cluster.nodes.iter().map(|member| Node {
            id: member.id.clone(),
            address: member.address,
            primary: member.primary.as_ref().and_then(place),
            epoch: member.epoch,
            ping_sent: 0,
            pong_received: 0,
            data_received: 0,
            maybe_failed: false,
            failed: None,
            reports: BTreeMap::new(),
            voted: 0,
            offset: 0,
            link: None,
        });
        let mut nodes: Vec<Node> = nodes.collect();
        let wide = |(first, last): &(u16, u16)| (usize::from(*first), usize::from(*last).min(slots::SLOTS - 1));
        let mut ranges: Vec<Ranges> =
            cluster.nodes.iter().map(|member| member.slots.iter().map(wide).collect()).collect();
        let me = nodes.iter().position(|node| node.address == config.address).unwrap_or(0);
        let (mut current_epoch, mut last_vote) = (nodes.iter().map(|node| node.epoch).max().unwrap_or(0), 0);
        if let Some(saved) = &disk.nodes {
            for (node, (primary, epoch)) in nodes.iter_mut().zip(&saved.nodes) {
                (node.primary, node.epoch) = (*primary, *epoch);
            }
            ranges.clone_from(&saved.ranges);
            (current_epoch, last_vote) = (saved.current_epoch, saved.last_vote);
        }
        let mut owners = vec![None; slots::SLOTS];
        for (number, ranges) in ranges.iter().enumerate() {
            ranges.iter().for_each(|(first, last)| owners[*first..=*last].fill(Some(number)));
        }
        Cluster { nodes, me, owners, ranges, current_epoch, last_vote, ..Cluster::default() }
    }

    fn myself(&self) -> &Node {
        &self.nodes[self.me]
    }

    fn find(&self, id: &[u8]) -> Option<usize> {
        self.nodes.iter().position(|node| node.id.as_bytes() == id)
    }

    fn owns_any(&self, node: usize) -> bool {
        !self.ranges[node].is_empty()
    }

    /// Updates the ranges. Call it after each change of an owner.
    fn owners_changed(&mut self) {
        self.ranges = (0..self.nodes.len()).map(|number| slots::ranges_of(&self.owners, number)).collect();
    }

    /// Returns the primaries that serve slots.
    fn voters(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|node| self.nodes[*node].primary.is_none() && self.owns_any(*node))
    }

    fn majority(&self) -> usize {
        self.voters().count() / 2 + 1
    }

    /// Returns the primary that this node should follow.
    pub fn wanted_primary(&self) -> Option<SocketAddrV4> {
        self.myself().primary.map(|primary| self.nodes[primary].address)
    }
}

impl Server {
    pub(crate) fn save_nodes(&mut self) {
        let Some(cluster) = &self.cluster else { return };
        let owned = cluster.owners.iter().map(|owner| *owner == Some(cluster.me));
        self.data.cluster_slots = Some(Slots(owned.collect()));
        self.disk.nodes = Some(Nodes {
            nodes: cluster.nodes.iter().map(|node| (node.primary, node.epoch)).collect(),
            ranges: cluster.ranges.clone(),
            current_epoch: cluster.current_epoch,
            last_vote: cluster.last_vote,
        });
    }

    /// Refuses a command for keys of other nodes, and names their node.
    pub(crate) fn redirect(&mut self, _: Connection, command: &Command, words: CommandWords<'_>) -> Result<(), Reply> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let keys = command.keys_in(words);
        let Some(first) = keys.first() else { return Ok(()) };
        let slot = slot(first);
        if keys.iter().any(|key| self::slot(key) != slot) {
            return Err(Reply::error("CROSSSLOT Keys in request don't hash to the same slot"));
        }
        let Some(owner) = cluster.owners[slot] else {
            return Err(Reply::error("CLUSTERDOWN Hash slot not served"));
        };
        if !cluster.is_ok {
            return Err(Reply::error("CLUSTERDOWN The cluster is down"));
        }
        if owner != cluster.me {
            return Err(Reply::failed(format!("MOVED {slot} {}", cluster.nodes[owner].address)));
        }
        Ok(())
    }
}
