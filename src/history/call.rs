//! The words for faults at one command: what happens, and at which command. Nemeses say them, the agent does them, and
//! histories record them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a fault at a command does to the command's connection, until it is healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnCall {
    /// The request and all that the client sends after it wait.
    HoldRequest,
    /// The reply and all that the server sends after it wait.
    HoldReply,
    /// The reply and all that the server sends after it are lost; the heal resets the connection.
    LoseReply,
    /// The reply is lost, and both ends are told that the connection is over.
    ResetAfter,
    /// Both ends are told that the connection is over: now if this was its last command, else when the command comes.
    ResetConnection,
    /// In the same way, everything on the connection is lost, and nobody is told.
    CutConnection,
}

impl OnCall {
    /// All of them.
    pub const ALL: [OnCall; 6] = [
        OnCall::HoldRequest,
        OnCall::HoldReply,
        OnCall::LoseReply,
        OnCall::ResetAfter,
        OnCall::ResetConnection,
        OnCall::CutConnection,
    ];

    /// As a nemesis file says it.
    pub fn words(self) -> &'static str {
        match self {
            OnCall::HoldRequest => "hold request",
            OnCall::HoldReply => "hold reply to",
            OnCall::LoseReply => "lose reply to",
            OnCall::ResetAfter => "reset after",
            OnCall::ResetConnection => "reset connection of",
            OnCall::CutConnection => "cut connection of",
        }
    }

    /// Whether it strikes when the reply comes.
    pub fn waits_for_the_reply(self) -> bool {
        matches!(self, OnCall::HoldReply | OnCall::LoseReply | OnCall::ResetAfter)
    }

    /// Whether it acts on connections that are there already, by their last command.
    pub fn chooses(self) -> bool {
        matches!(self, OnCall::ResetConnection | OnCall::CutConnection)
    }
}

/// Which commands are meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// `any`: all that is asked of a lock or a resource, but not what sets up a connection or asks about a server.
    Any,
    /// `write`: any of these that may write.
    Write,
    /// This one, in capitals. `EVAL` stands for every command that runs a script.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_endings() {
        let said = [1, 2, 3, 4, 10, 11, 12, 13, 21, 102, 111].map(ordinal);
        assert_eq!(said.join(" "), "1st 2nd 3rd 4th 10th 11th 12th 13th 21st 102nd 111th");
    }
}
