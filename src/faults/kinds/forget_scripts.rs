//! The servers lose the scripts that were loaded into them, by the command that an operator would type.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Act, Order, Seen, at_servers};
use crate::fault_kinds::FaultKind;
use crate::faults::async_host::AsyncHost;
use crate::faults::probe::{connect, observed};
use crate::faults::wire::Observation;
use crate::machine::Machine;
use crate::words::plural;

/// How long it may take on one server.
const LIMIT: Duration = Duration::from_secs(2);

pub(super) static ACT: ForgetScripts = ForgetScripts;

pub(super) struct ForgetScripts;

impl Act for ForgetScripts {
    fn kind(&self) -> FaultKind {
        FaultKind::ForgetScripts
    }

    fn inject<'a>(&'a self, host: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen> {
        Box::pin(at_servers(host, order, forget))
    }

    fn heal<'a>(&'a self, _: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen> {
        let text = format!("{}: clients load their scripts again", order.injection.members.join(", "));
        Box::pin(async { Ok(Observation::of(true, text)) })
    }
}

/// Removes every script, and observes that none was left.
async fn forget(machine: Arc<dyn Machine>, name: &str, url: String) -> Observation {
    observed(name, LIMIT, async {
        let mut server = connect(&machine, &url, LIMIT).await?;
        // In one transaction, since clients go on meanwhile.
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

/// How many scripts a server knows, as its INFO has it.
fn scripts(info: &str) -> Option<u64> {
    info.lines().find_map(|line| line.strip_prefix("number_of_cached_scripts:")?.trim().parse().ok())
}
