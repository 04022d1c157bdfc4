//! Primaries and replicas: their roles, and the stream of changes between them.
//!
//! Source: the Redis documentation on replication, and the behaviour of Redis 7.0.

mod backlog;
mod primary;
mod replica;

use std::net::SocketAddrV4;
use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::config::Config;
use crate::disk::Disk;
use crate::server::Server;

pub(crate) use backlog::Backlog;
pub(crate) use primary::Follower;
pub(crate) use replica::Link;

/// Redis's default limit for a silent link.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Redis's default seconds between two pings of a primary.
const PING_PERIOD_S: u64 = 10;

#[derive(Default)]
pub(crate) struct Replication {
    /// The replication id: the history of changes that led to the data.
    pub id: String,
    /// The replication id that this history continues, and the offset up to which both are equal.
    pub former: Option<(String, u64)>,
    /// The number of bytes of the stream that this server has written or applied.
    pub offset: u64,
    /// The end of the stream, for reconnecting replicas; None before the first replica.
    pub backlog: Option<Backlog>,
    /// Set for a replica.
    pub primary: Option<SocketAddrV4>,
    pub link: Link,
    /// True if a client waits for acknowledgements: the server asks replicas before it sleeps.
    pub ask_replicas: bool,
    /// A buffer, kept to reuse its memory.
    pub scratch: Vec<u8>,
}

impl Replication {
    pub fn new(config: &Config, disk: &Disk, random: &mut ChaCha8Rng) -> Replication {
        Replication {
            id: draw_id(random),
            primary: disk.follows.unwrap_or(config.replica_of),
            ..Replication::default()
        }
    }
}

/// 40 hexadecimal digits.
pub(crate) fn draw_id(random: &mut ChaCha8Rng) -> String {
    let mut bytes = [0_u8; 20];
    random.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Server {
    /// True if the server has replicas or is a replica, so that it has work each second.
    pub(crate) fn replicates(&self) -> bool {
        self.replication.primary.is_some() || self.replication.backlog.is_some()
    }

    /// Notes if a file or a replica may need the changes.
    pub(crate) fn update_wanted(&mut self) {
        let feeds = self.replication.primary.is_none() && self.replication.backlog.is_some();
        self.data.propagation.wanted = self.config.persistence.keeps_file() || feeds;
    }

    /// Runs the once-per-second work.
    pub(crate) fn replicate_each_second(&mut self) {
        self.follow_each_second();
        self.lead_each_second();
    }

    /// Saves the primary that it follows, as `CONFIG REWRITE` does.
    pub(crate) fn save_role(&mut self) {
        if self.cluster.is_none() {
            self.disk.follows = Some(self.replication.primary);
        }
    }

    /// The replication section of INFO.
    pub(crate) fn replication_fields(&self) -> Vec<(String, String)> {
        let replication = &self.replication;
        let mut fields: Vec<(String, String)> = Vec::new();
        let mut add = |name: &str, value: String| fields.push((name.to_string(), value));
        add("role", if replication.primary.is_some() { "slave" } else { "master" }.to_string());
        if let Some(primary) = replication.primary {
            let now = self.data.clocks.monotonic;
            add("master_host", primary.ip().to_string());
            add("master_port", primary.port().to_string());
            add("master_link_status", if replication.link.is_up() { "up" } else { "down" }.to_string());
            let silent = now.saturating_sub(replication.link.heard).as_secs();
            let shown = if replication.link.is_up() { silent.to_string() } else { "-1".to_string() };
            add("master_last_io_seconds_ago", shown);
            add("master_sync_in_progress", u8::from(replication.link.is_syncing()).to_string());
            add("slave_read_repl_offset", replication.offset.to_string());
            add("slave_repl_offset", replication.offset.to_string());
            if !replication.link.is_up() {
                let down = replication.link.down_since.map_or(-1, |since| now.saturating_sub(since).as_secs() as i64);
                add("master_link_down_since_seconds", down.to_string());
            }
            add("slave_priority", self.config.replica_priority.to_string());
            add("slave_read_only", "1".to_string());
            add("replica_announced", "1".to_string());
        }
        let followers: Vec<_> = self.followers().collect();
        add("connected_slaves", followers.len().to_string());
        for (number, (client, follower)) in followers.into_iter().enumerate() {
            let lag = self.data.clocks.monotonic.saturating_sub(follower.heard).as_secs();
            let (ip, port) = (client.peer.ip(), follower.port);
            let (state, offset) = (follower.state_name(), follower.acknowledged);
            add(&format!("slave{number}"), format!("ip={ip},port={port},state={state},offset={offset},lag={lag}"));
        }
        add("master_failover_state", "no-failover".to_string());
        add("master_replid", replication.id.clone());
        let (former, until) = match &replication.former {
            Some((id, until)) => (id.clone(), until.to_string()),
            None => ("0".repeat(40), "-1".to_string()),
        };
        add("master_replid2", former);
        add("master_repl_offset", replication.offset.to_string());
        add("second_repl_offset", until);
        add("repl_backlog_active", u8::from(replication.backlog.is_some()).to_string());
        fields
    }
}
