//! Checks of the data that a failover loses, and of its duration.

use super::{Case, Check, Shape, Weight, has_replicas, span};
use crate::observations::{Ability, Clock, Mode, NOT_REPLICATED, Role, Server};
use base::units::millis;
use base::words::{capital, list, plural};

/// A replica whose last report is older than this, in seconds, is not in sync.
const LATE_S: u64 = 5;
/// A replica that lacks more than this many bytes is not in sync.
const FAR_BEHIND: u64 = 1 << 20;

/// How long a primary must be silent before its group or cluster replaces it: the name and milliseconds.
fn silences(case: &Case) -> Vec<(String, u64)> {
    let groups =
        case.groups().into_iter().filter_map(|group| Some((format!("group {}", group.name), group.down_after_ms?)));
    let nodes = case.servers().filter_map(|server| server.cluster.known()?.node_timeout_ms.known().copied());
    let mut nodes: Vec<u64> = nodes.collect();
    nodes.sort_unstable();
    nodes.dedup();
    groups.chain(nodes.into_iter().map(|ms| ("the cluster".to_string(), ms))).collect()
}

pub static ASYNCHRONOUS: Check = Check {
    id: "failover-loses-locks",
    title: "A failover loses locks",
    reads: "SENTINEL MASTERS; CLUSTER SLOTS; CONFIG GET cluster-node-timeout; --ttl",
    remedy: "Let the resource refuse late writes. WAIT after each acquisition makes the loss rarer; it does not prevent the loss.",
    check: |case| {
        if !case.can_fail_over() {
            return Vec::new();
        }
        let silences = silences(case);
        let Some(ttl) = case.ttl.map(millis).filter(|_| !silences.is_empty()) else {
            let hint = if case.ttl.is_none() && !silences.is_empty() {
                " Give --ttl to compare it with the time of a failover."
            } else {
                ""
            };
            let text = format!(
                "A promoted replica lacks the locks that had not reached it, and grants them to a second client.{hint}"
            );
            return vec![(Weight::Loses, text)];
        };
        let each = silences.iter().map(|(who, silence)| {
            let (silent, lives) = (span(*silence), span(ttl));
            let text = if ttl > *silence {
                let rest = span(ttl - silence);
                format!(
                    "{who} promotes a replica after {silent}, when a lock of {lives} has up to {rest} left. A second client \
                     can acquire a lock that had not reached the replica."
                )
            } else {
                return (
                    Weight::Note,
                    capital(&format!(
                        "{who} promotes a replica after {silent}. A lock of {lives} has already expired, so no second client \
                         acquires it after a crash. A failover on command does not wait for the TTL, so two clients may hold \
                         the lock."
                    )),
                );
            };
            (Weight::Loses, capital(&text))
        });
        each.collect()
    },
};

pub static OUTAGE: Check = Check {
    id: "failover-outage",
    title: "A failover outlasts the lock",
    reads: "SENTINEL MASTERS; CONFIG GET cluster-node-timeout; --ttl",
    remedy: "Choose a TTL longer than a failover for locks that are renewed.",
    check: |case| {
        let Some(ttl) = case.ttl.map(millis).filter(|_| case.can_fail_over()) else { return Vec::new() };
        let groups = case.groups();
        let each = silences(case).into_iter().filter(|(_, silence)| *silence >= ttl).map(|(who, silence)| {
            let again = groups.iter().find(|group| who == format!("group {}", group.name));
            let again = again.and_then(|group| group.failover_timeout_ms).map_or(String::new(), |ms| {
                format!(" It repeats a failed attempt after {} at the earliest.", span(ms))
            });
            let (silent, lives) = (span(silence), span(ttl));
            (
                Weight::Blocks,
                capital(&format!(
                    "{who} takes {silent} to notice a dead primary. A holder cannot renew a lock of {lives} in that \
                     time.{again}"
                )),
            )
        });
        each.collect()
    },
};

pub static NO_MIN_REPLICAS: Check = Check {
    id: "no-min-replicas",
    title: "A cut-off primary grants locks",
    reads: "CONFIG GET min-replicas-to-write; INFO replication",
    remedy: "Set min-replicas-to-write 1 and min-replicas-max-lag to a few seconds, below the time of a failover.",
    check: |case| {
        if !case.can_fail_over() {
            return Vec::new();
        }
        let of = |server: &Server| (server.min_replicas.known() == Some(&0)).then_some(());
        case.alike(case.granting(), of, |servers, ()| {
            let any = servers.any();
            (
                Weight::Loses,
                format!(
                    "if {any} is cut off, it grants locks beside the promoted replica: min-replicas-to-write is 0."
                ),
            )
        })
    },
};

pub static REPLICA_BEHIND: Check = Check {
    id: "replica-behind",
    title: "A replica is not in sync",
    reads: "INFO replication of primaries and replicas",
    remedy: "Find out why the replica lags. Until it is in sync, a failover to it loses locks.",
    check: |case| {
        let behind = case.data().filter_map(|server| server.replicas.known()).flatten().filter_map(|replica| {
            let why = if !replica.online {
                "is not online".to_string()
            } else if let Some(late) = replica.lag_s.filter(|lag| *lag > LATE_S) {
                format!("reported last {} ago", span(late.saturating_mul(1000)))
            } else {
                let bytes = replica.behind.filter(|bytes| *bytes > FAR_BEHIND)?;
                format!("lacks {} bytes", base::words::count(bytes))
            };
            Some((Weight::Loses, format!("Replica {} {why}: a failover to it loses locks.", replica.address)))
        });
        let cut = case.data().filter(|server| server.link_up == Some(false)).map(|server| {
            let primary = server.primary.as_deref().unwrap_or("its primary");
            (
                Weight::Loses,
                format!("Replica {} has no link to {primary}: a failover to it loses locks.", server.address),
            )
        });
        behind.chain(cut).collect()
    },
};

pub static CLOCKS_APART: Check = Check {
    id: "clocks-apart",
    title: "The servers' clocks differ",
    reads: "TIME of each server; --ttl",
    remedy: "Synchronize the clocks of the servers.",
    check: |case| {
        // Independent servers each count a lock's TTL themselves. A replica takes over the end time of a lock from its primary.
        if !case.can_fail_over() {
            return Vec::new();
        }
        let clocks: Vec<(&Server, Clock)> = case.data().filter_map(|server| Some((server, server.clock?))).collect();
        let low = clocks.iter().min_by_key(|(_, clock)| clock.ahead_us);
        let high = clocks.iter().max_by_key(|(_, clock)| clock.ahead_us);
        let (Some((slow, low)), Some((fast, high))) = (low, high) else { return Vec::new() };
        let apart = high.ahead_us.abs_diff(low.ahead_us);
        let certain = apart.saturating_sub(high.within_us + low.within_us);
        let ms = certain / 1000;
        // The part of the TTL that Redlock allows for drift. Without a known TTL, one second, which is too much for any lock.
        let most = case.ttl.map_or(1000, |ttl| (millis(ttl) / 100).max(10));
        if ms <= most {
            return Vec::new();
        }
        let text = format!(
            "The clock of {} is at least {} ahead of {}: after a failover, locks expire earlier or later by this much.",
            fast.address,
            span(ms),
            slow.address
        );
        vec![(Weight::Loses, text)]
    },
};

pub static NO_REPLICA: Check = Check {
    id: "no-replica",
    title: "No replica can be promoted",
    reads: "SENTINEL REPLICAS; CLUSTER SLOTS",
    remedy: "Add a replica to each primary.",
    check: |case| {
        let groups = case.groups().into_iter().filter(|group| group.number_of_replicas == Some(0));
        let groups = groups.map(|group| {
            (
                Weight::Blocks,
                format!("Group {} has no replica: if its primary dies, no client acquires a lock.", group.name),
            )
        });
        let view = case.servers().find_map(|server| server.cluster.known());
        let alone: Vec<&str> = view.map_or(Vec::new(), |view| {
            let alone = view.shards.iter().filter(|shard| shard.addresses.len() == 1);
            let mut alone: Vec<&str> = alone.map(|shard| shard.addresses[0].as_str()).collect();
            alone.sort_unstable();
            alone.dedup();
            alone
        });
        let alone = (!alone.is_empty()).then(|| {
            let primaries = plural(alone.len() as u64, "primary").replace("primarys", "primaries");
            (Weight::Blocks, format!(
                "The cluster has {primaries} without a replica: if such a primary dies, its locks cannot be acquired."
            ))
        });
        groups.chain(alone).collect()
    },
};

pub static FEW_SENTINELS: Check = Check {
    id: "few-sentinels",
    title: "Too few Sentinels",
    reads: "SENTINEL MASTERS",
    remedy: "Run three Sentinels on three machines.",
    check: |case| {
        let few = case.groups().into_iter().filter_map(|group| {
            let number = group.others? + 1;
            (number < 3).then(|| {
                let sentinels = plural(number, "Sentinel");
                (
                    Weight::Blocks,
                    format!("Group {} has {sentinels}: if a Sentinel is lost, no replica is promoted.", group.name),
                )
            })
        });
        few.collect()
    },
};

pub static PRIMARY_DOWN: Check = Check {
    id: "primary-down",
    title: "The primary is down",
    reads: "SENTINEL MASTERS",
    remedy: "Check the primary and the Sentinels' logs.",
    check: |case| {
        let down = case.groups().into_iter().filter(|group| group.down);
        down.map(|group| {
            (
                Weight::Blocks,
                format!("A Sentinel considers {}, the primary of group {}, dead.", group.primary, group.name),
            )
        })
        .collect()
    },
};

pub static CLUSTER_DOWN: Check = Check {
    id: "cluster-down",
    title: "The cluster does not serve all keys",
    reads: "CLUSTER INFO; CLUSTER SLOTS",
    remedy: "Run redis-cli --cluster check with the address of a node.",
    check: |case| {
        let failed = case.data().filter(|server| {
            server.cluster.known().is_some_and(|view| view.state.as_deref().is_some_and(|state| state != "ok"))
        });
        let failed: Vec<String> = failed.map(|server| server.address.clone()).collect();
        let failed = (!failed.is_empty())
            .then(|| (Weight::Blocks, format!("The cluster's state at {} is not ok.", list(&failed))));
        let covered = case.servers().filter_map(|server| server.cluster.known()).map(|view| {
            view.shards.iter().map(|shard| u64::from(shard.last.saturating_sub(shard.first)) + 1).sum::<u64>()
        });
        let slots = u64::from(base::slots::SLOTS);
        let uncovered = covered.max().filter(|covered| *covered < slots).map(|covered| {
            let missing = base::words::count(slots - covered);
            (Weight::Blocks, format!("No node serves {missing} of {} slots.", base::words::count(slots)))
        });
        failed.into_iter().chain(uncovered).collect()
    },
};

pub static NO_ACKNOWLEDGEMENT: Check = Check {
    id: "no-acknowledgement",
    title: "No replica acknowledges writes",
    reads: "WAIT 1 after a write",
    remedy: "Check the replicas. A lock that waits for a replica cannot be acquired meanwhile.",
    check: |case| {
        let of = |server: &Server| {
            let waited = server.abilities.get(&Ability::Wait)?.known()?;
            (*waited == NOT_REPLICATED && has_replicas(server)).then_some(())
        };
        case.alike(case.granting(), of, |servers, ()| {
            (Weight::Note, format!("no replica of {} acknowledged a write within 60 ms.", servers.any()))
        })
    },
};

/// True if every named server is a replica.
pub(crate) fn only_replicas(case: &Case) -> bool {
    case.shape() != Shape::Nothing
        && case.granting().next().is_none()
        && case.data().all(|server| server.role == Role::Replica && server.mode != Mode::Sentinel)
}
