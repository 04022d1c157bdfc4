//! Limits the servers' memory to one byte, under a policy that may evict any key, with the commands that an operator would use.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, cmd};
use tokio::time::Instant;

use super::{ToServers, Undo, configure, configured, info};
use crate::faults::probe::{connect, observed};
use crate::faults::wire::Observation;
use base::machine::Machine;
use base::words::plural;
use model::topology::field;

/// Time limit on one server.
const LIMIT: Duration = Duration::from_secs(2);
/// Time limit for evicting: Redis evicts in slices of half a millisecond.
const EVICTING: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

pub(super) static ACT: ToServers = ToServers {
    inject: |machine, name, url| Box::pin(evict(machine, name, url)),
    heal: Undo::By(|machine, name, url| Box::pin(unbound(machine, name, url))),
};

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
        let bound: String = configured(&mut server, "maxmemory").await?;
        Ok((bound == "0", "memory is no longer limited".to_string()))
    })
    .await
}

async fn evicted(server: &mut MultiplexedConnection) -> Result<u64, RedisError> {
    let stats = info(server, "stats").await?;
    Ok(field(&stats, "evicted_keys").and_then(|count| count.parse().ok()).unwrap_or(0))
}
