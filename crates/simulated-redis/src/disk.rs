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
    /// This many bytes of the file survive a power loss.
    synced: usize,
    /// The keys as a primary sent them last. Redis keeps this file, and loads it if there is no other.
    pub(crate) received: Option<Vec<u8>>,
    /// The keys at the last BGSAVE since then. In Redis, this snapshot replaces the received file.
    pub(crate) snapshot: Option<Vec<u8>>,
    /// The primary that the server follows, if REPLICAOF or a failover changed it.
    pub(crate) follows: Option<Option<SocketAddrV4>>,
    /// The content of `nodes.conf`.
    pub(crate) nodes: Option<crate::cluster::Nodes>,
    /// The state in a Sentinel's configuration file.
    pub(crate) sentinel: Option<crate::sentinel::Saved>,
}

impl Disk {
    /// The append-only file, as Redis would write it.
    pub fn append_only_file(&self) -> &[u8] {
        &self.file
    }

    /// The number of bytes of the append-only file that survive a power loss.
    pub fn synced(&self) -> usize {
        self.synced
    }

    /// Removes the last snapshot of BGSAVE, so that the received file counts again.
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
    /// The length of the file at the last sync since the server's start, or at the start.
    seen: usize,
    /// The wall-clock second of the last sync, or of the server's start.
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
            // A primary drops expired keys when it loads a snapshot.
            self.data.remove_all_expired();
        }
        self.data.propagation = crate::propagation::Propagation::default();
    }

    pub(crate) fn append_to_file(&mut self, stream: &[u8]) {
        if self.config.persistence.keeps_file() {
            self.disk.file.extend_from_slice(stream);
        }
    }

    /// Syncs the file if a sync is due. As in Redis 7.0, `everysec` counts the seconds of the wall clock.
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

    /// Returns the wall-clock time at which `everysec` must sync the file; None if nothing waits for a sync.
    pub(crate) fn next_sync(&self) -> Option<Duration> {
        let waits = self.config.persistence == Persistence::Everysec && self.file.seen < self.disk.file.len();
        waits.then(|| Duration::from_secs(self.file.last_sync + 1))
    }

    /// Rewrites the file from the current keys, and syncs it.
    pub(crate) fn rewrite_file(&mut self) {
        if self.config.persistence.keeps_file() {
            self.disk.file = snapshot(&self.data);
            self.disk.synced = self.disk.file.len();
            self.file.seen = self.disk.synced;
            self.data.propagation.forget_selected();
        }
    }
}

/// Returns commands that create all current keys.
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

/// Runs the commands of a file. Returns the length of its complete part; an unfinished transaction is ignored.
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

/// Runs propagated commands; a transaction runs at its EXEC.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    queue: Option<Vec<Vec<Vec<u8>>>>,
}

impl Reader {
    pub fn in_transaction(&self) -> bool {
        self.queue.is_some()
    }

    /// Drops an unfinished transaction.
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
