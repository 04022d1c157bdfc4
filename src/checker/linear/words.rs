//! Operations and values as people read them.

use crate::history::Outcome;
use crate::history::table::{Content, Op, OpFunction, Value, Values};

/// A value: `nil`, a number, a text in quotes, a list in brackets; `?` where it is not known.
pub fn value(values: &Values, value: Value) -> String {
    match values.content(value) {
        None => "?".into(),
        Some(Content::Nil) => "nil".into(),
        Some(Content::Int(int)) => int.to_string(),
        Some(Content::Text(text)) => format!("{text:?}"),
        Some(Content::List(elements)) => list(values, elements),
    }
}

/// What an operation did: `process 3 read 7`.
pub fn operation(values: &Values, op: &Op) -> String {
    let (a, b) = (value(values, op.a), value(values, op.b));
    let token = if op.a == Value::NIL { String::new() } else { format!(" with token {a}") };
    let (f, process, line) = (op.f, op.process, op.line);
    let what = match (op.outcome, f) {
        (Outcome::Ok, OpFunction::Read) => format!("read {a}"),
        (Outcome::Ok, OpFunction::Write) => format!("wrote {a}"),
        (Outcome::Ok, OpFunction::Cas) => format!("replaced {a} by {b}"),
        (Outcome::Ok, OpFunction::Rmw) => format!("read {a} and wrote {b}"),
        (Outcome::Ok, OpFunction::Acquire) => format!("acquired{token}"),
        (Outcome::Ok, OpFunction::Release) => "released".into(),
        (Outcome::Ok, OpFunction::Add) => format!("added {a}"),
        (Outcome::Ok, OpFunction::Append) => format!("appended {a}"),
        (Outcome::Fail, OpFunction::Cas) => format!("found something else than {a}"),
        (outcome, f) => {
            let what = match f {
                OpFunction::Read => "read".into(),
                OpFunction::Write => format!("wrote {a}"),
                OpFunction::Cas => format!("replaced {a} by {b}"),
                OpFunction::Rmw => format!("read {a} and wrote {b}"),
                OpFunction::Acquire => "acquired".into(),
                OpFunction::Release => "released".into(),
                OpFunction::Add => format!("added {a}"),
                OpFunction::Append => format!("appended {a}"),
            };
            if outcome == Outcome::Fail { format!("certainly not {what}") } else { format!("perhaps {what}") }
        }
    };
    format!("process {process} {what} (line {line})")
}

/// Values in brackets.
pub fn list(values: &Values, list: &[Value]) -> String {
    let list: Vec<String> = list.iter().map(|element| self::value(values, *element)).collect();
    format!("[{}]", list.join(" "))
}
