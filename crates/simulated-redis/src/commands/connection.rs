//! Commands about connections.

use super::{Answer, NOT_AN_INTEGER, SYNTAX, integer, is, subcommand, unknown_subcommand, wrong_arity};
use crate::client::Client;
use crate::data::{DATABASES, Words};
use crate::number;
use crate::process::Connection;
use crate::reply::{Protocol, Reply};
use crate::server::Server;

pub(super) fn ping(server: &mut Server, connection: Connection, words: Words<'_>) -> Answer {
    let text = match words {
        [_] => None,
        [_, text] => Some(text.to_vec()),
        _ => return Err(wrong_arity("ping")),
    };
    let listens = server
        .clients
        .get(&connection)
        .is_some_and(|client| client.subscriptions() > 0 && client.protocol == Protocol::Resp2);
    Ok(match text {
        text if listens => Reply::Array(vec![Reply::text("pong"), Reply::Bulk(text.unwrap_or_default())]),
        Some(text) => Reply::Bulk(text),
        None => Reply::Status("PONG".into()),
    })
}

pub(super) fn quit(server: &mut Server, connection: Connection, _: Words<'_>) -> Answer {
    server.close(connection);
    Ok(Reply::OK)
}

pub(super) fn reset(server: &mut Server, connection: Connection, _: Words<'_>) -> Answer {
    server.data.unwatch(connection);
    server.data.subscriptions.forget(connection);
    if let Some(client) = server.clients.get_mut(&connection) {
        client.transaction = None;
        client.channels.clear();
        client.patterns.clear();
        client.database = 0;
        client.protocol = Protocol::Resp2;
        client.name.clear();
    }
    Ok(Reply::Status("RESET".into()))
}

pub(super) fn select(server: &mut Server, connection: Connection, words: Words<'_>) -> Answer {
    let number = integer(words[1])?;
    let number = usize::try_from(number).ok().filter(|number| *number < DATABASES);
    let number = number.ok_or(Reply::error("ERR DB index is out of range"))?;
    if server.cluster.is_some() && number > 0 {
        return Err(Reply::error("ERR SELECT is not allowed in cluster mode"));
    }
    if let Some(client) = server.clients.get_mut(&connection) {
        client.database = number;
    }
    Ok(Reply::OK)
}

/// There is only the default user, without a password.
fn authenticate(user: &[u8]) -> Result<(), Reply> {
    match user {
        b"default" => Ok(()),
        _ => Err(Reply::error("WRONGPASS invalid username-password pair or user is disabled.")),
    }
}

pub(super) fn auth(_: &mut Server, _: Connection, words: Words<'_>) -> Answer {
    match words {
        [_, _] => Err(Reply::error(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
             configuration is correct?",
        )),
        [_, user, _] => authenticate(user).map(|()| Reply::OK),
        _ => Err(SYNTAX),
    }
}

pub(super) fn hello(server: &mut Server, connection: Connection, words: Words<'_>) -> Answer {
    let role = if server.data.replica { "replica" } else { "master" };
    let mode = if server.cluster.is_some() { "cluster" } else { "standalone" };
    let Some(client) = server.clients.get_mut(&connection) else { return Ok(Reply::Nothing) };
    let version = match words.get(1).map(|version| number::integer(version)) {
        None => None,
        Some(Some(2)) => Some(Protocol::Resp2),
        Some(Some(3)) => Some(Protocol::Resp3),
        Some(Some(_)) => return Err(Reply::error("NOPROTO unsupported protocol version")),
        Some(None) => return Err(Reply::error("ERR Protocol version is not an integer or out of range")),
    };
    let mut rest = words.get(2..).unwrap_or_default();
    let mut name = None;
    while let [option, tail @ ..] = rest {
        rest = match tail {
            [user, _, tail @ ..] if is(option, "auth") => {
                authenticate(user)?;
                tail
            }
            [given, tail @ ..] if is(option, "setname") => {
                name = Some(checked_name(given)?);
                tail
            }
            _ => {
                let option = String::from_utf8_lossy(option);
                return Err(Reply::failed(format!("ERR Syntax error in HELLO option '{option}'")));
            }
        };
    }
    client.protocol = version.unwrap_or(client.protocol);
    client.name = name.unwrap_or(std::mem::take(&mut client.name));
    let version = if client.protocol == Protocol::Resp3 { 3 } else { 2 };
    let fields = [
        ("server", Reply::text("redis")),
        ("version", Reply::text("7.0.15")),
        ("proto", Reply::Integer(version)),
        ("id", Reply::Integer(client.id as i64)),
        ("mode", Reply::text(mode)),
        ("role", Reply::text(role)),
        ("modules", Reply::Array(Vec::new())),
    ];
    Ok(Reply::Map(fields.into_iter().flat_map(|(name, value)| [Reply::text(name), value]).collect()))
}

fn checked_name(name: &[u8]) -> Result<Vec<u8>, Reply> {
    match name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(name.to_vec()),
        false => Err(Reply::error("ERR Client names cannot contain spaces, newlines or special characters.")),
    }
}

pub(super) fn client(server: &mut Server, connection: Connection, words: Words<'_>) -> Answer {
    let now = server.data.clocks.monotonic;
    let Some(client) = server.clients.get_mut(&connection) else { return Ok(Reply::Nothing) };
    match &subcommand(words)[..] {
        "id" => Ok(Reply::Integer(client.id as i64)),
        // It does not wait, since it asks.
        "info" => Ok(Reply::Verbatim(client.line(now, false) + "\n")),
        "getname" => Ok(if client.name.is_empty() { Reply::Nil } else { Reply::Bulk(client.name.clone()) }),
        "setname" => {
            client.name = checked_name(words[2])?;
            Ok(Reply::OK)
        }
        "no-evict" => {
            client.no_evict = match words[2] {
                word if is(word, "on") => true,
                word if is(word, "off") => false,
                _ => return Err(SYNTAX),
            };
            Ok(Reply::OK)
        }
        "list" => list(server, words),
        "kill" => kill(server, connection, words),
        _ => Err(unknown_subcommand(words)),
    }
}

fn list(server: &Server, words: Words<'_>) -> Answer {
    let now = server.data.clocks.monotonic;
    let mut filters = Filters::default();
    match &words[2..] {
        [] => {}
        [option, kind] if is(option, "type") => filters.kind = Some(kind_of(kind)?),
        [option, ids @ ..] if is(option, "id") && !ids.is_empty() => {
            let ids: Option<Vec<u64>> = ids.iter().map(|id| number::unsigned(id)).collect();
            filters.ids = Some(ids.ok_or(Reply::error("ERR Invalid client ID"))?);
        }
        _ => return Err(SYNTAX),
    }
    let mut clients: Vec<(&Connection, &Client)> =
        server.clients.iter().filter(|(_, client)| filters.fit(client)).collect();
    clients.sort_by_key(|(_, client)| client.id);
    let line =
        |(connection, client): (&Connection, &Client)| client.line(now, server.waiting.contains_key(connection)) + "\n";
    let lines = clients.into_iter().map(line);
    Ok(Reply::Verbatim(lines.collect()))
}

/// Which clients are meant.
#[derive(Default)]
struct Filters {
    ids: Option<Vec<u64>>,
    kind: Option<&'static str>,
    peer: Option<String>,
    local: Option<String>,
}

impl Filters {
    fn fit(&self, client: &Client) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(&client.id))
            && self.kind.is_none_or(|kind| kind == client.kind())
            && self.peer.as_ref().is_none_or(|peer| *peer == client.peer.to_string())
            && self.local.as_ref().is_none_or(|local| *local == client.local.to_string())
    }
}

fn kind_of(word: &[u8]) -> Result<&'static str, Reply> {
    match word.to_ascii_lowercase().as_slice() {
        b"normal" => Ok("normal"),
        b"pubsub" => Ok("pubsub"),
        b"replica" | b"slave" => Ok("replica"),
        // The link to the primary is no client here.
        b"master" => Ok("master"),
        _ => Err(Reply::failed(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(word)))),
    }
}

fn kill(server: &mut Server, connection: Connection, words: Words<'_>) -> Answer {
    let old_form = words.len() == 3;
    let mut filters = Filters::default();
    let mut skip_me = !old_form;
    if old_form {
        filters.peer = Some(String::from_utf8_lossy(words[2]).into_owned());
    }
    let options = words[2..].chunks(2).filter(|_| !old_form);
    for option in options {
        let [name, value] = option else { return Err(SYNTAX) };
        let text = || String::from_utf8_lossy(value).into_owned();
        match name.to_ascii_lowercase().as_slice() {
            b"id" => {
                let id = number::integer(value).ok_or(NOT_AN_INTEGER);
                let id = id.and_then(|id| u64::try_from(id).ok().filter(|id| *id > 0).ok_or(BAD_ID));
                filters.ids = Some(vec![id.map_err(|_| BAD_ID)?]);
            }
            b"type" => filters.kind = Some(kind_of(value)?),
            b"addr" => filters.peer = Some(text()),
            b"laddr" => filters.local = Some(text()),
            b"skipme" if is(value, "yes") => skip_me = true,
            b"skipme" if is(value, "no") => skip_me = false,
            _ => return Err(SYNTAX),
        }
    }
    let meant = |(other, client): &(&Connection, &Client)| {
        filters.fit(client) && !(skip_me && **other == connection) && !client.closing
    };
    let killed: Vec<Connection> = server.clients.iter().filter(meant).map(|(other, _)| *other).collect();
    for other in &killed {
        server.close(*other);
        // Whatever else it has sent is not carried out, and what it was to be answered is not sent.
        if let Some(client) = server.clients.get_mut(other).filter(|_| *other != connection) {
            client.output.clear();
        }
    }
    match (old_form, killed.len()) {
        (true, 0) => Err(Reply::error("ERR No such client")),
        (true, _) => Ok(Reply::OK),
        (false, count) => Ok(Reply::count(count)),
    }
}

const BAD_ID: Reply = Reply::error("ERR client-id should be greater than 0");
