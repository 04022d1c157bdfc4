//! Values between Redis and Lua.
//!
//! Source: the documentation of Redis scripts, "Data type conversion".

use mlua::{Lua, Value};

use crate::reply::Reply;

/// Converts an answer to the value that a script sees.
pub(super) fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let single = |name: &str, text: &str| -> mlua::Result<Value> {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    Ok(match reply {
        Reply::Integer(value) => Value::Number(*value as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Status(text) => single("ok", text)?,
        Reply::Error(text) => single("err", text)?,
        Reply::Nil | Reply::NilArray | Reply::Nothing => Value::Boolean(false),
        Reply::Array(parts) => {
            let table = lua.create_table_with_capacity(parts.len(), 0)?;
            for (place, part) in parts.iter().enumerate() {
                table.raw_set(place + 1, to_lua(lua, part)?)?;
            }
            Value::Table(table)
        }
    })
}

/// The greatest depth of tables, because a table may contain itself.
const DEEPEST: usize = 64;

/// Converts the result of a script to an answer.
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

/// Returns the whole part of a number. A number that does not fit becomes the least number, as on x86-64.
fn truncated(value: f64) -> i64 {
    const TOO_GREAT: f64 = 9_223_372_036_854_775_808.0;
    if (-TOO_GREAT..TOO_GREAT).contains(&value) { value as i64 } else { i64::MIN }
}

/// A word of a command; None if it is neither a string nor a whole number. Redis writes others with 17 digits.
pub(super) fn to_word(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(value) => Some(value.to_string().into_bytes()),
        Value::Number(value) if value.fract() == 0.0 => Some(truncated(*value).to_string().into_bytes()),
        _ => None,
    }
}
