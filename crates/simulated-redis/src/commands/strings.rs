//! Commands on values.

use super::expiry::moment;
use super::*;

pub(super) fn get(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    Ok(Reply::maybe(data.read(words[1])))
}

/// The condition of SET on the current value.
#[derive(Clone, Copy, PartialEq)]
enum Condition<'a> {
    Absent,
    Equal(&'a [u8]),
    Unequal(&'a [u8]),
}

pub(super) fn set(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    let (key, value) = (words[1], words[2]);
    // `when`: the time in milliseconds, and its base: now, or 0 for an absolute time.
    let (mut only, mut when) = (None, None);
    let mut options = words[3..].iter();
    while let Some(option) = options.next() {
        let condition = if is(option, "nx") {
            Some(Condition::Absent)
        } else if is(option, "ifeq") && data.version.has_ifeq() {
            Some(Condition::Equal(options.next().ok_or(SYNTAX)?))
        } else if is(option, "ifne") && data.version.has_ifne() {
            Some(Condition::Unequal(options.next().ok_or(SYNTAX)?))
        } else {
            None
        };
        if condition.is_some() {
            // There may be one condition, and only NX may come twice.
            if only.is_some() && (only, condition) != (Some(Condition::Absent), Some(Condition::Absent)) {
                return Err(SYNTAX);
            }
            only = condition;
            continue;
        }
        let base = match option {
            option if is(option, "px") => data.now,
            option if is(option, "pxat") => 0,
            _ => return Err(SYNTAX),
        };
        // The same option may come twice, and the last one counts; two different ones may not.
        if when.is_some_and(|(_, other)| other != base) {
            return Err(SYNTAX);
        }
        when = Some((*options.next().ok_or(SYNTAX)?, base));
    }
    let due = match when {
        None => None,
        Some((word, base)) => {
            let length = integer(word)?;
            Some(moment(length, base).filter(|_| length > 0).ok_or(INVALID_TIME)?)
        }
    };
    let present = data.read(key);
    let may = match only {
        None => true,
        Some(Condition::Absent) => present.is_none(),
        Some(Condition::Equal(wanted)) => present == Some(wanted),
        Some(Condition::Unequal(wanted)) => present != Some(wanted),
    };
    if !may {
        return Ok(Reply::Nil);
    }
    store(data, key, value, due);
    if let Some(due) = due.filter(|_| data.propagation.wanted) {
        // Propagate the absolute expiry time, not the remaining time.
        data.propagation.instead(&[b"SET", key, value, b"PXAT", &number::text(due)]);
    }
    Ok(Reply::OK)
}

const INVALID_TIME: Reply = Reply::error("ERR invalid expire time in 'set' command");

fn store(data: &mut Data, key: &[u8], value: &[u8], due: Option<i64>) {
    data.keys.set(key, value.to_vec(), due);
    data.dirty += 1;
}

pub(super) fn setnx(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    let absent = !data.exists(words[1]);
    if absent {
        store(data, words[1], words[2], None);
    }
    Ok(Reply::yes(absent))
}

pub(super) fn incr(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    let key = words[1];
    let (old, expires) = match data.entry(key) {
        Some(entry) => (integer(&entry.value)?, entry.expires),
        None => (0, None),
    };
    let new = old.checked_add(1).ok_or(Reply::error("ERR increment or decrement would overflow"))?;
    store(data, key, &number::text(new), expires);
    Ok(Reply::Integer(new))
}
