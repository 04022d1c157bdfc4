//! A server is told to want more replicas for a write than it can have, by the command that an operator would type.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::{RedisError, cmd};

use super::{Act, Order, Seen, at_servers, undo_at_servers};
use crate::fault_kinds::FaultKind;
use crate::faults::async_host::AsyncHost;
use crate::faults::probe::{connect, observed};
use crate::faults::wire::Observation;
use crate::machine::Machine;
use crate::words::plural;

/// How long it may take on one server.
const LIMIT: Duration = Duration::from_secs(2);
const SETTING: &str = "min-replicas-to-write";
/// What Redis answers then.
const REFUSAL: &str = "NOREPLICAS";
/// A key that nobody has.
const NOBODYS: &str = "redjepsen:nobody";
/// More replicas than any server of a run has.
const MANY: u32 = 1000;

pub(super) static ACT: RefuseWrites = RefuseWrites;

pub(super) struct RefuseWrites;

impl Act for RefuseWrites {
    fn kind(&self) -> FaultKind {
        FaultKind::RefuseWrites
    }

    fn inject<'a>(&'a self, host: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen> {
        Box::pin(at_servers(host, order, |machine, name, url| wants(machine, name, url, MANY)))
    }

    fn heal<'a>(&'a self, host: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen> {
        Box::pin(undo_at_servers(host, order, |machine, name, url| wants(machine, name, url, 0)))
    }
}

/// Has a server want so many replicas, and observes what becomes of a write that changes nothing.
async fn wants(machine: Arc<dyn Machine>, name: &str, url: String, replicas: u32) -> Observation {
    observed(name, LIMIT, async {
        let mut server = connect(&machine, &url, LIMIT).await?;
        let () = cmd("CONFIG").arg("SET").arg(SETTING).arg(replicas).query_async(&mut server).await?;
        let written: Result<u64, RedisError> = cmd("DEL").arg(NOBODYS).query_async(&mut server).await;
        let error = match written {
            Ok(_) => return Ok((replicas == 0, "it takes writes".to_string())),
            Err(error) => error,
        };
        let code = error.code().unwrap_or_default().to_string();
        if code == REFUSAL {
            return Ok((replicas > 0, format!("it answers writes with {code}")));
        }
        // A replica, or a node of a Redis Cluster that sends whoever writes elsewhere.
        let (_, wanted): (String, u32) = cmd("CONFIG").arg("GET").arg(SETTING).query_async(&mut server).await?;
        Ok((wanted == replicas, format!("it wants {} for a write", plural(wanted.into(), "replica"))))
    })
    .await
}
