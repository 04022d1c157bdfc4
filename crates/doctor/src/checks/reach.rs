//! Checks of servers that could not be reached or observed.

use super::failover::only_replicas;
use super::{Case, Check, Weight, is_unseen};
use crate::observations::{Ability, Mode, Role, Seen, Server};
use base::words::{list, plural};

pub static UNREACHED: Check = Check {
    id: "unreached",
    title: "A server cannot be reached",
    reads: "connections to the named addresses",
    remedy: "",
    check: |case| {
        let each = case.servers().filter(|server| server.announced_by.is_none());
        each.filter_map(|server| Some((Weight::Unseen, format!("{}: {}", server.address, server.unreached.as_ref()?))))
            .collect()
    },
};

pub static ANNOUNCED: Check = Check {
    id: "announced-address",
    title: "An announced address cannot be reached",
    reads: "connections to the addresses of INFO, SENTINEL and CLUSTER SLOTS",
    remedy: "Set cluster-announce-ip, replica-announce-ip or sentinel announce-ip to an address that clients reach. Or run doctor \
             where the clients run.",
    check: |case| {
        let each = case.servers().filter(|server| server.unreached.is_some()).filter_map(|server| {
            let by = server.announced_by.as_ref()?;
            let text = format!(
                "{by} announces {}, which does not answer from here: clients that follow it fail.",
                server.address
            );
            Some((Weight::Blocks, text))
        });
        each.collect()
    },
};

pub static LEAST_COMMANDS: Check = Check {
    id: "least-commands",
    title: "No lock can be tried",
    reads: "SET NX PX, GET, PTTL and DEL on a key of doctor's own",
    remedy: "Allow this user SET, GET, PTTL and DEL on the keys of doctor: +set +get +pttl +del ~redjepsen:doctor:*",
    check: |case: &Case| {
        if only_replicas(case) {
            let text = "Every server that answers is a replica, and replicas grant no locks.";
            return vec![(Weight::Blocks, text.to_string())];
        }
        let of = |server: &Server| lacking(server, |seen| matches!(seen, Seen::Forbidden | Seen::Refused(_)));
        case.alike(case.granting(), of, |servers, lacking| {
            let error =
                case.granting().filter_map(|server| server.abilities.get(&Ability::SetNxPx)).find_map(
                    |seen| match seen {
                        Seen::Refused(error) => Some(format!(" The server says: {error}.")),
                        _ => None,
                    },
                );
            let (names, all) = (list(lacking), servers.all());
            (Weight::Blocks, format!("this user cannot use {names} at {all}.{}", error.unwrap_or_default()))
        })
    },
};

pub static UNTRIED: Check = Check {
    id: "untried-commands",
    title: "A command of every lock could not be tried",
    reads: "SET NX PX, GET, PTTL and DEL on a key of doctor's own",
    remedy: "Run doctor nearer to the server, and check that a Redis server answers at this address.",
    check: |case: &Case| {
        let of = |server: &Server| lacking(server, |seen| *seen == Seen::Unknown);
        case.alike(case.granting(), of, |servers, lacking| {
            let text = format!(
                "{} got no answer in time at {}, or an answer that no Redis server gives.",
                list(lacking),
                servers.all()
            );
            (Weight::Unseen, text)
        })
    },
};

/// The commands of every lock whose trial came to such an end; None if there is none.
fn lacking(server: &Server, is_such: impl Fn(&Seen<String>) -> bool) -> Option<Vec<String>> {
    let lacking = Ability::LEAST.iter().filter(|ability| server.abilities.get(ability).is_some_and(&is_such));
    let lacking: Vec<String> = lacking.map(|ability| ability.name().to_string()).collect();
    (!lacking.is_empty()).then_some(lacking)
}

pub static UNSEEN: Check = Check {
    id: "unseen",
    title: "Settings that matter for locks could not be read",
    reads: "refused and unanswered commands",
    remedy: "Allow the rules below, or ask the provider for these settings.",
    check: |case| {
        let of = |server: &Server| {
            let mut hidden = Vec::new();
            let mut note = |is_hidden: bool, name: &str| {
                if is_hidden {
                    hidden.push(name.to_string());
                }
            };
            note(is_unseen(&server.append_only), "appendonly");
            note(server.append_only.known() != Some(&false) && is_unseen(&server.fsync), "appendfsync");
            let limited = server.max_memory.known() != Some(&0);
            note(limited && (is_unseen(&server.max_memory) || is_unseen(&server.policy)), "maxmemory-policy");
            note(server.role == Role::Primary && is_unseen(&server.replicas), "replicas");
            note(case.can_fail_over() && is_unseen(&server.min_replicas), "min-replicas-to-write");
            note(server.role == Role::Unknown, "role");
            note(server.mode == Mode::Cluster && is_unseen(&server.cluster), "the cluster's slots");
            (!hidden.is_empty()).then_some(hidden)
        };
        case.alike(case.granting(), of, |servers, hidden| {
            (Weight::Unseen, format!("doctor could not read {} of {}.", list(hidden), servers.any()))
        })
    },
};

pub static TOO_MANY: Check = Check {
    id: "too-many",
    title: "Some servers were not asked",
    reads: "the number of announced addresses",
    remedy: "Name the servers that matter.",
    check: |case| {
        let number = case.observations.not_asked;
        (number > 0)
            .then(|| (Weight::Unseen, format!("{} were not asked.", plural(number, "announced server"))))
            .into_iter()
            .collect()
    },
};
