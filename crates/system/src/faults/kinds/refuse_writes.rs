//! Makes a server demand more replicas for a write than it can have, with the command that an operator would use.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, cmd};

use super::{ToServers, Undo, configure, configured};
use crate::faults::probe::{connect, observed};
use crate::faults::wire::Observation;
use base::machine::Machine;
use base::words::plural;

/// Time limit on one server.
const LIMIT: Duration = Duration::from_secs(2);
const SETTING: &str = "min-replicas-to-write";
/// The error that Redis then answers to writes.
const REFUSAL: &str = "NOREPLICAS";
/// A key that no client uses.
const NOBODYS: &str = "redjepsen:nobody";
/// More replicas than any server of a run has.
const MANY: u32 = 1000;

pub(super) static ACT: ToServers = ToServers {
    inject: |machine, name, url| Box::pin(wants(machine, name, url, MANY)),
    heal: Undo::By(|machine, name, url| Box::pin(wants(machine, name, url, 0))),
};

/// Makes a server demand this many replicas, and observes the reply to a write that changes nothing.
async fn wants(machine: Arc<dyn Machine>, name: &str, url: String, replicas: u32) -> Observation {
    observed(name, LIMIT, async {
        let mut server = connect(&machine, &url, LIMIT).await?;
        configure(&mut server, SETTING, replicas).await?;
        let written: Result<u64, RedisError> = cmd("DEL").arg(NOBODYS).query_async(&mut server).await;
        let error = match written {
            Ok(_) => return Ok((replicas == 0, "it accepts writes".to_string())),
            Err(error) => error,
        };
        let code = error.code().unwrap_or_default().to_string();
        if code == REFUSAL {
            return Ok((replicas > 0, format!("it answers writes with {code}")));
        }
        // The server is a replica, or a node of a Redis Cluster that redirects writes.
        let wanted: u32 = configured(&mut server, SETTING).await?;
        Ok((wanted == replicas, format!("it requires {} for a write", plural(wanted.into(), "replica"))))
    })
    .await
}
