//! Connections between nodes: each node opens a connection to each other node and sends pings on it. It answers pings on the
//! connections that the others opened.

use std::net::SocketAddrV4;

use rand::RngExt;

use super::messages::{Message, MessageKind};
use super::{BUS_PORT_OFFSET, Cluster};
use crate::process::{Action, Connection};
use crate::request::{ParsedRequest, parse};
use crate::server::Server;

#[derive(Clone, Debug)]
pub(super) struct BusLink {
    pub connection: Connection,
    pub open: bool,
    /// Data to send when the connection opens.
    held: Vec<u8>,
    input: Vec<u8>,
    pub since: i64,
}

impl Server {
    pub(crate) fn is_bus(&self, local: SocketAddrV4) -> bool {
        self.cluster.is_some() && local.port() == self.config.address.port().wrapping_add(BUS_PORT_OFFSET)
    }

    pub(crate) fn bus_accepted(&mut self, connection: Connection, _: SocketAddrV4) {
        if let Some(cluster) = &mut self.cluster {
            cluster.inbound.insert(connection, Vec::new());
        }
    }

    pub(crate) fn bus_connected(&mut self, connection: Connection) {
        let Some(cluster) = &mut self.cluster else { return };
        let Some(number) = cluster.linked(connection) else { return };
        let mut bytes = Vec::new();
        if let Some(link) = &mut cluster.nodes[number].link {
            link.open = true;
            bytes = std::mem::take(&mut link.held);
        }
        if !bytes.is_empty() {
            self.actions.push(Action::Send { connection, bytes });
        }
        // An unanswered ping counts from the time of its sending.
        let before = self.cluster.as_ref().map_or(0, |cluster| cluster.nodes[number].ping_sent);
        self.ping(number);
        if let Some(cluster) = self.cluster.as_mut().filter(|_| before != 0) {
            cluster.nodes[number].ping_sent = before;
        }
    }

    pub(crate) fn bus_closed(&mut self, connection: Connection) {
        let Some(cluster) = &mut self.cluster else { return };
        cluster.inbound.remove(&connection);
        if let Some(number) = cluster.linked(connection) {
            cluster.nodes[number].link = None;
        }
    }

    pub(crate) fn bus_received(&mut self, connection: Connection, bytes: &[u8]) {
        let Some(cluster) = &mut self.cluster else { return };
        let linked = cluster.linked(connection);
        let input = match linked {
            Some(number) => cluster.nodes[number].link.as_mut().map(|link| &mut link.input),
            None => cluster.inbound.get_mut(&connection),
        };
        let Some(input) = input else { return };
        input.extend_from_slice(bytes);
        let input = std::mem::take(input);
        let mut ranges = Vec::new();
        let mut at = 0;
        while let ParsedRequest::Command { length } = parse(&input[at..], &mut ranges) {
            let words: Vec<&[u8]> = ranges.iter().map(|word| &input[at..][word.clone()]).collect();
            at += length;
            let message = self.cluster.as_ref().and_then(|cluster| cluster.understand(&words));
            if let Some(message) = message {
                self.heard_on_bus(connection, linked, &message);
            }
        }
        let Some(cluster) = &mut self.cluster else { return };
        let rest = input[at..].to_vec();
        match cluster.linked(connection) {
            Some(number) => {
                if let Some(link) = &mut cluster.nodes[number].link {
                    link.input = rest;
                }
            }
            None => {
                if let Some(input) = cluster.inbound.get_mut(&connection) {
                    *input = rest;
                }
            }
        }
    }

    pub(super) fn tell_node(&mut self, number: usize, kind: &MessageKind) {
        let offset = self.replication.offset;
        let Some(cluster) = &mut self.cluster else { return };
        let bytes = cluster.write(kind, offset);
        if let Some(link) = &mut cluster.nodes[number].link {
            match link.open {
                true => self.actions.push(Action::Send { connection: link.connection, bytes }),
                false => link.held.extend(bytes),
            }
        }
    }

    pub(super) fn tell_all(&mut self, kind: &MessageKind) {
        let count = self.cluster.as_ref().map_or(0, |cluster| cluster.nodes.len());
        (0..count).for_each(|number| self.tell_node(number, kind));
    }

    /// Answers on a connection that the other node opened.
    pub(super) fn pong(&mut self, connection: Connection) {
        let Some(cluster) = &self.cluster else { return };
        let bytes = cluster.write(&MessageKind::Pong, self.replication.offset);
        self.actions.push(Action::Send { connection, bytes });
    }

    pub(super) fn ping(&mut self, number: usize) {
        self.tell_node(number, &MessageKind::Ping);
        let now = self.data.now;
        if let Some(cluster) = &mut self.cluster {
            cluster.nodes[number].ping_sent = now;
        }
    }

    /// Connects to nodes without a connection, and pings nodes that have been silent for long.
    pub(super) fn keep_links(&mut self) {
        let Some(cluster) = &self.cluster else { return };
        let (me, count, now) = (cluster.me, cluster.nodes.len(), self.data.now);
        let unlinked: Vec<usize> =
            (0..count).filter(|number| *number != me && cluster.nodes[*number].link.is_none()).collect();
        for number in unlinked {
            let connection = self.number_connection();
            let Some(cluster) = &mut self.cluster else { return };
            let node = &mut cluster.nodes[number];
            node.link = Some(BusLink { connection, open: false, held: Vec::new(), input: Vec::new(), since: now });
            let to = SocketAddrV4::new(*node.address.ip(), node.address.port().wrapping_add(BUS_PORT_OFFSET));
            self.actions.push(Action::Connect { connection, to });
        }
        self.ping_a_random_one();
        self.ping_the_silent();
    }

    /// Once per second: pings the most silent of five random nodes.
    fn ping_a_random_one(&mut self) {
        const EACH: u64 = 10;
        const DRAWN: usize = 5;
        let Some(cluster) = &mut self.cluster else { return };
        cluster.ticks += 1;
        if !cluster.ticks.is_multiple_of(EACH) {
            return;
        }
        let count = cluster.nodes.len() as u64;
        let drawn: Vec<usize> = (0..DRAWN).map(|_| self.data.random.random_range(0..count) as usize).collect();
        let fit = |number: &usize| {
            let node = &cluster.nodes[*number];
            *number != cluster.me && node.link.is_some() && node.ping_sent == 0
        };
        let oldest = drawn.into_iter().filter(fit).min_by_key(|number| cluster.nodes[*number].pong_received);
        if let Some(number) = oldest {
            self.ping(number);
        }
    }

    fn ping_the_silent(&mut self) {
        let timeout = self.node_timeout();
        let now = self.data.now;
        for number in 0..self.cluster.as_ref().map_or(0, |cluster| cluster.nodes.len()) {
            let Some(cluster) = &mut self.cluster else { return };
            if number == cluster.me {
                continue;
            }
            let taking_over = cluster.handover.to == Some(number);
            let node = &mut cluster.nodes[number];
            let delay = |since: i64| now - since;
            let stuck = node.ping_sent != 0
                && delay(node.ping_sent) > timeout / 2
                && delay(node.data_received) > timeout / 2
                && node.link.as_ref().is_some_and(|link| delay(link.since) > timeout);
            if stuck && let Some(link) = node.link.take() {
                self.actions.push(Action::Close { connection: link.connection });
                continue;
            }
            let silent = node.ping_sent == 0 && delay(node.pong_received) > timeout / 2;
            if node.link.is_some() && (silent || taking_over) {
                self.ping(number);
            }
        }
    }

    /// `cluster-node-timeout` in milliseconds.
    pub(super) fn node_timeout(&self) -> i64 {
        self.config.cluster.as_ref().map_or(i64::MAX, |cluster| cluster.node_timeout.as_millis() as i64)
    }

    fn heard_on_bus(&mut self, connection: Connection, linked: Option<usize>, message: &Message) {
        let now = self.data.now;
        let Some(cluster) = &mut self.cluster else { return };
        let changed = cluster.note_header(message, now);
        if changed {
            self.save_nodes();
        }
        self.note_paused_primary(message);
        match &message.kind {
            MessageKind::Ping => {
                self.pong(connection);
                self.note_state(message);
            }
            MessageKind::Pong => {
                if linked == Some(message.sender) {
                    self.note_pong(message.sender);
                }
                self.note_state(message);
            }
            MessageKind::Fail(number) => self.note_failure(*number),
            MessageKind::AskVote(forced) => self.consider_vote(message, *forced),
            MessageKind::Vote => self.note_vote(message),
            MessageKind::Update(owner, epoch, slots) => self.note_update(*owner, *epoch, slots),
            MessageKind::HandOver => self.begin_handover(message.sender),
        }
    }
}

impl Cluster {
    /// Returns the node to which this connection was opened.
    fn linked(&self, connection: Connection) -> Option<usize> {
        self.nodes.iter().position(|node| node.link.as_ref().is_some_and(|link| link.connection == connection))
    }

    /// Takes over the epochs of a message. Returns true if an epoch was new.
    fn note_header(&mut self, message: &Message, now: i64) -> bool {
        let sender = &mut self.nodes[message.sender];
        sender.data_received = now;
        sender.offset = message.offset;
        let newer = message.current_epoch > self.current_epoch || message.epoch > sender.epoch;
        self.current_epoch = self.current_epoch.max(message.current_epoch);
        sender.epoch = sender.epoch.max(message.epoch);
        newer
    }
}
