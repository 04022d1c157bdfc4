//! Messages between clients by Pub/Sub on all of the lock's nodes, so that one that reaches both is enough.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use redis::Client;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::redis_node::RedisNode;
use crate::locks::Mail;

/// How long to wait before a subscription that broke is made anew.
const SUBSCRIBE_AGAIN: Duration = Duration::from_millis(20);

/// Sends on one connection a node, made at the first message, and listens on another.
pub struct RedisMail {
    nodes: Vec<RedisNode>,
    clients: Vec<Client>,
}

impl RedisMail {
    /// Fails only where an URL makes no sense. Sending to a node may take as long as the limit.
    pub fn new(urls: &[String], limit: Duration) -> Result<RedisMail, String> {
        let client = |url: &String| Client::open(url.as_str()).map_err(|error| format!("{url}: {error}"));
        Ok(RedisMail {
            nodes: urls.iter().map(|url| RedisNode::new(url, limit)).collect::<Result<_, _>>()?,
            clients: urls.iter().map(client).collect::<Result<_, _>>()?,
        })
    }
}

impl Mail for RedisMail {
    async fn send(&self, address: &str, text: &str) {
        let published = self.nodes.iter().map(|node| {
            let mut command = redis::cmd("PUBLISH");
            command.arg(address).arg(text);
            node.request::<u64>(command)
        });
        // Nothing is promised; whoever has to know sends again.
        join_all(published).await;
    }

    fn listen(&self, address: &str) -> UnboundedReceiver<String> {
        let (sender, receiver) = unbounded_channel();
        for client in &self.clients {
            tokio::spawn(subscribed(client.clone(), address.to_string(), sender.clone()));
        }
        receiver
    }
}

/// Passes on what one node publishes at the address, until nobody listens any more.
async fn subscribed(client: Client, address: String, sender: UnboundedSender<String>) {
    while !sender.is_closed() {
        if let Ok(mut connection) = client.get_async_pubsub().await
            && connection.subscribe(&address).await.is_ok()
        {
            let mut messages = connection.on_message();
            while let Some(message) = messages.next().await {
                if message.get_payload().is_ok_and(|text: String| sender.send(text).is_err()) {
                    return;
                }
            }
        }
        sleep(SUBSCRIBE_AGAIN).await;
    }
}
