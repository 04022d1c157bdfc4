//! Operations and values in readable form. Values come from files of other programs, so long ones are cut, and control characters
//! are escaped.

use crate::formats::word;
use crate::history::{Content, Op, OpFunction, Outcome, Value, Values};

/// The data that describe a history's operations.
#[derive(Clone, Copy)]
pub struct Words<'a> {
    /// The contents of the operations' values.
    pub values: &'a Values,
    /// The display name of a process: `process 3`, `c3`.
    pub process: &'a dyn Fn(u32) -> String,
}

/// The display name of a process that has only a number.
pub fn numbered(process: u32) -> String {
    format!("process {process}")
}

impl Words<'_> {
    /// Describes an operation: `process 3 read 7 (line 5)`.
    pub fn operation(&self, op: &Op) -> String {
        let (a, b) = (value(self.values, op.a), value(self.values, op.b));
        let token = if op.a == Value::NIL { String::new() } else { format!(" with token {a}") };
        let what = match (op.outcome, op.f) {
            (Outcome::Ok, OpFunction::Acquire) => format!("acquired{token}"),
            (Outcome::Fail, OpFunction::Cas) => format!("found a value other than {a}"),
            (Outcome::Info, OpFunction::Read) => "read".into(),
            (_, OpFunction::Read) => format!("read {a}"),
            (_, OpFunction::Write) => format!("wrote {a}"),
            (_, OpFunction::Cas) => format!("replaced {a} by {b}"),
            (_, OpFunction::Rmw) if op.a == Value::UNKNOWN => format!("wrote {b}"),
            (_, OpFunction::Rmw) => format!("read {a} and wrote {b}"),
            (_, OpFunction::Acquire) => "acquired".into(),
            (_, OpFunction::Release) => "released".into(),
            (_, OpFunction::Add) => format!("added {a}"),
            (_, OpFunction::Append) => format!("appended {a}"),
        };
        let certainty = match (op.outcome, op.f) {
            (Outcome::Ok, _) | (Outcome::Fail, OpFunction::Cas) => "",
            (Outcome::Fail, _) => "certainly not ",
            (Outcome::Info, _) => "perhaps ",
        };
        format!("{} {certainty}{what} (line {})", (self.process)(op.process), op.line)
    }
}

/// The display name for a name in a file: a number gets `process` before it, a real name stands alone.
pub fn called(name: &str) -> String {
    match name.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("process {name}"),
        // If nothing is escaped or cut, it needs no quotes either.
        false if text(name).len() == name.len() + 2 => name.to_string(),
        false => text(name),
    }
}

/// An operation with its values, for tables and drawings: `write 3`, `cas 1 -> 2`.
pub fn label(values: &Values, op: &Op) -> String {
    let value = |which| value(values, which);
    match op.f {
        OpFunction::Release => "release".into(),
        OpFunction::Acquire if op.a == Value::NIL || op.a == Value::UNKNOWN => "acquire".into(),
        OpFunction::Acquire => format!("acquire, token {}", value(op.a)),
        OpFunction::Cas | OpFunction::Rmw => format!("{} {} -> {}", word(op.f), value(op.a), value(op.b)),
        f => format!("{} {}", word(f), value(op.a)),
    }
}

/// At most this many characters of a text are shown.
const LONGEST_TEXT: usize = 40;
/// At most this many elements of a list are shown.
const LONGEST_LIST: usize = 12;
/// Lists are shown up to this depth of nesting.
const DEEPEST: u32 = 2;

/// A value: `nil`, a number, a text in quotes, a list in brackets; `?` if unknown.
pub fn value(values: &Values, value: Value) -> String {
    at_depth(values, value, 0)
}

/// Values in brackets.
pub fn list(values: &Values, list: &[Value]) -> String {
    in_brackets(values, list, 0)
}

/// A text in quotes; a long one is cut.
pub fn text(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
    }
}

fn at_depth(values: &Values, value: Value, depth: u32) -> String {
    match values.content(value) {
        None => "?".into(),
        Some(Content::Nil) => "nil".into(),
        Some(Content::Int(int)) => int.to_string(),
        Some(Content::Text(content)) => text(content),
        Some(Content::List(_)) if depth > DEEPEST => "[…]".into(),
        Some(Content::List(elements)) => in_brackets(values, elements, depth),
    }
}

fn in_brackets(values: &Values, list: &[Value], depth: u32) -> String {
    let mut parts: Vec<String> =
        list.iter().take(LONGEST_LIST).map(|element| at_depth(values, *element, depth + 1)).collect();
    if list.len() > LONGEST_LIST {
        parts.push(format!("… {} more", list.len() - LONGEST_LIST));
    }
    format!("[{}]", parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::NEVER;

    #[test]
    fn values_of_any_size_are_shown_in_few_characters() {
        let mut values = Values::default();
        let numbers: Vec<Value> = (0..100).map(|number| values.intern_int(number)).collect();
        let mut nested = values.intern_list(&numbers);
        assert_eq!(value(&values, nested), "[0 1 2 3 4 5 6 7 8 9 10 11 … 88 more]");
        for _ in 0..50 {
            nested = values.intern_list(&[nested]);
        }
        assert_eq!(value(&values, nested), "[[[[…]]]]");
        let text = values.intern_text(&"é\u{1b}\u{202e}".repeat(1000));
        let shown = value(&values, text);
        assert!(shown.chars().count() < 300 && !shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
        assert_eq!((value(&values, Value::UNKNOWN), value(&values, Value::NIL)), ("?".into(), "nil".into()));
    }

    #[test]
    fn an_operation_without_an_answer_says_nothing_certain() {
        let mut values = Values::default();
        let (one, two) = (values.intern_int(1), values.intern_int(2));
        let op = |f, outcome, a, b| Op { key: 0, process: 3, f, outcome, a, b, invoked: 0, completed: NEVER, line: 5 };
        let words = Words { values: &values, process: &numbered };
        for (op, told, short) in [
            (op(OpFunction::Rmw, Outcome::Ok, one, two), "process 3 read 1 and wrote 2 (line 5)", "rmw 1 -> 2"),
            (
                op(OpFunction::Rmw, Outcome::Info, Value::UNKNOWN, two),
                "process 3 perhaps wrote 2 (line 5)",
                "rmw ? -> 2",
            ),
            (op(OpFunction::Read, Outcome::Info, Value::UNKNOWN, two), "process 3 perhaps read (line 5)", "read ?"),
            (
                op(OpFunction::Cas, Outcome::Fail, one, two),
                "process 3 found a value other than 1 (line 5)",
                "cas 1 -> 2",
            ),
            (op(OpFunction::Write, Outcome::Fail, one, two), "process 3 certainly not wrote 1 (line 5)", "write 1"),
            (
                op(OpFunction::Acquire, Outcome::Ok, two, two),
                "process 3 acquired with token 2 (line 5)",
                "acquire, token 2",
            ),
        ] {
            assert_eq!((words.operation(&op).as_str(), label(&values, &op).as_str()), (told, short));
        }
    }
}
