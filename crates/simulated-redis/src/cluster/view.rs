//! The cluster as a node describes it to clients.

use super::{BUS_PORT_OFFSET, Cluster, slots};
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

    /// The answer to `CLUSTER SLOTS`: each range with its primary and the replicas that have not failed.
    pub fn slots_reply(&self) -> Reply {
        let described = |number: usize| {
            let node = &self.nodes[number];
            let (host, port) = (node.address.ip().to_string(), node.address.port());
            let port = Reply::Integer(i64::from(port));
            Reply::Array(vec![Reply::text(&host), port, Reply::text(&node.id), Reply::Array(Vec::new())])
        };
        let of_primary = |primary: usize| {
            let replicas = (0..self.nodes.len()).filter(move |number| {
                self.nodes[*number].primary == Some(primary) && self.nodes[*number].failed.is_none()
            });
            self.ranges[primary].iter().map(move |(first, last)| {
                let serving = [Reply::count(*first), Reply::count(*last), described(primary)];
                (*first, Reply::Array(serving.into_iter().chain(replicas.clone().map(described)).collect()))
            })
        };
        let mut ranges: Vec<(usize, Reply)> = (0..self.nodes.len()).flat_map(of_primary).collect();
        ranges.sort_by_key(|(first, _)| *first);
        Reply::Array(ranges.into_iter().map(|(_, range)| range).collect())
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
