//! The servers' memory is limited to one byte, under a policy that may evict any key: by the commands that an operator would type.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, cmd};
use tokio::time::Instant;

use super::{Act, Order, Seen, at_servers, undo_at_servers};
use crate::fault_kinds::FaultKind;
use crate::faults::async_host::AsyncHost;
use crate::faults::probe::{connect, observed};
use crate::faults::wire::Observation;
use crate::machine::Machine;
use crate::words::plural;

/// How long it may take on one server.
const LIMIT: Duration = Duration::from_secs(2);
/// How long evicting may take: Redis evicts in slices of half a millisecond.
const EVICTING: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

pub(super) static ACT: Evict = Evict;

pub(super) struct Evict;

impl Act for Evict {
    fn kind(&self) -> FaultKind {
        FaultKind::Evict
    }

    fn inject<'a>(&'a self, host: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen> {
        Box::pin(at_servers(host, order, evict))
    }

    fn heal<'a>(&'a self, host: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen> {
        Box::pin(undo_at_servers(host, order, unbound))
    }
}

/// Limits the memory to one byte, lets the server evict any key, and observes that it did.
async fn evict(machine: Arc<dyn Machine>, name: &str, url: String) -> Observation {
    observed(name, LIMIT, async {
        let mut server = connect(&machine, &url, LIMIT).await?;
        let before = evicted(&mut server).await?;
        configure(&mut server, "maxmemory-policy", "allkeys-random").await?;
        configure(&mut server, "maxmemory", "1").await?;
        let started = Instant::now();
        loop {
            let left: u64 = cmd("DBSIZE").query_async(&mut server).await?;
            let count = evicted(&mut server).await?.saturating_sub(before);
            if left == 0 || started.elapsed() > EVICTING {
                return Ok((left == 0, format!("{} evicted, {left} left", plural(count, "key"))));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    })
    .await
}

/// Lifts the memory limit and observes that it is lifted.
async fn unbound(machine: Arc<dyn Machine>, name: &str, url: String) -> Observation {
    observed(name, LIMIT, async {
        let mut server = connect(&machine, &url, LIMIT).await?;
        configure(&mut server, "maxmemory", "0").await?;
        configure(&mut server, "maxmemory-policy", "noeviction").await?;
        let (_, bound): (String, String) = cmd("CONFIG").arg("GET").arg("maxmemory").query_async(&mut server).await?;
        Ok((bound == "0", "memory is no longer limited".to_string()))
    })
    .await
}

async fn configure(server: &mut MultiplexedConnection, name: &str, value: &str) -> Result<(), RedisError> {
    cmd("CONFIG").arg("SET").arg(name).arg(value).query_async(server).await
}

async fn evicted(server: &mut MultiplexedConnection) -> Result<u64, RedisError> {
    let info: String = cmd("INFO").arg("stats").query_async(server).await?;
    Ok(info.lines().find_map(|line| line.strip_prefix("evicted_keys:")?.trim().parse().ok()).unwrap_or(0))
}
