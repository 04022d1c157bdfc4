//! Decides which servers are down, alone and with other Sentinels, and which Sentinel leads a failover.

use super::Sentinel;
use super::instance::{Asked, Id, ServerRole};

/// Milliseconds between two questions to another Sentinel.
const ASK_PERIOD: i64 = 1000;
/// A Sentinel delays its own attempts by up to this many milliseconds.
pub(super) const MOST_DESYNC: u32 = 1000;

impl Sentinel {
    pub(super) fn judge(&mut self, id: Id) {
        self.close_dead(id);
        let now = self.now;
        let limit = self.down_after();
        let info_period = self.info_period(id);
        let instance = self.get_mut(id);
        let silent = match instance.unanswered {
            Some(since) => now - since,
            None if !instance.is_linked() => now - instance.available,
            None => 0,
        };
        // A primary that reports the role of a replica for long counts as down.
        let demoted = instance.kind == ServerRole::Primary
            && instance.reported == ServerRole::Replica
            && now - instance.reported_since > limit + 2 * info_period;
        match silent > limit || demoted {
            true => _ = instance.down_since.get_or_insert(now),
            false => instance.down_since = None,
        }
    }

    /// Decides if enough Sentinels consider the primary down.
    pub(super) fn judge_together(&mut self) {
        let others = self.sentinels.iter().filter(|other| other.says_down).count();
        match self.primary.down_since.is_some() && others + 1 >= self.config.quorum {
            true => _ = self.agreed_down_since.get_or_insert(self.now),
            false => self.agreed_down_since = None,
        }
    }

    /// Asks other Sentinels whether the primary is down, and for their votes during a failover.
    pub(super) fn ask_others(&mut self, at_once: bool) {
        let now = self.now;
        for number in 0..self.sentinels.len() {
            let other = &mut self.sentinels[number];
            let silent = now - other.last_said;
            if silent > 5 * ASK_PERIOD {
                other.says_down = false;
                other.leader = None;
            }
            if self.primary.down_since.is_none() || other.commands.is_none() || !at_once && silent < ASK_PERIOD {
                continue;
            }
            let candidate = if self.failover.is_running() { &self.config.id[..] } else { "*" }.to_string();
            let (ip, port) = (self.primary.address.ip().to_string(), self.primary.address.port().to_string());
            let epoch = self.current_epoch.to_string();
            let question = [b"SENTINEL", &b"is-master-down-by-addr"[..], ip.as_bytes(), port.as_bytes()];
            let words = [&question[..], &[epoch.as_bytes(), candidate.as_bytes()]].concat();
            self.say(Id::Sentinel(number), Asked::Down, &words);
        }
    }

    /// Votes for a candidate, unless it has voted in this epoch; returns its vote and that vote's epoch.
    pub(super) fn vote(&mut self, epoch: u64, candidate: &str) -> (Option<String>, u64) {
        if epoch > self.current_epoch {
            self.current_epoch = epoch;
            self.save();
        }
        if self.leader_epoch < epoch && self.current_epoch <= epoch {
            self.voted = Some(candidate.to_string());
            self.leader_epoch = self.current_epoch;
            self.save();
            // After a vote for another Sentinel, give that Sentinel time.
            if candidate != self.config.id {
                self.failover.started = self.now + i64::from(self.draw(MOST_DESYNC));
            }
        }
        (self.voted.clone(), self.leader_epoch)
    }

    /// Returns the leader of the failover of this epoch; None if no Sentinel has enough votes.
    pub(super) fn leader(&mut self, epoch: u64) -> Option<String> {
        let mut votes: Vec<String> = self
            .sentinels
            .iter()
            .filter_map(|other| other.leader.as_ref())
            .filter(|(_, their_epoch)| *their_epoch == self.current_epoch)
            .map(|(leader, _)| leader.clone())
            .collect();
        let count = |votes: &[String], name: &str| votes.iter().filter(|vote| *vote == name).count();
        let mut names = votes.clone();
        names.sort();
        let favourite = names.iter().max_by_key(|name| count(&votes, name)).cloned();
        let choice = favourite.unwrap_or_else(|| self.config.id.clone());
        let (mine, its_epoch) = self.vote(epoch, &choice);
        if its_epoch == epoch {
            votes.extend(mine);
        }
        let voters = self.sentinels.len() + 1;
        let needed = (voters / 2 + 1).max(self.config.quorum);
        let winner = votes.iter().max_by_key(|name| count(&votes, name))?;
        (count(&votes, winner) >= needed).then(|| winner.clone())
    }
}
