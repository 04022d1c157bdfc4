//! Commands on keys of any kind, and on whole databases.

use rand::RngExt;

use super::glob::matches;
use super::{Answer, NO_SUCH_KEY, SYNTAX, integer, is};
use crate::data::{DATABASES, Data, Words};
use crate::number;
use crate::reply::Reply;

pub(super) fn echo(_: &mut Data, _: usize, words: Words<'_>) -> Answer {
    Ok(Reply::Bulk(words[1].to_vec()))
}

pub(super) fn time(data: &mut Data, _: usize, _: Words<'_>) -> Answer {
    let wall = data.clocks.wall;
    let part = |value: u64| Reply::Bulk(value.to_string().into_bytes());
    Ok(Reply::Array(vec![part(wall.as_secs()), part(u64::from(wall.subsec_micros()))]))
}

pub(super) fn del(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    Ok(Reply::count(words[1..].iter().filter(|key| data.remove(database, key)).count()))
}

pub(super) fn exists(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    Ok(Reply::count(words[1..].iter().filter(|key| data.exists(database, key)).count()))
}

pub(super) fn kind(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    Ok(Reply::Status(data.entry(database, words[1]).map_or("none", |entry| entry.value.kind()).into()))
}

pub(super) fn dbsize(data: &mut Data, database: usize, _: Words<'_>) -> Answer {
    Ok(Reply::count(data.databases[database].len()))
}

pub(super) fn keys(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let here = data.databases[database].iter();
    let matching: Vec<Vec<u8>> = here.filter(|(key, _)| matches(words[1], key)).map(|(key, _)| key.to_vec()).collect();
    let live = matching.into_iter().filter(|key| data.exists(database, key));
    Ok(Reply::Array(live.map(Reply::Bulk).collect()))
}

/// The cursor is a place in the table, and goes towards its beginning: a removed key's place is taken by the last one, so
/// that whatever is there all the time is seen.
pub(super) fn scan(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let cursor = number::unsigned(words[1]).ok_or(Reply::error("ERR invalid cursor"))?;
    let (mut pattern, mut count, mut kind) = (&b"*"[..], 10, None);
    let mut options = words[2..].chunks_exact(2);
    for option in &mut options {
        match option {
            [name, value] if is(name, "match") => pattern = value,
            [name, value] if is(name, "type") => kind = Some(value.to_ascii_lowercase()),
            [name, value] if is(name, "count") => {
                count = integer(value)?;
                if count < 1 {
                    return Err(SYNTAX);
                }
            }
            _ => return Err(SYNTAX),
        }
    }
    if !options.remainder().is_empty() {
        return Err(SYNTAX);
    }
    let here = &data.databases[database];
    let end = if cursor == 0 { here.len() } else { here.len().min(cursor as usize) };
    let from = end.saturating_sub(count as usize);
    let wanted = |place: usize| {
        let (key, entry) = here.at(place)?;
        let fits = matches(pattern, key) && kind.as_ref().is_none_or(|kind| kind == entry.value.kind().as_bytes());
        fits.then(|| key.to_vec())
    };
    let matching: Vec<Vec<u8>> = (from..end).rev().filter_map(wanted).collect();
    let live = matching.into_iter().filter(|key| data.exists(database, key)).map(Reply::Bulk).collect();
    Ok(Reply::Array(vec![Reply::Bulk(number::text(from as i64)), Reply::Array(live)]))
}

pub(super) fn randomkey(data: &mut Data, database: usize, _: Words<'_>) -> Answer {
    // Like Redis, a replica gives up on keys that have all expired.
    for _ in 0..100 {
        let count = data.databases[database].len();
        if count == 0 {
            break;
        }
        let place = data.random.random_range(0..count as u64) as usize;
        let Some(key) = data.databases[database].at(place).map(|(key, _)| key.to_vec()) else { break };
        if data.exists(database, &key) {
            return Ok(Reply::Bulk(key));
        }
    }
    Ok(Reply::Nil)
}

fn move_key(data: &mut Data, database: usize, words: Words<'_>, only_if_free: bool) -> Answer {
    let (from, to) = (words[1], words[2]);
    let taken = data.exists(database, to);
    let Some(entry) = data.entry(database, from).cloned() else { return Err(NO_SUCH_KEY) };
    if only_if_free && taken {
        return Ok(Reply::Integer(0));
    }
    if from != to {
        let here = &mut data.databases[database];
        here.remove(from);
        here.set(to, entry.value, entry.expires);
        data.changed(database, from);
        data.changed(database, to);
    }
    Ok(if only_if_free { Reply::Integer(1) } else { Reply::OK })
}

pub(super) fn rename(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    move_key(data, database, words, false)
}

pub(super) fn renamenx(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    move_key(data, database, words, true)
}

fn flush(data: &mut Data, databases: std::ops::Range<usize>, words: Words<'_>) -> Answer {
    match &words[1..] {
        [] => {}
        [how] if is(how, "sync") || is(how, "async") => {}
        _ => return Err(SYNTAX),
    }
    data.clear(databases);
    // Told even if there was nothing: a replica may have more.
    data.dirty += 1;
    Ok(Reply::OK)
}

pub(super) fn flushall(data: &mut Data, _: usize, words: Words<'_>) -> Answer {
    flush(data, 0..DATABASES, words)
}

pub(super) fn flushdb(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    flush(data, database..database + 1, words)
}
