//! Values between Redis and Lua.
//!
//! Source: the documentation of Redis scripts, "Data type conversion".

use mlua::{Lua, Value};

use crate::reply::Reply;

/// An answer as a script sees it.
pub(super) fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let single = |name: &str, text: &str| -> mlua::Result<Value> {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    Ok(match reply {
        Reply::Integer(value) => Value::Number(*value as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Verbatim(text) => Value::String(lua.create_string(text)?),
        Reply::Status(text) => single("ok", text)?,
        Reply::Error(text) => single("err", text)?,
        Reply::Nil | Reply::NilArray | Reply::Nothing => Value::Boolean(false),
        Reply::Array(parts) | Reply::Map(parts) | Reply::Push(parts) => {
            let table = lua.create_table_with_capacity(parts.len(), 0)?;
            for (place, part) in parts.iter().enumerate() {
                table.raw_set(place + 1, to_lua(lua, part)?)?;
            }
            Value::Table(table)
        }
        Reply::Double(value) => Value::Number(*value),
    })
}

/// How deep tables are followed, as some contain themselves.
const DEEPEST: usize = 64;

/// What a script returned, as an answer.
pub(super) fn to_reply(value: &Value) -> Reply {
    reply_at(value, 0)
}

fn reply_at(value: &Value, depth: usize) -> Reply {
    match value {
        Value::Integer(value) => Reply::Integer(*value),
        Value::Number(value) => Reply::Integer(truncated(*value)),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Boolean(true) => Reply::Integer(1),
        Value::Table(table) if depth < DEEPEST => {
            let text = |name: &str| match table.raw_get::<Value>(name) {
                Ok(Value::String(text)) => Some(text.to_string_lossy()),
                _ => None,
            };
            if let Some(error) = text("err") {
                return Reply::failed(error);
            }
            if let Some(status) = text("ok") {
                return Reply::Status(status.replace(['\r', '\n'], " ").into());
            }
            if let Ok(Value::Number(value)) = table.raw_get::<Value>("double") {
                return Reply::Double(value);
            }
            let mut parts = Vec::new();
            while let Ok(part) = table.raw_get::<Value>(parts.len() + 1)
                && !part.is_nil()
            {
                parts.push(reply_at(&part, depth + 1));
            }
            Reply::Array(parts)
        }
        Value::Table(_) => Reply::error("ERR reached lua stack limit"),
        _ => Reply::Nil,
    }
}

/// The whole part of a number. What does not fit becomes the least number, as on the machines that Redis runs on.
fn truncated(value: f64) -> i64 {
    const TOO_GREAT: f64 = 9_223_372_036_854_775_808.0;
    if (-TOO_GREAT..TOO_GREAT).contains(&value) { value as i64 } else { i64::MIN }
}

/// A word of a command; None if it is neither a string nor a number.
pub(super) fn to_word(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(value) => Some(value.to_string().into_bytes()),
        Value::Number(value) => Some(shortest(*value).into_bytes()),
        _ => None,
    }
}

/// A number as C prints it with `%.17g`.
fn shortest(value: f64) -> String {
    const DIGITS: i32 = 17;
    if !value.is_finite() {
        let sign = if value.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if value.is_nan() { "nan" } else { "inf" });
    }
    let scientific = format!("{value:.16e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if (-4..DIGITS).contains(&exponent) {
        let places = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        return trimmed(&format!("{value:.places$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_does() {
        for (value, text) in [
            (0.0, "0"),
            (3.0, "3"),
            (-0.5, "-0.5"),
            (0.1, "0.10000000000000001"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (1e-5, "1.0000000000000001e-05"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(shortest(value), text);
        }
    }
}
