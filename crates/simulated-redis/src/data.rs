//! All that commands on keys read and change: the databases, what must be told to replicas and files, and who watches.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::cluster::Slots;
use crate::config::Config;
use crate::keyspace::{Entry, Keyspace, Value};
use crate::process::{Clocks, Connection};
use crate::propagation::Propagation;
use crate::pubsub::Subscriptions;
use crate::settings::Settings;

/// How many databases there are.
pub(crate) const DATABASES: usize = 16;

/// The words of a command, its name first.
pub(crate) type Words<'a> = &'a [&'a [u8]];

/// What a server counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    pub connections: u64,
    pub commands: u64,
    pub expired: u64,
    pub evicted: u64,
    pub hits: u64,
    pub misses: u64,
}

/// A key that a transaction depends on.
struct Watch {
    database: usize,
    key: Vec<u8>,
    client: Connection,
    /// It had expired already when it was watched, so that its removal changes nothing.
    expired: bool,
}

/// All that commands on keys read and change.
pub(crate) struct Data {
    pub databases: Vec<Keyspace>,
    /// The wall clock in milliseconds since 1970, as the command that runs sees it.
    pub now: i64,
    pub clocks: Clocks,
    pub settings: Settings,
    pub stats: Stats,
    pub random: ChaCha8Rng,
    pub propagation: Propagation,
    /// A replica removes no key by itself.
    pub replica: bool,
    /// Whether it runs what a primary sent: then no key counts as expired.
    pub obeying: bool,
    /// Whether it runs what a file holds.
    pub loading: bool,
    /// How many changes there were.
    pub dirty: u64,
    /// Messages to subscribers: channels and payloads.
    pub published: Vec<(Vec<u8>, Vec<u8>)>,
    pub subscriptions: Subscriptions,
    /// Whether it used more memory than it may when the command began.
    pub out_of_memory: bool,
    /// The slots that this node serves, in a Redis Cluster.
    pub cluster_slots: Option<Slots>,
    watches: Vec<Watch>,
    /// Clients whose transactions must fail.
    disturbed: Vec<Connection>,
}

impl Data {
    pub fn new(config: &Config) -> Data {
        Data {
            databases: vec![Keyspace::default(); DATABASES],
            now: 0,
            clocks: Clocks::default(),
            settings: Settings::new(config),
            stats: Stats::default(),
            random: ChaCha8Rng::seed_from_u64(config.seed),
            propagation: Propagation::default(),
            replica: false,
            obeying: false,
            loading: false,
            dirty: 0,
            published: Vec::new(),
            subscriptions: Subscriptions::default(),
            out_of_memory: false,
            cluster_slots: None,
            watches: Vec::new(),
            disturbed: Vec::new(),
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
    fn expire_if_due(&mut self, database: usize, key: &[u8]) -> bool {
        let Some(entry) = self.databases[database].get(key) else { return false };
        if !self.is_expired(entry) {
            return false;
        }
        if self.replica {
            return !self.obeying;
        }
        self.remove_expired(database, key);
        true
    }

    /// Removes a key that has expired and tells replicas and the file.
    fn remove_expired(&mut self, database: usize, key: &[u8]) {
        self.databases[database].remove(key);
        self.stats.expired += 1;
        self.propagation.push(database, &[b"DEL", key]);
        self.disturb(database, key);
    }

    /// Removes all keys that have expired, as a primary does from time to time.
    pub fn remove_all_expired(&mut self) {
        if self.replica || self.loading {
            return;
        }
        for database in 0..self.databases.len() {
            while let Some(key) = self.databases[database].expired(self.now) {
                self.remove_expired(database, &key);
            }
        }
    }

    /// The earliest time in milliseconds since 1970 at which a key may expire.
    pub fn next_due(&mut self) -> Option<i64> {
        if self.replica {
            return None;
        }
        self.databases.iter_mut().filter_map(Keyspace::next_due).min()
    }

    /// What a key holds, for a command that reads it.
    pub fn read(&mut self, database: usize, key: &[u8]) -> Option<&Value> {
        if self.expire_if_due(database, key) {
            self.stats.misses += 1;
            return None;
        }
        let entry = self.databases[database].get(key);
        match entry {
            Some(_) => self.stats.hits += 1,
            None => self.stats.misses += 1,
        }
        entry.map(|entry| &entry.value)
    }

    /// The key's value and time of expiry, without counting it as read.
    pub fn entry(&mut self, database: usize, key: &[u8]) -> Option<&Entry> {
        if self.expire_if_due(database, key) {
            return None;
        }
        self.databases[database].get(key)
    }

    pub fn exists(&mut self, database: usize, key: &[u8]) -> bool {
        self.entry(database, key).is_some()
    }

    /// The database, for a command that will write to a key: if that has expired, it is gone.
    pub fn write(&mut self, database: usize, key: &[u8]) -> &mut Keyspace {
        self.expire_if_due(database, key);
        &mut self.databases[database]
    }

    /// Notes that a command has changed a key.
    pub fn changed(&mut self, database: usize, key: &[u8]) {
        self.dirty += 1;
        self.disturb(database, key);
    }

    /// Removes a key; true if there was one.
    pub fn remove(&mut self, database: usize, key: &[u8]) -> bool {
        let removed = self.write(database, key).remove(key).is_some();
        if removed {
            self.changed(database, key);
        }
        removed
    }

    /// Removes a key to free memory; how many bytes that is.
    pub fn evict_key(&mut self, database: usize, key: &[u8]) -> usize {
        let freed = self.databases[database].remove(key).map_or(0, |entry| entry.size(key));
        self.stats.evicted += 1;
        self.propagation.push(database, &[b"DEL", key]);
        self.disturb(database, key);
        freed
    }

    /// Removes all keys of these databases, and tells how many there were.
    pub fn clear(&mut self, databases: std::ops::Range<usize>) -> usize {
        let mut removed = 0;
        for database in databases {
            let here = &self.databases[database];
            for watch in self.watches.iter().filter(|watch| watch.database == database) {
                if here.get(&watch.key).is_some_and(|entry| !(watch.expired && self.is_expired(entry))) {
                    self.disturbed.push(watch.client);
                }
            }
            removed += here.len();
            self.databases[database].clear();
        }
        removed
    }

    /// Lets the client's next transaction fail if the key changes before it.
    pub fn watch(&mut self, database: usize, key: &[u8], client: Connection) {
        let here = |watch: &Watch| watch.client == client && watch.database == database && watch.key == key;
        if !self.watches.iter().any(here) {
            let expired = self.databases[database].get(key).is_some_and(|entry| self.is_expired(entry));
            self.watches.push(Watch { database, key: key.to_vec(), client, expired });
        }
    }

    /// Forgets what the client watches; true if a key has changed or expired since.
    pub fn unwatch(&mut self, client: Connection) -> bool {
        if self.watches.is_empty() && self.disturbed.is_empty() {
            return false;
        }
        let expired = self.watches.iter().any(|watch| {
            let entry = self.databases[watch.database].get(&watch.key);
            watch.client == client && !watch.expired && entry.is_some_and(|entry| self.is_expired(entry))
        });
        self.watches.retain(|watch| watch.client != client);
        let before = self.disturbed.len();
        self.disturbed.retain(|other| *other != client);
        expired || self.disturbed.len() < before
    }

    fn disturb(&mut self, database: usize, key: &[u8]) {
        for watch in &mut self.watches {
            if watch.database == database && watch.key == key {
                let gone = self.databases[database].get(key).is_none();
                // What had expired before it was watched was not there, and still isn't.
                match watch.expired && gone {
                    true => watch.expired = false,
                    false => self.disturbed.push(watch.client),
                }
            }
        }
    }
}
