//! Everything that commands on keys read or change: the keys, and the changes for replicas and files.

use std::net::SocketAddrV4;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::cluster::Slots;
use crate::commands::settings::ConfigSettings;
use crate::config::Config;
use crate::keyspace::{Entry, Keyspace};
use crate::process::Clocks;
use crate::propagation::Propagation;
use crate::pubsub::Subscriptions;
use crate::version::Version;

/// The words of a command, its name first.
pub(crate) type CommandWords<'a> = &'a [&'a [u8]];

/// Everything that commands on keys read or change.
pub(crate) struct Data {
    pub keys: Keyspace,
    /// The wall clock in milliseconds since 1970, as the running command sees it.
    pub now: i64,
    pub clocks: Clocks,
    pub settings: ConfigSettings,
    /// The number of keys removed to free memory.
    pub evicted: u64,
    pub random: ChaCha8Rng,
    pub version: Version,
    /// The answer to WAIT in a script.
    pub followers: usize,
    pub propagation: Propagation,
    /// True on a replica, which removes no expired key by itself.
    pub replica: bool,
    /// True while commands of the primary run: then no key counts as expired.
    pub obeying: bool,
    /// True while the commands of a file run.
    pub loading: bool,
    /// The number of changes so far.
    pub dirty: u64,
    /// Messages to subscribers: channels and payloads.
    pub published: Vec<(Vec<u8>, Vec<u8>)>,
    pub subscriptions: Subscriptions,
    /// True if the server was over its memory limit when the command began.
    pub out_of_memory: bool,
    /// True if the server had too few replicas for writes when the command began.
    pub lacks_replicas: bool,
    /// The slots that this node serves, in a Redis Cluster.
    pub cluster_slots: Option<Slots>,
    /// The executed commands; None if not recorded.
    pub executed: Option<Vec<ExecutedCommand>>,
}

/// An executed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutedCommand {
    /// The time on the monotonic clock.
    pub at: Duration,
    /// The address of the client; None if a script called the command.
    pub from: Option<SocketAddrV4>,
    /// The name as sent, and the arguments.
    pub words: Vec<Vec<u8>>,
}

impl Data {
    pub fn new(config: &Config) -> Data {
        Data {
            keys: Keyspace::default(),
            now: 0,
            clocks: Clocks::default(),
            settings: ConfigSettings::default(),
            evicted: 0,
            random: ChaCha8Rng::seed_from_u64(config.seed),
            version: config.version,
            followers: 0,
            propagation: Propagation::default(),
            replica: false,
            obeying: false,
            loading: false,
            dirty: 0,
            published: Vec::new(),
            subscriptions: Subscriptions::default(),
            out_of_memory: false,
            lacks_replicas: false,
            cluster_slots: None,
            executed: None,
        }
    }

    /// Records an executed command, if recording is on.
    pub fn record(&mut self, from: Option<SocketAddrV4>, words: CommandWords<'_>) {
        if let Some(executed) = &mut self.executed {
            let words = words.iter().map(|word| word.to_vec()).collect();
            executed.push(ExecutedCommand { at: self.clocks.monotonic, from, words });
        }
    }

    /// Sets the time.
    pub fn set_clocks(&mut self, clocks: Clocks) {
        self.clocks = clocks;
        self.now = i64::try_from(clocks.wall.as_millis()).unwrap_or(i64::MAX);
    }

    pub fn is_expired(&self, entry: &Entry) -> bool {
        !self.loading && entry.expires.is_some_and(|due| self.now > due)
    }

    /// Removes an expired key if this server is a primary. Returns true if commands must treat the key as absent.
    fn expire_if_due(&mut self, key: &[u8]) -> bool {
        let Some(entry) = self.keys.get(key) else { return false };
        if !self.is_expired(entry) {
            return false;
        }
        if self.replica {
            return !self.obeying;
        }
        self.remove_expired(key);
        true
    }

    /// Removes an expired key, and propagates the removal.
    fn remove_expired(&mut self, key: &[u8]) {
        self.keys.remove(key);
        self.propagation.push(&[b"DEL", key]);
    }

    /// Removes all expired keys, as a primary does periodically.
    pub fn remove_all_expired(&mut self) {
        if self.replica || self.loading {
            return;
        }
        while let Some(key) = self.keys.expired(self.now) {
            self.remove_expired(&key);
        }
    }

    /// Returns the earliest expiry time of a key, in milliseconds since 1970; None on a replica.
    pub fn next_due(&mut self) -> Option<i64> {
        if self.replica {
            return None;
        }
        self.keys.next_due()
    }

    /// Returns the value of a key, for a command that reads it.
    pub fn read(&mut self, key: &[u8]) -> Option<&[u8]> {
        self.entry(key).map(|entry| &entry.value[..])
    }

    /// Returns the key's value and expiry.
    pub fn entry(&mut self, key: &[u8]) -> Option<&Entry> {
        if self.expire_if_due(key) {
            return None;
        }
        self.keys.get(key)
    }

    pub fn exists(&mut self, key: &[u8]) -> bool {
        self.entry(key).is_some()
    }

    /// Removes a key. Returns true if it existed.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let removed = !self.expire_if_due(key) && self.keys.remove(key).is_some();
        self.dirty += u64::from(removed);
        removed
    }

    /// Removes a key to free memory. Returns the freed bytes.
    pub fn evict_key(&mut self, key: &[u8]) -> usize {
        let freed = self.keys.remove(key).map_or(0, |entry| entry.size(key));
        self.evicted += 1;
        self.propagation.push(&[b"DEL", key]);
        freed
    }
}
