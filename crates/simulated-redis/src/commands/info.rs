//! INFO: a part of the fields that Redis has, in its sections.

use std::fmt::Write;

use super::Answer;
use crate::data::Words;
use crate::execute::MEMORY_AT_START;
use crate::process::Connection;
use crate::reply::Reply;
use crate::server::Server;

const SECTIONS: [&str; 8] =
    ["server", "clients", "memory", "persistence", "stats", "replication", "cluster", "keyspace"];

pub(super) fn info(server: &mut Server, _: Connection, words: Words<'_>) -> Answer {
    let asked: Vec<String> = words[1..].iter().map(|word| String::from_utf8_lossy(word).to_lowercase()).collect();
    let all = asked.is_empty() || asked.iter().any(|word| matches!(&word[..], "all" | "default" | "everything"));
    let mut text = String::new();
    for section in SECTIONS.iter().filter(|section| all || asked.iter().any(|word| word == *section)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let (first, rest) = section.split_at(1);
        let _ = write!(text, "# {}{rest}\r\n", first.to_uppercase());
        for (name, value) in fields(server, section) {
            let _ = write!(text, "{name}:{value}\r\n");
        }
    }
    Ok(Reply::Verbatim(text))
}

fn fields(server: &Server, section: &str) -> Vec<(String, String)> {
    let data = &server.data;
    let named = |fields: &[(&str, String)]| {
        fields.iter().map(|(name, value)| ((*name).to_string(), value.clone())).collect::<Vec<_>>()
    };
    let flag = |set: bool| u8::from(set).to_string();
    match section {
        "server" => {
            let mode = if server.cluster.is_some() { "cluster" } else { "standalone" };
            named(&[
                ("redis_version", "7.0.15".to_string()),
                ("redis_mode", mode.to_string()),
                ("run_id", server.run_id.clone()),
                ("tcp_port", server.config.address.port().to_string()),
                (
                    "uptime_in_seconds",
                    data.clocks.monotonic.saturating_sub(server.started.monotonic).as_secs().to_string(),
                ),
                ("hz", data.settings.number("hz").to_string()),
            ])
        }
        "clients" => {
            let clients = server.clients.values();
            let connected = clients.filter(|client| client.follower.is_none()).count();
            named(&[
                ("connected_clients", connected.to_string()),
                ("maxclients", data.settings.number("maxclients").to_string()),
                ("blocked_clients", server.waiting.len().to_string()),
            ])
        }
        "memory" => {
            let used = MEMORY_AT_START + data.databases.iter().map(|keys| keys.size() as u64).sum::<u64>();
            let policy = data.settings.all().get("maxmemory-policy").copied().unwrap_or_default().to_string();
            named(&[
                ("used_memory", used.to_string()),
                ("maxmemory", data.settings.maxmemory.to_string()),
                ("maxmemory_policy", policy),
                ("number_of_cached_scripts", server.scripts.count().to_string()),
            ])
        }
        "persistence" => named(&[
            ("loading", "0".to_string()),
            ("aof_enabled", flag(data.settings.persistence.keeps_file())),
            ("aof_current_size", server.disk.append_only_file().len().to_string()),
        ]),
        "stats" => named(&[
            ("total_connections_received", data.stats.connections.to_string()),
            ("total_commands_processed", data.stats.commands.to_string()),
            ("expired_keys", data.stats.expired.to_string()),
            ("evicted_keys", data.stats.evicted.to_string()),
            ("keyspace_hits", data.stats.hits.to_string()),
            ("keyspace_misses", data.stats.misses.to_string()),
            ("pubsub_channels", data.subscriptions.channels.len().to_string()),
            ("pubsub_patterns", data.subscriptions.patterns.len().to_string()),
        ]),
        "replication" => server.replication_fields(),
        "cluster" => named(&[("cluster_enabled", flag(server.cluster.is_some()))]),
        _ => {
            let full = data.databases.iter().enumerate().filter(|(_, keys)| keys.len() > 0);
            full.map(|(number, keys)| {
                (format!("db{number}"), format!("keys={},expires={},avg_ttl=0", keys.len(), keys.volatile()))
            })
            .collect()
        }
    }
}
