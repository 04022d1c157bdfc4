//! The election of a replica in place of a failed primary, and the way nodes learn of the new primary.

use rand::RngExt;

use super::messages::{Message, MessageKind};
use super::{Cluster, Server};

/// A replica's attempt to be elected.
#[derive(Clone, Debug, Default)]
pub(super) struct Election {
    /// The time at which it asks for votes.
    at: i64,
    asked: bool,
    votes: usize,
    rank: i64,
    epoch: u64,
}

impl Server {
    /// Asks for votes when that is due, and takes over with enough votes.
    pub(super) fn try_election(&mut self) {
        let limit = (2 * self.node_timeout()).max(2000);
        let now = self.data.now;
        let offset = self.replication.offset;
        let Some(cluster) = &mut self.cluster else { return };
        let Some(primary) = cluster.myself().primary else { return };
        let ordered = cluster.handover.can_start;
        if cluster.nodes[primary].failed.is_none() && !ordered || !cluster.owns_any(primary) {
            return;
        }
        let age = now - cluster.election.at;
        // Replicas with more of the data come first.
        let siblings = cluster.nodes.iter().enumerate().filter(|(number, _)| *number != cluster.me);
        let better = siblings.filter(|(_, node)| node.primary == Some(primary) && node.offset > offset).count() as i64;
        if age > 2 * limit {
            let drawn = self.data.random.random_range(0..500_i64);
            let at = if ordered { now } else { now + 500 + drawn + 1000 * better };
            cluster.election = Election { at, rank: better, ..Election::default() };
            return self.tell_all(&MessageKind::Pong);
        }
        let election = &mut cluster.election;
        if !election.asked && !ordered && better > election.rank {
            election.at += (better - election.rank) * 1000;
            election.rank = better;
        }
        if now < election.at || age > limit {
            return;
        }
        if !election.asked {
            election.asked = true;
            cluster.current_epoch += 1;
            cluster.election.epoch = cluster.current_epoch;
            self.save_nodes();
            return self.tell_all(&MessageKind::AskVote(ordered));
        }
        if cluster.election.votes >= cluster.majority() {
            let epoch = cluster.election.epoch;
            self.take_over(epoch);
        }
    }

    pub(super) fn take_over(&mut self, epoch: u64) {
        let Some(cluster) = &mut self.cluster else { return };
        let me = cluster.me;
        let Some(primary) = cluster.nodes[me].primary.take() else { return };
        cluster.nodes[me].epoch = cluster.nodes[me].epoch.max(epoch);
        cluster.owners.iter_mut().filter(|owner| **owner == Some(primary)).for_each(|owner| *owner = Some(me));
        cluster.owners_changed();
        self.follow(None);
        self.judge_cluster();
        self.save_nodes();
        self.tell_all(&MessageKind::Pong);
        self.end_handover();
    }

    /// Votes for a replica, at most once per epoch, if its primary is down or agrees.
    pub(super) fn consider_vote(&mut self, message: &Message, forced: bool) {
        let again = 2 * self.node_timeout();
        let now = self.data.now;
        let Some(cluster) = &mut self.cluster else { return };
        let votes = cluster.myself().primary.is_none() && cluster.owns_any(cluster.me);
        let Some(primary) = cluster.nodes[message.sender].primary else { return };
        let claims_old = message.slots.iter().any(|(first, last)| {
            let owners = cluster.owners[*first..=*last].iter().flatten();
            owners.into_iter().any(|owner| cluster.nodes[*owner].epoch > message.epoch)
        });
        let refused = !votes
            || message.current_epoch < cluster.current_epoch
            || cluster.last_vote == cluster.current_epoch
            || cluster.nodes[primary].failed.is_none() && !forced
            || now - cluster.nodes[primary].voted < again
            || claims_old;
        if refused {
            return;
        }
        cluster.last_vote = cluster.current_epoch;
        cluster.nodes[primary].voted = now;
        self.save_nodes();
        self.tell_node(message.sender, &MessageKind::Vote);
    }

    pub(super) fn note_vote(&mut self, message: &Message) {
        let Some(cluster) = &mut self.cluster else { return };
        let votes = cluster.nodes[message.sender].primary.is_none() && cluster.owns_any(message.sender);
        if votes && message.current_epoch >= cluster.election.epoch {
            cluster.election.votes += 1;
        }
        self.try_election();
    }

    /// Takes over the role and the slots that a node reports.
    pub(super) fn note_state(&mut self, message: &Message) {
        let Some(cluster) = &mut self.cluster else { return };
        let sender = message.sender;
        if cluster.nodes[sender].primary != message.primary {
            cluster.nodes[sender].primary = message.primary;
            if message.primary.is_some() {
                cluster.owners.iter_mut().filter(|owner| **owner == Some(sender)).for_each(|owner| *owner = None);
                cluster.owners_changed();
            }
            self.save_nodes();
        }
        if message.primary.is_none() {
            self.note_slots(sender, message.epoch, &message.slots);
        }
        self.correct(message);
        self.resolve_collision(message);
        self.note_gossip(message);
    }

    pub(super) fn note_update(&mut self, owner: usize, epoch: u64, slots: &[(usize, usize)]) {
        let Some(cluster) = &mut self.cluster else { return };
        if owner == cluster.me || cluster.nodes[owner].epoch >= epoch {
            return;
        }
        cluster.nodes[owner].epoch = epoch;
        cluster.nodes[owner].primary = None;
        self.note_slots(owner, epoch, slots);
        self.save_nodes();
    }

    /// Assigns claimed slots, if their owners have a lower epoch. A node whose shard loses its last slot follows the new owner.
    fn note_slots(&mut self, claimant: usize, epoch: u64, slots: &[(usize, usize)]) {
        let Some(cluster) = &mut self.cluster else { return };
        let me = cluster.me;
        if claimant == me || cluster.ranges[claimant] == slots {
            return;
        }
        let mine = cluster.myself().primary.unwrap_or(me);
        let (mut lost, mut changed) = (false, false);
        for slot in slots.iter().flat_map(|(first, last)| *first..=*last) {
            let owner = cluster.owners[slot];
            if owner != Some(claimant) && owner.is_none_or(|owner| cluster.nodes[owner].epoch < epoch) {
                lost |= owner == Some(mine);
                changed = true;
                cluster.owners[slot] = Some(claimant);
            }
        }
        if !changed {
            return;
        }
        cluster.owners_changed();
        if lost && !cluster.owns_any(mine) {
            cluster.nodes[me].primary = Some(claimant);
            let address = cluster.nodes[claimant].address;
            self.end_handover();
            self.follow(Some(address));
        }
        self.save_nodes();
    }

    /// Sends an update to a node that claims slots of a newer owner.
    fn correct(&mut self, message: &Message) {
        let Some(cluster) = &self.cluster else { return };
        let claimant = message.primary.unwrap_or(message.sender);
        if cluster.ranges[claimant] == message.slots {
            return;
        }
        let claimed = message.slots.iter().flat_map(|(first, last)| &cluster.owners[*first..=*last]).flatten();
        let mut newer = claimed.filter(|owner| **owner != claimant && cluster.nodes[**owner].epoch > message.epoch);
        if let Some(owner) = newer.next().copied() {
            let update = cluster.update_of(owner);
            self.tell_node(message.sender, &update);
        }
    }

    /// If two primaries have the same epoch, the primary with the lesser id takes a new epoch.
    fn resolve_collision(&mut self, message: &Message) {
        let Some(cluster) = &mut self.cluster else { return };
        let me = cluster.me;
        let both = message.primary.is_none() && cluster.nodes[me].primary.is_none();
        let same = cluster.nodes[me].epoch == message.epoch;
        if both && same && cluster.nodes[message.sender].id > cluster.nodes[me].id {
            cluster.current_epoch += 1;
            cluster.nodes[me].epoch = cluster.current_epoch;
            self.save_nodes();
        }
    }
}

impl Cluster {
    fn update_of(&self, owner: usize) -> MessageKind {
        MessageKind::Update(owner, self.nodes[owner].epoch, self.ranges[owner].clone())
    }
}
