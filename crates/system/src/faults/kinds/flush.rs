//! Removes every key of the servers, with the command that an operator would use.

use std::sync::Arc;
use std::time::Duration;

use super::{ToServers, Undo};
use crate::faults::probe::{connect, observed};
use crate::faults::wire::Observation;
use base::machine::Machine;
use base::words::plural;

/// Time limit on one server.
const LIMIT: Duration = Duration::from_secs(2);

pub(super) static ACT: ToServers = ToServers {
    inject: |machine, name, url| Box::pin(flush(machine, name, url)),
    heal: Undo::Nothing("lost data stays lost"),
};

/// Removes every key, and observes that none was left.
async fn flush(machine: Arc<dyn Machine>, name: &str, url: String) -> Observation {
    observed(name, LIMIT, async {
        let mut server = connect(&machine, &url, LIMIT).await?;
        // In one transaction, since clients keep writing meanwhile.
        let (before, (), after): (u64, (), u64) =
            redis::pipe().atomic().cmd("DBSIZE").cmd("FLUSHALL").cmd("DBSIZE").query_async(&mut server).await?;
        Ok((after == 0, format!("{} lost", plural(before, "key"))))
    })
    .await
}
