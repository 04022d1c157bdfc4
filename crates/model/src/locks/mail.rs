//! Messages between clients, for locks whose contenders talk to each other.

use std::future::Future;

use tokio::sync::mpsc::UnboundedReceiver;

/// Sends and receives short texts. Nothing is promised: a message may be lost, late, or duplicated.
pub trait Mail: Send + Sync + 'static {
    fn send(&self, address: &str, text: &str) -> impl Future<Output = ()> + Send;

    /// All messages to the address from now on, until the receiver is dropped.
    fn listen(&self, address: &str) -> UnboundedReceiver<String>;
}
