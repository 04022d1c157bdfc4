//! Who listens to which channels.

use crate::commands::glob::matches;
use crate::keyspace::Table;
use crate::process::Connection;
use crate::reply::Reply;
use crate::server::Server;

/// Who listens to what, in the order in which they began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriptions {
    pub channels: Table<Vec<Connection>>,
    pub patterns: Table<Vec<Connection>>,
}

impl Subscriptions {
    /// How many times a message on this channel will be delivered.
    pub fn receivers(&self, channel: &[u8]) -> usize {
        let direct = self.channels.get(channel).map_or(0, Vec::len);
        let fitting = self.patterns.iter().filter(|(pattern, _)| matches(pattern, channel));
        direct + fitting.map(|(_, clients)| clients.len()).sum::<usize>()
    }

    /// A client that is gone listens to nothing.
    pub fn forget(&mut self, client: Connection) {
        for listeners in [&mut self.channels, &mut self.patterns] {
            listeners.retain(|_, clients| {
                clients.retain(|other| *other != client);
                !clients.is_empty()
            });
        }
    }
}

impl Server {
    /// Delivers the messages that commands have published.
    pub(crate) fn publish(&mut self) {
        for (channel, payload) in std::mem::take(&mut self.data.published) {
            let bulk = |bytes: &[u8]| Reply::Bulk(bytes.to_vec());
            let subscriptions = &self.data.subscriptions;
            let mut due = Vec::new();
            if let Some(clients) = subscriptions.channels.get(&channel) {
                let message = Reply::Push(vec![Reply::text("message"), bulk(&channel), bulk(&payload)]);
                due.push((clients.clone(), message));
            }
            for (pattern, clients) in subscriptions.patterns.iter().filter(|(pattern, _)| matches(pattern, &channel)) {
                let parts = vec![Reply::text("pmessage"), bulk(pattern), bulk(&channel), bulk(&payload)];
                due.push((clients.clone(), Reply::Push(parts)));
            }
            for (clients, message) in due {
                clients.into_iter().for_each(|client| self.reply(client, &message));
            }
        }
    }
}
