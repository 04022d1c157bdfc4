//! A server as a Sentinel sees it. Times are milliseconds of the wall clock, as in Redis.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use crate::process::Connection;

/// The role of a server, as configured or as reported by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerRole {
    Primary,
    Replica,
    Sentinel,
}

impl ServerRole {
    /// The word in Sentinel's answers.
    pub fn word(self) -> &'static str {
        match self {
            ServerRole::Primary => "master",
            ServerRole::Replica => "slave",
            ServerRole::Sentinel => "sentinel",
        }
    }
}

/// The place of a server among the known servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Primary,
    Replica(usize),
    Sentinel(usize),
}

/// The request whose reply is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Ping,
    Info,
    /// `SENTINEL is-master-down-by-addr`.
    Down,
    Nothing,
}

/// A connection to a server. Data written before it opens is sent on opening.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub connection: Connection,
    pub open: bool,
    pub held: Vec<u8>,
    pub input: Vec<u8>,
    pub since: i64,
    pub active: i64,
}

/// A replica's progress in following the new primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Turned {
    #[default]
    No,
    Told,
    Following,
    Done,
}

#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub kind: ServerRole,
    pub address: SocketAddrV4,
    pub id: String,
    pub commands: Option<Channel>,
    /// The Pub/Sub connection for hello messages; None for Sentinels.
    pub messages: Option<Channel>,
    pub asked: VecDeque<Asked>,
    pub last_reconnect: i64,
    /// The time of the oldest unanswered PING.
    pub unanswered: Option<i64>,
    pub last_ping: i64,
    pub last_pong: i64,
    /// The time of the last good answer to PING.
    pub available: i64,
    pub last_hello_sent: i64,
    pub down_since: Option<i64>,
    pub informed: Option<i64>,
    pub reported: ServerRole,
    pub reported_since: i64,
    // For replicas:
    pub follows: Option<SocketAddrV4>,
    pub follows_since: i64,
    pub link_up: bool,
    /// How long the link to the primary has been down, in milliseconds.
    pub link_down: i64,
    pub priority: u32,
    pub offset: u64,
    pub promoted: bool,
    pub turned: Turned,
    pub turned_since: i64,
    // For Sentinels:
    pub says_down: bool,
    pub last_said: i64,
    pub leader: Option<(String, u64)>,
    pub last_hello: i64,
}

impl Instance {
    pub fn new(kind: ServerRole, address: SocketAddrV4, id: &str, now: i64) -> Instance {
        Instance {
            kind,
            address,
            id: id.to_string(),
            commands: None,
            messages: None,
            asked: VecDeque::new(),
            last_reconnect: 0,
            // Counted from now, in case the Sentinel can never connect.
            unanswered: Some(now),
            last_ping: 0,
            last_pong: now,
            available: now,
            last_hello_sent: now,
            down_since: None,
            informed: None,
            reported: kind,
            reported_since: now,
            follows: None,
            follows_since: now,
            link_up: false,
            link_down: 0,
            priority: 100,
            offset: 0,
            promoted: false,
            turned: Turned::No,
            turned_since: 0,
            says_down: false,
            last_said: 0,
            leader: None,
            last_hello: now,
        }
    }

    pub fn is_linked(&self) -> bool {
        self.commands.is_some() && (self.kind == ServerRole::Sentinel || self.messages.is_some())
    }

    /// True if the server is up, or has been down for longer than this.
    pub fn was_up_for(&self, millis: i64, now: i64) -> bool {
        self.down_since.is_none_or(|since| now - since > millis)
    }
}
