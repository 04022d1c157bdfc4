//! `CLUSTER FAILOVER`: a primary hands over to its replica. It stops writes until the replica has all its data.

use std::time::Duration;

use super::Server;
use super::messages::{Message, MessageKind};
use crate::commands::{self, WRITE};
use crate::process::Connection;
use crate::reply::Reply;

/// The time limit of a handover, in milliseconds.
const LIMIT: i64 = 5000;

#[derive(Clone, Debug, Default)]
pub(super) struct Handover {
    /// The time at which the handover ends without success; 0 if there is no handover.
    end: i64,
    /// The replica that takes over, at the primary.
    pub to: Option<usize>,
    /// At the replica: the end of the primary's stream, once known.
    offset: Option<u64>,
    /// True if the replica has the whole stream.
    pub can_start: bool,
}

impl Server {
    pub(crate) fn order_handover(&mut self) -> Result<Reply, Reply> {
        let now = self.data.now;
        let Some(cluster) = &mut self.cluster else { return Ok(Reply::Nothing) };
        let Some(primary) = cluster.myself().primary else {
            return Err(Reply::error("ERR You should send CLUSTER FAILOVER to a replica"));
        };
        let down = cluster.nodes[primary].failed.is_some() || cluster.nodes[primary].link.is_none();
        if down {
            return Err(Reply::error("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE"));
        }
        cluster.handover = Handover { end: now + LIMIT, ..Handover::default() };
        self.tell_node(primary, &MessageKind::HandOver);
        Ok(Reply::OK)
    }

    /// Stops writes at the primary.
    pub(super) fn begin_handover(&mut self, to: usize) {
        let now = self.data.now;
        let Some(cluster) = &mut self.cluster else { return };
        if cluster.nodes[to].primary != Some(cluster.me) {
            return;
        }
        cluster.handover = Handover { end: now + LIMIT, to: Some(to), ..Handover::default() };
        self.writes_stopped = Some(self.data.clocks.monotonic + Duration::from_millis(2 * LIMIT as u64));
        self.ping(to);
    }

    /// Notes the end of the stream from a primary that has stopped writes.
    pub(super) fn note_paused_primary(&mut self, message: &Message) {
        let Some(cluster) = &mut self.cluster else { return };
        let mine = cluster.myself().primary == Some(message.sender);
        if cluster.handover.end > 0 && mine && message.paused && cluster.handover.offset.is_none() {
            cluster.handover.offset = Some(message.offset);
            self.check_handover();
        }
    }

    pub(super) fn check_handover(&mut self) {
        let now = self.data.now;
        let offset = self.replication.offset;
        let Some(cluster) = &mut self.cluster else { return };
        let handover = &mut cluster.handover;
        if handover.end > 0 && now > handover.end {
            self.end_handover();
        } else if handover.offset.is_some_and(|wanted| wanted <= offset) {
            handover.can_start = true;
        }
    }

    pub(super) fn end_handover(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            cluster.handover = Handover::default();
        }
        self.allow_writes();
    }

    /// Runs the writes that clients sent meanwhile.
    pub(crate) fn allow_writes(&mut self) {
        if self.writes_stopped.take().is_some() {
            let waiting = self.clients.iter().filter(|(_, client)| !client.input.is_empty());
            let waiting: Vec<Connection> = waiting.map(|(connection, _)| *connection).collect();
            waiting.into_iter().for_each(|connection| self.read(connection, &[]));
        }
    }

    /// True if a command must wait for the end of a handover, because it may write.
    pub(crate) fn must_wait(&self, connection: Connection, name: &[u8]) -> bool {
        if self.writes_stopped.is_none() {
            return false;
        }
        let queues = self.clients.get(&connection).is_some_and(|client| client.transaction.is_some());
        commands::find(self.data.version, name).is_some_and(|command| match command.name {
            "exec" | "eval" | "publish" => true,
            _ => command.is(WRITE) && !queues,
        })
    }
}
