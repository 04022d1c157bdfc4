//! Connections to the watched servers, and the periodic requests on them.

use super::instance::{Asked, Channel, Id, ServerRole};
use super::{Failover, Sentinel};
use crate::process::{Action, Connection};
use crate::reply::{Reply, read, write_command};

/// Milliseconds between attempts to connect, and the longest time between pings.
pub(super) const PING_PERIOD: i64 = 1000;
/// Milliseconds between two INFO requests; the second constant applies to replicas in trouble.
pub(super) const INFO_PERIOD: i64 = 10_000;
const INFO_PERIOD_IN_TROUBLE: i64 = 1000;
/// Milliseconds between two messages to other Sentinels.
pub(super) const HELLO_PERIOD: i64 = 2000;
/// A silent connection is closed at this age, in milliseconds.
const OLD: i64 = 15_000;
const MOST_AWAITED: usize = 100;
const HELLO_CHANNEL: &[u8] = b"__sentinel__:hello";

impl Sentinel {
    fn open(&mut self, to: std::net::SocketAddrV4) -> Channel {
        self.next_opened += 1;
        let connection = Connection::Opened(self.next_opened);
        self.actions.push(Action::Connect { connection, to });
        let (since, active) = (self.now, self.now);
        Channel { connection, open: false, held: Vec::new(), input: Vec::new(), since, active }
    }

    pub(super) fn reconnect(&mut self, id: Id) {
        let instance = self.get(id);
        if instance.is_linked() || self.now - instance.last_reconnect < PING_PERIOD {
            return;
        }
        let address = instance.address;
        self.get_mut(id).last_reconnect = self.now;
        if self.get(id).commands.is_none() {
            let channel = self.open(address);
            self.get_mut(id).commands = Some(channel);
            self.ping(id);
        }
        if self.get(id).kind != ServerRole::Sentinel && self.get(id).messages.is_none() {
            let mut channel = self.open(address);
            write_command(&mut channel.held, &[b"SUBSCRIBE", HELLO_CHANNEL]);
            self.get_mut(id).messages = Some(channel);
        }
    }

    /// Closes both connections to a server.
    pub(super) fn cut(&mut self, id: Id) {
        let instance = self.get_mut(id);
        let channels = [instance.commands.take(), instance.messages.take()];
        instance.asked.clear();
        let closed = channels.into_iter().flatten().map(|channel| Action::Close { connection: channel.connection });
        self.actions.extend(closed);
    }

    /// Sends a command. Returns false if there is no connection for it.
    pub(super) fn say(&mut self, id: Id, asked: Asked, words: &[&[u8]]) -> bool {
        let mut actions = std::mem::take(&mut self.actions);
        let instance = self.get_mut(id);
        let said = match &mut instance.commands {
            None => false,
            Some(channel) => {
                instance.asked.push_back(asked);
                let mut bytes = Vec::new();
                write_command(&mut bytes, words);
                match channel.open {
                    true => actions.push(Action::Send { connection: channel.connection, bytes }),
                    false => channel.held.extend(bytes),
                }
                true
            }
        };
        self.actions = actions;
        said
    }

    fn ping(&mut self, id: Id) {
        if self.say(id, Asked::Ping, &[b"PING"]) {
            let now = self.now;
            let instance = self.get_mut(id);
            instance.last_ping = now;
            instance.unanswered.get_or_insert(now);
        }
    }

    /// Milliseconds between two INFO requests to this server.
    pub(super) fn info_period(&self, id: Id) -> i64 {
        let instance = self.get(id);
        let trouble = self.primary.down_since.is_some()
            || self.agreed_down_since.is_some()
            || self.failover.is_running()
            || instance.link_down != 0;
        if instance.kind == ServerRole::Replica && trouble { INFO_PERIOD_IN_TROUBLE } else { INFO_PERIOD }
    }

    pub(super) fn down_after(&self) -> i64 {
        self.config.down_after.as_millis() as i64
    }

    pub(super) fn send_periodically(&mut self, id: Id) {
        let instance = self.get(id);
        if !instance.is_linked() || instance.asked.len() >= MOST_AWAITED {
            return;
        }
        let now = self.now;
        let period = self.info_period(id);
        if instance.kind != ServerRole::Sentinel && instance.informed.is_none_or(|then| now - then > period) {
            self.say(id, Asked::Info, &[b"INFO"]);
        }
        let period = self.down_after().min(PING_PERIOD);
        let instance = self.get(id);
        if now - instance.last_pong > period && now - instance.last_ping > period / 2 {
            self.ping(id);
        }
        if now - self.get(id).last_hello_sent > HELLO_PERIOD {
            self.say_hello(id);
        }
    }

    fn say_hello(&mut self, id: Id) {
        let primary = self.known_primary();
        let text = format!(
            "{},{},{},{},{},{},{},{}",
            self.config.address.ip(),
            self.config.address.port(),
            self.config.id,
            self.current_epoch,
            self.config.group,
            primary.ip(),
            primary.port(),
            self.config_epoch
        );
        if self.say(id, Asked::Nothing, &[b"PUBLISH", HELLO_CHANNEL, text.as_bytes()]) {
            self.get_mut(id).last_hello_sent = self.now;
        }
    }

    /// Sends hello messages to all servers at the next tick.
    pub(super) fn hurry_hellos(&mut self) {
        self.ids().for_each(|id| self.get_mut(id).last_hello_sent -= HELLO_PERIOD + 1);
    }

    /// Sends SLAVEOF, CONFIG REWRITE and CLIENT KILL in one transaction. Without `to`, the server becomes a primary.
    pub(super) fn turn(&mut self, id: Id, to: Option<std::net::SocketAddrV4>) -> bool {
        let (host, port) = match to {
            Some(to) => (to.ip().to_string(), to.port().to_string()),
            None => ("NO".to_string(), "ONE".to_string()),
        };
        let commands: [&[&[u8]]; 6] = [
            &[b"MULTI"],
            &[b"SLAVEOF", host.as_bytes(), port.as_bytes()],
            &[b"CONFIG", b"REWRITE"],
            &[b"CLIENT", b"KILL", b"TYPE", b"normal"],
            &[b"CLIENT", b"KILL", b"TYPE", b"pubsub"],
            &[b"EXEC"],
        ];
        commands.iter().all(|words| self.say(id, Asked::Nothing, words))
    }

    /// Returns the server of this connection; true if it carries commands, false for messages.
    fn whose(&self, connection: Connection) -> Option<(Id, bool)> {
        let is = |channel: &Option<Channel>| channel.as_ref().is_some_and(|channel| channel.connection == connection);
        self.ids().find_map(|id| {
            let instance = self.get(id);
            match is(&instance.commands) {
                true => Some((id, true)),
                false => is(&instance.messages).then_some((id, false)),
            }
        })
    }

    fn channel(&mut self, id: Id, commands: bool) -> Option<&mut Channel> {
        let instance = self.get_mut(id);
        if commands { instance.commands.as_mut() } else { instance.messages.as_mut() }
    }

    pub(super) fn connected(&mut self, connection: Connection) {
        let Some((id, commands)) = self.whose(connection) else { return };
        let Some(channel) = self.channel(id, commands) else { return };
        channel.open = true;
        let bytes = std::mem::take(&mut channel.held);
        self.actions.push(Action::Send { connection, bytes });
    }

    pub(super) fn closed(&mut self, connection: Connection) {
        let Some((id, commands)) = self.whose(connection) else { return };
        let instance = self.get_mut(id);
        match commands {
            true => {
                instance.commands = None;
                instance.asked.clear();
            }
            false => instance.messages = None,
        }
    }

    pub(super) fn received(&mut self, connection: Connection, bytes: &[u8]) {
        let Some((id, commands)) = self.whose(connection) else { return };
        let now = self.now;
        let Some(channel) = self.channel(id, commands) else { return };
        channel.active = now;
        let mut input = std::mem::take(&mut channel.input);
        input.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((reply, length)) = read(&input[at..]) {
            at += length;
            // A failover may close this connection meanwhile.
            if self.whose(connection) != Some((id, commands)) {
                return;
            }
            match commands {
                true => {
                    let asked = self.get_mut(id).asked.pop_front();
                    self.heard(id, asked.unwrap_or(Asked::Nothing), &reply);
                }
                false => self.heard_message(&reply),
            }
        }
        if let (true, Some(channel)) = (self.whose(connection) == Some((id, commands)), self.channel_of(connection)) {
            channel.input = input[at..].to_vec();
        }
    }

    fn channel_of(&mut self, connection: Connection) -> Option<&mut Channel> {
        let (id, commands) = self.whose(connection)?;
        self.channel(id, commands)
    }

    /// Closes connections that seem dead, so that the Sentinel reconnects.
    pub(super) fn close_dead(&mut self, id: Id) {
        let now = self.now;
        let half = self.down_after() / 2;
        let instance = self.get_mut(id);
        let silent = instance.unanswered.is_some_and(|since| now - since > half) && now - instance.last_pong > half;
        let dead = |channel: &Option<Channel>| channel.as_ref().is_some_and(|channel| now - channel.since > OLD);
        let mut closed = Vec::new();
        if silent && dead(&instance.commands) {
            closed.extend(instance.commands.take());
            instance.asked.clear();
        }
        let quiet = |channel: &Channel| now - channel.active > 3 * HELLO_PERIOD;
        if dead(&instance.messages) && instance.messages.as_ref().is_some_and(quiet) {
            closed.extend(instance.messages.take());
        }
        self.actions.extend(closed.into_iter().map(|channel| Action::Close { connection: channel.connection }));
    }

    fn heard_message(&mut self, reply: &Reply) {
        let Reply::Array(parts) = reply else { return };
        if let [Reply::Bulk(kind), _, Reply::Bulk(text)] = &parts[..]
            && kind == b"message"
        {
            self.heard_hello(&String::from_utf8_lossy(text));
        }
    }

    /// Returns the primary for clients and other Sentinels: the promoted replica, once promoted.
    pub(super) fn known_primary(&self) -> std::net::SocketAddrV4 {
        match (self.failover.stage >= Failover::TURNING, self.replicas.iter().find(|replica| replica.promoted)) {
            (true, Some(promoted)) => promoted.address,
            _ => self.primary.address,
        }
    }
}
