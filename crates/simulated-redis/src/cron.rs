//! The periodic work of a server, ten times per second: expired keys, syncs, and links to other servers.
//!
//! The server skips ticks without work, so that nothing wakes an idle server.

use std::time::Duration;

use crate::client::Wait;
use crate::process::{Clocks, Connection};
use crate::reply::Reply;
use crate::server::Server;

/// The time between two ticks.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// The time from the start to the first tick.
const FIRST: Duration = Duration::from_millis(1);

pub(crate) struct Cron {
    /// The time of the next tick, on the monotonic clock.
    next: Duration,
    /// The time of the last once-per-second work.
    pub each_second: Duration,
}

impl Cron {
    pub fn new(clocks: Clocks) -> Cron {
        Cron { next: clocks.monotonic + FIRST, each_second: clocks.monotonic }
    }

    /// Returns the first tick at this time or later.
    fn tick_at(&self, time: Duration) -> Duration {
        let late = time.saturating_sub(self.next);
        let ticks = late.as_nanos().div_ceil(TICK.as_nanos());
        self.next + TICK * u32::try_from(ticks).unwrap_or(u32::MAX)
    }
}

impl Server {
    /// Runs the work that is due.
    pub(crate) fn run_cron(&mut self) {
        let now = self.data.clocks.monotonic;
        if now >= self.cron.next {
            self.cron.next = self.cron.tick_at(now + Duration::from_nanos(1));
            self.data.remove_all_expired();
            self.tell(None);
            self.notice_copies();
            if now.saturating_sub(self.cron.each_second) >= Duration::from_secs(1) {
                self.cron.each_second = now;
                self.replicate_each_second();
            }
            self.cluster_tick();
        }
        if self.writes_stopped.is_some_and(|until| until <= now) {
            self.allow_writes();
        }
        self.end_waits(now);
    }

    /// Answers clients whose WAIT has timed out.
    fn end_waits(&mut self, now: Duration) {
        let over = |wait: &Wait| wait.deadline.is_some_and(|deadline| deadline <= now);
        let late: Vec<(Connection, u64)> = (self.waiting.iter().filter(|(_, wait)| over(wait)))
            .map(|(connection, wait)| (*connection, wait.offset))
            .collect();
        for (connection, offset) in late {
            let acknowledged = self.acknowledged(offset);
            self.stop_waiting(connection, &Reply::count(acknowledged));
        }
    }

    /// Answers a waiting client, and runs its next commands.
    pub(crate) fn stop_waiting(&mut self, connection: Connection, reply: &Reply) {
        if self.waiting.remove(&connection).is_some() {
            self.reply(connection, reply);
            self.read(connection, &[]);
        }
    }

    /// Returns the latest time at which the server needs a wake-up; None if nothing is due.
    pub(crate) fn when_to_wake(&mut self) -> Option<Duration> {
        let now = self.data.clocks;
        // The monotonic time at which the wall clock reaches `moment`.
        let by_wall = |moment: Duration| now.monotonic + moment.saturating_sub(now.wall);
        let expiry = self.data.next_due().map(|due| by_wall(Duration::from_millis(due.max(0) as u64 + 1)));
        let sync = self.next_sync().map(by_wall);
        let busy = (self.replicates() || self.cluster.is_some()).then_some(self.cron.next);
        let ticks = [expiry, sync, busy].into_iter().flatten().min().map(|time| self.cron.tick_at(time));
        let waits = self.waiting.values().filter_map(|wait| wait.deadline).min();
        ticks.into_iter().chain(waits).min()
    }
}
