//! Failed nodes, and the state of the whole cluster.

use super::Server;
use super::messages::{Message, MessageKind};
use super::slots::SLOTS;

/// Milliseconds that a primary waits after its start before it serves.
const WRITABLE_DELAY: i64 = 2000;

impl Server {
    pub(crate) fn cluster_tick(&mut self) {
        if self.cluster.is_none() {
            return;
        }
        self.keep_links();
        self.suspect_the_silent();
        self.check_handover();
        self.try_election();
        self.judge_cluster();
    }

    fn suspect_the_silent(&mut self) {
        let timeout = self.node_timeout();
        let now = self.data.now;
        let Some(cluster) = &mut self.cluster else { return };
        let me = cluster.me;
        for (number, node) in cluster.nodes.iter_mut().enumerate() {
            let silent = node.ping_sent != 0 && (now - node.ping_sent).min(now - node.data_received) > timeout;
            if number != me && silent && node.failed.is_none() {
                node.maybe_failed = true;
            }
        }
        // This suspicion may complete the majority.
        (0..self.cluster.as_ref().map_or(0, |cluster| cluster.nodes.len())).for_each(|number| self.agree(number));
    }

    pub(super) fn note_pong(&mut self, number: usize) {
        let timeout = self.node_timeout();
        let now = self.data.now;
        let Some(cluster) = &mut self.cluster else { return };
        let serves = cluster.owns_any(number);
        let node = &mut cluster.nodes[number];
        node.pong_received = now;
        node.ping_sent = 0;
        node.maybe_failed = false;
        // A returning primary keeps its slots only if no node has taken them over for some time.
        let forgiven = node.primary.is_some() || !serves;
        if node.failed.is_some_and(|since| forgiven || now - since > 2 * timeout) {
            node.failed = None;
        }
    }

    /// Records the view of another node on the others.
    pub(super) fn note_gossip(&mut self, message: &Message) {
        let now = self.data.now;
        let Some(cluster) = &mut self.cluster else { return };
        let sender_votes = cluster.nodes[message.sender].primary.is_none();
        let me = cluster.me;
        for (number, down, heard) in message.gossip.iter().filter(|(number, ..)| *number != me) {
            let node = &mut cluster.nodes[*number];
            match down {
                true if sender_votes => _ = node.reports.insert(message.sender, now),
                false if sender_votes => _ = node.reports.remove(&message.sender),
                _ => {}
            }
            if !down && node.ping_sent == 0 && node.reports.is_empty() && *heard <= now + 500 {
                node.pong_received = node.pong_received.max(*heard);
            }
        }
        message.gossip.iter().for_each(|(number, ..)| self.agree(*number));
    }

    /// Marks a node as failed if a majority of the primaries considers it down.
    fn agree(&mut self, number: usize) {
        let oldest = self.data.now - 2 * self.node_timeout();
        let now = self.data.now;
        let Some(cluster) = &mut self.cluster else { return };
        let votes = usize::from(cluster.myself().primary.is_none());
        let needed = cluster.majority();
        let node = &mut cluster.nodes[number];
        node.reports.retain(|_, said| *said >= oldest);
        if !node.maybe_failed || node.failed.is_some() || node.reports.len() + votes < needed {
            return;
        }
        node.maybe_failed = false;
        node.failed = Some(now);
        self.tell_all(&MessageKind::Fail(number));
    }

    pub(super) fn note_failure(&mut self, number: usize) {
        let now = self.data.now;
        let Some(cluster) = &mut self.cluster else { return };
        let me = cluster.me;
        let node = &mut cluster.nodes[number];
        if number != me && node.failed.is_none() {
            node.failed = Some(now);
            node.maybe_failed = false;
        }
    }

    /// Decides if the cluster can serve: all slots have an owner that is up, and most primaries are up.
    pub(super) fn judge_cluster(&mut self) {
        let now = self.data.now;
        let timeout = self.node_timeout();
        let Some(cluster) = &mut self.cluster else { return };
        let first = *cluster.first_judged.get_or_insert(now);
        let primary = cluster.myself().primary.is_none();
        if primary && !cluster.is_ok && (0..WRITABLE_DELAY).contains(&(now - first)) {
            return;
        }
        let live = cluster.nodes.iter().zip(&cluster.ranges).filter(|(node, _)| node.failed.is_none());
        let covered: usize = live.flat_map(|(_, ranges)| ranges).map(|(first, last)| last - first + 1).sum();
        let up = |number: &usize| {
            let node = &cluster.nodes[*number];
            node.failed.is_none() && !node.maybe_failed
        };
        let reachable = cluster.voters().filter(up).count();
        let minority = reachable < cluster.majority();
        if minority {
            cluster.in_minority = now;
        }
        let is_ok = covered == SLOTS && !minority;
        let too_soon = (0..timeout.clamp(500, 5000)).contains(&(now - cluster.in_minority));
        if is_ok && primary && too_soon {
            return;
        }
        cluster.is_ok = is_ok;
    }
}
