//! Commands of replication, and WAIT.

use std::net::SocketAddrV4;
use std::time::Duration;

use super::*;
use crate::client::Wait;

pub(super) fn replicaof(server: &mut Server, _: Connection, words: CommandWords<'_>) -> CommandResult {
    if server.cluster.is_some() {
        return Err(Reply::error("ERR REPLICAOF not allowed in cluster mode."));
    }
    if is(words[1], "no") && is(words[2], "one") {
        if server.replication.primary.is_some() {
            server.follow(None);
        }
        return Ok(Reply::OK);
    }
    let port = integer(words[2])?;
    let port = u16::try_from(port).map_err(|_| Reply::error("ERR Invalid master port"))?;
    let host = String::from_utf8_lossy(words[1]);
    // A simulated network has no host names.
    let ip = host.parse().map_err(|_| Reply::failed(format!("ERR '{host}' is no IPv4 address")))?;
    let primary = SocketAddrV4::new(ip, port);
    if server.replication.primary == Some(primary) {
        return Ok(Reply::Status("OK Already connected to specified master".into()));
    }
    server.follow(Some(primary));
    Ok(Reply::OK)
}

pub(super) fn role(server: &mut Server, _: Connection, _: CommandWords<'_>) -> CommandResult {
    let replication = &server.replication;
    let offset = Reply::Integer(replication.offset as i64);
    if let Some(primary) = replication.primary {
        return Ok(Reply::Array(vec![
            Reply::text("slave"),
            Reply::text(&primary.ip().to_string()),
            Reply::Integer(i64::from(primary.port())),
            Reply::text(replication.link.state_name()),
            if replication.link.is_up() { offset } else { Reply::Integer(-1) },
        ]));
    }
    let followers = server.followers().filter(|(_, follower)| follower.state_name() == "online");
    let followers = followers.map(|(client, follower)| {
        let words = [client.peer.ip().to_string(), follower.port.to_string(), follower.acknowledged.to_string()];
        Reply::Array(words.iter().map(|word| Reply::text(word)).collect())
    });
    Ok(Reply::Array(vec![Reply::text("master"), offset, Reply::Array(followers.collect())]))
}

pub(super) fn replconf(server: &mut Server, connection: Connection, words: CommandWords<'_>) -> CommandResult {
    let Some(client) = server.clients.get_mut(&connection) else { return Ok(Reply::Nothing) };
    for option in words[1..].chunks(2) {
        let [name, value] = option else { return Err(super::SYNTAX) };
        match name.to_ascii_lowercase().as_slice() {
            b"listening-port" => {
                let port = number::unsigned(value).and_then(|port| u16::try_from(port).ok());
                client.follower.get_or_insert_default().port = port.unwrap_or_default();
            }
            b"ack" => {
                let offset = number::unsigned(value).unwrap_or(0);
                server.follower_said(connection, offset);
                return Ok(Reply::Nothing);
            }
            b"capa" | b"ip-address" => {}
            _ => {
                let name = String::from_utf8_lossy(name);
                return Err(Reply::failed(format!("ERR Unrecognized REPLCONF option: {name}")));
            }
        }
    }
    Ok(Reply::OK)
}

pub(super) fn psync(server: &mut Server, connection: Connection, words: CommandWords<'_>) -> CommandResult {
    if server.replication.primary.is_some() && !server.replication.link.is_up() {
        return Err(Reply::error("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    let id = String::from_utf8_lossy(words[1]).into_owned();
    server.synchronize(connection, &id, number::unsigned(words[2]).unwrap_or(0));
    Ok(Reply::Nothing)
}

/// Returns WAIT's number of replicas, and its limit in milliseconds.
fn asked_of_wait(data: &Data, words: CommandWords<'_>) -> Result<(usize, u64), Reply> {
    if data.replica {
        let text = "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is \
                    configured to be writable (which is not the default) writes to replicas are just local and are not \
                    propagated.";
        let of_valkey = || text.replace("since Redis 4.0 ", "");
        return Err(Reply::failed(if data.version.is_valkey() { of_valkey() } else { text.to_string() }));
    }
    let replicas = usize::try_from(integer(words[1])?).unwrap_or(0);
    let limit = number::integer(words[2]).ok_or(Reply::error("ERR timeout is not an integer or out of range"))?;
    let limit = u64::try_from(limit).map_err(|_| Reply::error("ERR timeout is negative"))?;
    Ok((replicas, limit))
}

/// The answer to WAIT in a script, which does not wait.
pub(crate) fn wait_in_script(data: &Data, words: CommandWords<'_>) -> Reply {
    asked_of_wait(data, words).map_or_else(|error| error, |_| Reply::count(data.followers))
}

pub(super) fn wait(server: &mut Server, connection: Connection, words: CommandWords<'_>) -> CommandResult {
    let (replicas, limit) = asked_of_wait(&server.data, words)?;
    let now = server.data.clocks.monotonic;
    let offset = server.clients.get(&connection).map_or(0, |client| client.written);
    let acknowledged = server.acknowledged(offset);
    if acknowledged >= replicas || server.in_transaction {
        return Ok(Reply::count(acknowledged));
    }
    let deadline = (limit > 0).then(|| now + Duration::from_millis(limit));
    server.waiting.insert(connection, Wait { replicas, offset, deadline });
    server.replication.ask_replicas = true;
    Ok(Reply::Nothing)
}
