//! CONFIG, and its settings: the memory limit and the eviction policy, the threshold of slow scripts, and the least number of
//! replicas for writes.

use super::*;

/// The settings of CONFIG.
#[derive(Clone, Debug)]
pub(crate) struct ConfigSettings {
    /// The memory limit in bytes; 0 for no limit.
    pub maxmemory: u64,
    /// True if the server evicts keys (any key) at the limit; otherwise it refuses commands that add data.
    pub evicts: bool,
    /// Milliseconds of a script after which the server answers other clients with BUSY.
    pub busy_reply_threshold: u64,
    /// With fewer replicas, the server refuses writes.
    pub min_replicas_to_write: u64,
}

impl Default for ConfigSettings {
    fn default() -> ConfigSettings {
        ConfigSettings { maxmemory: 0, evicts: false, busy_reply_threshold: 5000, min_replicas_to_write: 0 }
    }
}

const REFUSE: &str = "noeviction";
const EVICT: &str = "allkeys-random";

impl ConfigSettings {
    pub fn policy(&self) -> &'static str {
        if self.evicts { EVICT } else { REFUSE }
    }

    /// Changes a setting. The error has Redis's words.
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let failed =
            |why: &str| format!("ERR CONFIG SET failed (possibly related to argument '{name}') - argument{why}");
        match name {
            "maxmemory" => self.maxmemory = value.parse().map_err(|_| failed(" must be a memory value"))?,
            "maxmemory-policy" if value == EVICT => self.evicts = true,
            "maxmemory-policy" if value == REFUSE => self.evicts = false,
            "maxmemory-policy" => return Err(failed(&format!("(s) must be one of the following: {EVICT}, {REFUSE}"))),
            "busy-reply-threshold" | "lua-time-limit" => {
                self.busy_reply_threshold = value.parse().map_err(|_| failed(" couldn't be parsed into an integer"))?;
            }
            "min-replicas-to-write" => {
                self.min_replicas_to_write =
                    value.parse().map_err(|_| failed(" couldn't be parsed into an integer"))?;
            }
            _ => return Err(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")),
        }
        Ok(())
    }
}

pub(super) fn config(server: &mut Server, _: Connection, words: CommandWords<'_>) -> CommandResult {
    let text = |word: &[u8]| String::from_utf8_lossy(word).to_lowercase();
    let settings = &mut server.data.settings;
    match &subcommand(words)[..] {
        "get" => {
            let threshold = settings.busy_reply_threshold.to_string();
            let all = [
                ("busy-reply-threshold", threshold.clone()),
                ("lua-time-limit", threshold),
                ("maxmemory", settings.maxmemory.to_string()),
                ("maxmemory-policy", settings.policy().into()),
                ("min-replicas-to-write", settings.min_replicas_to_write.to_string()),
            ];
            let meant =
                |name: &str| words[2..].iter().any(|pattern| matches(text(pattern).as_bytes(), name.as_bytes()));
            let pairs = all.iter().filter(|(name, _)| meant(name));
            Ok(Reply::Array(pairs.flat_map(|(name, value)| [Reply::text(name), Reply::text(value)]).collect()))
        }
        "set" => {
            if !words.len().is_multiple_of(2) {
                return Err(SYNTAX);
            }
            let mut changed = settings.clone();
            for pair in words[2..].chunks_exact(2) {
                changed.set(&text(pair[0]), &text(pair[1])).map_err(Reply::failed)?;
            }
            *settings = changed;
            server.evict();
            Ok(Reply::OK)
        }
        "rewrite" => {
            server.save_role();
            Ok(Reply::OK)
        }
        _ => Err(unknown_subcommand(words)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_changed_or_refused() {
        let mut settings = ConfigSettings::default();
        settings.set("maxmemory", "2048").unwrap();
        settings.set("maxmemory-policy", "allkeys-random").unwrap();
        assert_eq!((settings.maxmemory, settings.policy()), (2048, "allkeys-random"));
        for (name, value, refused) in [
            ("foo", "1", "ERR Unknown option"),
            ("maxmemory", "much", "memory value"),
            ("maxmemory-policy", "any", "one of the following: allkeys-random"),
        ] {
            let error = settings.set(name, value).unwrap_err();
            assert!(error.contains(refused), "{error}");
        }
    }
}
