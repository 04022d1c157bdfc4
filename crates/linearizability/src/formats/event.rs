//! One event of a history, the same for every format. Its keywords are already parsed, its value is not.
//!
//! A value can be parsed only once its event is known. The value with which a read was invoked means nothing and may be anything,
//! but the returned one must be a value.

use crate::history::{OpFunction, Value, Values};

/// An invocation or a completion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FileEvent<'a, V> {
    pub process: Name<'a>,
    pub kind: EventType,
    pub f: OpFunction,
    pub key: Option<Name<'a>>,
    pub value: V,
    /// Nanoseconds since an arbitrary time.
    pub time: Option<i64>,
    pub index: Option<i64>,
    pub error: Remark<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventType {
    Invoke,
    Ok,
    Fail,
    Info,
}

/// The name of a process or a key in a file. The number 3 and the text "3" are two names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name<'a> {
    Number(i64),
    Text(&'a str),
}

/// The `error` of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remark<'a> {
    None,
    Text(&'a str),
    /// Something other than a plain word.
    Other,
}

/// A value as written in a file.
pub(super) trait Written {
    /// The value, with its parts interned; the items of a list go to `items`, which starts out empty. The error says why it
    /// cannot be a value.
    fn read(&self, values: &mut Values, items: &mut Vec<Value>) -> Result<Datum, String>;

    /// The fencing token that an acquire returned: a number, or a map with a number as its `fence` or `token`. An error
    /// if the number there cannot be a token.
    fn token(&self) -> Token;

    /// The first of two items, if it may be a key, and the kind of the second.
    fn keyed(&self) -> Option<(Name<'_>, Second)>;
}

pub(super) type Token = Result<Option<i64>, String>;

/// The second of two items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Second {
    Nil,
    Pair,
    Other,
}

/// The token in a text: None. A text that looks like a token is refused, since it may be a name.
pub(super) fn token_of_text(text: &str) -> Token {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number { Err(no_token(&format!("{:?}", clip(text)))) } else { Ok(None) }
}

pub(super) fn no_token(what: &str) -> String {
    format!("{what} is not a token; expected a whole number of 64 bits")
}

/// The parsed form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Datum {
    /// The event has no value field.
    Absent,
    Nil,
    One(Value),
    /// The items are in the list that the caller passed.
    List,
    /// A boolean or a word such as `:timed-out`: it describes the operation's end, and is not a value.
    Remark,
}

impl EventType {
    pub fn of(word: &[u8]) -> Option<EventType> {
        Some(match word {
            b"invoke" => EventType::Invoke,
            b"ok" => EventType::Ok,
            b"fail" => EventType::Fail,
            b"info" => EventType::Info,
            _ => return None,
        })
    }
}

/// The process name of the nemesis.
pub(super) const NEMESIS: &str = "nemesis";

/// The operation for a function name in a file.
pub(super) fn function(word: &[u8]) -> Option<OpFunction> {
    Some(match word {
        b"read" | b"get" => OpFunction::Read,
        b"write" | b"put" => OpFunction::Write,
        b"cas" => OpFunction::Cas,
        b"rmw" => OpFunction::Rmw,
        b"acquire" | b"lock" => OpFunction::Acquire,
        b"release" | b"unlock" => OpFunction::Release,
        b"add" => OpFunction::Add,
        b"append" => OpFunction::Append,
        _ => return None,
    })
}

/// The name of a function, as in Jepsen.
pub fn word(f: OpFunction) -> &'static str {
    match f {
        OpFunction::Read => "read",
        OpFunction::Write => "write",
        OpFunction::Cas => "cas",
        OpFunction::Rmw => "rmw",
        OpFunction::Acquire => "acquire",
        OpFunction::Release => "release",
        OpFunction::Add => "add",
        OpFunction::Append => "append",
    }
}

pub(super) fn unknown_function(word: &str) -> String {
    format!(
        "unknown function `{}`; expected read, write, cas, rmw, acquire, release, add or append (or get, put, lock, unlock)",
        clip(word)
    )
}

pub(super) fn unknown_type(word: &str) -> String {
    format!("unknown type `{}`; expected invoke, ok, fail or info", clip(word))
}

/// A text from a file, shortened to fit into a message on one line.
pub(super) fn clip(text: &str) -> String {
    let mut short: String = text.chars().take(40).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(40).is_some() {
        short.push('…');
    }
    short
}
