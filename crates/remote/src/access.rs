//! The user, the password and the certificates for a server. No message contains the password.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use tokio_rustls::TlsConnector;

use crate::address::{Address, RequestError};
use crate::tls::{Tls, connector};

/// The user, the password and the certificates for servers.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub user: Option<String>,
    pub password: Option<Secret>,
    pub tls: Tls,
}

/// The environment variable with the password, as for redis-cli.
pub const PASSWORD: &str = "REDISCLI_AUTH";
pub const LONGEST_PASSWORD: u64 = 64 << 10;

/// A password. It cannot get into a message.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The password in the environment. None if it is not set.
    pub fn of_environment() -> Option<Secret> {
        std::env::var(PASSWORD).ok().filter(|text| !text.is_empty()).map(Secret)
    }

    /// The first line of a file. The error names the file and reveals nothing of its content.
    pub fn of_file(file: &Path) -> Result<Secret, RequestError> {
        let wrong = |why: &dyn fmt::Display| RequestError::new(format!("--password-file {}: {why}", file.display()));
        let opened = File::open(file).map_err(|error| wrong(&error))?;
        let mut text = String::new();
        let read = opened.take(LONGEST_PASSWORD).read_to_string(&mut text);
        read.map_err(|_| wrong(&"this is not a text file; expected the password in its first line"))?;
        match text.lines().next() {
            Some(line) if !line.is_empty() => Ok(Secret(line.to_string())),
            _ => Err(wrong(&"the first line is empty; expected the password there")),
        }
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// The text with the password removed, in case a server repeats it.
    pub(crate) fn removed_from(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_string() } else { text.replace(&self.0, "…") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a password)")
    }
}

impl Access {
    pub fn user_at(&self, address: &Address) -> Option<String> {
        self.user.clone().or_else(|| address.user.clone())
    }

    /// A server's text without the password.
    pub fn clean(&self, text: &str) -> String {
        self.password.as_ref().map_or_else(|| text.to_string(), |secret| secret.removed_from(text))
    }

    /// Makes a TLS connector, if one of these addresses needs it. Reads the certificate files; the error names the file.
    pub fn connector(&self, addresses: &[Address]) -> Result<Option<TlsConnector>, RequestError> {
        addresses.iter().any(|address| address.tls).then(|| connector(&self.tls)).transpose()
    }

    /// AUTH and its arguments. None without a password.
    pub fn auth(&self, address: &Address) -> Option<Vec<Vec<u8>>> {
        let user = self.user_at(address);
        let parts = [Some("AUTH"), user.as_deref(), Some(self.password.as_ref()?.reveal())];
        Some(parts.into_iter().flatten().map(|word| word.as_bytes().to_vec()).collect())
    }

    /// Why the server rejects the user, from its answer to AUTH, with a remedy. None for other errors: a server without a
    /// password, and a proxy with another kind of authentication, send them.
    pub fn rejection(&self, address: &Address, error: &str) -> Option<String> {
        // The server may repeat the arguments, so its text is not used.
        if error.starts_with("WRONGPASS") || error.contains("invalid password") {
            let name = self.user_at(address).map_or("the default user".to_string(), |user| format!("user {user}"));
            return Some(format!("The server rejects the password of {name}. Check --user and the password."));
        }
        let forbidden = error.starts_with("NOPERM");
        forbidden.then(|| "This user may not run AUTH. Add +auth to its ACL rules.".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_never_shown() {
        let secret = Secret::new("hunter2".to_string());
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert_eq!(
            secret.removed_from("ERR unknown command 'AUTH', beginning with 'hunter2'").matches("hunter2").count(),
            0
        );
    }
}
