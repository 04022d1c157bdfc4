//! The cluster as a node describes it to clients.

use super::{BUS_PORT_OFFSET, Cluster, Node, Server, slots};
use crate::reply::Reply;

impl Cluster {
    fn line(&self, number: usize) -> String {
        let node = &self.nodes[number];
        let myself = number == self.me;
        let mut flags = vec![if node.primary.is_some() { "slave" } else { "master" }];
        if myself {
            flags.insert(0, "myself");
        }
        if node.failed.is_some() {
            flags.push("fail");
        } else if node.maybe_failed {
            flags.push("fail?");
        }
        let primary = node.primary.map_or("-", |primary| &self.nodes[primary].id);
        let epoch = self.nodes[node.primary.unwrap_or(number)].epoch;
        let link = if myself || node.link.is_some() { "connected" } else { "disconnected" };
        let ranges = slots::text(&self.ranges[number]);
        let (id, address) = (&node.id, node.address);
        let bus = address.port().wrapping_add(BUS_PORT_OFFSET);
        let line = format!(
            "{id} {address}@{bus} {} {primary} {} {} {epoch} {link} {ranges}",
            flags.join(","),
            node.ping_sent,
            if myself { 0 } else { node.pong_received },
        );
        line.trim_end().to_string() + "\n"
    }

    pub fn nodes_text(&self) -> String {
        (0..self.nodes.len()).map(|number| self.line(number)).collect()
    }

    pub fn replicas_text(&self, id: &[u8]) -> Result<Vec<String>, Reply> {
        let number =
            self.find(id).ok_or_else(|| Reply::failed(format!("ERR Unknown node {}", String::from_utf8_lossy(id))))?;
        if self.nodes[number].primary.is_some() {
            return Err(Reply::error("ERR The specified node is not a master"));
        }
        let mine = (0..self.nodes.len()).filter(|other| self.nodes[*other].primary == Some(number));
        Ok(mine.map(|other| self.line(other).trim_end().to_string()).collect())
    }

    pub fn id(&self) -> &str {
        &self.myself().id
    }

    /// How much of the stream a node has.
    fn offset_of(&self, number: usize, my_offset: u64) -> u64 {
        if number == self.me { my_offset } else { self.nodes[number].offset }
    }

    /// Each range of slots with the primary that serves it and its replicas.
    pub fn slots_reply(&self, my_offset: u64) -> Reply {
        let place = |node: &Node| {
            let port = i64::from(node.address.port());
            Reply::Array(vec![
                Reply::text(&node.address.ip().to_string()),
                Reply::Integer(port),
                Reply::text(&node.id),
                Reply::Array(Vec::new()),
            ])
        };
        let mut ranges = Vec::new();
        for owner in 0..self.nodes.len() {
            ranges.extend(self.ranges[owner].iter().map(|range| (*range, owner)));
        }
        ranges.sort_unstable();
        let entry = |((first, last), owner): ((usize, usize), usize)| {
            // A replica that has nothing yet is left out.
            let replicas = self.nodes.iter().enumerate().filter(|(number, node)| {
                node.primary == Some(owner) && node.failed.is_none() && self.offset_of(*number, my_offset) > 0
            });
            let replicas = replicas.map(|(_, node)| node);
            let places = [&self.nodes[owner]].into_iter().chain(replicas).map(place);
            Reply::Array([Reply::count(first), Reply::count(last)].into_iter().chain(places).collect())
        };
        Reply::Array(ranges.into_iter().map(entry).collect())
    }

    /// Each shard with its slots and its nodes.
    pub fn shards_reply(&self, my_offset: u64) -> Reply {
        let named = |fields: Vec<(&str, Reply)>| {
            Reply::Map(fields.into_iter().flat_map(|(name, value)| [Reply::text(name), value]).collect())
        };
        let describe = |number: usize| {
            let node = &self.nodes[number];
            let ip = node.address.ip().to_string();
            let offset = self.offset_of(number, my_offset);
            let health = match (node.failed, node.primary, offset) {
                (Some(_), ..) => "fail",
                (None, Some(_), 0) => "loading",
                _ => "online",
            };
            named(vec![
                ("id", Reply::text(&node.id)),
                ("port", Reply::Integer(i64::from(node.address.port()))),
                ("ip", Reply::text(&ip)),
                ("endpoint", Reply::text(&ip)),
                ("role", Reply::text(if node.primary.is_some() { "replica" } else { "master" })),
                ("replication-offset", Reply::Integer(offset as i64)),
                ("health", Reply::text(health)),
            ])
        };
        let primaries = (0..self.nodes.len()).filter(|number| self.nodes[*number].primary.is_none());
        let shard = |primary: usize| {
            let ranges = self.ranges[primary].iter();
            let ends = ranges.flat_map(|(first, last)| [Reply::count(*first), Reply::count(*last)]);
            let replicas = (0..self.nodes.len()).filter(|number| self.nodes[*number].primary == Some(primary));
            let nodes = [primary].into_iter().chain(replicas).map(describe);
            named(vec![("slots", Reply::Array(ends.collect())), ("nodes", Reply::Array(nodes.collect()))])
        };
        Reply::Array(primaries.map(shard).collect())
    }

    pub fn info_text(&self) -> String {
        let assigned = self.owners.iter().flatten();
        let failed = assigned.clone().filter(|owner| self.nodes[**owner].failed.is_some()).count();
        let doubtful = assigned.clone().filter(|owner| self.nodes[**owner].maybe_failed).count();
        let assigned = assigned.count();
        let owner = self.myself().primary.unwrap_or(self.me);
        let fields = [
            ("cluster_state", if self.is_ok { "ok" } else { "fail" }.to_string()),
            ("cluster_slots_assigned", assigned.to_string()),
            ("cluster_slots_ok", (assigned - failed - doubtful).to_string()),
            ("cluster_slots_pfail", doubtful.to_string()),
            ("cluster_slots_fail", failed.to_string()),
            ("cluster_known_nodes", self.nodes.len().to_string()),
            ("cluster_size", self.voters().count().to_string()),
            ("cluster_current_epoch", self.current_epoch.to_string()),
            ("cluster_my_epoch", self.nodes[owner].epoch.to_string()),
        ];
        fields.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect()
    }
}

impl Server {
    /// How many keys of a slot there are.
    pub(crate) fn keys_in_slot(&self, slot: usize) -> usize {
        self.data.databases.first().map_or(0, |keys| keys.iter().filter(|(key, _)| slots::slot(key) == slot).count())
    }
}
