//! MULTI and EXEC.

use super::*;
use crate::client::Transaction;

pub(super) fn multi(server: &mut Server, connection: Connection, _: CommandWords<'_>) -> CommandResult {
    match server.clients.get_mut(&connection).map(|client| &mut client.transaction) {
        Some(transaction @ None) => {
            *transaction = Some(Transaction::default());
            Ok(Reply::OK)
        }
        Some(Some(other)) => {
            let (refusal, fails) = server.data.version.nested_transaction();
            other.failed |= fails;
            Err(refusal)
        }
        None => Ok(Reply::Nothing),
    }
}

pub(super) fn exec(server: &mut Server, connection: Connection, _: CommandWords<'_>) -> CommandResult {
    let transaction = server.clients.get_mut(&connection).and_then(|client| client.transaction.take());
    let transaction = transaction.ok_or(Reply::error("ERR EXEC without MULTI"))?;
    if transaction.failed {
        return Err(Reply::error("EXECABORT Transaction discarded because of previous errors."));
    }
    let mut replies = Vec::with_capacity(transaction.commands.len());
    server.in_transaction = true;
    for words in &transaction.commands {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let Some(command) = find(server.data.version, words[0]) else { continue };
        let refused = server.data.refuses(command).filter(|_| matches!(command.run, Handler::Data(_)));
        replies.push(refused.unwrap_or_else(|| server.call(connection, command, &words)));
    }
    server.in_transaction = false;
    if let Some(client) = server.clients.get(&connection) {
        server.data.record(Some(client.peer), &[b"EXEC"]);
    }
    Ok(Reply::Array(replies))
}
