//! The server programs that a simulated server can imitate.

use crate::reply::Reply;

/// A server program and its version. They differ in their commands and in the texts of errors.
///
/// Tests compare all but [`Version::Redis84`] with the real program. [`Version::Redis84`] follows the documentation.
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
    /// All versions, the oldest of each server first.
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

    /// True if it has this command, in lowercase.
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

    /// Returns an error in the words of this server.
    pub(crate) fn says(self, redis: &'static str, valkey: &'static str) -> Reply {
        Reply::error(if self.is_valkey() { valkey } else { redis })
    }

    /// Returns the error for MULTI inside a transaction, and true if it fails that transaction.
    pub(crate) fn nested_transaction(self) -> (Reply, bool) {
        match self {
            Version::Valkey81 => (Reply::error("ERR Command not allowed inside a transaction"), true),
            Version::Valkey90 | Version::Valkey91 => {
                (Reply::error("ERR Command 'multi' not allowed inside a transaction"), true)
            }
            _ => (Reply::error("ERR MULTI calls can not be nested"), false),
        }
    }

    /// True if a server out of memory also refuses to queue a command that needs no memory.
    pub(crate) fn queues_only_with_memory(self) -> bool {
        self == Version::Redis70
    }

    /// True if scripts may call WAIT, which then returns at once.
    pub(crate) fn has_wait_in_scripts(self) -> bool {
        self != Version::Redis70
    }

    /// True if an error names its script.
    pub(crate) fn names_scripts(self) -> bool {
        self != Version::Valkey91
    }
}
