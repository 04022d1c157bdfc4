//! Commands on strings.

use super::expiry::{invalid_time, moment};
use super::{Answer, SYNTAX, integer, is, range, string, wrong_arity};
use crate::data::{Data, Words};
use crate::keyspace::Value;
use crate::number;
use crate::reply::Reply;

/// Longest string.
const LONGEST: usize = 512 * 1024 * 1024;

pub(super) fn get(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    Ok(Reply::maybe(string(data.read(database, words[1]))?))
}

pub(super) fn strlen(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    Ok(Reply::count(string(data.read(database, words[1]))?.map_or(0, <[u8]>::len)))
}

pub(super) fn mget(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let mut found = |key: &&[u8]| Reply::maybe(string(data.read(database, key)).unwrap_or_default());
    Ok(Reply::Array(words[1..].iter().map(&mut found).collect()))
}

pub(super) fn getrange(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let (from, to) = (integer(words[2])?, integer(words[3])?);
    let text = string(data.read(database, words[1]))?.unwrap_or_default();
    // Other than in lists, both ends may lie before the beginning, which means the first byte.
    let length = text.len() as i64;
    if from < 0 && to < 0 && from > to {
        return Ok(Reply::Bulk(Vec::new()));
    }
    let to = if to < 0 { (length + to.max(-length)).max(0) } else { to };
    Ok(Reply::Bulk(text[range(from, to, text.len())].to_vec()))
}

/// When a key is to expire, as the options of SET and GETEX say it.
#[derive(Clone, Copy, PartialEq)]
enum Expiry<'a> {
    /// With another command's default.
    Unsaid,
    Keep,
    /// In or at some seconds or milliseconds.
    At {
        word: &'a [u8],
        seconds: bool,
        absolute: bool,
    },
}

impl Expiry<'_> {
    /// The same option may come twice, and the last one counts; two different ones may not.
    fn may_become(self, other: Expiry<'_>) -> bool {
        match (self, other) {
            (
                Expiry::At { seconds, absolute, .. },
                Expiry::At { seconds: other_seconds, absolute: other_absolute, .. },
            ) => (seconds, absolute) == (other_seconds, other_absolute),
            (said, _) => said == Expiry::Unsaid,
        }
    }

    /// The time in milliseconds since 1970, if one was said.
    fn resolve(self, data: &Data, command: &str) -> Result<Option<i64>, Reply> {
        let Expiry::At { word, seconds, absolute } = self else { return Ok(None) };
        let value = integer(word)?;
        if value <= 0 {
            return Err(invalid_time(command));
        }
        moment(value, seconds, if absolute { 0 } else { data.now }).map(Some).ok_or_else(|| invalid_time(command))
    }
}

/// The option that says when the key expires, if this is one.
fn expiry<'a>(option: &[u8], next: Option<&&'a [u8]>) -> Option<Expiry<'a>> {
    let (seconds, absolute) = match option.to_ascii_lowercase().as_slice() {
        b"ex" => (true, false),
        b"px" => (false, false),
        b"exat" => (true, true),
        b"pxat" => (false, true),
        _ => return None,
    };
    next.map(|word| Expiry::At { word, seconds, absolute })
}

pub(super) fn set(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let (key, value) = (words[1], words[2]);
    let (mut absent, mut present, mut get, mut when) = (false, false, false, Expiry::Unsaid);
    let mut options = words[3..].iter();
    while let Some(option) = options.next() {
        if is(option, "nx") && !present {
            absent = true;
        } else if is(option, "xx") && !absent {
            present = true;
        } else if is(option, "get") {
            get = true;
        } else if is(option, "keepttl") && matches!(when, Expiry::Unsaid | Expiry::Keep) {
            when = Expiry::Keep;
        } else {
            let said = expiry(option, options.as_slice().first()).filter(|said| when.may_become(*said));
            when = said.ok_or(SYNTAX)?;
            options.next();
        }
    }
    let due = when.resolve(data, "set")?;
    let before = match get {
        true => Some(Reply::maybe(string(data.read(database, key))?)),
        false => None,
    };
    let found = data.exists(database, key);
    if absent && found || present && !found {
        return Ok(before.unwrap_or(Reply::Nil));
    }
    let kept = match when {
        Expiry::Keep => data.databases[database].get(key).and_then(|entry| entry.expires),
        _ => due,
    };
    store(data, database, key, value, kept);
    match due {
        Some(due) => set_until(data, database, key, value, due),
        None if get => {
            let others: Vec<&[u8]> = words
                .iter()
                .enumerate()
                .filter(|(at, word)| *at < 3 || !is(word, "get"))
                .map(|(_, word)| *word)
                .collect();
            data.propagation.instead(database, &others);
        }
        None => {}
    }
    Ok(before.unwrap_or(Reply::OK))
}

fn store(data: &mut Data, database: usize, key: &[u8], value: &[u8], due: Option<i64>) {
    data.databases[database].set(key, Value::String(value.to_vec()), due);
    data.changed(database, key);
}

/// Others are told when a key expires, not in how long.
fn set_until(data: &mut Data, database: usize, key: &[u8], value: &[u8], due: i64) {
    if data.propagation.wanted {
        data.propagation.instead(database, &[b"SET", key, value, b"PXAT", &number::text(due)]);
    }
}

pub(super) fn setnx(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let absent = !data.exists(database, words[1]);
    if absent {
        store(data, database, words[1], words[2], None);
    }
    Ok(Reply::yes(absent))
}

fn set_expiring(data: &mut Data, database: usize, words: Words<'_>, seconds: bool, name: &str) -> Answer {
    let (key, value) = (words[1], words[3]);
    let when = Expiry::At { word: words[2], seconds, absolute: false };
    let due = when.resolve(data, name)?.unwrap_or_default();
    data.exists(database, key);
    store(data, database, key, value, Some(due));
    set_until(data, database, key, value, due);
    Ok(Reply::OK)
}

pub(super) fn setex(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    set_expiring(data, database, words, true, "setex")
}

pub(super) fn psetex(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    set_expiring(data, database, words, false, "psetex")
}

pub(super) fn getset(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let before = Reply::maybe(string(data.read(database, words[1]))?);
    store(data, database, words[1], words[2], None);
    data.propagation.instead(database, &[b"SET", words[1], words[2]]);
    Ok(before)
}

pub(super) fn getdel(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let before = Reply::maybe(string(data.read(database, words[1]))?);
    if data.remove(database, words[1]) {
        data.propagation.instead(database, &[b"DEL", words[1]]);
    }
    Ok(before)
}

pub(super) fn getex(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let key = words[1];
    let (when, persist) = match &words[2..] {
        [] => (Expiry::Unsaid, false),
        [option] if is(option, "persist") => (Expiry::Unsaid, true),
        [option, next] => (expiry(option, Some(next)).ok_or(SYNTAX)?, false),
        _ => return Err(SYNTAX),
    };
    let Some(value) = string(data.read(database, key))? else { return Ok(Reply::Nil) };
    let value = Reply::Bulk(value.to_vec());
    match when.resolve(data, "getex")? {
        // As with EXPIRE: what is over now is removed now.
        Some(due) if due <= data.now && !data.loading && !data.replica => {
            data.remove(database, key);
            data.propagation.instead(database, &[b"DEL", key]);
        }
        Some(due) => {
            data.databases[database].expire(key, Some(due));
            data.changed(database, key);
            data.propagation.instead(database, &[b"PEXPIREAT", key, &number::text(due)]);
        }
        None if persist && data.databases[database].get(key).is_some_and(|entry| entry.expires.is_some()) => {
            data.databases[database].expire(key, None);
            data.changed(database, key);
            data.propagation.instead(database, &[b"PERSIST", key]);
        }
        None => {}
    }
    Ok(value)
}

/// The string at a key, to be changed; an absent one is made.
fn text_mut<'a>(data: &'a mut Data, database: usize, key: &[u8]) -> Result<&'a mut Vec<u8>, Reply> {
    match data.write(database, key).value_or(key, || Value::String(Vec::new())) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(super::WRONG_TYPE),
    }
}

pub(super) fn append(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let text = text_mut(data, database, words[1])?;
    if text.len() + words[2].len() > LONGEST {
        return Err(TOO_LONG);
    }
    text.extend_from_slice(words[2]);
    let length = text.len();
    data.changed(database, words[1]);
    Ok(Reply::count(length))
}

const TOO_LONG: Reply = Reply::error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

pub(super) fn setrange(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let offset = integer(words[2])?;
    let Ok(offset) = usize::try_from(offset) else { return Err(Reply::error("ERR offset is out of range")) };
    let (key, part) = (words[1], words[3]);
    let length = string(data.entry(database, key).map(|entry| &entry.value))?.map_or(0, <[u8]>::len);
    if part.is_empty() {
        return Ok(Reply::count(length));
    }
    if offset.saturating_add(part.len()) > LONGEST {
        return Err(TOO_LONG);
    }
    let text = text_mut(data, database, key)?;
    text.resize(text.len().max(offset + part.len()), 0);
    text[offset..offset + part.len()].copy_from_slice(part);
    let length = text.len();
    data.changed(database, key);
    Ok(Reply::count(length))
}

fn add(data: &mut Data, database: usize, key: &[u8], amount: i64) -> Answer {
    let old = string(data.write(database, key).get(key).map(|entry| &entry.value))?;
    let old = old.map_or(Ok(0), integer)?;
    let new = old.checked_add(amount).ok_or(Reply::error("ERR increment or decrement would overflow"))?;
    *text_mut(data, database, key)? = number::text(new);
    data.changed(database, key);
    Ok(Reply::Integer(new))
}

pub(super) fn incr(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    add(data, database, words[1], 1)
}

pub(super) fn decr(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    add(data, database, words[1], -1)
}

pub(super) fn incrby(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    add(data, database, words[1], integer(words[2])?)
}

pub(super) fn decrby(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let amount = integer(words[2])?.checked_neg().ok_or(Reply::error("ERR decrement would overflow"))?;
    add(data, database, words[1], amount)
}

fn set_all(data: &mut Data, database: usize, words: Words<'_>) {
    for pair in words[1..].chunks_exact(2) {
        data.exists(database, pair[0]);
        store(data, database, pair[0], pair[1], None);
    }
}

pub(super) fn mset(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    if words.len().is_multiple_of(2) {
        return Err(wrong_arity("mset"));
    }
    set_all(data, database, words);
    Ok(Reply::OK)
}

pub(super) fn msetnx(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    if words.len().is_multiple_of(2) {
        return Err(wrong_arity("msetnx"));
    }
    for pair in words[1..].chunks_exact(2) {
        if data.exists(database, pair[0]) {
            return Ok(Reply::Integer(0));
        }
    }
    set_all(data, database, words);
    Ok(Reply::Integer(1))
}
