//! Commands about connections.

use super::*;
use crate::client::Client;

pub(super) fn ping(server: &mut Server, connection: Connection, words: CommandWords<'_>) -> CommandResult {
    let text = match words {
        [_] => None,
        [_, text] => Some(text.to_vec()),
        _ => return Err(wrong_arity("ping")),
    };
    let listens = server.clients.get(&connection).is_some_and(|client| client.channels > 0);
    Ok(match text {
        text if listens => Reply::Array(vec![Reply::text("pong"), Reply::Bulk(text.unwrap_or_default())]),
        Some(text) => Reply::Bulk(text),
        None => Reply::Status("PONG".into()),
    })
}

/// There is only database 0.
pub(super) fn select(_: &mut Server, _: Connection, words: CommandWords<'_>) -> CommandResult {
    if integer(words[1])? == 0 { Ok(Reply::OK) } else { Err(Reply::error("ERR DB index is out of range")) }
}

pub(super) fn client(server: &mut Server, connection: Connection, words: CommandWords<'_>) -> CommandResult {
    match &subcommand(words)[..] {
        "id" => Ok(server.clients.get(&connection).map_or(Reply::Nothing, |client| Reply::Integer(client.id as i64))),
        "list" => Ok(list(server)),
        "kill" => kill(server, connection, words),
        _ => Err(unknown_subcommand(words)),
    }
}

fn list(server: &Server) -> Reply {
    let now = server.data.clocks.monotonic;
    let mut clients: Vec<(&Connection, &Client)> = server.clients.iter().collect();
    clients.sort_by_key(|(_, client)| client.id);
    let line =
        |(connection, client): (&Connection, &Client)| client.line(now, server.waiting.contains_key(connection)) + "\n";
    Reply::text(&clients.into_iter().map(line).collect::<String>())
}

fn kind_of(word: &[u8]) -> Result<&'static str, Reply> {
    match word.to_ascii_lowercase().as_slice() {
        b"normal" => Ok("normal"),
        b"pubsub" => Ok("pubsub"),
        b"replica" | b"slave" => Ok("replica"),
        // The link to the primary does not count as a client here.
        b"master" => Ok("master"),
        _ => Err(Reply::failed(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(word)))),
    }
}

fn kill(server: &mut Server, connection: Connection, words: CommandWords<'_>) -> CommandResult {
    let (mut number, mut kind, mut skip_me) = (None, None, true);
    for option in words[2..].chunks(2) {
        let [name, value] = option else { return Err(SYNTAX) };
        match name.to_ascii_lowercase().as_slice() {
            b"id" => number = Some(number::unsigned(value).filter(|id| *id > 0).ok_or(BAD_ID)?),
            b"type" => kind = Some(kind_of(value)?),
            b"skipme" if is(value, "yes") => skip_me = true,
            b"skipme" if is(value, "no") => skip_me = false,
            _ => return Err(SYNTAX),
        }
    }
    let meant = |(other, client): &(&Connection, &Client)| {
        number.is_none_or(|number| number == client.id)
            && kind.is_none_or(|kind| kind == client.kind())
            && !(skip_me && **other == connection)
            && !client.closing
    };
    let killed: Vec<Connection> = server.clients.iter().filter(meant).map(|(other, _)| *other).collect();
    for other in &killed {
        server.close(*other);
        // Its other commands do not run, and its pending answers are dropped.
        if let Some(client) = server.clients.get_mut(other).filter(|_| *other != connection) {
            client.output.clear();
        }
    }
    Ok(Reply::count(killed.len()))
}

const BAD_ID: Reply = Reply::error("ERR client-id should be greater than 0");
