//! Addresses of servers, which cannot contain a password.

use std::fmt;

/// How to give a password. Also shown if a server asks for one.
pub const HOW_TO_GIVE_A_PASSWORD: &str =
    "put the password into the environment variable REDISCLI_AUTH, or give --password-file FILE";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    pub port: u16,
    pub tls: bool,
    pub database: u32,
    /// The user in the address, as in `redis://app@host`.
    pub user: Option<String>,
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct RequestError(String);

impl RequestError {
    pub fn new(text: impl Into<String>) -> RequestError {
        RequestError(text.into())
    }
}

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl Address {
    /// Parses `redis://host:port/db` or `rediss://…`. The error never repeats the text before an `@`.
    pub fn parse(text: &str, sentinel: bool) -> Result<Address, RequestError> {
        // The text after the last `@` is not secret: a password may itself contain an `@`.
        let shown = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
        let wrong = |what: &str| {
            Err(RequestError::new(format!(
                "{shown:?}: {what}; expected redis://host:port, or rediss://host:port for TLS"
            )))
        };
        let Some((scheme, rest)) = text.split_once("://") else {
            if text.contains('@') {
                return Err(password_in_address());
            }
            return wrong("this address has no scheme");
        };
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => return Err(password_in_address()),
            Some((user, place)) => (Some(user.to_string()).filter(|user| !user.is_empty()), place),
            None => (None, rest),
        };
        let tls = match scheme {
            "redis" => false,
            "rediss" => true,
            _ => return wrong("this scheme is unknown"),
        };
        if place.contains(['?', '#']) {
            return wrong("an address cannot have options");
        }
        if user.as_deref().is_some_and(|user| user.contains('%')) {
            return wrong("write the user without % escapes, or give --user");
        }
        let (place, database) = match place.split_once('/') {
            None | Some((_, "")) => (place.trim_end_matches('/'), 0),
            Some((place, number)) => match number.parse() {
                Ok(number) => (place, number),
                Err(_) => return wrong("the part after the slash is not a database number"),
            },
        };
        let usual = if sentinel { SENTINEL_PORT } else { PORT };
        let Some((host, port)) = split_port(place, usual) else { return wrong("the port is not a number up to 65535") };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return wrong("the host is missing or contains a blank");
        }
        Ok(Address { host: host.to_string(), port, tls, database, user })
    }

    /// The address in the form that [`Address::parse`] accepts.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        format!("{scheme}://{user}{self}/{}", self.database)
    }

    /// The address of another server with the same user, database and TLS.
    pub fn beside(&self, host: &str, port: u16) -> Address {
        Address { host: host.to_string(), port, ..self.clone() }
    }
}

fn split_port(place: &str, usual: u16) -> Option<(&str, u16)> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after {
            "" => Some((host, usual)),
            _ => Some((host, after.strip_prefix(':')?.parse().ok()?)),
        };
    }
    match place.rsplit_once(':') {
        Some((host, port)) => Some((host, port.parse().ok()?)),
        None => Some((place, usual)),
    }
}

fn password_in_address() -> RequestError {
    RequestError::new(format!(
        "an address contains a password, which every user of this machine can read in the process list. Take it out, and \
         {HOW_TO_GIVE_A_PASSWORD}. --user NAME names the user"
    ))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Address, String> {
        Address::parse(text, false).map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_are_parsed() {
        for (text, shown, tls, database) in [
            ("redis://h", "h:6379", false, 0),
            ("redis://h/", "h:6379", false, 0),
            ("rediss://h.example:6380/2", "h.example:6380", true, 2),
            ("redis://[::1]:7", "[::1]:7", false, 0),
            ("redis://[::1]", "[::1]:6379", false, 0),
        ] {
            let address = parsed(text).unwrap();
            assert_eq!((address.to_string().as_str(), address.tls, address.database), (shown, tls, database), "{text}");
            assert_eq!(parsed(&address.url()), Ok(address), "{text}");
        }
        assert_eq!(parsed("redis://app@h").unwrap().user.as_deref(), Some("app"));
        assert_eq!(Address::parse("redis://h", true).unwrap().port, 26379);
    }

    #[test]
    fn password_in_an_address_is_rejected_and_not_repeated() {
        for text in [
            "redis://:hunter2@h",
            "rediss://app:hunter2@h:1",
            "redis://a:hunter2@x@h",
            "x:hunter2@h",
            "ftp://a:hunter2@h",
        ] {
            let error = parsed(text).unwrap_err();
            assert!(!error.contains("hunter2") && error.contains("REDISCLI_AUTH"), "{text}: {error}");
        }
        // A user alone is not secret.
        assert!(parsed("redis://hunter@h").is_ok());
    }

    #[test]
    fn wrong_addresses_are_rejected() {
        for (text, part) in [
            ("h:6379", "no scheme"),
            ("http://h", "scheme is unknown"),
            ("redis://h:port", "port"),
            ("redis://h:99999", "port"),
            ("redis://", "host is missing"),
            ("redis://h/x", "database"),
            ("redis://h?x=1", "options"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(part) && error.contains("redis://host:port"), "{text}: {error}");
        }
    }
}
