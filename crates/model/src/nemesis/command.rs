//! A fault at one command: `hold reply to 2nd SET client:0 from node:1`, `refuse EVAL on lock:* with OOM clients to nodes`.

use std::fmt;

use super::links::LinkSelector;
use super::phrase::{PhraseError, first};
use super::target::Target;
use crate::fault_kinds::{CallEffect, Command, CommandFault, ErrorReply, ordinal};

/// An error with an example phrase for each effect.
pub(super) fn expected(phrase: &str) -> PhraseError {
    let examples = CallEffect::ALL.map(|effect| {
        let command = if effect.chooses() { "SUBSCRIBE" } else { "SET" };
        format!("`{} {command}{} client:0 {} node:0`", effect.words(), with(effect), effect.between())
    });
    PhraseError::expected(phrase, &examples.join(", "))
}

/// The extra words that an effect needs after the command, in an example.
fn with(effect: CallEffect) -> &'static str {
    if effect == CallEffect::Refuse { " with OOM" } else { "" }
}

/// Parses `2nd`, `each`, or nothing, which means `1st`. Returns the rest too.
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

/// Parses a phrase into its client, its server and its command fault; `rest` follows its first words `words`.
pub(super) fn parse(text: &str, words: &str, rest: &str) -> Result<(LinkSelector, CommandFault), PhraseError> {
    let effect = CallEffect::ALL.into_iter().find(|effect| effect.words() == words).ok_or_else(|| expected(text))?;
    let (nth, rest) = which(rest)?;
    if effect.chooses() && nth != Some(1) {
        let why = "no number: this fault chooses a connection by its last command";
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
    let (error, rest) = match first(rest) {
        ("with", rest) if effect == CallEffect::Refuse => {
            let (code, rest) = first(rest);
            (Some(self::error(code)?), rest)
        }
        _ if effect == CallEffect::Refuse => {
            let why = format!("`with` and {} after the command", codes());
            return Err(PhraseError::expected(text, &why));
        }
        _ => (None, rest),
    };
    if command.is_empty() || rest.is_empty() {
        let expected = format!(
            "`{} 2nd SET on lock:k*{} client:0 {2} node:0`: a command, `any` or `write`, then `CLIENT {2} SERVER`; `2nd` and \
             `on KEY` may be left out",
            effect.words(),
            with(effect),
            effect.between()
        );
        return Err(PhraseError::expected(text, &expected));
    }
    let sides = LinkSelector { both_ways: false, ..LinkSelector::parse(rest)? };
    let serves = |target: &Target| target.is_node() || *target == Target::Resource;
    if !sides.one.0.iter().all(|target| target.is_client()) || !sides.other.0.iter().all(serves) {
        let expected = format!("first the client, then a node or the resource: `client:0 {} node:0`", effect.between());
        return Err(PhraseError::expected(rest, &expected));
    }
    Ok((sides, CommandFault { effect, nth, command: self::command(command)?, key, error }))
}

/// The errors that a fault can make a server answer with.
fn codes() -> String {
    format!("one of {}", ErrorReply::ALL.map(|error| format!("`{}`", error.code())).join(", "))
}

fn error(code: &str) -> Result<ErrorReply, PhraseError> {
    let known = ErrorReply::ALL.into_iter().find(|error| error.code() == code);
    known.ok_or_else(|| PhraseError::expected(code, &codes()))
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

pub(super) fn write(f: &mut fmt::Formatter<'_>, what: &CommandFault, sides: &[LinkSelector]) -> fmt::Result {
    write!(f, "{} ", what.effect.words())?;
    match what.nth {
        None => f.write_str("each ")?,
        Some(1) => {}
        Some(nth) => write!(f, "{} ", ordinal(nth))?,
    }
    write!(f, "{} ", what.command)?;
    if let Some(key) = &what.key {
        write!(f, "on {key} ")?;
    }
    if let Some(error) = what.error {
        write!(f, "with {} ", error.code())?;
    }
    sides.iter().try_for_each(|LinkSelector { one, other, .. }| write!(f, "{one} {} {other}", what.effect.between()))
}
