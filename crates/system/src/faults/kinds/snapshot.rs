//! Makes the servers write snapshots, one after another, with the command that an operator would use.
//!
//! A server without persistence loads a snapshot when it is restarted. So no snapshot may stay. The host removes the file at the
//! heal; if it ends a server meanwhile, it removes the file before the server can be restarted.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, cmd};
use tokio::task::JoinSet;

use super::{Act, ActOutcome, Order, info};
use crate::faults::async_host::{AsyncHost, Kept};
use crate::faults::host::MemberAction;
use crate::faults::probe::{connect, observed};
use crate::faults::wire::Observation;
use base::machine::Machine;
use base::words::plural;
use model::topology::field;

/// Time limit on one server.
const LIMIT: Duration = Duration::from_secs(2);
/// Pause from the end of one snapshot, or from a refusal, to the next snapshot.
const PAUSE: Duration = Duration::from_millis(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

pub(super) struct Snapshot;

#[async_trait]
impl Act for Snapshot {
    async fn inject(&self, host: &AsyncHost, order: &Order) -> ActOutcome {
        let members = &order.injection.members;
        // This must be first: a server that is killed from here on must not come back with a snapshot.
        let ready = host.each(members, MemberAction::KeepNoSnapshot).await?;
        if !ready.observed {
            return Ok(ready);
        }
        // On all servers at once: a server takes a tenth of a second to report that its child is done.
        try_join_all(members.iter().map(|name| begin(host, order.fault, name))).await.map(Observation::all)
    }

    async fn heal(&self, host: &AsyncHost, order: &Order) -> ActOutcome {
        let members = &order.injection.members;
        try_join_all(members.iter().map(|name| end(host, order, name))).await.map(Observation::all)
    }
}

/// Observes a first snapshot, and continues with others until [`end`].
async fn begin(host: &AsyncHost, fault: u32, name: &str) -> ActOutcome {
    let (machine, url) = (host.machine(), host.url_of(name)?);
    let mut opened = None;
    let seen = observed(name, LIMIT, async {
        let mut server = connect(&machine, &url, LIMIT).await?;
        let before = written(&info(&mut server, "persistence").await?);
        opened = Some((server.clone(), before));
        // The server refuses while it has another child.
        while let Err(refused) = cmd("BGSAVE").query_async::<()>(&mut server).await {
            if !refused.to_string().contains("in progress") {
                return Err(refused);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let (after, stats) = (at_rest(&mut server).await?, info(&mut server, "stats").await?);
        let counted = before.is_none() || written(&after) > before;
        let done = field(&after, "rdb_last_bgsave_status") == Some("ok") && counted;
        let micros = field(&stats, "latest_fork_usec").unwrap_or("?");
        let told = if done { "snapshot written" } else { "no snapshot was written" };
        Ok((done, format!("{told}, after a fork of {micros} us")))
    })
    .await;
    if let Some((server, before)) = opened {
        let mut task = JoinSet::new();
        task.spawn(again_and_again(server.clone()));
        host.keep(fault, name, Kept { task, server, before });
    }
    Ok(seen)
}

/// Repeats snapshots until the server is gone or the task is ended.
async fn again_and_again(mut server: MultiplexedConnection) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let ordered = cmd("BGSAVE").query_async::<()>(&mut server).await;
        let seen = match ordered {
            Ok(()) => at_rest(&mut server).await.map(|_| ()),
            Err(error) => Err(error),
        };
        // A server that is paused for a while, or has another child, continues later.
        if seen.is_err_and(|error| error.is_connection_dropped() || error.is_io_error() && !error.is_timeout()) {
            return;
        }
    }
}

/// Orders no more snapshots, waits until no child is left, and then removes the file.
async fn end(host: &AsyncHost, order: &Order, name: &str) -> ActOutcome {
    let mut kept = host.take_kept(order.fault, name);
    if let Some(kept) = &mut kept {
        kept.task.shutdown().await;
    }
    let still = host.now().runs(name);
    let seen = match still {
        true => at_end(&host.machine(), name, &host.url_of(name)?, kept.as_ref()).await,
        false => Observation::of(true, format!("{name}: no process is left")),
    };
    if !seen.observed {
        if let Some(kept) = kept {
            // The last order may still be on its way, on this connection.
            host.keep(order.fault, name, kept);
        }
        return Ok(seen);
    }
    if order.still_held.iter().any(|held| held == name) {
        return Ok(seen.besides(&[name.to_string()]));
    }
    let removed = host.each(&[name.to_string()], MemberAction::RemoveSnapshot).await?;
    Ok(match removed.observed {
        true => Observation { text: format!("{}, and no file", seen.text), ..seen },
        false => removed,
    })
}

async fn at_end(machine: &Arc<dyn Machine>, name: &str, url: &str, kept: Option<&Kept>) -> Observation {
    observed(name, LIMIT, async {
        // Uses the same connection if there is one: the server answers this question after the last order.
        let mut before = None;
        let info = match kept {
            Some(kept) => match at_rest(&mut kept.server.clone()).await {
                Ok(info) => {
                    before = kept.before;
                    info
                }
                Err(error) if error.is_timeout() => return Err(error),
                // The old server is gone, with all orders on their way; a new server is in its place.
                Err(_) => at_rest(&mut connect(machine, url, LIMIT).await?).await?,
            },
            None => at_rest(&mut connect(machine, url, LIMIT).await?).await?,
        };
        let count = before.zip(written(&info)).map(|(before, now)| now.saturating_sub(before));
        let count = count.map_or(String::new(), |count| format!("{} in all, ", plural(count, "snapshot")));
        Ok((true, format!("{count}no child is left")))
    })
    .await
}

/// Waits until no snapshot is being written; returns the server's INFO about persistence.
async fn at_rest(server: &mut MultiplexedConnection) -> Result<String, RedisError> {
    loop {
        let persistence = info(server, "persistence").await?;
        if field(&persistence, "rdb_bgsave_in_progress") == Some("0") {
            return Ok(persistence);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// How many snapshots the server has written since its start; None before Redis 7, which does not count them.
fn written(info: &str) -> Option<u64> {
    field(info, "rdb_saves")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_its_snapshots_is_read() {
        let info = "# Persistence\r\nrdb_bgsave_in_progress:0\r\nrdb_saves:3\r\n";
        assert_eq!((field(info, "rdb_bgsave_in_progress"), written(info)), (Some("0"), Some(3)));
        assert_eq!((field(info, "rdb_bgsave"), written("")), (None, None), "another field, and none");
    }
}
