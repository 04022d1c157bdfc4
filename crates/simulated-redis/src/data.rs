//! All that commands on keys read and change: the keys, and what must be told to replicas and files.

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

/// All that commands on keys read and change.
pub(crate) struct Data {
    pub keys: Keyspace,
    /// The wall clock in milliseconds since 1970, as the command that runs sees it.
    pub now: i64,
    pub clocks: Clocks,
    pub settings: ConfigSettings,
    /// How many keys were removed to free memory.
    pub evicted: u64,
    pub random: ChaCha8Rng,
    pub version: Version,
    /// How many replicas a WAIT in a script is answered.
    pub followers: usize,
    pub propagation: Propagation,
    /// A replica removes no key by itself.
    pub replica: bool,
    /// True if it runs what a primary sent: then no key counts as expired.
    pub obeying: bool,
    /// True if it runs what a file holds.
    pub loading: bool,
    /// How many changes there were.
    pub dirty: u64,
    /// Messages to subscribers: channels and payloads.
    pub published: Vec<(Vec<u8>, Vec<u8>)>,
    pub subscriptions: Subscriptions,
    /// True if it used more memory than it may when the command began.
    pub out_of_memory: bool,
    /// True if it had fewer replicas than it wants for writes then.
    pub lacks_replicas: bool,
    /// The slots that this node serves, in a Redis Cluster.
    pub cluster_slots: Option<Slots>,
    /// What it has carried out, if that is recorded.
    pub executed: Option<Vec<ExecutedCommand>>,
}

/// A command that a server has carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutedCommand {
    /// On the monotonic clock.
    pub at: Duration,
    /// Whose connection it came from; none if a script called it.
    pub from: Option<SocketAddrV4>,
    /// Its name as it was sent, and what it was given.
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

    /// Notes a command that is carried out, if that is recorded.
    pub fn record(&mut self, from: Option<SocketAddrV4>, words: CommandWords<'_>) {
        if let Some(executed) = &mut self.executed {
            let words = words.iter().map(|word| word.to_vec()).collect();
            executed.push(ExecutedCommand { at: self.clocks.monotonic, from, words });
        }
    }

    /// Takes over what the clocks show.
    pub fn set_clocks(&mut self, clocks: Clocks) {
        self.clocks = clocks;
        self.now = i64::try_from(clocks.wall.as_millis()).unwrap_or(i64::MAX);
    }

    pub fn is_expired(&self, entry: &Entry) -> bool {
        !self.loading && entry.expires.is_some_and(|due| self.now > due)
    }

    /// Removes a key that has expired, unless only the primary may; true if no command may see it.
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

    /// Removes a key that has expired and tells replicas and the file.
    fn remove_expired(&mut self, key: &[u8]) {
        self.keys.remove(key);
        self.propagation.push(&[b"DEL", key]);
    }

    /// Removes all keys that have expired, as a primary does from time to time.
    pub fn remove_all_expired(&mut self) {
        if self.replica || self.loading {
            return;
        }
        while let Some(key) = self.keys.expired(self.now) {
            self.remove_expired(&key);
        }
    }

    /// The earliest time in milliseconds since 1970 at which a key may expire.
    pub fn next_due(&mut self) -> Option<i64> {
        if self.replica {
            return None;
        }
        self.keys.next_due()
    }

    /// What a key holds, for a command that reads it.
    pub fn read(&mut self, key: &[u8]) -> Option<&[u8]> {
        self.entry(key).map(|entry| &entry.value[..])
    }

    /// The key's value and time of expiry, without counting it as read.
    pub fn entry(&mut self, key: &[u8]) -> Option<&Entry> {
        if self.expire_if_due(key) {
            return None;
        }
        self.keys.get(key)
    }

    pub fn exists(&mut self, key: &[u8]) -> bool {
        self.entry(key).is_some()
    }

    /// Removes a key; true if there was one.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let removed = !self.expire_if_due(key) && self.keys.remove(key).is_some();
        self.dirty += u64::from(removed);
        removed
    }

    /// Removes a key to free memory; how many bytes that is.
    pub fn evict_key(&mut self, key: &[u8]) -> usize {
        let freed = self.keys.remove(key).map_or(0, |entry| entry.size(key));
        self.evicted += 1;
        self.propagation.push(&[b"DEL", key]);
        freed
    }
}
