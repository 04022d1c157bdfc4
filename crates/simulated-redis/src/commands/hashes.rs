//! Commands on hashes.

use super::{Answer, WRONG_TYPE, integer, is, wrong_arity};
use crate::data::{Data, Words};
use crate::keyspace::{Table, Value};
use crate::number;
use crate::reply::Reply;

type Hash = Table<Vec<u8>>;

fn hash(value: Option<&Value>) -> Result<Option<&Hash>, Reply> {
    match value {
        None => Ok(None),
        Some(Value::Hash(hash)) => Ok(Some(hash)),
        Some(_) => Err(WRONG_TYPE),
    }
}

/// The hash at a key, to be changed; an absent one is made.
fn hash_mut<'a>(data: &'a mut Data, database: usize, key: &[u8]) -> Result<&'a mut Hash, Reply> {
    match data.write(database, key).value_or(key, || Value::Hash(Hash::default())) {
        Some(Value::Hash(hash)) => Ok(hash),
        _ => Err(WRONG_TYPE),
    }
}

pub(super) fn hset(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let old_form = is(words[0], "hmset");
    if !words.len().is_multiple_of(2) {
        return Err(wrong_arity(if old_form { "hmset" } else { "hset" }));
    }
    let hash = hash_mut(data, database, words[1])?;
    let mut set = |pair: &&[&[u8]]| hash.insert(pair[0].to_vec(), pair[1].to_vec()).is_none();
    let new = words[2..].chunks_exact(2).filter(|pair| set(pair)).count();
    data.changed(database, words[1]);
    Ok(if old_form { Reply::OK } else { Reply::count(new) })
}

pub(super) fn hsetnx(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let hash = hash_mut(data, database, words[1])?;
    let absent = !hash.contains_key(words[2]);
    if absent {
        hash.insert(words[2].to_vec(), words[3].to_vec());
        data.changed(database, words[1]);
    }
    Ok(Reply::yes(absent))
}

pub(super) fn hdel(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let key = words[1];
    let hash = match data.write(database, key).value_mut(key) {
        None => return Ok(Reply::Integer(0)),
        Some(Value::Hash(hash)) => hash,
        Some(_) => return Err(WRONG_TYPE),
    };
    let removed = words[2..].iter().filter(|field| hash.shift_remove(**field).is_some()).count();
    if removed > 0 {
        data.databases[database].remove_if_empty(key);
        data.changed(database, key);
    }
    Ok(Reply::count(removed))
}

pub(super) fn hincrby(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let amount = integer(words[3])?;
    let hash = hash(data.entry(database, words[1]).map(|entry| &entry.value))?;
    let old = match hash.and_then(|hash| hash.get(words[2])) {
        Some(old) => number::integer(old).ok_or(Reply::error("ERR hash value is not an integer"))?,
        None => 0,
    };
    let new = old.checked_add(amount).ok_or(Reply::error("ERR increment or decrement would overflow"))?;
    hash_mut(data, database, words[1])?.insert(words[2].to_vec(), number::text(new));
    data.changed(database, words[1]);
    Ok(Reply::Integer(new))
}

pub(super) fn hget(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let value = hash(data.read(database, words[1]))?.and_then(|hash| hash.get(words[2]));
    Ok(Reply::maybe(value.map(Vec::as_slice)))
}

pub(super) fn hmget(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let hash = hash(data.read(database, words[1]))?;
    let value = |field: &&[u8]| Reply::maybe(hash.and_then(|hash| hash.get(*field)).map(Vec::as_slice));
    Ok(Reply::Array(words[2..].iter().map(value).collect()))
}

pub(super) fn hexists(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    Ok(Reply::yes(hash(data.read(database, words[1]))?.is_some_and(|hash| hash.contains_key(words[2]))))
}

pub(super) fn hlen(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    Ok(Reply::count(hash(data.read(database, words[1]))?.map_or(0, Hash::len)))
}

pub(super) fn hgetall(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let pairs = hash(data.read(database, words[1]))?.into_iter().flatten();
    Ok(Reply::Map(pairs.flat_map(|(field, value)| [field, value]).map(|word| Reply::Bulk(word.clone())).collect()))
}

pub(super) fn hkeys(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let fields = hash(data.read(database, words[1]))?.into_iter().flat_map(Hash::keys);
    Ok(Reply::Array(fields.map(|field| Reply::Bulk(field.clone())).collect()))
}

pub(super) fn hvals(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let values = hash(data.read(database, words[1]))?.into_iter().flat_map(Hash::values);
    Ok(Reply::Array(values.map(|value| Reply::Bulk(value.clone())).collect()))
}
