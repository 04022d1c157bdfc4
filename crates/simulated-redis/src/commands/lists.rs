//! Commands on lists.

use std::collections::VecDeque;

use super::{Answer, WRONG_TYPE, integer, range};
use crate::data::{Data, Words};
use crate::keyspace::Value;
use crate::number;
use crate::reply::Reply;

type List = VecDeque<Vec<u8>>;

fn list(value: Option<&Value>) -> Result<Option<&List>, Reply> {
    match value {
        None => Ok(None),
        Some(Value::List(list)) => Ok(Some(list)),
        Some(_) => Err(WRONG_TYPE),
    }
}

/// The list at a key, to be changed; None if there is no such key.
fn list_mut<'a>(data: &'a mut Data, database: usize, key: &[u8]) -> Result<Option<&'a mut List>, Reply> {
    match data.write(database, key).value_mut(key) {
        None => Ok(None),
        Some(Value::List(list)) => Ok(Some(list)),
        Some(_) => Err(WRONG_TYPE),
    }
}

fn push(data: &mut Data, database: usize, words: Words<'_>, front: bool, only_if_present: bool) -> Answer {
    let key = words[1];
    if only_if_present && list_mut(data, database, key)?.is_none() {
        return Ok(Reply::Integer(0));
    }
    let Some(Value::List(list)) = data.write(database, key).value_or(key, || Value::List(List::new())) else {
        return Err(WRONG_TYPE);
    };
    for element in &words[2..] {
        match front {
            true => list.push_front(element.to_vec()),
            false => list.push_back(element.to_vec()),
        }
    }
    let length = list.len();
    data.changed(database, key);
    Ok(Reply::count(length))
}

pub(super) fn lpush(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    push(data, database, words, true, false)
}

pub(super) fn rpush(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    push(data, database, words, false, false)
}

pub(super) fn lpushx(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    push(data, database, words, true, true)
}

pub(super) fn rpushx(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    push(data, database, words, false, true)
}

fn pop(data: &mut Data, database: usize, words: Words<'_>, front: bool) -> Answer {
    let count = match words {
        [_, _] => None,
        [_, _, count] => {
            let count = number::unsigned(count).ok_or(Reply::error("ERR value is out of range, must be positive"))?;
            Some(count as usize)
        }
        _ => return Err(super::wrong_arity(if front { "lpop" } else { "rpop" })),
    };
    let key = words[1];
    let Some(list) = list_mut(data, database, key)? else {
        return Ok(if count.is_some() { Reply::NilArray } else { Reply::Nil });
    };
    if count == Some(0) {
        return Ok(Reply::Array(Vec::new()));
    }
    let number = count.unwrap_or(1).min(list.len());
    let mut taken: Vec<Reply> = match front {
        true => list.drain(..number).map(Reply::Bulk).collect(),
        false => list.drain(list.len() - number..).rev().map(Reply::Bulk).collect(),
    };
    data.databases[database].remove_if_empty(key);
    data.changed(database, key);
    Ok(if count.is_some() { Reply::Array(taken) } else { taken.pop().unwrap_or(Reply::Nil) })
}

pub(super) fn lpop(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    pop(data, database, words, true)
}

pub(super) fn rpop(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    pop(data, database, words, false)
}

pub(super) fn llen(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    Ok(Reply::count(list(data.read(database, words[1]))?.map_or(0, List::len)))
}

pub(super) fn lindex(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let Some(list) = list(data.read(database, words[1]))? else { return Ok(Reply::Nil) };
    let place = integer(words[2])?;
    let place = if place < 0 { place.saturating_add(list.len() as i64) } else { place };
    let element = usize::try_from(place).ok().and_then(|place| list.get(place));
    Ok(Reply::maybe(element.map(Vec::as_slice)))
}

pub(super) fn lrange(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let (from, to) = (integer(words[2])?, integer(words[3])?);
    let Some(list) = list(data.read(database, words[1]))? else { return Ok(Reply::Array(Vec::new())) };
    let part = range(from, to, list.len());
    Ok(Reply::Array(list.range(part).map(|element| Reply::Bulk(element.clone())).collect()))
}

pub(super) fn lrem(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let (key, count, wanted) = (words[1], integer(words[2])?, words[3]);
    let Some(list) = list_mut(data, database, key)? else { return Ok(Reply::Integer(0)) };
    let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let mut places: Vec<usize> = (0..list.len()).filter(|place| list[*place] == wanted).collect();
    if count < 0 {
        places.reverse();
    }
    places.truncate(most);
    let mut place = 0;
    list.retain(|_| {
        place += 1;
        !places.contains(&(place - 1))
    });
    data.databases[database].remove_if_empty(key);
    if !places.is_empty() {
        data.changed(database, key);
    }
    Ok(Reply::count(places.len()))
}

pub(super) fn ltrim(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let (from, to) = (integer(words[2])?, integer(words[3])?);
    let Some(list) = list_mut(data, database, words[1])? else { return Ok(Reply::OK) };
    let part = range(from, to, list.len());
    list.truncate(part.end);
    list.drain(..part.start);
    data.databases[database].remove_if_empty(words[1]);
    data.changed(database, words[1]);
    Ok(Reply::OK)
}
