//! Removes all loaded scripts from the servers, with the command that an operator would use.

use std::sync::Arc;
use std::time::Duration;

use super::{ToServers, Undo};
use crate::faults::probe::{connect, observed};
use crate::faults::wire::Observation;
use base::machine::Machine;
use base::words::plural;
use model::topology::field;

/// Time limit on one server.
const LIMIT: Duration = Duration::from_secs(2);

pub(super) static ACT: ToServers = ToServers {
    inject: |machine, name, url| Box::pin(forget(machine, name, url)),
    heal: Undo::Nothing("clients load their scripts again"),
};

/// Removes every script, and observes that none was left.
async fn forget(machine: Arc<dyn Machine>, name: &str, url: String) -> Observation {
    observed(name, LIMIT, async {
        let mut server = connect(&machine, &url, LIMIT).await?;
        // In one transaction, since clients continue meanwhile.
        let (before, (), after): (String, (), String) = redis::pipe()
            .atomic()
            .cmd("INFO")
            .arg("memory")
            .cmd("SCRIPT")
            .arg("FLUSH")
            .cmd("INFO")
            .arg("memory")
            .query_async(&mut server)
            .await?;
        let (before, after) = (scripts(&before), scripts(&after));
        Ok((after == Some(0), format!("{} forgotten", plural(before.unwrap_or(0), "script"))))
    })
    .await
}

/// How many scripts a server has loaded, according to its INFO.
fn scripts(info: &str) -> Option<u64> {
    field(info, "number_of_cached_scripts")?.parse().ok()
}
