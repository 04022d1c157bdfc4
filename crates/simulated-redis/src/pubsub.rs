//! Subscriptions to channels.

use crate::keyspace::Table;
use crate::process::Connection;
use crate::reply::Reply;
use crate::server::Server;

/// The subscribers of each channel, in the order of their subscriptions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriptions(pub Table<Vec<Connection>>);

impl Subscriptions {
    /// Returns false if the client has already subscribed.
    pub fn add(&mut self, channel: &[u8], client: Connection) -> bool {
        let listeners = self.0.entry(channel.to_vec()).or_default();
        let new = !listeners.contains(&client);
        listeners.extend(new.then_some(client));
        new
    }

    /// The number of subscribers of a channel.
    pub fn receivers(&self, channel: &[u8]) -> usize {
        self.0.get(channel).map_or(0, Vec::len)
    }

    /// Removes all subscriptions of a client that is gone.
    pub fn forget(&mut self, client: Connection) {
        self.0.retain(|_, clients| {
            clients.retain(|other| *other != client);
            !clients.is_empty()
        });
    }
}

impl Server {
    /// Delivers the published messages.
    pub(crate) fn publish(&mut self) {
        for (channel, payload) in std::mem::take(&mut self.data.published) {
            let listeners = self.data.subscriptions.0.get(&channel).cloned().unwrap_or_default();
            let message = Reply::Array(vec![Reply::text("message"), Reply::Bulk(channel), Reply::Bulk(payload)]);
            listeners.into_iter().for_each(|client| self.reply(client, &message));
        }
    }
}
