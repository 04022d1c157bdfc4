//! Messages between clients, by Pub/Sub on all of the lock's nodes. One node that both clients reach is enough.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use redis::RedisResult;
use redis::aio::PubSub;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::redis_node::RedisNode;
use base::machine::{Address, Machine};
use model::locks::Mail;

/// Pause before a broken subscription is set up again.
const SUBSCRIBE_AGAIN: Duration = Duration::from_millis(20);

/// Sends on one connection per node, opened at the first message, and listens on another.
pub struct RedisMail {
    nodes: Vec<RedisNode>,
    addresses: Vec<Address>,
}

impl RedisMail {
    /// Creates a mailbox on these nodes. Fails only if a URL is invalid. `limit` is the time limit for sending to a node.
    pub fn new(urls: &[String], limit: Duration, machine: &Arc<dyn Machine>) -> Result<RedisMail, String> {
        Ok(RedisMail {
            nodes: urls.iter().map(|url| RedisNode::new(url, limit, machine)).collect::<Result<_, _>>()?,
            addresses: urls.iter().map(|url| Address::of(url, machine)).collect::<Result<_, _>>()?,
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
        // Delivery is not guaranteed; a sender that must be sure sends again.
        join_all(published).await;
    }

    fn listen(&self, address: &str) -> UnboundedReceiver<String> {
        let (sender, receiver) = unbounded_channel();
        for node in &self.addresses {
            let (node, address, sender) = (node.clone(), address.to_string(), sender.clone());
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = sender.closed() => {}
                    () = pass_on(&node, &address, &sender) => {}
                }
            });
        }
        receiver
    }
}

/// Forwards everything that one node publishes at the address, forever.
async fn pass_on(node: &Address, address: &str, sender: &UnboundedSender<String>) {
    loop {
        if let Ok(mut connection) = subscribed(node, address).await {
            let mut messages = connection.on_message();
            while let Some(message) = messages.next().await {
                if let Ok(text) = message.get_payload() {
                    // If the receiver is gone, the caller cancels this task.
                    let _ = sender.send(text);
                }
            }
        }
        sleep(SUBSCRIBE_AGAIN).await;
    }
}

async fn subscribed(node: &Address, address: &str) -> RedisResult<PubSub> {
    let mut connection = PubSub::new(&node.greeting, node.connect().await?).await?;
    connection.subscribe(address).await?;
    Ok(connection)
}
