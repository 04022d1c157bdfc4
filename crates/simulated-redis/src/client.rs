//! One accepted connection.

use std::net::SocketAddrV4;
use std::time::Duration;

use crate::replication::Follower;

pub(crate) struct Client {
    /// The number of the client, counted from 1.
    pub id: u64,
    pub peer: SocketAddrV4,
    pub local: SocketAddrV4,
    /// Received bytes that are not yet run.
    pub input: Vec<u8>,
    /// Unsent answers.
    pub output: Vec<u8>,
    /// Commands since MULTI.
    pub transaction: Option<Transaction>,
    /// The number of subscribed channels.
    pub channels: usize,
    /// True if the server reads nothing more from it, and closes it after the output.
    pub closing: bool,
    pub last_command: &'static str,
    /// The time of the connection, on the monotonic clock.
    pub since: Duration,
    /// The time of its last command, on the monotonic clock.
    pub active: Duration,
    /// The offset of the replication stream after its last write.
    pub written: u64,
    /// Set for a replica.
    pub follower: Option<Follower>,
}

/// The queued commands of a transaction.
#[derive(Default)]
pub(crate) struct Transaction {
    pub commands: Vec<Vec<Vec<u8>>>,
    /// True if a command was refused, so that EXEC refuses all.
    pub failed: bool,
}

/// A client that waits until this many replicas have acknowledged an offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub replicas: usize,
    pub offset: u64,
    /// The end of the wait, on the monotonic clock; None for ever.
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

    /// A line of `CLIENT LIST`. Fields that a simulated connection lacks, such as buffers, are 0.
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
