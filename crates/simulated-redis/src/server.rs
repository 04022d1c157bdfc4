//! A Redis server: its connections, and the way from an event to the resulting actions.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use crate::busy::{Busy, DelayedEvent};
use crate::client::{Client, Wait};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::cron::Cron;
use crate::data::{Data, ExecutedCommand};
use crate::disk::{Disk, File};
use crate::process::{Action, Clocks, Connection, Process, ProcessEvent};
use crate::replication::Replication;
use crate::reply::Reply;
use crate::request::{ParsedRequest, parse};
use crate::script::Scripts;

/// A Redis server. A driver runs it as a [`Process`].
pub struct Server {
    pub(crate) config: Config,
    pub(crate) data: Box<Data>,
    pub(crate) clients: BTreeMap<Connection, Client>,
    /// Clients that wait for replicas.
    pub(crate) waiting: BTreeMap<Connection, Wait>,
    pub(crate) scripts: Scripts,
    pub(crate) disk: Disk,
    pub(crate) file: File,
    /// The number of snapshots that BGSAVE has written.
    pub(crate) snapshots: u64,
    pub(crate) cron: Cron,
    pub(crate) replication: Replication,
    pub(crate) cluster: Option<Box<Cluster>>,
    pub(crate) started: Clocks,
    /// The `run_id` of `INFO`, drawn at the start.
    pub(crate) run_id: String,
    /// The monotonic time until which commands that may write wait.
    pub(crate) writes_stopped: Option<Duration>,
    /// True between the commands of EXEC.
    pub(crate) in_transaction: bool,
    /// Set while an endless script runs.
    pub(crate) busy: Option<Busy>,
    /// Events that wait for the end of an endless script, in order.
    pub(crate) kept: Vec<DelayedEvent>,
    next_id: u64,
    next_opened: u64,
    /// Clients with unsent output.
    answered: Vec<Connection>,
    /// Actions other than answers.
    pub(crate) actions: Vec<Action>,
    /// The positions of a command's words; kept to reuse the memory.
    words: Vec<Range<usize>>,
    wake: Option<Duration>,
}

impl Server {
    /// Starts a server with the files on its disk; an empty disk is [`Disk::default`].
    pub fn start(config: Config, disk: Disk, clocks: Clocks) -> Server {
        let mut data = Box::new(Data::new(&config));
        data.set_clocks(clocks);
        let run_id = crate::replication::draw_id(&mut data.random);
        let mut server = Server {
            replication: Replication::new(&config, &disk, &mut data.random),
            cluster: config.cluster.as_ref().map(|cluster| Box::new(Cluster::new(&config, cluster, &disk))),
            data,
            clients: BTreeMap::new(),
            waiting: BTreeMap::new(),
            scripts: Scripts::default(),
            file: File::default(),
            snapshots: 0,
            cron: Cron::new(clocks),
            started: clocks,
            run_id,
            writes_stopped: None,
            in_transaction: false,
            busy: None,
            kept: Vec::new(),
            next_id: 1,
            next_opened: 0,
            answered: Vec::new(),
            actions: Vec::new(),
            words: Vec::new(),
            wake: None,
            config,
            disk,
        };
        if let Some(cluster) = &server.cluster {
            server.replication.primary = cluster.wanted_primary();
        }
        server.save_nodes();
        server.data.replica = server.replication.primary.is_some();
        server.load();
        server.update_wanted();
        server.connect_to_primary();
        server.wake = server.when_to_wake();
        server
    }

    /// Ends the server at once, as `kill -9` does; everything written stays on the disk.
    pub fn kill(self) -> Disk {
        self.disk
    }

    /// Removes the last snapshot of BGSAVE, as [`Disk::forget_snapshot`] does.
    pub fn forget_snapshot(&mut self) {
        self.disk.forget_snapshot();
    }

    /// Ends the server by a power loss; only synced data stay on the disk.
    pub fn lose_power(mut self) -> Disk {
        self.disk.forget_unsynced();
        self.disk
    }

    /// Returns the keys whose names contain these words, without a command that could change anything. Each has its value and
    /// its expiry in milliseconds since 1970, by the server's clock. Keys that had expired at the last event are left out.
    pub fn shows<'a>(&'a self, words: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8], Option<i64>)> {
        let named = move |key: &[u8]| key.windows(words.len().max(1)).any(|part| part == words);
        let there = self.data.keys.iter().filter(move |(key, entry)| named(key) && !self.data.is_expired(entry));
        there.map(|(key, entry)| (key, &entry.value[..], entry.expires))
    }

    /// Records from now on the executed commands, as MONITOR shows them on a real server. Nothing else changes.
    pub fn record_commands(&mut self) {
        self.data.executed.get_or_insert_default();
    }

    /// Returns the commands executed since the last call, in order.
    pub fn take_executed(&mut self) -> Vec<ExecutedCommand> {
        self.data.executed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// True if the server follows a primary.
    pub fn is_replica(&self) -> bool {
        self.replication.primary.is_some()
    }

    pub(crate) fn number_connection(&mut self) -> Connection {
        self.next_opened += 1;
        Connection::Opened(self.next_opened)
    }

    /// Answers a client, if it is still connected.
    pub(crate) fn reply(&mut self, connection: Connection, reply: &Reply) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        if client.output.is_empty() {
            self.answered.push(connection);
        }
        reply.write(&mut client.output);
    }

    /// Sends bytes other than an answer to a client, after its pending output.
    pub(crate) fn send(&mut self, connection: Connection, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        if client.output.is_empty() {
            self.answered.push(connection);
        }
        client.output.extend_from_slice(bytes);
    }

    /// Closes a client's connection, after its pending output.
    pub(crate) fn close(&mut self, connection: Connection) {
        if let Some(client) = self.clients.get_mut(&connection) {
            client.closing = true;
            if client.output.is_empty() {
                self.answered.push(connection);
            }
        }
    }

    fn accept(&mut self, connection: Connection, peer: std::net::SocketAddrV4, local: std::net::SocketAddrV4) {
        let client = Client::new(self.next_id, peer, local, self.data.clocks.monotonic);
        self.next_id += 1;
        self.clients.insert(connection, client);
    }

    fn forget(&mut self, connection: Connection) {
        self.waiting.remove(&connection);
        if self.clients.remove(&connection).is_some() {
            self.data.subscriptions.forget(connection);
        }
    }

    /// Runs every whole command that a client has sent.
    pub(crate) fn read(&mut self, connection: Connection, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        let mut kept = std::mem::take(&mut client.input);
        let input = if kept.is_empty() {
            bytes
        } else {
            kept.extend_from_slice(bytes);
            &kept
        };
        let mut ranges = std::mem::take(&mut self.words);
        let mut at = 0;
        while !self.waiting.contains_key(&connection)
            && !self.runs_script_of(connection)
            && self.clients.get(&connection).is_some_and(|client| !client.closing)
        {
            let rest = &input[at..];
            match parse(rest, &mut ranges) {
                ParsedRequest::Incomplete => break,
                ParsedRequest::Command { length } => {
                    let words: Vec<&[u8]> = ranges.iter().map(|word| &rest[word.clone()]).collect();
                    if words.first().is_some_and(|name| self.must_wait(connection, name)) {
                        break;
                    }
                    self.execute(connection, &words);
                    at += length;
                }
                ParsedRequest::Broken(reason) => {
                    self.reply(connection, &Reply::failed(format!("ERR Protocol error: {reason}")));
                    self.close(connection);
                }
            }
        }
        self.words = ranges;
        if at < input.len() {
            let rest = input[at..].to_vec();
            if let Some(client) = self.clients.get_mut(&connection) {
                client.input = rest;
            }
        }
    }

    /// Syncs the file, then sends the answers, as Redis does before it waits for the next event.
    fn before_sleep(&mut self, actions: &mut Vec<Action>) {
        self.serve_waiting();
        self.flush_file();
        actions.append(&mut self.actions);
        let mut answered = std::mem::take(&mut self.answered);
        for connection in answered.drain(..) {
            let Some(client) = self.clients.get_mut(&connection) else { continue };
            if !client.output.is_empty() {
                actions.push(Action::Send { connection, bytes: std::mem::take(&mut client.output) });
            }
            if client.closing {
                self.forget(connection);
                actions.push(Action::Close { connection });
            }
        }
        self.answered = answered;
        self.wake = match &self.busy {
            Some(busy) => self.when_to_read(busy),
            None => self.when_to_wake(),
        };
    }

    pub(crate) fn take(&mut self, event: ProcessEvent<'_>) {
        match event {
            ProcessEvent::Accepted { connection, peer, local } if self.is_bus(local) => {
                self.bus_accepted(connection, peer)
            }
            ProcessEvent::Accepted { connection, peer, local } => self.accept(connection, peer, local),
            ProcessEvent::Received { connection, bytes } => match self.clients.contains_key(&connection) {
                true => self.read(connection, bytes),
                false if self.link_received(connection, bytes) => {}
                false => self.bus_received(connection, bytes),
            },
            ProcessEvent::Closed { connection } | ProcessEvent::Refused { connection } => {
                self.forget(connection);
                self.link_closed(connection);
                self.bus_closed(connection);
            }
            ProcessEvent::Connected { connection } => {
                self.link_connected(connection);
                self.bus_connected(connection);
            }
            ProcessEvent::Wake => {}
        }
    }
}

impl Process for Server {
    fn handle(&mut self, event: ProcessEvent<'_>, clocks: Clocks, actions: &mut Vec<Action>) {
        self.data.set_clocks(clocks);
        match self.busy {
            Some(_) => self.keep(event),
            None => {
                self.run_cron();
                self.take(event);
            }
        }
        self.before_sleep(actions);
    }

    fn next_wake(&self) -> Option<Duration> {
        self.wake
    }
}
