//! Every key of the servers is lost, by the command that an operator would type.

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

pub(super) static ACT: Flush = Flush;

pub(super) struct Flush;

impl Act for Flush {
    fn kind(&self) -> FaultKind {
        FaultKind::Flush
    }

    fn inject<'a>(&'a self, host: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen> {
        Box::pin(at_servers(host, order, flush))
    }

    fn heal<'a>(&'a self, _: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen> {
        let text = format!("{}: lost data stays lost", order.injection.members.join(", "));
        Box::pin(async { Ok(Observation::of(true, text)) })
    }
}

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
