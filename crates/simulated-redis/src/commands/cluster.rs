//! Commands of Redis Cluster.

use super::{Answer, SYNTAX, integer, subcommand};
use crate::cluster::slot;
use crate::data::Words;
use crate::process::Connection;
use crate::reply::Reply;
use crate::server::Server;

const DISABLED: Reply = Reply::error("ERR This instance has cluster support disabled");

/// Slots do not migrate here, so it changes nothing.
pub(super) fn asking(server: &mut Server, _: Connection, _: Words<'_>) -> Answer {
    if server.cluster.is_some() { Ok(Reply::OK) } else { Err(DISABLED) }
}

pub(super) fn cluster(server: &mut Server, _: Connection, words: Words<'_>) -> Answer {
    let offset = server.replication.offset;
    let Some(cluster) = &server.cluster else { return Err(DISABLED) };
    match &subcommand(words)[..] {
        "info" => Ok(Reply::Verbatim(cluster.info_text())),
        "nodes" => Ok(Reply::Verbatim(cluster.nodes_text())),
        "myid" => Ok(Reply::text(cluster.id())),
        "slots" => Ok(cluster.slots_reply(offset)),
        "shards" => Ok(cluster.shards_reply(offset)),
        "links" => Ok(Reply::Array(Vec::new())),
        "keyslot" => Ok(Reply::count(slot(words[2]))),
        "countkeysinslot" => {
            let slot = usize::try_from(integer(words[2])?).map_err(|_| Reply::error("ERR Invalid slot"))?;
            Ok(Reply::count(server.keys_in_slot(slot)))
        }
        "replicas" | "slaves" => {
            let lines = cluster.replicas_text(words[2])?;
            Ok(Reply::Array(lines.iter().map(|line| Reply::text(line)).collect()))
        }
        "failover" => {
            let how = words.get(2).map(|how| String::from_utf8_lossy(how).to_lowercase()).unwrap_or_default();
            match &how[..] {
                "" | "force" | "takeover" => server.order_handover(&how),
                _ => Err(SYNTAX),
            }
        }
        _ => Err(super::unknown_subcommand(words)),
    }
}
