//! The meaning of an event's value for its operation: the allowed shapes, and their effects.

use super::event::{Datum, FileEvent, Remark, Token, Written, word};
use crate::history::{Op, OpFunction, Value, Values};

/// The meaning of the invocation alone. For an indeterminate operation nothing more is ever known.
pub(super) fn invoked(
    f: OpFunction,
    value: &impl Written,
    values: &mut Values,
    items: &mut Vec<Value>,
) -> Result<(Value, Value), String> {
    Ok(match f {
        // A client may record its request here; the result is in the completion.
        OpFunction::Read | OpFunction::Acquire => (Value::UNKNOWN, Value::NIL),
        OpFunction::Release => (Value::NIL, Value::NIL),
        OpFunction::Write => match datum(value, values, items)? {
            Datum::Nil => (Value::NIL, Value::NIL),
            Datum::One(value) => (value, Value::NIL),
            Datum::List => (values.intern_list(items), Value::NIL),
            Datum::Absent | Datum::Remark => return Err("a write must say what it writes".into()),
        },
        OpFunction::Add | OpFunction::Append => match datum(value, values, items)? {
            Datum::One(value) => (value, Value::NIL),
            Datum::List => (values.intern_list(items), Value::NIL),
            Datum::Absent | Datum::Remark | Datum::Nil => {
                return Err(format!("an {} must say what it adds", word(f)));
            }
        },
        OpFunction::Cas => match (datum(value, values, items)?, items.as_slice()) {
            (Datum::List, &[from, to]) => (from, to),
            _ => return Err("the value of a cas must be [from, to]".into()),
        },
        OpFunction::Rmw => match (datum(value, values, items)?, items.as_slice()) {
            // The value that it will read is not known yet, and the value that it writes may depend on it.
            (Datum::List, &[_, Value::NIL]) => (Value::UNKNOWN, Value::UNKNOWN),
            (Datum::List, &[_, new]) => (Value::UNKNOWN, new),
            (Datum::Absent | Datum::Nil, _) => (Value::UNKNOWN, Value::UNKNOWN),
            _ => return Err("the value of an rmw must be [old, new], or null while both are unknown".into()),
        },
    })
}

/// The meaning of an `ok` completion. `asked` is the token with which an acquire was invoked.
pub(super) fn succeeded(
    op: &mut Op,
    value: &impl Written,
    asked: Token,
    values: &mut Values,
    items: &mut Vec<Value>,
) -> Result<(), String> {
    match op.f {
        OpFunction::Release => {}
        OpFunction::Acquire => {
            let token = value.token();
            op.a = match token {
                _ if token == asked => Value::NIL,
                token => token?.map_or(Value::NIL, |token| values.intern_int(token)),
            };
        }
        OpFunction::Read => {
            op.a = match datum(value, values, items)? {
                Datum::Nil => Value::NIL,
                Datum::One(value) => value,
                Datum::List => values.intern_list(items),
                Datum::Absent => return Err("an ok read must say what it read (null if it read nothing)".into()),
                Datum::Remark => {
                    return Err("a boolean or a keyword is not a value; expected text, a number, a list or null".into());
                }
            }
        }
        OpFunction::Rmw => match (datum(value, values, items)?, items.as_slice()) {
            (Datum::List, &[old, new]) => {
                if op.b != Value::UNKNOWN && op.b != new {
                    return Err("an ok rmw wrote a value that differs from its invocation".into());
                }
                (op.a, op.b) = (old, new);
            }
            _ => return Err("the value of an ok rmw must be [old, new]".into()),
        },
        _ => agrees(op, value, values, items)?,
    }
    Ok(())
}

/// The only errors of a failed cas that count as a failed comparison, in lower case and with hyphens. They must match as a whole,
/// since a sentence that contains one of these words may have any meaning.
const MISMATCHES: [&str; 6] =
    ["mismatch", "value-mismatch", "precondition-failed", "did-not-succeed", "compare-failed", "cas-failed"];

/// True if a failed cas found another value than it expected. Failures before the comparison, such as a refused connection, prove
/// nothing about the value, and would accuse the object falsely. So if there is an error, it must name a failed comparison.
pub(super) fn is_mismatch<V: Written>(
    op: &Op,
    event: &FileEvent<'_, V>,
    values: &mut Values,
    items: &mut Vec<Value>,
) -> Result<bool, String> {
    if matches!(datum(&event.value, values, items), Ok(Datum::Remark)) {
        return Ok(false);
    }
    agrees(op, &event.value, values, items)?;
    Ok(match event.error {
        Remark::None => true,
        Remark::Text(text) => MISMATCHES.contains(&text.to_ascii_lowercase().replace([' ', '_'], "-").as_str()),
        Remark::Other => false,
    })
}

/// Checks that a completion repeats the value of its invocation, or has none.
fn agrees(op: &Op, value: &impl Written, values: &mut Values, items: &mut Vec<Value>) -> Result<(), String> {
    let same = match datum(value, values, items)? {
        Datum::Absent | Datum::Nil | Datum::Remark => true,
        Datum::One(value) => op.f != OpFunction::Cas && value == op.a,
        Datum::List if op.f == OpFunction::Cas => items.as_slice() == [op.a, op.b],
        Datum::List => values.intern_list(items) == op.a,
    };
    if same { Ok(()) } else { Err("the completion and its invocation have different values".into()) }
}

fn datum(value: &impl Written, values: &mut Values, items: &mut Vec<Value>) -> Result<Datum, String> {
    items.clear();
    value.read(values, items)
}
