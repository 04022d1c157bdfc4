//! The files that outlive a server: its append-only file, and its own state.
//!
//! Source: how Redis 7.0 writes, syncs and loads its append-only file.

use std::net::SocketAddrV4;
use std::time::Duration;

use crate::commands::{self, Handler};
use crate::config::Persistence;
use crate::data::{CommandWords, Data};
use crate::number;
use crate::reply::write_command;
use crate::request::{ParsedRequest, parse};
use crate::server::Server;

/// The files of a process when it ends. A process that starts with these files continues from there.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// Commands, one after the other, as Redis writes them.
    file: Vec<u8>,
    /// So much of the file is safe from a power loss.
    synced: usize,
    /// The keys as they were when a primary sent them last, with the offset. Redis leaves this file behind, and loads it if
    /// it has no other.
    pub(crate) received: Option<Vec<u8>>,
    /// The keys as they were at the last BGSAVE since then: in Redis, it takes the place of that file.
    pub(crate) snapshot: Option<Vec<u8>>,
    /// Whom the server follows, if that has changed since it was configured.
    pub(crate) follows: Option<Option<SocketAddrV4>>,
    /// The knowledge of a node of a Redis Cluster about all nodes.
    pub(crate) nodes: Option<crate::cluster::Nodes>,
    /// The knowledge of a Sentinel.
    pub(crate) sentinel: Option<crate::sentinel::Saved>,
}

impl Disk {
    /// The append-only file, as Redis would write it.
    pub fn append_only_file(&self) -> &[u8] {
        &self.file
    }

    /// How many bytes of the append-only file a power loss leaves.
    pub fn synced(&self) -> usize {
        self.synced
    }

    /// Removes the snapshot that BGSAVE has written, and puts back what was there before it.
    pub fn forget_snapshot(&mut self) {
        self.snapshot = None;
    }

    /// Applies a power loss. Configurations are always synced.
    pub(crate) fn forget_unsynced(&mut self) {
        self.file.truncate(self.synced);
    }
}

/// The state of writing the append-only file.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    /// How long the file was when it was synced last in this life; it may have been synced further before.
    seen: usize,
    /// The second of the wall clock in which it was synced last, or the server started.
    last_sync: u64,
}

impl Server {
    pub(crate) fn load(&mut self) {
        self.file.last_sync = self.data.clocks.wall.as_secs();
        let keeps_file = self.config.persistence.keeps_file();
        self.data.loading = true;
        if keeps_file {
            let length = replay(&mut self.data, &self.disk.file);
            self.disk.file.truncate(length);
            self.disk.synced = self.disk.synced.min(length);
            self.file.seen = length;
        } else if let Some(received) = self.disk.snapshot.as_ref().or(self.disk.received.as_ref()) {
            replay(&mut self.data, received);
        }
        self.data.loading = false;
        if !keeps_file && !self.data.replica {
            // A primary leaves out what has expired when it loads a snapshot.
            self.data.remove_all_expired();
        }
        self.data.propagation = crate::propagation::Propagation::default();
    }

    pub(crate) fn append_to_file(&mut self, stream: &[u8]) {
        if self.config.persistence.keeps_file() {
            self.disk.file.extend_from_slice(stream);
        }
    }

    /// Syncs the file if it is time to. Like Redis 7.0, `everysec` goes by the seconds of the wall clock.
    pub(crate) fn flush_file(&mut self) {
        let length = self.disk.file.len();
        if length == self.file.seen {
            return;
        }
        let second = self.data.clocks.wall.as_secs();
        let sync = match self.config.persistence {
            Persistence::Always => true,
            Persistence::Everysec => second > self.file.last_sync,
            Persistence::Never | Persistence::None => false,
        };
        if sync {
            self.disk.synced = length;
            self.file.seen = length;
            self.file.last_sync = second;
        }
    }

    /// When the file must be synced, on the wall clock.
    pub(crate) fn next_sync(&self) -> Option<Duration> {
        let waits = self.config.persistence == Persistence::Everysec && self.file.seen < self.disk.file.len();
        waits.then(|| Duration::from_secs(self.file.last_sync + 1))
    }

    /// Writes the file anew from the keys that there are, and syncs it.
    pub(crate) fn rewrite_file(&mut self) {
        if self.config.persistence.keeps_file() {
            self.disk.file = snapshot(&self.data);
            self.disk.synced = self.disk.file.len();
            self.file.seen = self.disk.synced;
            self.data.propagation.forget_selected();
        }
    }
}

/// Commands that make all the keys there are.
pub(crate) fn snapshot(data: &Data) -> Vec<u8> {
    let mut commands = Vec::new();
    for (key, entry) in data.keys.iter() {
        write_command(&mut commands, &[b"SET", key, &entry.value]);
        if let Some(due) = entry.expires {
            write_command(&mut commands, &[b"PEXPIREAT", key, &number::text(due)]);
        }
    }
    commands
}

/// Runs the commands of a file; returns how much of it was whole. A transaction without its end did not happen.
pub(crate) fn replay(data: &mut Data, file: &[u8]) -> usize {
    let mut reader = Reader::default();
    let (mut at, mut whole) = (0, 0);
    let mut ranges = Vec::new();
    while let ParsedRequest::Command { length } = parse(&file[at..], &mut ranges) {
        let words: Vec<&[u8]> = ranges.iter().map(|word| &file[at..][word.clone()]).collect();
        reader.run(data, &words);
        at += length;
        if reader.queue.is_none() {
            whole = at;
        }
    }
    whole
}

/// Runs commands that were told as propagated: transactions at their end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    queue: Option<Vec<Vec<Vec<u8>>>>,
}

impl Reader {
    pub fn in_transaction(&self) -> bool {
        self.queue.is_some()
    }

    /// Forgets the beginning of a transaction.
    pub fn abandon(&mut self) {
        self.queue = None;
    }

    pub fn run(&mut self, data: &mut Data, words: CommandWords<'_>) {
        let Some(name) = words.first() else { return };
        match (name.to_ascii_lowercase().as_slice(), &mut self.queue) {
            (b"multi", _) => self.queue = Some(Vec::new()),
            (b"exec", queue) => {
                for command in queue.take().unwrap_or_default() {
                    self.run(data, &command.iter().map(Vec::as_slice).collect::<Vec<_>>());
                }
            }
            (_, Some(queue)) => queue.push(words.iter().map(|word| word.to_vec()).collect()),
            (b"select", None) => {}
            (_, None) => {
                let command = commands::find(data.version, name).filter(|command| command.accepts(words.len()));
                if let Some(Handler::Data(run)) = command.map(|command| command.run) {
                    data.call(run, words);
                }
            }
        }
    }
}
