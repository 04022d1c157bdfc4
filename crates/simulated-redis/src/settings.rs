//! What `CONFIG GET` shows and `CONFIG SET` changes.

use std::collections::BTreeMap;

use crate::config::{Config, Eviction, Persistence};

/// Settings that may be changed, with Redis's defaults. Most are remembered and have no effect.
const MUTABLE: &[(&str, &str, Kind)] = &[
    ("appendfsync", "everysec", Kind::Word(&["everysec", "always", "no"])),
    ("appendonly", "no", Kind::Word(&["yes", "no"])),
    ("cluster-allow-replica-migration", "yes", Kind::Word(&["yes", "no"])),
    ("cluster-node-timeout", "15000", Kind::Number),
    ("cluster-replica-validity-factor", "10", Kind::Number),
    ("cluster-require-full-coverage", "yes", Kind::Word(&["yes", "no"])),
    ("hz", "10", Kind::Number),
    ("lazyfree-lazy-expire", "no", Kind::Word(&["yes", "no"])),
    ("maxclients", "10000", Kind::Number),
    ("maxmemory", "0", Kind::Memory),
    ("maxmemory-policy", "noeviction", Kind::Word(POLICIES)),
    ("min-replicas-max-lag", "10", Kind::Number),
    ("min-replicas-to-write", "0", Kind::Number),
    ("notify-keyspace-events", "", Kind::Text),
    ("repl-backlog-size", "1048576", Kind::Memory),
    ("repl-diskless-sync-delay", "5", Kind::Number),
    ("repl-ping-replica-period", "10", Kind::Number),
    ("repl-timeout", "60", Kind::Number),
    ("replica-priority", "100", Kind::Number),
    ("replica-read-only", "yes", Kind::Word(&["yes", "no"])),
    ("replica-serve-stale-data", "yes", Kind::Word(&["yes", "no"])),
    ("requirepass", "", Kind::Text),
    ("save", "", Kind::Text),
    ("slowlog-log-slower-than", "10000", Kind::Number),
    ("timeout", "0", Kind::Number),
];

const POLICIES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

#[derive(Clone, Copy)]
enum Kind {
    Word(&'static [&'static str]),
    Number,
    Memory,
    Text,
}

/// The settings of a server.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Bytes; 0 is no limit.
    pub maxmemory: u64,
    pub eviction: Eviction,
    pub persistence: Persistence,
    pub replica_priority: u32,
    immutable: [(&'static str, String); 5],
    /// Those that differ from the defaults.
    changed: BTreeMap<&'static str, String>,
}

impl Settings {
    pub fn new(config: &Config) -> Settings {
        let yes = |it_is| if it_is { "yes" } else { "no" }.to_string();
        let mut settings = Settings {
            maxmemory: config.maxmemory,
            eviction: config.eviction,
            persistence: config.persistence,
            replica_priority: config.replica_priority,
            immutable: [
                ("bind", config.address.ip().to_string()),
                ("cluster-enabled", yes(config.cluster.is_some())),
                ("databases", "16".to_string()),
                ("dir", "/data".to_string()),
                ("port", config.address.port().to_string()),
            ],
            changed: BTreeMap::new(),
        };
        let policy = match config.eviction {
            Eviction::Refuse => "noeviction",
            Eviction::AnyKey => "allkeys-random",
            Eviction::VolatileKey => "volatile-random",
        };
        let fsync = match config.persistence {
            Persistence::Always => "always",
            Persistence::Never => "no",
            Persistence::None | Persistence::Everysec => "everysec",
        };
        settings.change("maxmemory", config.maxmemory.to_string());
        settings.change("maxmemory-policy", policy.to_string());
        settings.change("appendonly", yes(config.persistence.keeps_file()));
        settings.change("appendfsync", fsync.to_string());
        settings.change("replica-priority", config.replica_priority.to_string());
        // A replica that comes is synced at once, without waiting for others.
        settings.change("repl-diskless-sync-delay", "0".to_string());
        if let Some(cluster) = &config.cluster {
            settings.change("cluster-node-timeout", cluster.node_timeout.as_millis().to_string());
            settings.change("cluster-replica-validity-factor", "0".to_string());
        }
        settings
    }

    /// All settings by name, in the order of their names.
    pub fn all(&self) -> BTreeMap<&str, &str> {
        let immutable = self.immutable.iter().map(|(name, value)| (*name, &value[..]));
        MUTABLE.iter().map(|(name, default, _)| (*name, self.get(name).unwrap_or(default))).chain(immutable).collect()
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.changed.get(name).map(|value| &value[..])
    }

    /// A setting that is a number.
    pub fn number(&self, name: &str) -> u64 {
        let default = || MUTABLE.iter().find(|(other, ..)| *other == name).map(|(_, default, _)| *default);
        self.get(name).or_else(default).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// Changes a setting; the error is what Redis says.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let Some((name, _, kind)) = MUTABLE.iter().find(|(other, ..)| other.eq_ignore_ascii_case(name)) else {
            return Err(match self.immutable.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                true => failed(name, "can't set immutable config"),
                false => format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"),
            });
        };
        let value = match kind {
            Kind::Text => value.to_string(),
            Kind::Number => match value.parse::<u64>() {
                Ok(number) => number.to_string(),
                Err(_) => return Err(failed(name, "argument couldn't be parsed into an integer")),
            },
            Kind::Memory => match memory(value) {
                Some(bytes) => bytes.to_string(),
                None => return Err(failed(name, "argument must be a memory value")),
            },
            Kind::Word(words) => match words.iter().find(|word| word.eq_ignore_ascii_case(value)) {
                Some(word) => (*word).to_string(),
                None if *words == ["yes", "no"] => return Err(failed(name, "argument must be 'yes' or 'no'")),
                None => {
                    let text = format!("argument(s) must be one of the following: {}", words.join(", "));
                    return Err(failed(name, &text));
                }
            },
        };
        self.change(name, value);
        Ok(())
    }

    fn change(&mut self, name: &'static str, value: String) {
        match name {
            "maxmemory" => self.maxmemory = value.parse().unwrap_or(0),
            "maxmemory-policy" => {
                self.eviction = match &value[..] {
                    policy if policy.starts_with("allkeys-") => Eviction::AnyKey,
                    policy if policy.starts_with("volatile-") => Eviction::VolatileKey,
                    _ => Eviction::Refuse,
                }
            }
            "replica-priority" => self.replica_priority = value.parse().unwrap_or(0),
            _ => {}
        }
        self.changed.insert(name, value);
        self.persistence = match (self.get("appendonly"), self.get("appendfsync")) {
            (Some("yes"), Some("always")) => Persistence::Always,
            (Some("yes"), Some("no")) => Persistence::Never,
            (Some("yes"), _) => Persistence::Everysec,
            _ => Persistence::None,
        };
    }
}

fn failed(name: &str, reason: &str) -> String {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
}

/// A number of bytes with an optional unit.
fn memory(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use super::*;

    #[test]
    fn settings_are_changed_or_refused() {
        let mut settings = Settings::new(&Config::new(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 6379), 1));
        settings.set("MAXMEMORY", "2kb").unwrap();
        settings.set("maxmemory-policy", "allkeys-lru").unwrap();
        settings.set("appendonly", "yes").unwrap();
        assert_eq!((settings.maxmemory, settings.eviction), (2048, Eviction::AnyKey));
        assert_eq!((settings.all()["maxmemory"], settings.persistence), ("2048", Persistence::Everysec));
        for (name, value, refused) in [
            ("foo", "1", "ERR Unknown option"),
            ("port", "1", "immutable"),
            ("maxmemory", "much", "memory value"),
            ("appendonly", "maybe", "'yes' or 'no'"),
            ("maxmemory-policy", "any", "one of the following: volatile-lru"),
            ("hz", "x", "integer"),
        ] {
            let error = settings.set(name, value).unwrap_err();
            assert!(error.contains(refused), "{error}");
        }
    }
}
