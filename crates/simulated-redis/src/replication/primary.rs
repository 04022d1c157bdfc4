//! The primary's side of replication.

use std::time::Duration;

use super::Backlog;
use crate::client::Client;
use crate::disk::snapshot;
use crate::process::Connection;
use crate::reply::{Reply, write_command};
use crate::server::Server;

#[derive(Clone, Debug, Default)]
pub(crate) struct Follower {
    /// The port on which the replica listens.
    pub port: u16,
    pub stage: Stage,
    /// The offset that the replica acknowledged last.
    pub acknowledged: u64,
    /// The time of the replica's last message, on the monotonic clock.
    pub heard: Duration,
    /// Changes since the snapshot for this replica, kept until the replica is online.
    held: Vec<u8>,
}

/// The state of a replica's synchronization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The replica has not sent PSYNC yet.
    #[default]
    New,
    /// A child process sends a copy of all keys. The primary notices its end at the next tick.
    Copying,
    /// The copy is sent. The stream follows after the replica acknowledges it.
    Copied,
    /// The replica receives the stream.
    Online,
}

impl Follower {
    pub fn state_name(&self) -> &'static str {
        match self.stage {
            Stage::New => "wait_bgsave",
            Stage::Copying => "send_bulk",
            Stage::Copied | Stage::Online => "online",
        }
    }
}

impl Server {
    /// Returns the replicas, in the order of their connections.
    pub(crate) fn followers(&self) -> impl Iterator<Item = (&Client, &Follower)> {
        let followers = self.clients.values().filter_map(|client| Some((client, client.follower.as_ref()?)));
        followers.filter(|(_, follower)| follower.stage != Stage::New)
    }

    /// Answers PSYNC: with the rest of the stream, or with a copy of all keys.
    pub(crate) fn synchronize(&mut self, connection: Connection, id: &str, wanted: u64) {
        let now = self.data.clocks.monotonic;
        let replication = &mut self.replication;
        let known = id == replication.id
            || replication.former.as_ref().is_some_and(|(former, until)| id == former && wanted <= *until);
        let rest = replication.backlog.as_ref().and_then(|backlog| backlog.since(wanted.checked_sub(1)?));
        let (bytes, stage) = match rest.filter(|_| known) {
            Some(rest) => {
                let mut bytes = format!("+CONTINUE {}\r\n", replication.id).into_bytes();
                bytes.extend_from_slice(rest);
                (bytes, Stage::Online)
            }
            None => {
                if replication.backlog.is_none() {
                    // Data sent before belongs to another replication history.
                    replication.id = super::draw_id(&mut self.data.random);
                    replication.former = None;
                    replication.backlog = Some(Backlog::new(replication.offset));
                }
                let mut bytes = format!("+FULLRESYNC {} {}\r\n", replication.id, replication.offset).into_bytes();
                let copy = snapshot(&self.data);
                bytes.extend_from_slice(format!("${}\r\n", copy.len()).as_bytes());
                bytes.extend_from_slice(&copy);
                (bytes, Stage::Copying)
            }
        };
        self.data.propagation.forget_selected();
        self.update_wanted();
        let Some(client) = self.clients.get_mut(&connection) else { return };
        let follower = client.follower.get_or_insert_default();
        (follower.stage, follower.heard, follower.acknowledged) = (stage, now, 0);
        follower.held.clear();
        self.send(connection, &bytes);
    }

    /// Returns the number of replicas that receive the stream.
    pub(crate) fn online(&self) -> usize {
        self.followers().filter(|(_, follower)| follower.stage == Stage::Online).count()
    }

    /// Sends a unit of its own changes to all replicas; does nothing on a replica.
    pub(crate) fn feed_followers(&mut self, stream: &[u8]) {
        if self.replication.primary.is_none() {
            self.pass_on(stream);
        }
    }

    /// Appends to the stream for replicas: both its own changes and those of its primary.
    pub(crate) fn pass_on(&mut self, stream: &[u8]) {
        let Some(backlog) = &mut self.replication.backlog else { return };
        backlog.push(stream);
        if self.replication.primary.is_none() {
            self.replication.offset += stream.len() as u64;
        }
        let mut online = Vec::new();
        for (connection, client) in &mut self.clients {
            match &mut client.follower {
                Some(Follower { stage: Stage::Online, .. }) => online.push(*connection),
                Some(follower) if follower.stage != Stage::New => follower.held.extend_from_slice(stream),
                _ => {}
            }
        }
        online.into_iter().for_each(|connection| self.send(connection, stream));
    }

    /// Handles a replica's REPLCONF ACK.
    pub(crate) fn follower_said(&mut self, connection: Connection, offset: u64) {
        let now = self.data.clocks.monotonic;
        let Some(follower) = self.clients.get_mut(&connection).and_then(|client| client.follower.as_mut()) else {
            return;
        };
        follower.acknowledged = follower.acknowledged.max(offset);
        follower.heard = now;
        if follower.stage == Stage::Copied {
            follower.stage = Stage::Online;
            let held = std::mem::take(&mut follower.held);
            self.send(connection, &held);
        }
    }

    /// Returns the number of replicas that have acknowledged this offset.
    pub(crate) fn acknowledged(&self, offset: u64) -> usize {
        let has = |follower: &Follower| {
            matches!(follower.stage, Stage::Copied | Stage::Online) && follower.acknowledged >= offset
        };
        self.followers().filter(|(_, follower)| has(follower)).count()
    }

    /// Answers clients whose WAIT is satisfied. If a WAIT has just begun, asks the replicas for their offsets.
    pub(crate) fn serve_waiting(&mut self) {
        let done: Vec<(Connection, usize)> = self
            .waiting
            .iter()
            .filter_map(|(connection, wait)| {
                let count = self.acknowledged(wait.offset);
                (count >= wait.replicas).then_some((*connection, count))
            })
            .collect();
        for (connection, count) in done {
            self.stop_waiting(connection, &Reply::count(count));
        }
        if std::mem::take(&mut self.replication.ask_replicas) {
            self.stream_command(&[b"REPLCONF", b"GETACK", b"*"]);
        }
    }

    /// Sends a command to replicas only.
    fn stream_command(&mut self, words: &[&[u8]]) {
        let mut stream = Vec::new();
        write_command(&mut stream, words);
        self.feed_followers(&stream);
    }

    /// Notes at each tick that the children that made copies have ended.
    pub(crate) fn notice_copies(&mut self) {
        for follower in self.clients.values_mut().filter_map(|client| client.follower.as_mut()) {
            if follower.stage == Stage::Copying {
                follower.stage = Stage::Copied;
            }
        }
    }

    /// Pings replicas, and disconnects silent replicas.
    pub(super) fn lead_each_second(&mut self) {
        if self.replication.backlog.is_none() {
            return;
        }
        let now = self.data.clocks.monotonic;
        let seconds = now.saturating_sub(self.started.monotonic).as_secs();
        if seconds.is_multiple_of(super::PING_PERIOD_S) && self.followers().next().is_some() {
            self.stream_command(&[b"PING"]);
        }
        let silent = |client: &Client| {
            client.follower.as_ref().is_some_and(|follower| {
                follower.stage != Stage::New && now.saturating_sub(follower.heard) > super::TIMEOUT
            })
        };
        let silent: Vec<Connection> =
            self.clients.iter().filter(|(_, client)| silent(client)).map(|(connection, _)| *connection).collect();
        silent.into_iter().for_each(|connection| self.close(connection));
    }

    /// Disconnects all replicas, so that they connect again.
    pub(crate) fn drop_followers(&mut self) {
        let followers = self.clients.iter().filter(|(_, client)| client.follower.is_some());
        let followers: Vec<Connection> = followers.map(|(connection, _)| *connection).collect();
        followers.into_iter().for_each(|connection| self.close(connection));
    }
}
