//! Commands that publish and listen.

use super::glob::matches;
use super::{Answer, subcommand, unknown_subcommand};
use crate::data::{Data, Words};
use crate::process::Connection;
use crate::reply::Reply;
use crate::server::Server;

pub(super) fn publish(data: &mut Data, database: usize, words: Words<'_>) -> Answer {
    let receivers = data.subscriptions.receivers(words[1]);
    if receivers > 0 {
        data.published.push((words[1].to_vec(), words[2].to_vec()));
    }
    // Replicas have listeners of their own.
    data.propagation.push(database, words);
    Ok(Reply::count(receivers))
}

/// Each name is answered by itself.
fn change(server: &mut Server, connection: Connection, names: &[&[u8]], what: &str) {
    let patterns = what.starts_with('p');
    let add = !what.contains("un");
    for name in names {
        let Some(client) = server.clients.get_mut(&connection) else { return };
        let mine = if patterns { &mut client.patterns } else { &mut client.channels };
        let subscriptions = &mut server.data.subscriptions;
        let table = if patterns { &mut subscriptions.patterns } else { &mut subscriptions.channels };
        match (add, mine.iter().position(|other| other == name)) {
            (true, None) => {
                mine.push(name.to_vec());
                table.entry(name.to_vec()).or_default().push(connection);
            }
            (false, Some(place)) => {
                mine.remove(place);
                if let Some(clients) = table.get_mut(*name) {
                    clients.retain(|other| *other != connection);
                    if clients.is_empty() {
                        table.shift_remove(*name);
                    }
                }
            }
            _ => {}
        }
        let count = client.subscriptions();
        let parts = vec![Reply::text(what), Reply::Bulk(name.to_vec()), Reply::count(count)];
        server.reply(connection, &Reply::Push(parts));
    }
}

pub(super) fn subscribe(server: &mut Server, connection: Connection, words: Words<'_>) -> Answer {
    change(server, connection, &words[1..], "subscribe");
    Ok(Reply::Nothing)
}

pub(super) fn psubscribe(server: &mut Server, connection: Connection, words: Words<'_>) -> Answer {
    change(server, connection, &words[1..], "psubscribe");
    Ok(Reply::Nothing)
}

/// Without names, it ends everything of its kind.
fn end(server: &mut Server, connection: Connection, words: Words<'_>, what: &str) -> Answer {
    if words.len() > 1 {
        change(server, connection, &words[1..], what);
        return Ok(Reply::Nothing);
    }
    let Some(client) = server.clients.get(&connection) else { return Ok(Reply::Nothing) };
    let names = if what.starts_with('p') { client.patterns.clone() } else { client.channels.clone() };
    if names.is_empty() {
        return Ok(Reply::Push(vec![Reply::text(what), Reply::Nil, Reply::count(client.subscriptions())]));
    }
    change(server, connection, &names.iter().map(Vec::as_slice).collect::<Vec<_>>(), what);
    Ok(Reply::Nothing)
}

pub(super) fn unsubscribe(server: &mut Server, connection: Connection, words: Words<'_>) -> Answer {
    end(server, connection, words, "unsubscribe")
}

pub(super) fn punsubscribe(server: &mut Server, connection: Connection, words: Words<'_>) -> Answer {
    end(server, connection, words, "punsubscribe")
}

pub(super) fn pubsub(server: &mut Server, _: Connection, words: Words<'_>) -> Answer {
    let subscriptions = &server.data.subscriptions;
    match &subcommand(words)[..] {
        "channels" => {
            let pattern = words.get(2).copied().unwrap_or(b"*");
            let names = subscriptions.channels.keys().filter(|name| matches(pattern, name));
            Ok(Reply::Array(names.map(|name| Reply::Bulk(name.clone())).collect()))
        }
        "numsub" => {
            let count = |name: &&[u8]| Reply::count(subscriptions.channels.get(*name).map_or(0, Vec::len));
            let pairs = words[2..].iter().flat_map(|name| [Reply::Bulk(name.to_vec()), count(name)]);
            Ok(Reply::Map(pairs.collect()))
        }
        "numpat" => Ok(Reply::count(subscriptions.patterns.len())),
        _ => Err(unknown_subcommand(words)),
    }
}
