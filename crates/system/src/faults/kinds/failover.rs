//! An operator's command makes a replica the primary.
//!
//! Nothing breaks, and there is nothing to undo. A Redis Cluster hands over safely: the primary stops answering until its replica
//! has all its data. Sentinels promote a replica that may lack the last writes, and demote the old primary only seconds later.
//! Until then, both servers accept writes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{RedisError, Value, cmd};
use tokio::time::{Instant, timeout};

use super::{Act, ActOutcome, Order};
use crate::faults::async_host::AsyncHost;
use crate::faults::injection::{Parameter, Promotion};
use crate::faults::probe::{connect, observed};
use crate::faults::wire::Observation;
use base::machine::Machine;

/// How long a replica may take to call itself a primary: Sentinels check replicas once per second. The limit is shorter than the
/// wait for the agent's answer, or the observation would come too late to be recorded.
const LIMIT: Duration = Duration::from_secs(4);
/// How long one replica may take to tell its role: another replica may be the primary by now.
const ASK_LIMIT: Duration = Duration::from_millis(300);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

pub(super) struct Failover;

#[async_trait]
impl Act for Failover {
    async fn inject(&self, host: &AsyncHost, order: &Order) -> ActOutcome {
        let (Parameter::Promotion(Promotion { replicas, url, words }), [primary]) =
            (&order.injection.with, &order.injection.members[..])
        else {
            return Err(order.makes_no_sense());
        };
        let replicas = replicas.iter().map(|name| Ok((name.clone(), host.url_of(name)?)));
        let replicas = replicas.collect::<Result<Vec<_>, String>>()?;
        Ok(promote(&host.machine(), primary, &replicas, url, words).await)
    }

    async fn heal(&self, _: &AsyncHost, _: &Order) -> ActOutcome {
        Ok(Observation::of(true, "a failover is not undone".to_string()))
    }
}

/// Sends this command to the server at `url`, and observes that one of the replicas, given with their addresses, becomes a
/// primary.
async fn promote(
    machine: &Arc<dyn Machine>,
    primary: &str,
    replicas: &[(String, String)],
    url: &str,
    words: &[String],
) -> Observation {
    observed(primary, LIMIT, async {
        // A stale primary among them was promoted before.
        let mut followers = Vec::new();
        for (name, url) in replicas {
            if matches!(timeout(ASK_LIMIT, is_primary(machine, url)).await, Ok(Ok(false))) {
                followers.push((name, url));
            }
        }
        let mut command = redis::Cmd::new();
        words.iter().for_each(|word| _ = command.arg(word));
        let ordered = Instant::now();
        command.query_async::<()>(&mut connect(machine, url, LIMIT).await?).await?;
        loop {
            for (name, url) in &followers {
                if matches!(timeout(ASK_LIMIT, is_primary(machine, url)).await, Ok(Ok(true))) {
                    let millis = ordered.elapsed().as_millis();
                    let text = format!("{name} became the primary {millis} ms after `{}`", words.join(" "));
                    return Ok::<_, RedisError>((true, text));
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    })
    .await
}

/// The server's own answer, on a new connection: a promotion closes a server's existing connections.
async fn is_primary(machine: &Arc<dyn Machine>, url: &str) -> Result<bool, RedisError> {
    let role = cmd("ROLE").query_async(&mut connect(machine, url, LIMIT).await?).await?;
    Ok(says_primary(&role))
}

/// The answer to ROLE begins with `master` or `slave`.
fn says_primary(role: &Value) -> bool {
    let Value::Array(parts) = role else { return false };
    matches!(parts.first(), Some(Value::BulkString(word)) if word == b"master")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_is_told_from_a_replica() {
        let role = |word: &str| Value::Array(vec![Value::BulkString(word.into()), Value::Int(7)]);
        assert!(says_primary(&role("master")));
        assert!(
            !says_primary(&role("slave")) && !says_primary(&Value::Nil) && !says_primary(&Value::Array(Vec::new()))
        );
    }
}
