//! Commands of Redis Cluster.

use super::*;
use crate::cluster::slot;

const DISABLED: Reply = Reply::error("ERR This instance has cluster support disabled");

/// Does nothing, because slots do not migrate here.
pub(super) fn asking(server: &mut Server, _: Connection, _: CommandWords<'_>) -> CommandResult {
    if server.cluster.is_some() { Ok(Reply::OK) } else { Err(DISABLED) }
}

pub(super) fn cluster(server: &mut Server, _: Connection, words: CommandWords<'_>) -> CommandResult {
    let Some(cluster) = &server.cluster else { return Err(DISABLED) };
    match &subcommand(words)[..] {
        "info" => Ok(Reply::text(&cluster.info_text())),
        "nodes" => Ok(Reply::text(&cluster.nodes_text())),
        "slots" => Ok(cluster.slots_reply()),
        "keyslot" => Ok(Reply::count(slot(words[2]))),
        "failover" => server.order_handover(),
        _ => Err(super::unknown_subcommand(words)),
    }
}
