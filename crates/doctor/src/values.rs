//! Reads replies without trust: a reply of the wrong shape counts as no answer.

use std::collections::BTreeMap;

use base::words::sanitize;
use redis::Value;

use crate::observations::Seen;

/// The result of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Said(Value),
    /// An error reply, which begins with its code.
    Error(String),
    /// The connection was closed without an answer.
    Closed,
    /// No answer in time, or the question was no longer sent.
    Late,
}

const LONGEST: usize = 300;

impl Answer {
    pub fn of(value: Value) -> Answer {
        match value {
            Value::ServerError(error) => {
                let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
                // Servers repeat the arguments of unknown commands.
                let text = text.split(", with args beginning with").next().unwrap_or_default();
                Answer::Error(sanitize(text.trim(), LONGEST))
            }
            other => Answer::Said(other),
        }
    }

    /// Reads the value; a value of another shape is unknown.
    pub fn seen<T>(&self, read: impl FnOnce(&Value) -> Option<T>) -> Seen<T> {
        match self {
            Answer::Said(value) => read(value).map_or(Seen::Unknown, Seen::Known),
            Answer::Error(text) if text.starts_with("NOPERM") => Seen::Forbidden,
            Answer::Error(text) => Seen::Refused(text.clone()),
            Answer::Closed => Seen::Refused("the connection was closed before an answer came".to_string()),
            Answer::Late => Seen::Unknown,
        }
    }

    /// The value. None if there is none.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Answer::Said(value) => Some(value),
            _ => None,
        }
    }

    pub fn error(&self) -> Option<&str> {
        match self {
            Answer::Error(text) => Some(text),
            _ => None,
        }
    }
}

pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(sanitize(&String::from_utf8_lossy(bytes), LONGEST)),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(sanitize(text, LONGEST)),
        Value::Okay => Some("OK".to_string()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A text of several lines, such as INFO.
pub fn long_text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

pub fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        _ => text(value)?.trim().parse().ok(),
    }
}

pub fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(values) | Value::Set(values) => Some(values),
        _ => None,
    }
}

/// A map, or a list with keys and values in turn.
pub fn map(value: &Value) -> Option<BTreeMap<String, Value>> {
    match value {
        Value::Map(pairs) => Some(pairs.iter().filter_map(|(key, value)| Some((text(key)?, value.clone()))).collect()),
        Value::Array(values) => {
            let pairs = values.chunks_exact(2);
            Some(pairs.filter_map(|pair| Some((text(&pair[0])?, pair[1].clone()))).collect())
        }
        _ => None,
    }
}

/// Parses the lines `name:value` of INFO or CLUSTER INFO.
pub fn fields(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.trim().split_once(':'));
    lines.map(|(name, value)| (name.to_string(), sanitize(value, LONGEST))).collect()
}
