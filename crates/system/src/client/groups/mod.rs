//! Groups of nodes as a client sees them: whichever server is the primary for a key. There is a file for each way to
//! find it.

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

/// Whichever server is the primary.
#[async_trait]
pub trait Primary: Send + Sync {
    /// One request, which goes to the primary for its key, and its answer.
    async fn request(&self, command: &Cmd) -> Result<Value, RequestError>;

    /// The server that answered the last request.
    async fn last_asked(&self) -> Option<Arc<Connection>>;
}

/// The primary among these nodes. If any of them will do, the one at index `first` is asked first. Fails only if a URL
/// makes no sense.
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
