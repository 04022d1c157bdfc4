//! Commands on the expiry of keys.

use super::*;

/// Returns a time in milliseconds since 1970, counted from `base`; None on overflow.
pub(super) fn moment(millis: i64, base: i64) -> Option<i64> {
    millis.checked_add(base)
}

fn set(data: &mut Data, words: CommandWords<'_>, base: i64, name: &str) -> CommandResult {
    let key = words[1];
    let invalid = || Reply::failed(format!("ERR invalid expire time in '{name}' command"));
    let due = moment(integer(words[2])?, base).ok_or_else(invalid)?;
    if !data.exists(key) {
        return Ok(Reply::Integer(0));
    }
    if due <= data.now && !data.loading && !data.replica {
        data.remove(key);
        data.propagation.instead(&[b"DEL", key]);
    } else {
        data.keys.expire(key, Some(due));
        data.dirty += 1;
        if data.propagation.wanted {
            data.propagation.instead(&[b"PEXPIREAT", key, &number::text(due)]);
        }
    }
    Ok(Reply::Integer(1))
}

pub(super) fn pexpire(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    let now = data.now;
    set(data, words, now, "pexpire")
}

pub(super) fn pexpireat(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    set(data, words, 0, "pexpireat")
}

/// Answers -2 if the key does not exist, and -1 if it has no expiry.
pub(super) fn pttl(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    let now = data.now;
    Ok(Reply::Integer(match data.entry(words[1]).map(|entry| entry.expires) {
        None => -2,
        Some(None) => -1,
        Some(Some(due)) => (due - now).max(0),
    }))
}
