//! Reads the fields of INFO that matter for a lock.

use std::collections::BTreeMap;

use super::joined;
use crate::observations::{Kind, Mode, Replica, Role, Seen, Server};

type Fields = BTreeMap<String, String>;

/// Copies the fields of INFO into the server.
pub fn take(server: &mut Server, fields: &Fields) {
    let get = |name: &str| fields.get(name).map(String::as_str);
    let number = |name: &str| get(name).and_then(|text| text.parse::<u64>().ok());
    let seen = |value: Option<u64>| value.map_or(Seen::Unknown, Seen::Known);
    let (kind, version) = kind(fields);
    if kind != Kind::Unknown {
        (server.kind, server.version) = (kind, version);
    }
    server.run_id = get("run_id").map(str::to_string);
    match get("redis_mode").or(get("server_mode")) {
        Some("standalone") => server.mode = Mode::Standalone,
        Some("cluster") => server.mode = Mode::Cluster,
        Some("sentinel") => (server.mode, server.role) = (Mode::Sentinel, Role::Sentinel),
        _ => {}
    }
    server.append_only = seen(number("aof_enabled")).map(|on| on == 1);
    server.used_memory = seen(number("used_memory"));
    server.max_memory = seen(number("maxmemory"));
    server.policy = get("maxmemory_policy").map_or(Seen::Unknown, |text| Seen::Known(text.to_string()));
    match get("role") {
        Some("master") => {
            server.role = Role::Primary;
            server.replicas = Seen::Known(replicas(fields));
            // INFO has this line only if the primary asks for replicas before it accepts writes.
            if fields.contains_key("connected_slaves") {
                server.min_replicas = Seen::Known(u64::from(fields.contains_key("min_slaves_good_slaves")));
            }
        }
        Some("slave") => {
            server.role = Role::Replica;
            server.link_up = get("master_link_status").map(|status| status == "up");
            server.primary = get("master_host").zip(get("master_port")).map(|(host, port)| joined(host, port));
        }
        _ => {}
    }
}

impl<T> Seen<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Seen::Known(value) => Seen::Known(change(value)),
            Seen::Forbidden => Seen::Forbidden,
            Seen::Refused(text) => Seen::Refused(text),
            Seen::Unknown => Seen::Unknown,
        }
    }
}

/// Valkey, KeyDB and Dragonfly report a `redis_version` for the sake of clients, so their own fields are checked first.
fn kind(fields: &Fields) -> (Kind, Option<String>) {
    let get = |name: &str| fields.get(name).cloned();
    if let Some(version) = get("dragonfly_version") {
        return (Kind::Dragonfly, Some(version.trim_start_matches("df-").to_string()));
    }
    if let Some(version) = get("valkey_version") {
        return (Kind::Valkey, Some(version));
    }
    let version = get("redis_version");
    if get("executable").is_some_and(|path| path.contains("keydb")) {
        return (Kind::KeyDb, version);
    }
    match version {
        Some(version) => (Kind::Redis, Some(version)),
        None => (Kind::Unknown, None),
    }
}

fn replicas(fields: &Fields) -> Vec<Replica> {
    let sent: Option<u64> = fields.get("master_repl_offset").and_then(|text| text.parse().ok());
    let lines = (0..).map_while(|number| fields.get(&format!("slave{number}")));
    let each = lines.filter_map(|line| {
        let parts: BTreeMap<&str, &str> = line.split(',').filter_map(|part| part.split_once('=')).collect();
        let offset: Option<u64> = parts.get("offset").and_then(|text| text.parse().ok());
        Some(Replica {
            address: joined(parts.get("ip")?, parts.get("port")?),
            online: parts.get("state").is_some_and(|state| *state == "online"),
            lag_s: parts.get("lag").and_then(|text| text.parse().ok()),
            behind: sent.zip(offset).map(|(sent, offset)| sent.saturating_sub(offset)),
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::fields;

    #[test]
    fn info_of_a_primary_is_read() {
        let text = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:ab\r\naof_enabled:1\r\nrole:master\r\n\
                    connected_slaves:1\r\nslave0:ip=::1,port=7,state=online,offset=90,lag=1\r\nmaster_repl_offset:100\r\n\
                    maxmemory:0\r\nused_memory:5\r\nmaxmemory_policy:noeviction\r\n";
        let mut server = Server::default();
        take(&mut server, &fields(text));
        assert_eq!((server.kind, server.role, server.mode), (Kind::Redis, Role::Primary, Mode::Standalone));
        let replica = Replica { address: "[::1]:7".to_string(), online: true, lag_s: Some(1), behind: Some(10) };
        assert_eq!(server.replicas, Seen::Known(vec![replica]));
        assert_eq!((&server.min_replicas, &server.append_only), (&Seen::Known(0), &Seen::Known(true)));
        take(&mut server, &fields(&format!("{text}min_slaves_good_slaves:1\r\n")));
        assert_eq!(server.min_replicas, Seen::Known(1));
    }

    #[test]
    fn valkey_is_not_taken_for_redis() {
        for (text, kind, version) in [
            ("redis_version:7.2.4\nvalkey_version:9.1.2", Kind::Valkey, "9.1.2"),
            ("redis_version:7.4.0\ndragonfly_version:df-v1.30.0", Kind::Dragonfly, "v1.30.0"),
            ("redis_version:6.3.4\nexecutable:/usr/bin/keydb-server", Kind::KeyDb, "6.3.4"),
            ("redis_version:7.0.15\nexecutable:/usr/bin/redis-server", Kind::Redis, "7.0.15"),
        ] {
            let mut server = Server::default();
            take(&mut server, &fields(text));
            assert_eq!((server.kind, server.version.as_deref()), (kind, Some(version)), "{text}");
        }
    }

    #[test]
    fn info_without_sense_leaves_everything_unknown() {
        let mut server = Server::default();
        take(&mut server, &fields("hello\nrole:emperor\nmaxmemory:lots\nslave0:ip=1"));
        assert_eq!((server.role, server.kind), (Role::Unknown, Kind::Unknown));
        assert_eq!((server.max_memory, server.replicas), (Seen::Unknown, Seen::Unknown));
    }
}
