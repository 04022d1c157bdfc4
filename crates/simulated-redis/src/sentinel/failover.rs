//! A failover, step by step.

use std::net::SocketAddrV4;

use super::Sentinel;
use super::instance::{Id, Instance, ServerRole, Turned};
use super::judge::MOST_DESYNC;
use super::links::PING_PERIOD;

/// The time limit of an election, in milliseconds.
const ELECTION_LIMIT: i64 = 10_000;
/// Milliseconds after which the Sentinel stops waiting for a replica that it reconfigured.
const TURN_LIMIT: i64 = 10_000;

/// The phase of a failover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    #[default]
    None,
    WaitStart,
    Select,
    Promote,
    WaitPromotion,
    Turn,
}

/// The failover in progress, or the last failover.
#[derive(Clone, Debug, Default)]
pub(super) struct Failover {
    pub stage: Stage,
    pub epoch: u64,
    /// The start of this failover, or of another Sentinel's failover. May lie in the future.
    pub started: i64,
    /// The start of the stage.
    pub changed: i64,
    /// True if an operator ordered the failover, so that it needs no votes.
    pub ordered: bool,
}

impl Failover {
    /// From here on, the promoted replica is the primary.
    pub const TURNING: Stage = Stage::Turn;

    pub fn is_running(&self) -> bool {
        self.stage != Stage::None
    }
}

impl Sentinel {
    fn limit(&self) -> i64 {
        self.config.failover_timeout.as_millis() as i64
    }

    fn enter(&mut self, stage: Stage) {
        self.failover.stage = stage;
        self.failover.changed = self.now;
    }

    pub(super) fn start_failover_if_needed(&mut self) -> bool {
        let needed = self.agreed_down_since.is_some() && !self.failover.is_running();
        if !needed || self.now - self.failover.started < 2 * self.limit() {
            return false;
        }
        self.start_failover();
        true
    }

    pub(super) fn start_failover(&mut self) {
        self.current_epoch += 1;
        self.failover.epoch = self.current_epoch;
        self.failover.started = self.now + i64::from(self.draw(MOST_DESYNC));
        self.failover.ordered = false;
        self.enter(Stage::WaitStart);
        self.save();
    }

    fn abort(&mut self) {
        self.enter(Stage::None);
        self.failover.ordered = false;
        self.replicas.iter_mut().for_each(|replica| replica.promoted = false);
    }

    pub(super) fn continue_failover(&mut self) {
        match self.failover.stage {
            Stage::None => {}
            Stage::WaitStart => self.wait_for_start(),
            Stage::Select => match self.best_replica() {
                Some(number) => {
                    self.replicas[number].promoted = true;
                    self.enter(Stage::Promote);
                }
                None => self.abort(),
            },
            Stage::Promote => self.promote(),
            Stage::WaitPromotion => {
                if self.now - self.failover.changed > self.limit() {
                    self.abort();
                }
            }
            Stage::Turn => self.turn_replicas(),
        }
    }

    fn wait_for_start(&mut self) {
        let leader = self.leader(self.failover.epoch);
        if leader.as_ref() == Some(&self.config.id) || self.failover.ordered {
            self.enter(Stage::Select);
        } else if self.now - self.failover.started > self.limit().min(ELECTION_LIMIT) {
            self.abort();
        }
    }

    /// Returns the replica to promote: a replica that is up and has recent INFO, by priority, offset and id.
    pub(super) fn best_replica(&self) -> Option<usize> {
        let now = self.now;
        let primary_down = self.primary.down_since;
        let most_behind = 10 * self.down_after() + primary_down.map_or(0, |since| now - since);
        let is_good = |number: &usize| {
            let replica = &self.replicas[*number];
            let informed_within = match primary_down {
                Some(_) => 5 * PING_PERIOD,
                None => 3 * self.info_period(Id::Replica(*number)),
            };
            replica.down_since.is_none()
                && replica.is_linked()
                && now - replica.available <= 5 * PING_PERIOD
                && replica.priority > 0
                && replica.informed.is_some_and(|then| now - then <= informed_within)
                && replica.link_down <= most_behind
        };
        let rank = |number: &usize| {
            let replica = &self.replicas[*number];
            (replica.priority, std::cmp::Reverse(replica.offset), replica.id.clone())
        };
        (0..self.replicas.len()).filter(is_good).min_by_key(rank)
    }

    fn promote(&mut self) {
        let Some(number) = self.replicas.iter().position(|replica| replica.promoted) else { return self.abort() };
        if self.replicas[number].is_linked() && self.turn(Id::Replica(number), None) {
            self.enter(Stage::WaitPromotion);
        } else if self.now - self.failover.changed > self.limit() {
            self.abort();
        }
    }

    /// Makes the other replicas follow, a few at a time. Ends the failover when all follow, or after the timeout.
    fn turn_replicas(&mut self) {
        let now = self.now;
        let Some(promoted) = self.replicas.iter().find(|replica| replica.promoted).map(|replica| replica.address)
        else {
            return self.abort();
        };
        let busy = |replica: &Instance| matches!(replica.turned, Turned::Told | Turned::Following);
        let in_progress = self.replicas.iter().filter(|replica| busy(replica)).count();
        let mut free = self.config.parallel_syncs.saturating_sub(in_progress);
        for number in 0..self.replicas.len() {
            let replica = &mut self.replicas[number];
            if replica.promoted || replica.turned == Turned::Done {
                continue;
            }
            if replica.turned == Turned::Told && now - replica.turned_since > TURN_LIMIT {
                replica.turned = Turned::Done;
            } else if replica.turned == Turned::No
                && free > 0
                && replica.is_linked()
                && self.turn(Id::Replica(number), Some(promoted))
            {
                self.replicas[number].turned = Turned::Told;
                self.replicas[number].turned_since = now;
                free -= 1;
            }
        }
        let left =
            |replica: &&Instance| !replica.promoted && replica.turned != Turned::Done && replica.down_since.is_none();
        let too_long = now - self.failover.changed > self.limit();
        if too_long {
            for number in 0..self.replicas.len() {
                if left(&&self.replicas[number]) && self.replicas[number].turned == Turned::No {
                    self.turn(Id::Replica(number), Some(promoted));
                }
            }
        }
        if too_long || self.replicas.iter().filter(left).count() == 0 {
            self.switch_to(promoted);
            self.save();
        }
    }

    /// Watches this server as the primary from now on, and the old one as a replica.
    pub(super) fn switch_to(&mut self, primary: SocketAddrV4) {
        let now = self.now;
        self.ids().filter(|id| !matches!(id, Id::Sentinel(_))).for_each(|id| self.cut(id));
        let addresses = self.replicas.iter().map(|replica| replica.address).chain([self.primary.address]);
        let addresses: Vec<SocketAddrV4> = addresses.filter(|address| *address != primary).collect();
        self.replicas =
            addresses.into_iter().map(|address| Instance::new(ServerRole::Replica, address, "", now)).collect();
        self.primary = Instance::new(ServerRole::Primary, primary, "", now);
        self.agreed_down_since = None;
        self.failover = Failover::default();
    }
}
