//! The servers that a simulated one can behave as.

use crate::reply::Reply;

/// A server and its version. They differ in the commands that they have and in what errors say.
///
/// All but [`Version::Redis84`] are compared with the real program. That one follows the documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Redis 7.0.15.
    #[default]
    Redis70,
    /// Redis 8.2.3.
    Redis82,
    /// Redis 8.4.0, as it is documented.
    Redis84,
    /// Valkey 8.1.8.
    Valkey81,
    /// Valkey 9.0.0.
    Valkey90,
    /// Valkey 9.1.2.
    Valkey91,
}

impl Version {
    /// All of them, the oldest of each server first.
    pub const ALL: [Version; 6] =
        [Version::Redis70, Version::Redis82, Version::Redis84, Version::Valkey81, Version::Valkey90, Version::Valkey91];

    /// Returns the server's name, such as `valkey`.
    pub fn name(self) -> &'static str {
        if self.is_valkey() { "valkey" } else { "redis" }
    }

    /// Returns the server's version, such as `9.1.2`.
    pub fn number(self) -> &'static str {
        match self {
            Version::Redis70 => "7.0.15",
            Version::Redis82 => "8.2.3",
            Version::Redis84 => "8.4.0",
            Version::Valkey81 => "8.1.8",
            Version::Valkey90 => "9.0.0",
            Version::Valkey91 => "9.1.2",
        }
    }

    /// Returns true if it has `SET … IFEQ`.
    pub fn has_ifeq(self) -> bool {
        !matches!(self, Version::Redis70 | Version::Redis82)
    }

    pub(crate) fn has_ifne(self) -> bool {
        self == Version::Redis84
    }

    /// True if it has this command; the name is in small letters.
    pub(crate) fn has(self, command: &str) -> bool {
        match command {
            "delex" => self == Version::Redis84,
            "delifeq" => matches!(self, Version::Valkey90 | Version::Valkey91),
            _ => true,
        }
    }

    pub(crate) fn is_valkey(self) -> bool {
        matches!(self, Version::Valkey81 | Version::Valkey90 | Version::Valkey91)
    }

    /// An error as this server words it.
    pub(crate) fn says(self, redis: &'static str, valkey: &'static str) -> Reply {
        Reply::error(if self.is_valkey() { valkey } else { redis })
    }

    /// Why a transaction can't begin inside another, and whether that fails the other.
    pub(crate) fn nested_transaction(self) -> (Reply, bool) {
        match self {
            Version::Valkey81 => (Reply::error("ERR Command not allowed inside a transaction"), true),
            Version::Valkey90 | Version::Valkey91 => {
                (Reply::error("ERR Command 'multi' not allowed inside a transaction"), true)
            }
            _ => (Reply::error("ERR MULTI calls can not be nested"), false),
        }
    }

    /// True if a server without memory also refuses to queue a command that needs none.
    pub(crate) fn queues_only_with_memory(self) -> bool {
        self == Version::Redis70
    }

    /// True if scripts may call WAIT, which then waits for nothing.
    pub(crate) fn has_wait_in_scripts(self) -> bool {
        self != Version::Redis70
    }

    /// True if an error names the script in which it was raised.
    pub(crate) fn names_scripts(self) -> bool {
        self != Version::Valkey91
    }
}
