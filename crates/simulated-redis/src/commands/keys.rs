//! Commands on single keys, and on all keys.

use super::*;

pub(super) fn time(data: &mut Data, _: CommandWords<'_>) -> CommandResult {
    let wall = data.clocks.wall;
    let part = |value: u64| Reply::Bulk(value.to_string().into_bytes());
    Ok(Reply::Array(vec![part(wall.as_secs()), part(u64::from(wall.subsec_micros()))]))
}

pub(super) fn del(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    Ok(Reply::count(words[1..].iter().filter(|key| data.remove(key)).count()))
}

/// Deletes the key if its value is one of these. Replicas and files get a DEL.
fn delete_if(data: &mut Data, key: &[u8], holds: impl Fn(&[u8]) -> bool) -> CommandResult {
    let removed = data.read(key).is_some_and(holds) && data.remove(key);
    if removed {
        data.propagation.instead(&[b"DEL", key]);
    }
    Ok(Reply::yes(removed))
}

pub(super) fn delifeq(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    delete_if(data, words[1], |value| value == words[2])
}

pub(super) fn delex(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    match words {
        [_, key] => delete_if(data, key, |_| true),
        [_, key, condition, wanted] if is(condition, "ifeq") => delete_if(data, key, |value| value == *wanted),
        [_, key, condition, wanted] if is(condition, "ifne") => delete_if(data, key, |value| value != *wanted),
        [_, _, _, _] => Err(Reply::error("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")),
        _ => Err(wrong_arity("delex")),
    }
}

pub(super) fn exists(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    Ok(Reply::count(words[1..].iter().filter(|key| data.exists(key)).count()))
}

pub(super) fn kind(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    Ok(Reply::Status(if data.exists(words[1]) { "string" } else { "none" }.into()))
}

pub(super) fn dbsize(data: &mut Data, _: CommandWords<'_>) -> CommandResult {
    Ok(Reply::count(data.keys.len()))
}

pub(super) fn keys(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    let here = data.keys.iter();
    let matching: Vec<Vec<u8>> = here.filter(|(key, _)| matches(words[1], key)).map(|(key, _)| key.to_vec()).collect();
    let live = matching.into_iter().filter(|key| data.exists(key));
    Ok(Reply::Array(live.map(Reply::Bulk).collect()))
}

pub(super) fn flushall(data: &mut Data, _: CommandWords<'_>) -> CommandResult {
    data.keys.clear();
    // Propagated even if there were no keys: a replica may have more.
    data.dirty += 1;
    Ok(Reply::OK)
}
