//! Commands on when keys expire.

use super::{Answer, integer, is};
use crate::data::{Data, Words};
use crate::number;
use crate::reply::Reply;

pub(super) fn invalid_time(command: &str) -> Reply {
    Reply::failed(format!("ERR invalid expire time in '{command}' command"))
}

/// A time in milliseconds since 1970, counted from `base`; None if there is no such time.
pub(super) fn moment(value: i64, seconds: bool, base: i64) -> Option<i64> {
    let millis = if seconds { value.checked_mul(1000)? } else { value };
    millis.checked_add(base)
}

/// The conditions under which a time of expiry is set.
#[derive(Default)]
struct Conditions {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
}

impl Conditions {
    fn read(options: &[&[u8]]) -> Result<Conditions, Reply> {
        let mut conditions = Conditions::default();
        for option in options {
            let known = [
                ("nx", &mut conditions.absent),
                ("xx", &mut conditions.present),
                ("gt", &mut conditions.greater),
                ("lt", &mut conditions.less),
            ];
            let Some((_, condition)) = known.into_iter().find(|(name, _)| is(option, name)) else {
                return Err(Reply::failed(format!("ERR Unsupported option {}", String::from_utf8_lossy(option))));
            };
            *condition = true;
        }
        if conditions.absent && (conditions.present || conditions.greater || conditions.less) {
            return Err(Reply::error("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if conditions.greater && conditions.less {
            return Err(Reply::error("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// A key without a time of expiry lasts longer than any other.
    fn allow(&self, current: Option<i64>, new: i64) -> bool {
        !(self.absent && current.is_some()
            || self.present && current.is_none()
            || self.greater && current.is_none_or(|current| new <= current)
            || self.less && current.is_some_and(|current| new >= current))
    }
}

fn set(data: &mut Data, database: usize, words: Words<'_>, seconds: bool, absolute: bool, name: &str) -> Answer {
    let key = words[1];
    let conditions = Conditions::read(&words[3..])?;
    let value = integer(words[2])?;
    let base = if absolute { 0 } else { data.now };
    let due = moment(value, seconds, base).ok_or_else(|| invalid_time(name))?;
    let Some(entry) = data.entry(database, key) else { return Ok(Reply::Integer(0)) };
    if !conditions.allow(entry.expires, due) {
        return Ok(Reply::Integer(0));
    }
    if due <= data.now && !data.loading && !data.replica {
        data.remove(database, key);
        data.propagation.instead(database, &[b"DEL", key]);
    } else {
        data.databases[database].expire(key, Some(due));
        data.changed(database, key);
        if data.propagation.wanted {
            data.propagation.instead(database, &[b"PEXPIREAT", key, &number::text(due)]);
        }
    }
    Ok(Reply::Integer(1))
}

pub(super) fn expire(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    set(data, database, words, true, false, "expire")
}

pub(super) fn pexpire(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    set(data, database, words, false, false, "pexpire")
}

pub(super) fn expireat(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    set(data, database, words, true, true, "expireat")
}

pub(super) fn pexpireat(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    set(data, database, words, false, true, "pexpireat")
}

/// -2 for a key that is not there, -1 for one that does not expire.
fn when(data: &mut Data, database: usize, words: Words<'_>, shown: fn(i64, i64) -> i64) -> Answer {
    let now = data.now;
    Ok(Reply::Integer(match data.entry(database, words[1]).map(|entry| entry.expires) {
        None => -2,
        Some(None) => -1,
        Some(Some(due)) => shown(due, now),
    }))
}

pub(super) fn ttl(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    when(data, database, words, |due, now| ((due - now).max(0) + 500) / 1000)
}

pub(super) fn pttl(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    when(data, database, words, |due, now| (due - now).max(0))
}

pub(super) fn expiretime(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    when(data, database, words, |due, _| (due + 500) / 1000)
}

pub(super) fn pexpiretime(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    when(data, database, words, |due, _| due)
}

pub(super) fn persist(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let expires = data.entry(database, words[1]).is_some_and(|entry| entry.expires.is_some());
    if expires {
        data.databases[database].expire(words[1], None);
        data.changed(database, words[1]);
    }
    Ok(Reply::yes(expires))
}
