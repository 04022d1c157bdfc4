//! A fault at one command: `hold reply to 2nd SET client:0 from node:1`, `lose reply to EVAL on lock:* clients from nodes`.

use std::fmt;
use std::str::FromStr;

use super::partition::Between;
use super::phrase::{PhraseError, first};
use super::target::{Target, Targets};
use crate::history::{Command, OnCall, ordinal};

/// What happens at which command.
#[derive(Clone, Debug, PartialEq)]
pub struct CallFault {
    pub action: OnCall,
    /// Which of the matching commands of each client to each server, from 1; `None` for each of them.
    pub nth: Option<u32>,
    pub command: Command,
    /// A pattern with `*` and `?` for the command's first key.
    pub key: Option<String>,
    pub clients: Targets,
    pub servers: Targets,
}

impl CallFault {
    /// Whether a phrase begins like one of these.
    pub(super) fn begins(phrase: &str) -> bool {
        action(phrase).is_some()
    }

    pub(super) fn expected(phrase: &str) -> PhraseError {
        let examples = OnCall::ALL.map(|action| {
            let command = if action.chooses() { "SUBSCRIBE" } else { "SET" };
            format!("`{} {command} client:0 {} node:0`", action.words(), between(action))
        });
        PhraseError::expected(phrase, &examples.join(", "))
    }
}

/// What a phrase begins with, and what follows.
fn action(phrase: &str) -> Option<(OnCall, &str)> {
    OnCall::ALL.into_iter().find_map(|action| {
        let mut rest = phrase;
        for expected in action.words().split(' ') {
            let (word, after) = first(rest);
            rest = Some(after).filter(|_| word == expected)?;
        }
        Some((action, rest))
    })
}

/// The word between client and server.
fn between(action: OnCall) -> &'static str {
    match action {
        OnCall::HoldRequest => "to",
        OnCall::HoldReply | OnCall::LoseReply => "from",
        OnCall::ResetAfter | OnCall::ResetConnection | OnCall::CutConnection => "and",
    }
}

/// `2nd`, `each`, or nothing, which is `1st`; and what follows.
fn which(text: &str) -> Result<(Option<u32>, &str), PhraseError> {
    let (word, rest) = first(text);
    if word == "each" {
        return Ok((None, rest));
    }
    let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let Ok(number) = digits.parse::<u32>() else { return Ok((Some(1), text)) };
    match number {
        0 => Err(PhraseError::expected(word, "a number from `1st`")),
        _ if ordinal(number) != word => Err(PhraseError::expected(word, &format!("`{}`", ordinal(number)))),
        _ => Ok((Some(number), rest)),
    }
}

impl FromStr for CallFault {
    type Err = PhraseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (action, rest) = action(text).ok_or_else(|| CallFault::expected(text))?;
        let (nth, rest) = which(rest)?;
        if action.chooses() && nth != Some(1) {
            let why = "no number: the connection is chosen by its last command";
            return Err(PhraseError::expected(text, why));
        }
        let (command, rest) = first(rest);
        let (key, rest) = match first(rest) {
            ("on", rest) => {
                let (key, rest) = first(rest);
                (Some(key.to_string()), rest)
            }
            _ => (None, rest),
        };
        if command.is_empty() || rest.is_empty() {
            let expected = format!(
                "`{} 2nd SET on lock:* client:0 {1} node:0`: a command, `any` or `write`, then `CLIENT {1} SERVER`; \
                 `2nd` and `on KEY` may be left out",
                action.words(),
                between(action)
            );
            return Err(PhraseError::expected(text, &expected));
        }
        let Between { one: clients, other: servers, .. } = Between::parse(rest)?;
        let serves = |target: &Target| target.is_node() || *target == Target::Resource;
        if !clients.0.iter().all(|target| target.is_client()) || !servers.0.iter().all(serves) {
            let expected =
                format!("the client first, then a node or the resource: `client:0 {} node:0`", between(action));
            return Err(PhraseError::expected(rest, &expected));
        }
        Ok(CallFault { action, nth, command: self::command(command)?, key, clients, servers })
    }
}

fn command(text: &str) -> Result<Command, PhraseError> {
    match text {
        "any" => Ok(Command::Any),
        "write" => Ok(Command::Write),
        name if name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_') => {
            Ok(Command::Named(name.to_ascii_uppercase()))
        }
        _ => Err(PhraseError::expected(text, "the name of a command, in letters, or `any` or `write`")),
    }
}

impl fmt::Display for CallFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.action.words())?;
        match self.nth {
            None => f.write_str("each ")?,
            Some(1) => {}
            Some(nth) => write!(f, "{} ", ordinal(nth))?,
        }
        write!(f, "{} ", self.command)?;
        if let Some(key) = &self.key {
            write!(f, "on {key} ")?;
        }
        write!(f, "{} {} {}", self.clients, between(self.action), self.servers)
    }
}
