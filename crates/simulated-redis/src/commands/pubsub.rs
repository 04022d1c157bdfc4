//! Commands that publish and subscribe.

use super::*;

pub(super) fn publish(data: &mut Data, words: CommandWords<'_>) -> CommandResult {
    let receivers = data.subscriptions.receivers(words[1]);
    if receivers > 0 {
        data.published.push((words[1].to_vec(), words[2].to_vec()));
    }
    // Replicas have their own subscribers.
    data.propagation.push(words);
    Ok(Reply::count(receivers))
}

/// Answers each name separately.
pub(super) fn subscribe(server: &mut Server, connection: Connection, words: CommandWords<'_>) -> CommandResult {
    for name in &words[1..] {
        let Some(client) = server.clients.get_mut(&connection) else { break };
        client.channels += usize::from(server.data.subscriptions.add(name, connection));
        let parts = vec![Reply::text("subscribe"), Reply::Bulk(name.to_vec()), Reply::count(client.channels)];
        server.reply(connection, &Reply::Array(parts));
    }
    Ok(Reply::Nothing)
}
