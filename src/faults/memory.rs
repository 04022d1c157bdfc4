//! The faults `evict` and `flush`: a server loses keys because its memory is limited or because somebody cleared it.
//!
//! The only faults that write to a server, with the commands that an operator would type.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, cmd};
use tokio::time::Instant;

use super::probe::{connect, observed};
use super::wire::Observation;
use crate::machine::Machine;

/// How long the whole fault may take on one server.
const LIMIT: Duration = Duration::from_secs(2);
/// How long evicting may take: Redis evicts in slices of half a millisecond.
const EVICTING: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What is done to a server's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// It loses every key.
    Flush,
    /// It evicts every key.
    Evict,
    /// Its memory is no longer limited.
    Unbound,
}

/// Does it to the server at `url`, and observes that it is done.
pub(crate) async fn act(action: Action, machine: &Arc<dyn Machine>, name: &str, url: &str) -> Observation {
    match action {
        Action::Flush => flush(machine, name, url).await,
        Action::Evict => evict(machine, name, url).await,
        Action::Unbound => unbound(machine, name, url).await,
    }
}

/// Removes every key, and observes that none was left.
async fn flush(machine: &Arc<dyn Machine>, name: &str, url: &str) -> Observation {
    observed(name, LIMIT, async {
        let mut server = connect(machine, url, LIMIT).await?;
        // In one transaction, since clients keep writing meanwhile.
        let (before, (), after): (u64, (), u64) =
            redis::pipe().atomic().cmd("DBSIZE").cmd("FLUSHALL").cmd("DBSIZE").query_async(&mut server).await?;
        Ok((after == 0, format!("{} lost", keys(before))))
    })
    .await
}

/// Limits the memory to one byte, lets the server evict any key, and observes that it did.
async fn evict(machine: &Arc<dyn Machine>, name: &str, url: &str) -> Observation {
    observed(name, LIMIT, async {
        let mut server = connect(machine, url, LIMIT).await?;
        let before = evicted(&mut server).await?;
        configure(&mut server, "maxmemory-policy", "allkeys-random").await?;
        configure(&mut server, "maxmemory", "1").await?;
        let started = Instant::now();
        loop {
            let left: u64 = cmd("DBSIZE").query_async(&mut server).await?;
            let count = evicted(&mut server).await?.saturating_sub(before);
            if left == 0 || started.elapsed() > EVICTING {
                return Ok((left == 0, format!("{} evicted, {left} left", keys(count))));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    })
    .await
}

/// Lifts the memory limit and observes that it is lifted.
async fn unbound(machine: &Arc<dyn Machine>, name: &str, url: &str) -> Observation {
    observed(name, LIMIT, async {
        let mut server = connect(machine, url, LIMIT).await?;
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

fn keys(count: u64) -> String {
    if count == 1 { "1 key".to_string() } else { format!("{count} keys") }
}
