//! Checks of the path between this machine and the servers.

use super::{Check, Weight};
use crate::observations::{Ability, Seen, Server};
use base::words::list;

pub static DIFFERENT_SERVERS: Check = Check {
    id: "different-servers",
    title: "Connections reach different servers",
    reads: "run_id of INFO server on two connections",
    remedy: "Give clients an address that leads to one primary: a lock exists only where it was acquired.",
    check: |case| {
        let of = |server: &Server| (server.varies.known() == Some(&true)).then_some(());
        case.alike(case.data(), of, |servers, ()| {
            (
                Weight::Loses,
                format!("two connections to {} reach different servers: two clients can hold one lock.", servers.any()),
            )
        })
    },
};

pub static SAME_SERVER: Check = Check {
    id: "same-server",
    title: "Two addresses are one server",
    reads: "run_id of INFO server",
    remedy: "Give Redlock servers that fail independently.",
    check: |case| {
        let named: Vec<&Server> = case.data().filter(|server| server.announced_by.is_none()).collect();
        let mut found = Vec::new();
        for (number, server) in named.iter().enumerate() {
            let same = |other: &&&Server| other.run_id.is_some() && other.run_id == server.run_id;
            if let Some(other) = named[..number].iter().find(same) {
                let text =
                    format!("{} and {} are one server: Redlock counts its vote twice.", other.address, server.address);
                found.push((Weight::Loses, text));
            }
        }
        found
    },
};

/// Commands that every Redis since 3.0 has.
const OLD: [Ability; 5] = [Ability::Eval, Ability::Evalsha, Ability::Wait, Ability::Publish, Ability::Subscribe];

pub static REFUSED: Check = Check {
    id: "refused-commands",
    title: "A proxy or service refuses commands",
    reads: "trials of EVAL, EVALSHA, WAIT, PUBLISH and SUBSCRIBE",
    remedy: "Choose a lock that does not need these commands, or connect without the proxy.",
    check: |case| {
        let of = |server: &Server| {
            let refused = |ability: &&Ability| match server.abilities.get(ability) {
                Some(Seen::Refused(error)) => !error.starts_with("READONLY"),
                _ => false,
            };
            let refused: Vec<String> = OLD.iter().filter(refused).map(|ability| ability.name().to_string()).collect();
            (!refused.is_empty()).then_some(refused)
        };
        case.alike(case.granting(), of, |servers, refused| {
            let (all, names) = (servers.all(), list(refused));
            (
                Weight::Note,
                format!(
                    "{all}: {names} fail here, although every Redis has them. A proxy or the service refuses them."
                ),
            )
        })
    },
};

pub static TRANSLATED: Check = Check {
    id: "translated",
    title: "A proxy or address translation is in between",
    reads: "CLIENT INFO",
    remedy: "Find out whether the proxy holds connections open after a failover, and which commands it refuses.",
    check: |case| {
        let of = |server: &Server| (server.translated.known() == Some(&true)).then_some(());
        case.alike(case.data(), of, |servers, ()| {
            (
                Weight::Note,
                format!(
                    "Something forwards the connections to {}: clients have addresses there that this machine does not have.",
                    servers.all()
                ),
            )
        })
    },
};

pub static WATCHED: Check = Check {
    id: "watched",
    title: "Sentinels watch this server",
    reads: "PUBSUB NUMSUB __sentinel__:hello",
    remedy: "Give the addresses of the Sentinels and --sentinel NAME. Doctor then compares the time of a failover with --ttl.",
    check: |case| {
        if !case.groups().is_empty() {
            return Vec::new();
        }
        let of = |server: &Server| (server.watched.known() == Some(&true)).then_some(());
        case.alike(case.granting(), of, |servers, ()| {
            (
                Weight::Note,
                format!("Sentinels watch {}: a failover is possible, and its settings were not read.", servers.all()),
            )
        })
    },
};
