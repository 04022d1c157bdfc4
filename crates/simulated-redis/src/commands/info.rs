//! INFO: the fields that clients and Sentinels use, in their sections.

use std::fmt::Write;

use super::*;

const SECTIONS: [&str; 7] = ["server", "clients", "memory", "persistence", "stats", "replication", "keyspace"];

pub(super) fn info(server: &mut Server, _: Connection, words: CommandWords<'_>) -> CommandResult {
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
    Ok(Reply::text(&text))
}

fn fields(server: &Server, section: &str) -> Vec<(String, String)> {
    let (data, keys) = (&server.data, &server.data.keys);
    let fields = match section {
        "server" => {
            let mode = if server.cluster.is_some() { "cluster" } else { "standalone" }.to_string();
            let number = data.version.number().to_string();
            let mut fields = match data.version.is_valkey() {
                false => vec![("redis_version", number), ("redis_mode", mode)],
                // The Redis version that clients should assume comes first.
                true => vec![
                    ("redis_version", "7.2.4".to_string()),
                    ("server_name", data.version.name().to_string()),
                    ("valkey_version", number),
                    ("server_mode", mode),
                ],
            };
            fields.push(("run_id", server.run_id.clone()));
            fields
        }
        "clients" => {
            let connected = server.clients.values().filter(|client| client.follower.is_none()).count();
            vec![("connected_clients", connected.to_string()), ("blocked_clients", server.waiting.len().to_string())]
        }
        "memory" => vec![("number_of_cached_scripts", server.scripts.count().to_string())],
        "persistence" => vec![
            // No client can see a child that takes no time.
            ("rdb_bgsave_in_progress", "0".to_string()),
            ("rdb_last_bgsave_status", "ok".to_string()),
            ("rdb_saves", server.snapshots.to_string()),
        ],
        "stats" => vec![("evicted_keys", data.evicted.to_string()), ("latest_fork_usec", "0".to_string())],
        "replication" => return server.replication_fields(),
        _ if keys.len() == 0 => vec![],
        _ => vec![("db0", format!("keys={},expires={},avg_ttl=0", keys.len(), keys.volatile()))],
    };
    fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}
