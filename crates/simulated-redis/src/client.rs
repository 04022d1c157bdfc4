//! What a server knows of one connection that was accepted.

use std::net::SocketAddrV4;
use std::time::Duration;

use crate::replication::Follower;

pub(crate) struct Client {
    /// Counted from 1 by the server.
    pub id: u64,
    pub peer: SocketAddrV4,
    pub local: SocketAddrV4,
    /// Received, and not a whole command yet.
    pub input: Vec<u8>,
    /// Not sent yet.
    pub output: Vec<u8>,
    /// Commands since MULTI.
    pub transaction: Option<Transaction>,
    /// To how many it listens.
    pub channels: usize,
    /// Nothing more is read from it, and it is closed once the output is sent.
    pub closing: bool,
    pub last_command: &'static str,
    /// On the monotonic clock.
    pub since: Duration,
    /// When it sent its last command, on the monotonic clock.
    pub active: Duration,
    /// The offset in the stream to replicas after its last write.
    pub written: u64,
    /// Set for a replica.
    pub follower: Option<Follower>,
}

/// Commands that were queued.
#[derive(Default)]
pub(crate) struct Transaction {
    pub commands: Vec<Vec<Vec<u8>>>,
    /// One was refused, so all are.
    pub failed: bool,
}

/// A client that waits until so many replicas have acknowledged an offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub replicas: usize,
    pub offset: u64,
    /// On the monotonic clock; None is for ever.
    pub deadline: Option<Duration>,
}

impl Client {
    pub fn new(id: u64, peer: SocketAddrV4, local: SocketAddrV4, now: Duration) -> Client {
        Client {
            id,
            peer,
            local,
            input: Vec::new(),
            output: Vec::new(),
            transaction: None,
            channels: 0,
            closing: false,
            last_command: "NULL",
            since: now,
            active: now,
            written: 0,
            follower: None,
        }
    }

    /// As `CLIENT LIST TYPE` and `CLIENT KILL TYPE` name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Client { follower: Some(_), .. } => "replica",
            client if client.channels > 0 => "pubsub",
            _ => "normal",
        }
    }

    /// A line of `CLIENT LIST`. What a simulated connection does not have, such as buffers, is 0.
    pub fn line(&self, now: Duration, waits: bool) -> String {
        let mut flags = String::new();
        let flag = [
            ('S', self.follower.is_some()),
            ('P', self.channels > 0),
            ('x', self.transaction.is_some()),
            ('b', waits),
            ('c', self.closing),
        ];
        flags.extend(flag.into_iter().filter(|(_, set)| *set).map(|(letter, _)| letter));
        if flags.is_empty() {
            flags.push('N');
        }
        let queued = self.transaction.as_ref().map_or(-1, |queue| queue.commands.len() as i64);
        let seconds = |since: Duration| now.saturating_sub(since).as_secs();
        format!(
            "id={} addr={} laddr={} fd={} name= age={} idle={} flags={flags} db=0 sub={} psub=0 ssub=0 multi={queued} \
             qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={} \
             user=default redir=-1 resp=2",
            self.id,
            self.peer,
            self.local,
            self.id + 7,
            seconds(self.since),
            seconds(self.active),
            self.channels,
            self.last_command,
        )
    }
}
