//! Groups of nodes as a client sees them: requests go to the primary for their key. Each way to find the primary has its own
//! file.

mod by_sentinel;
mod by_slot;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{Cmd, Value};

use self::by_sentinel::BySentinel;
use self::by_slot::BySlot;
use super::connection::Connection;
use base::machine::Machine;
use model::locks::RequestError;
use model::topology::LockGroup;

/// Sends requests to the current primary.
#[async_trait]
pub trait Primary: Send + Sync {
    /// Sends one request to the primary for its key and returns its answer.
    async fn request(&self, command: &Cmd) -> Result<Value, RequestError>;

    /// The server that answered the last request.
    async fn last_asked(&self) -> Option<Arc<Connection>>;
}

/// Creates the group of these nodes. If any node can be asked first, the node at index `first` is. Fails only if a URL is
/// invalid.
pub fn primary(
    group: &LockGroup,
    nodes: &[String],
    first: usize,
    limit: Duration,
    machine: &Arc<dyn Machine>,
) -> Result<Box<dyn Primary>, String> {
    Ok(match group {
        LockGroup::Sentinel { sentinels, name } => Box::new(BySentinel::new(sentinels, name, limit, machine)?),
        LockGroup::Cluster => Box::new(BySlot::new(nodes, first, limit, machine)?),
    })
}
