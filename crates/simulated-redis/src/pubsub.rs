//! Who listens to which channels.

use crate::keyspace::Table;
use crate::process::Connection;
use crate::reply::Reply;
use crate::server::Server;

/// Who listens to which channel, in the order in which they began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriptions(pub Table<Vec<Connection>>);

impl Subscriptions {
    /// False if the client listens to it already.
    pub fn add(&mut self, channel: &[u8], client: Connection) -> bool {
        let listeners = self.0.entry(channel.to_vec()).or_default();
        let new = !listeners.contains(&client);
        listeners.extend(new.then_some(client));
        new
    }

    /// How many times a message on this channel will be delivered.
    pub fn receivers(&self, channel: &[u8]) -> usize {
        self.0.get(channel).map_or(0, Vec::len)
    }

    /// A client that is gone listens to nothing.
    pub fn forget(&mut self, client: Connection) {
        self.0.retain(|_, clients| {
            clients.retain(|other| *other != client);
            !clients.is_empty()
        });
    }
}

impl Server {
    /// Delivers the messages that commands have published.
    pub(crate) fn publish(&mut self) {
        for (channel, payload) in std::mem::take(&mut self.data.published) {
            let listeners = self.data.subscriptions.0.get(&channel).cloned().unwrap_or_default();
            let message = Reply::Array(vec![Reply::text("message"), Reply::Bulk(channel), Reply::Bulk(payload)]);
            listeners.into_iter().for_each(|client| self.reply(client, &message));
        }
    }
}
