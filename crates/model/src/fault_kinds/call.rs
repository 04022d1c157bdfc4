//! `hold reply to 2nd SET client:0 from node:1` and similar: a fault at one command of a connection between a client and a
//! server. Nemeses name the command, the agent executes the fault, and histories record it.

use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::{Allowed, Blame, Does, Drawn, FaultDef, Form, Needs, OnPackets, Phrase, RulesOut, Says};
use crate::topology::REDIS_PORT;
use base::slots::slot;

pub(super) static DEF: FaultDef = FaultDef {
    id: "call",
    what: "A fault at one command on a connection between a client and a server: a delay, a loss, an error or a reset",
    phrase: Phrase::new(
        &[
            "hold request",
            "hold reply to",
            "lose reply to",
            "reset after",
            "close after",
            "reset connection of",
            "cut connection of",
            "refuse",
        ],
        Form::Command,
        "hold reply to 2nd SET client:0 from node:1",
        "hold reply to 2nd SET on lock:k? clients from nodes",
    ),
    allowed: Allowed::All,
    needs: Needs { redis_protocol: true, ..Needs::NOTHING },
    does: Does {
        packets: OnPackets::Disturbed,
        silences: true,
        rules_out: RulesOut::AnswersToCommands,
        ..Does::NOTHING
    },
    says: Says {
        name: "fault at a command",
        done: "hit by a fault at a command",
        how: "one connection",
        verb: "hit a command of",
        holder: "a fault hit one of its commands",
        client: "a fault hit one of its commands",
        node: "a fault hit one of its commands",
        lasts: true,
    },
    blame: Blame { client: 1, node: 1 },
    colour: (0xc2, 0xe0, 0xa6),
    drawn: Drawn::phrase("{command}"),
};

/// The effect of a fault at a command on the command's connection, until the heal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallEffect {
    /// The request and everything that the client sends after it wait.
    HoldRequest,
    /// The reply and everything that the server sends after it wait.
    HoldReply,
    /// The reply and everything that the server sends after it are lost; the heal resets the connection.
    LoseReply,
    /// The reply is lost, and both ends see that the connection was reset.
    ResetAfter,
    /// The reply is lost. The client sees that its server closed the connection in good order; the server sees that the
    /// connection was reset.
    CloseAfter,
    /// Both ends see that the connection was reset: now, if this was its last command, else when the command comes.
    ResetConnection,
    /// At the same time, everything on the connection is lost, and neither end notices.
    CutConnection,
    /// The server never receives the request, and the client receives an error instead of the reply. The connection goes on.
    Refuse,
}

impl CallEffect {
    pub const ALL: [CallEffect; 8] = [
        CallEffect::HoldRequest,
        CallEffect::HoldReply,
        CallEffect::LoseReply,
        CallEffect::ResetAfter,
        CallEffect::CloseAfter,
        CallEffect::ResetConnection,
        CallEffect::CutConnection,
        CallEffect::Refuse,
    ];

    /// The words in a nemesis file.
    pub fn words(self) -> &'static str {
        match self {
            CallEffect::HoldRequest => "hold request",
            CallEffect::HoldReply => "hold reply to",
            CallEffect::LoseReply => "lose reply to",
            CallEffect::ResetAfter => "reset after",
            CallEffect::CloseAfter => "close after",
            CallEffect::ResetConnection => "reset connection of",
            CallEffect::CutConnection => "cut connection of",
            CallEffect::Refuse => "refuse",
        }
    }

    /// The word between client and server in a phrase.
    pub fn between(self) -> &'static str {
        match self {
            CallEffect::HoldRequest | CallEffect::Refuse => "to",
            CallEffect::HoldReply | CallEffect::LoseReply => "from",
            CallEffect::ResetAfter
            | CallEffect::CloseAfter
            | CallEffect::ResetConnection
            | CallEffect::CutConnection => "and",
        }
    }

    /// A label for pictures, and whether the effect lasts until the heal.
    pub fn label(self) -> (&'static str, bool) {
        match self {
            CallEffect::HoldRequest => ("request held", true),
            CallEffect::HoldReply => ("reply held", true),
            CallEffect::LoseReply => ("reply lost", false),
            CallEffect::ResetAfter | CallEffect::ResetConnection => ("connection reset", false),
            CallEffect::CloseAfter => ("connection closed", false),
            CallEffect::CutConnection => ("connection cut", true),
            CallEffect::Refuse => ("command refused", false),
        }
    }

    /// True if it acts when the reply comes.
    pub fn waits_for_the_reply(self) -> bool {
        use CallEffect::*;
        matches!(self, HoldReply | LoseReply | ResetAfter | CloseAfter)
    }

    /// True if it acts on existing connections, chosen by their last command.
    pub fn chooses(self) -> bool {
        matches!(self, CallEffect::ResetConnection | CallEffect::CutConnection)
    }
}

/// The error with which a server refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ErrorReply {
    /// The server does not know the command, as many proxies and services do not know WAIT.
    Err,
    /// The server has started, and is still reading its data.
    Loading,
    /// The server cannot write its snapshot.
    Misconf,
    /// Another node of a Redis Cluster has the key. The error names the same server again, so a client that follows it gets there.
    Moved,
    /// The user may not run the command.
    Noperm,
    /// Too few replicas are connected.
    Noreplicas,
    /// The server does not have the script of EVALSHA.
    Noscript,
    Oom,
    Readonly,
}

impl ErrorReply {
    /// All errors, in the order of their codes.
    pub const ALL: [ErrorReply; 9] = {
        use ErrorReply::*;
        [Err, Loading, Misconf, Moved, Noperm, Noreplicas, Noscript, Oom, Readonly]
    };

    /// The first word of the error, by which clients recognise it.
    pub fn code(self) -> &'static str {
        match self {
            ErrorReply::Err => "ERR",
            ErrorReply::Loading => "LOADING",
            ErrorReply::Misconf => "MISCONF",
            ErrorReply::Moved => "MOVED",
            ErrorReply::Noperm => "NOPERM",
            ErrorReply::Noreplicas => "NOREPLICAS",
            ErrorReply::Noscript => "NOSCRIPT",
            ErrorReply::Oom => "OOM",
            ErrorReply::Readonly => "READONLY",
        }
    }

    /// The whole error in Redis's words, without `-` and line end. `command` is in capitals.
    pub fn text(self, command: &str, key: &str, server: Ipv4Addr) -> String {
        match self {
            ErrorReply::Err => format!("ERR unknown command '{command}'"),
            ErrorReply::Loading => "LOADING Redis is loading the dataset in memory".to_string(),
            ErrorReply::Misconf => "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. \
                                    Commands that may modify the data set are disabled, because this instance is configured to \
                                    report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). \
                                    Please check the Redis logs for details about the RDB error."
                .to_string(),
            ErrorReply::Moved => format!("MOVED {} {server}:{REDIS_PORT}", slot(key.as_bytes())),
            ErrorReply::Noperm => {
                format!("NOPERM User default has no permissions to run the '{}' command", command.to_ascii_lowercase())
            }
            ErrorReply::Noreplicas => "NOREPLICAS Not enough good replicas to write.".to_string(),
            ErrorReply::Noscript => "NOSCRIPT No matching script. Please use EVAL.".to_string(),
            ErrorReply::Oom => "OOM command not allowed when used memory > 'maxmemory'.".to_string(),
            ErrorReply::Readonly => "READONLY You can't write against a read only replica.".to_string(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// `any`: every command on a lock or a resource, but no command that sets up a connection or asks about a server.
    Any,
    /// `write`: any of these commands that may write.
    Write,
    /// This command, in capitals. `EVAL` stands for every command that runs a script.
    Named(String),
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Command::Any => "any",
            Command::Write => "write",
            Command::Named(name) => name,
        })
    }
}

/// A fault at a command: the effect, and the commands that it applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CommandFault {
    pub effect: CallEffect,
    /// The number of the matching command, from 1, counted for each client and server since the fault was injected; `None` for
    /// every matching command.
    pub nth: Option<u32>,
    pub command: Command,
    /// A pattern with `*` and `?` for one of the command's keys; `None` for any key. If the command is `write`, `None` means a
    /// key that names the key of an operation.
    pub key: Option<String>,
    /// The error of [`CallEffect::Refuse`]; `None` for all other effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReply>,
}

/// `1st`, `2nd`, `3rd`, `11th`.
pub fn ordinal(number: u32) -> String {
    let end = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

impl CommandFault {
    /// The same fault where a client's name of a key begins with this prefix: the pattern `lock:k*` then matches
    /// `lock:PREFIXk0`. Only an operation's keys have the prefix.
    pub fn with_key_prefix(mut self, prefix: &str) -> CommandFault {
        if let Some(pattern) = &mut self.key
            && let Some(at) = place_of_key(pattern, |next| next.is_ascii_digit() || b"*?".contains(&next))
        {
            pattern.insert_str(at, prefix);
        }
        self
    }
}

/// The position of an operation's key, such as `k0`, in a key on a server. `is_number` accepts the byte after the `k`.
fn place_of_key(key: &str, is_number: impl Fn(u8) -> bool) -> Option<usize> {
    let bytes = key.as_bytes();
    (0..bytes.len()).find(|at| {
        let begins = *at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
        begins && bytes[*at] == b'k' && bytes.get(at + 1).copied().is_some_and(&is_number)
    })
}

/// True if a key on a server names the key of an operation, such as `k0`. A library's own keys for other purposes do not.
pub fn names_a_key_of_the_run(key: &str) -> bool {
    place_of_key(key, |next| next.is_ascii_digit()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_stands_before_an_operations_key_and_no_other() {
        let with_prefix = |pattern: &str| {
            let fault = CommandFault {
                effect: CallEffect::HoldReply,
                nth: None,
                command: Command::Any,
                key: Some(pattern.to_string()),
                error: None,
            };
            fault.with_key_prefix("redjepsen:r1:").key.unwrap()
        };
        for (pattern, prefixed) in [
            ("lock:k*", "lock:redjepsen:r1:k*"),
            ("k0", "redjepsen:r1:k0"),
            ("{lock:k1}:queue", "{lock:redjepsen:r1:k1}:queue"),
            ("*k?", "*redjepsen:r1:k?"),
            ("lock:*", "lock:*"),
            ("kinds", "kinds"),
            ("tick*", "tick*"),
        ] {
            assert_eq!(with_prefix(pattern), prefixed);
        }
    }

    #[test]
    fn numbers_have_their_endings() {
        let said = [1, 2, 3, 4, 10, 11, 12, 13, 21, 102, 111].map(ordinal);
        assert_eq!(said.join(" "), "1st 2nd 3rd 4th 10th 11th 12th 13th 21st 102nd 111th");
    }

    #[test]
    fn an_error_begins_with_its_code_and_is_one_line() {
        for error in ErrorReply::ALL {
            let text = error.text("SET", "lock:k0", Ipv4Addr::new(10, 0, 0, 2));
            assert_eq!(text.split(' ').next(), Some(error.code()), "{text}");
            assert!(!text.contains(['\r', '\n']) && !text.contains("  "), "{text}");
            assert_eq!(serde_json::to_string(&error).unwrap(), format!("\"{}\"", error.code()));
        }
        let moved = ErrorReply::Moved.text("SET", "foo", Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(moved, "MOVED 12182 10.0.0.2:6379");
    }
}
