//! Commands on keys, and on all of them.

use super::*;

pub(super) fn time(data: &mut Data, _: CommandWords<'_>) -> CommandResult {
    let wall = data.clocks.wall;
    let part = |value: u64| Reply::Bulk(value.to_string().into_bytes());
    Ok(Reply::Array(vec![part(wall.as_secs()), part(u64::from(wall.subsec_micros()))]))
}

pub(super) fn del(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    Ok(Reply::count(words[1..].iter().filter(|key| data.remove(key)).count()))
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
    // Told even if there was nothing: a replica may have more.
    data.dirty += 1;
    Ok(Reply::OK)
}
