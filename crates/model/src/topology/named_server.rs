//! Redis servers by name and version, such as `valkey:9.1`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The known names of servers.
const NAMES: [&str; 2] = ["redis", "valkey"];
const MOST_NUMBERS: usize = 4;

/// A server by its name and its version, or by the beginning of its version: `valkey:9.1` also means 9.1.2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamedServer {
    name: String,
    /// None means any version.
    version: Option<String>,
}

impl NamedServer {
    pub fn means(&self, name: &str, version: &str) -> bool {
        let fits = |wanted: &String| {
            version.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.name == name && self.version.as_ref().is_none_or(fits)
    }
}

impl FromStr for NamedServer {
    type Err = String;

    fn from_str(text: &str) -> Result<NamedServer, String> {
        let (name, version) = text.split_once(':').map_or((text, None), |(name, version)| (name, Some(version)));
        let is_number = |part: &str| !part.is_empty() && part.len() < 6 && part.bytes().all(|c| c.is_ascii_digit());
        let is_version = |text: &str| text.split('.').count() <= MOST_NUMBERS && text.split('.').all(is_number);
        match NAMES.iter().find(|known| **known == name) {
            Some(name) if version.is_none_or(is_version) => {
                Ok(NamedServer { name: name.to_string(), version: version.map(str::to_string) })
            }
            _ => Err(format!(
                "`{text}` is not a server; expected a name and a version, such as `redis:8.2` or `valkey:9.1`"
            )),
        }
    }
}

impl fmt::Display for NamedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            None => f.write_str(&self.name),
            Some(version) => write!(f, "{}:{version}", self.name),
        }
    }
}

impl TryFrom<String> for NamedServer {
    type Error = String;

    fn try_from(text: String) -> Result<NamedServer, String> {
        text.parse()
    }
}

impl From<NamedServer> for String {
    fn from(server: NamedServer) -> String {
        server.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_may_be_left_unfinished_but_not_between_dots() {
        let of = |text: &str| text.parse::<NamedServer>().unwrap();
        for (text, name, version, means) in [
            ("valkey:9.1", "valkey", "9.1.2", true),
            ("valkey:9.1.2", "valkey", "9.1.2", true),
            ("valkey:9", "valkey", "9.0.0", true),
            ("valkey", "valkey", "8.1.8", true),
            ("valkey:9.1", "valkey", "9.10.0", false),
            ("valkey:9.1.2", "valkey", "9.1", false),
            ("valkey:9.1", "redis", "9.1.2", false),
            ("redis:7", "valkey", "7.2.4", false),
        ] {
            assert_eq!(of(text).means(name, version), means, "{text} {name} {version}");
            assert_eq!(of(text).to_string(), text);
        }
    }

    #[test]
    fn what_names_no_server_is_refused() {
        for text in [
            "",
            "keydb:6",
            "valkey:",
            "valkey:9.",
            "valkey:latest",
            "redis:7:0",
            "redis:7/..",
            "Redis:7",
            "redis:1.2.3.4.5",
        ] {
            let error = text.parse::<NamedServer>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")) && error.contains("`valkey:9.1`"), "{error}");
        }
    }
}
