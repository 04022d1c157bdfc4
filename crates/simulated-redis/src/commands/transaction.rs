//! MULTI, EXEC, and what they depend on.

use super::{Answer, Run, find};
use crate::client::Transaction;
use crate::data::Words;
use crate::process::Connection;
use crate::reply::Reply;
use crate::server::Server;

pub(super) fn multi(server: &mut Server, connection: Connection, _: Words<'_>) -> Answer {
    match server.clients.get_mut(&connection).map(|client| &mut client.transaction) {
        Some(transaction @ None) => {
            *transaction = Some(Transaction::default());
            Ok(Reply::OK)
        }
        _ => Err(Reply::error("ERR MULTI calls can not be nested")),
    }
}

fn end(server: &mut Server, connection: Connection) -> Option<Transaction> {
    server.clients.get_mut(&connection)?.transaction.take()
}

pub(super) fn discard(server: &mut Server, connection: Connection, _: Words<'_>) -> Answer {
    end(server, connection).ok_or(Reply::error("ERR DISCARD without MULTI"))?;
    server.data.unwatch(connection);
    Ok(Reply::OK)
}

pub(super) fn exec(server: &mut Server, connection: Connection, _: Words<'_>) -> Answer {
    let transaction = end(server, connection).ok_or(Reply::error("ERR EXEC without MULTI"))?;
    let disturbed = server.data.unwatch(connection);
    if transaction.failed {
        return Err(Reply::error("EXECABORT Transaction discarded because of previous errors."));
    }
    if disturbed {
        return Ok(Reply::NilArray);
    }
    let mut replies = Vec::with_capacity(transaction.commands.len());
    server.in_transaction = true;
    for words in &transaction.commands {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let Some(command) = find(words[0]) else { continue };
        let refused = server.data.replica && command.is(super::WRITE) && matches!(command.run, Run::Data(_));
        replies.push(match refused {
            true => crate::execute::READ_ONLY,
            false => server.call(connection, command, &words),
        });
    }
    server.in_transaction = false;
    Ok(Reply::Array(replies))
}

pub(super) fn watch(server: &mut Server, connection: Connection, words: Words<'_>) -> Answer {
    let Some(client) = server.clients.get(&connection) else { return Ok(Reply::Nothing) };
    if client.transaction.is_some() {
        return Err(Reply::error("ERR WATCH inside MULTI is not allowed"));
    }
    words[1..].iter().for_each(|key| server.data.watch(client.database, key, connection));
    Ok(Reply::OK)
}

pub(super) fn unwatch(server: &mut Server, connection: Connection, _: Words<'_>) -> Answer {
    server.data.unwatch(connection);
    Ok(Reply::OK)
}
