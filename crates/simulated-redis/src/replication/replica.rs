//! The replica's side of replication: the link to the primary, a copy of all keys, then the stream of changes.

use std::net::SocketAddrV4;
use std::time::Duration;

use super::Backlog;
use crate::disk::{Reader, replay};
use crate::process::{Action, Connection};
use crate::reply::{Reply, write_command};
use crate::request::{ParsedRequest, parse};
use crate::server::Server;

#[derive(Debug, Default)]
pub(crate) struct Link {
    connection: Option<Connection>,
    stage: LinkStage,
    input: Vec<u8>,
    /// Runs the commands of the stream.
    reader: Reader,
    /// The time of the primary's last message, on the monotonic clock.
    pub heard: Duration,
    /// The time at which the link broke, on the monotonic clock; None if it was never up.
    pub down_since: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LinkStage {
    /// No connection.
    #[default]
    Down,
    Connecting,
    /// Waiting for the answer to PING.
    Greeting,
    /// Waiting for this many answers to REPLCONF.
    Introducing(u8),
    /// Waiting for the answer to PSYNC.
    Asking,
    /// Waiting for the copy, which belongs to this offset.
    Copying(u64),
    /// Receiving the stream.
    Up,
}

impl Link {
    pub fn is_up(&self) -> bool {
        self.stage == LinkStage::Up
    }

    pub fn is_syncing(&self) -> bool {
        matches!(self.stage, LinkStage::Copying(_))
    }

    /// The state in the answer to ROLE.
    pub fn state_name(&self) -> &'static str {
        match self.stage {
            LinkStage::Down => "connect",
            LinkStage::Connecting => "connecting",
            LinkStage::Greeting | LinkStage::Introducing(_) | LinkStage::Asking => "handshake",
            LinkStage::Copying(_) => "sync",
            LinkStage::Up => "connected",
        }
    }
}

impl Server {
    /// Makes the server a replica of this primary, or with None a primary.
    pub(crate) fn follow(&mut self, primary: Option<SocketAddrV4>) {
        self.close_link();
        self.release_waiting();
        self.replication.link = Link::default();
        if primary.is_none() && self.replication.primary.is_some() {
            // Other replicas may continue from the same history up to here.
            let until = self.replication.offset + 1;
            let former = std::mem::replace(&mut self.replication.id, super::draw_id(&mut self.data.random));
            self.replication.former = Some((former, until));
            let offset = self.replication.offset;
            self.replication.backlog.get_or_insert_with(|| Backlog::new(offset));
        }
        self.replication.primary = primary;
        self.data.replica = primary.is_some();
        self.data.propagation.forget_selected();
        self.update_wanted();
        self.drop_followers();
        self.connect_to_primary();
    }

    /// Ends the WAIT of all clients, because the server changes its role.
    fn release_waiting(&mut self) {
        const RELEASED: Reply = Reply::error(
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
        );
        for connection in std::mem::take(&mut self.waiting).into_keys() {
            self.reply(connection, &RELEASED);
            self.close(connection);
        }
    }

    pub(crate) fn connect_to_primary(&mut self) {
        let Some(to) = self.replication.primary else { return };
        let connection = self.number_connection();
        let link = &mut self.replication.link;
        link.connection = Some(connection);
        link.stage = LinkStage::Connecting;
        link.heard = self.data.clocks.monotonic;
        link.input.clear();
        self.actions.push(Action::Connect { connection, to });
    }

    fn close_link(&mut self) {
        if let Some(connection) = self.replication.link.connection.take() {
            self.actions.push(Action::Close { connection });
        }
        self.lose_link();
    }

    fn lose_link(&mut self) {
        let link = &mut self.replication.link;
        if link.stage == LinkStage::Up {
            link.down_since = Some(self.data.clocks.monotonic);
        }
        link.connection = None;
        link.stage = LinkStage::Down;
        link.input.clear();
        link.reader = Reader::default();
    }

    pub(crate) fn link_connected(&mut self, connection: Connection) {
        if self.replication.link.connection == Some(connection) {
            self.replication.link.stage = LinkStage::Greeting;
            self.say_to_primary(&[b"PING"]);
        }
    }

    pub(crate) fn link_closed(&mut self, connection: Connection) {
        if self.replication.link.connection != Some(connection) {
            return;
        }
        let was_up = self.replication.link.is_up();
        self.lose_link();
        // Reconnect at once, as Redis 7.0 does; if that fails, once per second.
        if was_up {
            self.connect_to_primary();
        }
    }

    pub(super) fn follow_each_second(&mut self) {
        if self.replication.primary.is_none() {
            return;
        }
        let now = self.data.clocks.monotonic;
        let limit = super::TIMEOUT;
        let link = &self.replication.link;
        if link.stage != LinkStage::Down && now.saturating_sub(link.heard) > limit {
            self.close_link();
        }
        match self.replication.link.stage {
            LinkStage::Down => self.connect_to_primary(),
            LinkStage::Up => self.acknowledge(),
            _ => {}
        }
    }

    fn acknowledge(&mut self) {
        let offset = self.replication.offset.to_string();
        self.say_to_primary(&[b"REPLCONF", b"ACK", offset.as_bytes()]);
    }

    fn say_to_primary(&mut self, words: &[&[u8]]) {
        let Some(connection) = self.replication.link.connection else { return };
        let mut bytes = Vec::new();
        write_command(&mut bytes, words);
        self.actions.push(Action::Send { connection, bytes });
    }

    /// Handles bytes from the primary. Returns false if they come from another connection.
    pub(crate) fn link_received(&mut self, connection: Connection, bytes: &[u8]) -> bool {
        if self.replication.link.connection != Some(connection) {
            return false;
        }
        self.replication.link.heard = self.data.clocks.monotonic;
        self.replication.link.input.extend_from_slice(bytes);
        while !self.replication.link.is_up() && self.one_step() {}
        if self.replication.link.is_up() {
            self.apply_stream();
        }
        true
    }

    /// Handles one line of the handshake, or the copy. Returns false if it must wait for more bytes, or the link failed.
    fn one_step(&mut self) -> bool {
        if let LinkStage::Copying(offset) = self.replication.link.stage {
            return self.take_copy(offset);
        }
        let input = &mut self.replication.link.input;
        let Some(end) = input.windows(2).position(|pair| pair == b"\r\n") else { return false };
        let line: Vec<u8> = input.drain(..end + 2).collect();
        let line = String::from_utf8_lossy(&line[..end]).into_owned();
        let words: Vec<&str> = line.split(' ').collect();
        match (self.replication.link.stage, &words[..]) {
            (LinkStage::Greeting, ["+PONG"]) => {
                self.replication.link.stage = LinkStage::Introducing(2);
                let port = self.config.address.port().to_string();
                self.say_to_primary(&[b"REPLCONF", b"listening-port", port.as_bytes()]);
                self.say_to_primary(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"]);
            }
            (LinkStage::Introducing(2), _) => self.replication.link.stage = LinkStage::Introducing(1),
            (LinkStage::Introducing(_), _) => {
                self.replication.link.stage = LinkStage::Asking;
                let id = self.replication.id.clone();
                let wanted = (self.replication.offset + 1).to_string();
                match self.replication.backlog {
                    Some(_) => self.say_to_primary(&[b"PSYNC", id.as_bytes(), wanted.as_bytes()]),
                    None => self.say_to_primary(&[b"PSYNC", b"?", b"-1"]),
                }
            }
            (LinkStage::Asking, ["+FULLRESYNC", id, offset]) => {
                let offset = offset.parse().unwrap_or(0);
                self.replication.id = (*id).to_string();
                self.replication.former = None;
                self.replication.link.stage = LinkStage::Copying(offset);
            }
            (LinkStage::Asking, ["+CONTINUE", id]) => {
                if self.replication.id != *id {
                    let former = std::mem::replace(&mut self.replication.id, (*id).to_string());
                    self.replication.former = Some((former, self.replication.offset + 1));
                    self.drop_followers();
                }
                self.replication.link.stage = LinkStage::Up;
            }
            // The server cannot follow this peer as its primary now.
            _ => {
                self.close_link();
                return false;
            }
        }
        true
    }

    /// Replaces all keys with the primary's copy. Returns false if the copy is incomplete.
    fn take_copy(&mut self, offset: u64) -> bool {
        let input = &self.replication.link.input;
        let Some(end) = input.windows(2).position(|pair| pair == b"\r\n") else { return false };
        let length = String::from_utf8_lossy(&input[1..end]).parse::<usize>().unwrap_or(0);
        if input.len() < end + 2 + length {
            return false;
        }
        let copy = input[end + 2..end + 2 + length].to_vec();
        self.replication.link.input.drain(..end + 2 + length);
        self.drop_followers();
        self.data.keys.clear();
        let wanted = std::mem::replace(&mut self.data.propagation.wanted, false);
        self.data.loading = true;
        replay(&mut self.data, &copy);
        self.data.loading = false;
        self.data.propagation.wanted = wanted;
        self.disk.received = Some(copy);
        self.disk.snapshot = None;
        self.rewrite_file();
        self.replication.offset = offset;
        self.replication.backlog = Some(Backlog::new(offset));
        self.replication.link.stage = LinkStage::Up;
        self.replication.link.reader = Reader::default();
        self.acknowledge();
        true
    }

    /// Runs the complete commands of the stream.
    fn apply_stream(&mut self) {
        let input = std::mem::take(&mut self.replication.link.input);
        let mut reader = std::mem::take(&mut self.replication.link.reader);
        let mut ranges = Vec::new();
        let (mut at, mut applied) = (0, 0);
        let mut asked = false;
        while let ParsedRequest::Command { length } = parse(&input[at..], &mut ranges) {
            let words: Vec<&[u8]> = ranges.iter().map(|word| &input[at..][word.clone()]).collect();
            at += length;
            if words.first().is_some_and(|name| name.eq_ignore_ascii_case(b"replconf")) {
                asked = true;
            } else {
                self.data.obeying = true;
                reader.run(&mut self.data, &words);
                self.data.obeying = false;
                self.publish();
                self.tell(None);
            }
            if !reader.in_transaction() {
                let unit = &input[applied..at];
                self.replication.offset += unit.len() as u64;
                self.pass_on(unit);
                applied = at;
            }
            if std::mem::take(&mut asked) {
                self.acknowledge();
            }
        }
        // Once its end arrives, the whole transaction is read again.
        if reader.in_transaction() {
            reader.abandon();
        }
        self.replication.link.reader = reader;
        self.replication.link.input = input[applied..].to_vec();
    }
}
