//! Sentinels: they watch a primary and its replicas, agree that the primary is down, and promote a replica.
//!
//! Source: the Redis documentation on Sentinel, and the behaviour of Sentinel in Redis 7.0. It watches one group. There are no
//! scripts, passwords or host names, and no events for subscribers.

mod commands;
mod config;
mod failover;
mod hear;
mod instance;
mod judge;
mod links;

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::disk::Disk;
use crate::process::{Action, Clocks, Connection, Process, ProcessEvent};

use commands::Asker;
pub(crate) use config::Saved;
pub use config::SentinelConfig;
use failover::Failover;
use instance::{Id, Instance, ServerRole};

/// A Sentinel. A driver runs it as a [`Process`].
pub struct Sentinel {
    config: SentinelConfig,
    disk: Disk,
    clocks: Clocks,
    /// The wall clock in milliseconds.
    now: i64,
    random: ChaCha8Rng,
    primary: Instance,
    replicas: Vec<Instance>,
    sentinels: Vec<Instance>,
    current_epoch: u64,
    /// The epoch of the failover that promoted the primary.
    config_epoch: u64,
    /// The Sentinel that it voted for last, and the epoch.
    voted: Option<String>,
    leader_epoch: u64,
    /// The time from which a quorum has considered the primary down.
    agreed_down_since: Option<i64>,
    failover: Failover,
    /// Start of TILT mode, if active.
    tilt: Option<i64>,
    last_tick: i64,
    /// The next tick, on the monotonic clock.
    next_tick: Duration,
    clients: BTreeMap<Connection, Asker>,
    next_opened: u64,
    actions: Vec<Action>,
}

/// Ticks come 10 to 19 times per second, so that Sentinels that started together drift apart.
const SLOWEST_RATE: u32 = 10;
/// If the clock moves by more than this between two ticks, or back, TILT mode begins.
const TILT_TRIGGER: i64 = 2000;
/// The duration of TILT mode.
const TILT_PERIOD: i64 = 30_000;

impl Sentinel {
    /// Starts a Sentinel with its saved state; an empty disk is [`Disk::default`].
    pub fn start(config: SentinelConfig, disk: Disk, clocks: Clocks) -> Sentinel {
        let saved = disk.sentinel.clone().unwrap_or_else(|| Saved::first(&config));
        let now = millis(clocks);
        let new = |kind, address, id: &str| Instance::new(kind, address, id, now);
        let sentinels = saved.sentinels.iter().map(|(address, id)| new(ServerRole::Sentinel, *address, id)).collect();
        Sentinel {
            random: ChaCha8Rng::seed_from_u64(config.seed),
            primary: new(ServerRole::Primary, saved.primary, ""),
            replicas: saved.replicas.iter().map(|address| new(ServerRole::Replica, *address, "")).collect(),
            sentinels,
            current_epoch: saved.current_epoch,
            config_epoch: saved.config_epoch,
            voted: None,
            leader_epoch: saved.leader_epoch,
            agreed_down_since: None,
            failover: Failover::default(),
            tilt: None,
            last_tick: now,
            next_tick: clocks.monotonic + Duration::from_millis(1),
            clients: BTreeMap::new(),
            next_opened: 0,
            actions: Vec::new(),
            config,
            disk,
            clocks,
            now,
        }
    }

    /// Ends the Sentinel at once.
    pub fn kill(self) -> Disk {
        self.disk
    }

    fn save(&mut self) {
        self.disk.sentinel = Some(Saved {
            primary: self.primary.address,
            replicas: self.replicas.iter().map(|replica| replica.address).collect(),
            sentinels: self.sentinels.iter().map(|sentinel| (sentinel.address, sentinel.id.clone())).collect(),
            current_epoch: self.current_epoch,
            config_epoch: self.config_epoch,
            leader_epoch: self.leader_epoch,
        });
    }

    fn get(&self, id: Id) -> &Instance {
        match id {
            Id::Primary => &self.primary,
            Id::Replica(number) => &self.replicas[number],
            Id::Sentinel(number) => &self.sentinels[number],
        }
    }

    fn get_mut(&mut self, id: Id) -> &mut Instance {
        match id {
            Id::Primary => &mut self.primary,
            Id::Replica(number) => &mut self.replicas[number],
            Id::Sentinel(number) => &mut self.sentinels[number],
        }
    }

    /// Returns all servers, the primary last: by then, the answers of the others are known.
    fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        let replicas = (0..self.replicas.len()).map(Id::Replica);
        replicas.chain((0..self.sentinels.len()).map(Id::Sentinel)).chain([Id::Primary])
    }

    fn draw(&mut self, below: u32) -> u32 {
        self.random.random_range(0..below)
    }

    fn tick(&mut self) {
        let moved = self.now - self.last_tick;
        self.last_tick = self.now;
        if !(0..=TILT_TRIGGER).contains(&moved) {
            self.tilt = Some(self.now);
        }
        for id in self.ids() {
            self.reconnect(id);
            self.send_periodically(id);
        }
        if self.tilt.is_some_and(|since| self.now - since < TILT_PERIOD) {
            return;
        }
        self.tilt = None;
        self.ids().for_each(|id| self.judge(id));
        self.judge_together();
        if self.start_failover_if_needed() {
            self.ask_others(true);
        }
        self.continue_failover();
        self.ask_others(false);
    }
}

fn millis(clocks: Clocks) -> i64 {
    i64::try_from(clocks.wall.as_millis()).unwrap_or(i64::MAX)
}

impl Process for Sentinel {
    fn handle(&mut self, event: ProcessEvent<'_>, clocks: Clocks, actions: &mut Vec<Action>) {
        self.clocks = clocks;
        self.now = millis(clocks);
        match event {
            ProcessEvent::Accepted { connection, .. } => _ = self.clients.insert(connection, Asker::default()),
            ProcessEvent::Received { connection, bytes } => match self.clients.contains_key(&connection) {
                true => self.answer(connection, bytes),
                false => self.received(connection, bytes),
            },
            ProcessEvent::Connected { connection } => self.connected(connection),
            ProcessEvent::Closed { connection } | ProcessEvent::Refused { connection } => {
                self.clients.remove(&connection);
                self.closed(connection);
            }
            ProcessEvent::Wake => {}
        }
        if clocks.monotonic >= self.next_tick {
            self.tick();
            let rate = SLOWEST_RATE + self.draw(SLOWEST_RATE);
            self.next_tick = clocks.monotonic + Duration::from_millis(1000 / u64::from(rate));
        }
        actions.append(&mut self.actions);
    }

    fn next_wake(&self) -> Option<Duration> {
        Some(self.next_tick)
    }
}
