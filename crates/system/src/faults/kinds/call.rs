//! A fault at one command of a connection between a client and a server. Until the command comes, the fault is only armed.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use async_trait::async_trait;

use super::{Act, ActOutcome, Order};
use crate::faults::async_host::AsyncHost;
use crate::faults::injection::Parameter;
use crate::faults::network::{CommandWatch, Effect, Ends, Pair};
use crate::faults::wire::{RedisReply, Struck};
use model::fault_kinds::{Command, CommandFault};

/// Time limit for a server to list its connections.
const ASK_LIMIT: Duration = Duration::from_millis(500);
/// Time limit for questions whose answer is optional: a stopped server must not delay a script.
const ASK_TO_ARM: Duration = Duration::from_millis(50);

pub(super) struct Call;

#[async_trait]
impl Act for Call {
    async fn inject(&self, host: &AsyncHost, order: &Order) -> ActOutcome {
        arm(host, order).await
    }

    async fn heal(&self, host: &AsyncHost, order: &Order) -> ActOutcome {
        host.restore_links(order.fault).await
    }

    async fn strike(&self, host: &AsyncHost, order: &Order, disarm: bool) -> Result<Struck, String> {
        let (fault, links) = (order.fault, &order.injection.links);
        let so_far = host.run(move |host| Ok(host.strike(fault, disarm))).await?;
        let watch = CommandWatch::from(what(order)?);
        let (first, hit) = match so_far {
            Ok(struck) => struck,
            Err(spared) => {
                return Ok(Struck { members: Vec::new(), text: watch.tell_none(links, spared.as_ref()) });
            }
        };
        let name = |address| host.name_of(address, links);
        let members: BTreeSet<String> = hit.into_iter().flat_map(|(one, other)| [name(one), name(other)]).collect();
        let text = watch.tell(&first, &name(first.client), &name(first.server));
        Ok(Struck { members: members.into_iter().collect(), text })
    }
}

fn what(order: &Order) -> Result<CommandFault, String> {
    match &order.injection.with {
        Parameter::Command(what) => Ok(what.clone()),
        _ => Err(order.makes_no_sense()),
    }
}

/// Arms the fault on the links between clients and servers, in both directions.
async fn arm(host: &AsyncHost, order: &Order) -> ActOutcome {
    let links = host.addresses(&order.injection.links)?;
    let mut watch = CommandWatch::from(what(order)?);
    let servers: BTreeSet<Ipv4Addr> = links.iter().map(|(_, server)| *server).collect();
    // A list of connections shows their last commands, but not the keys.
    if watch.effect.chooses() && watch.key.is_none() {
        for server in &servers {
            if let RedisReply::Text(list) = host.ask(*server, &["CLIENT", "LIST"], ASK_LIMIT).await? {
                let open = watch.chosen_from(&list, *server);
                watch.chosen.extend(open.into_iter().filter(|(client, ..)| links.contains(&(*client, *server))));
            }
        }
    }
    if watch.command == Command::Write {
        watch.writing = writing_on(host, &servers).await;
    }
    if !watch.chosen.is_empty() {
        // Connections that the client opens in their place are not affected.
        watch.nth = Some(0);
    }
    let (fault, chosen): (u32, Vec<Ends>) = (order.fault, watch.chosen.clone());
    let both: Vec<Pair> = links.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]).collect();
    host.run(move |host| {
        let armed = host.change_links(fault, &both, Effect::Command(watch))?;
        host.provoke(fault, &chosen)?;
        Ok(armed)
    })
    .await
}

/// The commands that write, in capitals, from the first server that answers. Empty if none answers, such as before Redis 6.
async fn writing_on(host: &AsyncHost, servers: &BTreeSet<Ipv4Addr>) -> BTreeSet<String> {
    for server in servers {
        if let Ok(RedisReply::Text(names)) = host.ask(*server, &["ACL", "CAT", "write"], ASK_TO_ARM).await {
            return names.lines().map(str::to_ascii_uppercase).collect();
        }
    }
    BTreeSet::new()
}
