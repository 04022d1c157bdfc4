//! A table of observations, each with its finding, and with the nearest observations without that finding.

use std::time::Duration;

use super::*;
use crate::observations::*;

/// A server without any finding.
pub(crate) fn safe(address: &str) -> Server {
    let abilities = Ability::ALL.iter().map(|ability| (*ability, Seen::Known(String::new())));
    Server {
        address: address.to_string(),
        kind: Kind::Redis,
        version: Some("7.0.15".to_string()),
        run_id: Some(format!("id of {address}")),
        mode: Mode::Standalone,
        role: Role::Primary,
        varies: Seen::Known(false),
        translated: Seen::Known(false),
        append_only: Seen::Known(true),
        fsync: Seen::Known("always".to_string()),
        snapshots: Seen::Known(false),
        min_replicas: Seen::Known(0),
        replicas: Seen::Known(Vec::new()),
        used_memory: Seen::Known(50),
        max_memory: Seen::Known(0),
        policy: Seen::Known("noeviction".to_string()),
        notifications: Seen::Known(String::new()),
        watched: Seen::Known(false),
        clock: Some(Clock { ahead_us: 0, within_us: 100 }),
        abilities: abilities.collect(),
        ..Server::default()
    }
}

fn observed(servers: Vec<Server>) -> Observations {
    Observations { servers, ..Observations::default() }
}

fn replica(address: &str) -> Replica {
    Replica { address: address.to_string(), online: true, lag_s: Some(0), behind: Some(0) }
}

/// A primary with a replica, which a group of Sentinels watches. Its only finding is the failover itself.
fn group() -> Observations {
    let mut primary = safe("p:1");
    primary.replicas = Seen::Known(vec![replica("r:1")]);
    primary.min_replicas = Seen::Known(1);
    let mut second = safe("r:1");
    second.role = Role::Replica;
    second.link_up = Some(true);
    let watched = Group {
        name: "lock".to_string(),
        primary: "p:1".to_string(),
        replicas: vec!["r:1".to_string()],
        number_of_replicas: Some(1),
        down_after_ms: Some(5000),
        failover_timeout_ms: Some(60_000),
        quorum: Some(2),
        others: Some(2),
        down: false,
    };
    let sentinel = Server {
        address: "s:1".to_string(),
        mode: Mode::Sentinel,
        role: Role::Sentinel,
        groups: Seen::Known(vec![watched]),
        ..Server::default()
    };
    observed(vec![primary, second, sentinel])
}

/// A cluster of one primary and one replica.
fn cluster() -> Observations {
    let view = ClusterView {
        state: Some("ok".to_string()),
        node_timeout_ms: Seen::Known(15_000),
        shards: vec![Shard { first: 0, last: 16383, addresses: vec!["p:1".to_string(), "r:1".to_string()] }],
    };
    let mut seen = group();
    seen.servers.pop();
    for server in &mut seen.servers {
        server.mode = Mode::Cluster;
        server.cluster = Seen::Known(view.clone());
    }
    seen
}

fn one() -> Observations {
    observed(vec![safe("a:1")])
}

fn five() -> Observations {
    observed((1..=5).map(|number| safe(&format!("n{number}:1"))).collect())
}

type Change = fn(&mut Observations);

/// The base observations, the id of a check, the change that triggers it, and a part of its text. Then the nearest change that
/// must not trigger it.
type Row = (fn() -> Observations, &'static str, Change, &'static str, Change);

fn groups(seen: &mut Observations) -> &mut Group {
    let Seen::Known(groups) = &mut seen.servers[2].groups else { panic!("no group") };
    &mut groups[0]
}

fn views(seen: &mut Observations, change: fn(&mut ClusterView)) {
    for server in &mut seen.servers {
        if let Seen::Known(view) = &mut server.cluster {
            change(view);
        }
    }
}

fn replicas(seen: &mut Observations) -> &mut Replica {
    let Seen::Known(replicas) = &mut seen.servers[0].replicas else { panic!("no replica") };
    &mut replicas[0]
}

const TABLE: &[Row] = &[
    (
        one,
        "no-persistence",
        |seen| seen.servers[0].append_only = Seen::Known(false),
        "A restart of a:1 forgets every lock: the server writes no data to disk.",
        |_| {},
    ),
    (
        one,
        "no-persistence",
        |seen| {
            seen.servers[0].append_only = Seen::Known(false);
            seen.servers[0].snapshots = Seen::Known(true);
        },
        "A restart of a:1 forgets locks: the server writes no append-only file.",
        |seen| seen.servers[0].append_only = Seen::Forbidden,
    ),
    (
        five,
        "no-persistence",
        |seen| seen.servers.iter_mut().for_each(|server| server.append_only = Seen::Known(false)),
        "A restart of any of 5 servers forgets every lock",
        |_| {},
    ),
    (
        one,
        "late-sync",
        |seen| seen.servers[0].fsync = Seen::Known("everysec".to_string()),
        "A power loss at a:1 forgets the locks of about the last second: appendfsync is everysec.",
        |_| {},
    ),
    (
        one,
        "late-sync",
        |seen| seen.servers[0].fsync = Seen::Known("no".to_string()),
        "up to half a minute: appendfsync is no.",
        |seen| {
            seen.servers[0].fsync = Seen::Known("no".to_string());
            seen.servers[0].append_only = Seen::Known(false);
        },
    ),
    (
        one,
        "eviction",
        |seen| {
            seen.servers[0].max_memory = Seen::Known(100);
            seen.servers[0].policy = Seen::Known("allkeys-lru".to_string());
        },
        "A:1 evicts locks when its memory is full: maxmemory-policy is allkeys-lru, and 50% is left.",
        |seen| seen.servers[0].policy = Seen::Known("allkeys-lru".to_string()),
    ),
    (
        one,
        "eviction",
        |seen| {
            seen.servers[0].max_memory = Seen::Known(100);
            seen.servers[0].policy = Seen::Known("volatile-ttl".to_string());
        },
        "volatile-ttl",
        |seen| seen.servers[0].max_memory = Seen::Known(100),
    ),
    (
        one,
        "memory-full",
        |seen| seen.servers[0].max_memory = Seen::Known(55),
        "A:1 refuses new locks when its memory is full, and 9% is left.",
        |seen| seen.servers[0].max_memory = Seen::Known(56),
    ),
    (
        one,
        "different-servers",
        |seen| seen.servers[0].varies = Seen::Known(true),
        "Two connections to a:1 reach different servers",
        |seen| seen.servers[0].varies = Seen::Unknown,
    ),
    (
        five,
        "same-server",
        |seen| seen.servers[1].run_id = seen.servers[0].run_id.clone(),
        "n1:1 and n2:1 are one server",
        // Two servers without a run id may be different ones.
        |seen| seen.servers[..2].iter_mut().for_each(|server| server.run_id = None),
    ),
    (
        one,
        "translated",
        |seen| seen.servers[0].translated = Seen::Known(true),
        "Something forwards the connections",
        |seen| seen.servers[0].translated = Seen::Forbidden,
    ),
    (
        one,
        "refused-commands",
        |seen| _ = seen.servers[0].abilities.insert(Ability::Wait, Seen::Refused("ERR unknown command".to_string())),
        "A:1: WAIT fail",
        // Access rules do not show a proxy, and this server is too old for WAITAOF.
        |seen| {
            seen.servers[0].abilities.insert(Ability::Wait, Seen::Forbidden);
            seen.servers[0].abilities.insert(Ability::Waitaof, Seen::Refused("ERR unknown command".to_string()));
        },
    ),
    (
        one,
        "watched",
        |seen| seen.servers[0].watched = Seen::Known(true),
        "Sentinels watch a:1",
        |seen| seen.servers[0].watched = Seen::Forbidden,
    ),
    (
        group,
        "no-min-replicas",
        |seen| seen.servers[0].min_replicas = Seen::Known(0),
        "If p:1 is cut off, it grants locks beside the promoted replica: min-replicas-to-write is 0.",
        |_| {},
    ),
    (
        group,
        "replica-behind",
        |seen| replicas(seen).online = false,
        "Replica r:1 is not online",
        |seen| replicas(seen).behind = Some(1 << 20),
    ),
    (
        group,
        "replica-behind",
        |seen| replicas(seen).lag_s = Some(6),
        "reported last 6 s ago",
        |seen| {
            replicas(seen).lag_s = Some(5);
        },
    ),
    (group, "replica-behind", |seen| replicas(seen).behind = Some((1 << 20) + 1), "lacks 1,048,577 bytes", |_| {}),
    (
        group,
        "replica-behind",
        |seen| seen.servers[1].link_up = Some(false),
        "Replica r:1 has no link to its primary",
        |seen| seen.servers[1].link_up = None,
    ),
    (
        group,
        "clocks-apart",
        |seen| seen.servers[1].clock = Some(Clock { ahead_us: 1_100_000, within_us: 400 }),
        "The clock of r:1 is at least 1.1 s ahead of p:1",
        // The same offset, but not certain.
        |seen| seen.servers[1].clock = Some(Clock { ahead_us: 1_100_000, within_us: 200_000 }),
    ),
    (
        group,
        "no-replica",
        |seen| groups(seen).number_of_replicas = Some(0),
        "Group lock has no replica",
        // The list of replicas was refused.
        |seen| groups(seen).replicas.clear(),
    ),
    (cluster, "no-replica", |seen| views(seen, |view| _ = view.shards[0].addresses.pop()), "1 primary without", |_| {}),
    (
        group,
        "few-sentinels",
        |seen| groups(seen).others = Some(1),
        "Group lock has 2 Sentinels",
        |seen| {
            groups(seen).others = None;
        },
    ),
    (group, "primary-down", |seen| groups(seen).down = true, "A Sentinel considers p:1", |_| {}),
    (
        cluster,
        "cluster-down",
        |seen| views(seen, |view| view.state = Some("fail".to_string())),
        "The cluster's state at p:1 and r:1 is not ok.",
        |seen| views(seen, |view| view.state = None),
    ),
    (
        cluster,
        "cluster-down",
        |seen| views(seen, |view| view.shards[0].last = 16382),
        "No node serves 1 of 16,384 slots.",
        |_| {},
    ),
    (
        group,
        "no-acknowledgement",
        |seen| _ = seen.servers[0].abilities.insert(Ability::Wait, Seen::Known(NOT_REPLICATED.to_string())),
        "No replica of p:1 acknowledged",
        |seen| _ = seen.servers[0].abilities.insert(Ability::Wait, Seen::Known("1 replica has the write".to_string())),
    ),
    (
        one,
        "least-commands",
        |seen| _ = seen.servers[0].abilities.insert(Ability::Pttl, Seen::Forbidden),
        "This user cannot use PTTL at a:1.",
        |seen| _ = seen.servers[0].abilities.insert(Ability::Pexpire, Seen::Forbidden),
    ),
    (
        one,
        "untried-commands",
        |seen| _ = seen.servers[0].abilities.insert(Ability::Pttl, Seen::Unknown),
        "PTTL got no answer in time at a:1, or an answer that no Redis server gives.",
        |seen| _ = seen.servers[0].abilities.insert(Ability::Pttl, Seen::Forbidden),
    ),
    (
        one,
        "least-commands",
        |seen| _ = seen.servers[0].abilities.insert(Ability::Pttl, Seen::Refused("ERR no".to_string())),
        "This user cannot use PTTL at a:1.",
        |seen| _ = seen.servers[0].abilities.insert(Ability::Pttl, Seen::Unknown),
    ),
    (
        one,
        "least-commands",
        |seen| seen.servers[0].role = Role::Replica,
        "Every server that answers is a replica",
        |seen| seen.servers[0].role = Role::Unknown,
    ),
    (
        one,
        "unseen",
        |seen| {
            seen.servers[0].append_only = Seen::Forbidden;
            seen.servers[0].fsync = Seen::Forbidden;
        },
        "Doctor could not read appendonly and appendfsync of a:1.",
        // Without a memory limit the policy does not matter. Without a file the sync policy does not matter.
        |seen| {
            seen.servers[0].policy = Seen::Forbidden;
            seen.servers[0].append_only = Seen::Known(false);
            seen.servers[0].fsync = Seen::Forbidden;
        },
    ),
    (
        cluster,
        "unseen",
        |seen| seen.servers[0].cluster = Seen::Forbidden,
        "Doctor could not read the cluster's slots of p:1.",
        |seen| seen.servers[1].cluster = Seen::Forbidden,
    ),
    (
        group,
        "unseen",
        |seen| seen.servers[0].min_replicas = Seen::Forbidden,
        "Doctor could not read min-replicas-to-write of p:1.",
        |seen| seen.servers[1].min_replicas = Seen::Forbidden,
    ),
    (
        five,
        "unreached",
        |seen| seen.servers[4].unreached = Some("The connection is refused.".to_string()),
        "n5:1: The connection is refused.",
        |_| {},
    ),
    (
        cluster,
        "announced-address",
        |seen| {
            seen.servers[1].announced_by = Some("p:1".to_string());
            seen.servers[1].unreached = Some("No connection.".to_string());
        },
        "p:1 announces r:1, which does not answer from here",
        |seen| seen.servers[1].announced_by = Some("p:1".to_string()),
    ),
    (one, "too-many", |seen| seen.not_asked = 3, "3 announced servers were not asked.", |_| {}),
];

fn said(seen: &Observations, id: &str) -> Vec<String> {
    let found = findings(seen, None).into_iter().filter(|finding| finding.check == id);
    found.map(|finding| finding.sentence).collect()
}

#[test]
fn each_setting_has_its_sentence_and_the_nearest_setting_has_not() {
    for (base, id, change, part, nearest) in TABLE {
        let mut seen = base();
        change(&mut seen);
        let sentences = said(&seen, id);
        assert!(sentences.iter().any(|sentence| sentence.contains(part)), "{id}: {sentences:?} lacks {part:?}");
        let mut seen = base();
        nearest(&mut seen);
        assert_eq!(said(&seen, id), Vec::<String>::new(), "{id}, beside {part:?}");
    }
}

#[test]
fn nothing_is_said_of_a_safe_server() {
    for seen in [one(), five()] {
        assert_eq!(findings(&seen, Some(Duration::from_secs(30))), []);
    }
    for seen in [group(), cluster()] {
        let found: Vec<String> = findings(&seen, None).into_iter().map(|finding| finding.check).collect();
        assert_eq!(found, ["failover-loses-locks"]);
    }
}

#[test]
fn failover_is_compared_with_the_ttl() {
    let of = |seen: &Observations, ttl| -> Vec<(String, Weight, String)> {
        let found = findings(seen, Some(Duration::from_secs(ttl))).into_iter();
        found.map(|finding| (finding.check, finding.weight, finding.sentence)).collect()
    };
    let found = of(&group(), 30);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1, Weight::Loses);
    assert!(
        found[0].2.starts_with("Group lock promotes a replica after 5 s, when a lock of 30 s has up to 25 s left.")
    );
    let found = of(&group(), 5);
    let checks: Vec<(&str, Weight)> = found.iter().map(|(check, weight, _)| (check.as_str(), *weight)).collect();
    assert_eq!(checks, [("failover-outage", Weight::Blocks), ("failover-loses-locks", Weight::Note)]);
    assert!(found[0].2.contains("takes 5 s to notice") && found[0].2.contains("after 60 s"), "{}", found[0].2);
    assert!(of(&cluster(), 30)[0].2.starts_with("The cluster promotes a replica after 15 s"));
    // A single server has no failover.
    assert_eq!(of(&one(), 1), []);
}

#[test]
fn clocks_are_compared_with_the_ttl() {
    let mut seen = group();
    seen.servers[1].clock = Some(Clock { ahead_us: -150_000, within_us: 400 });
    let apart = |ttl| findings(&seen, ttl).iter().any(|finding| finding.check == "clocks-apart");
    assert!(apart(Some(Duration::from_secs(10))) && !apart(Some(Duration::from_secs(20))) && !apart(None));
}

#[test]
fn every_check_is_declared_in_full_and_tried() {
    let mut ids: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
    ids.sort_unstable();
    let number = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), number, "an id twice");
    let apart = ["failover-loses-locks", "failover-outage"];
    for check in CHECKS {
        assert!(TABLE.iter().any(|row| row.1 == check.id) || apart.contains(&check.id), "no row for {}", check.id);
        assert!(!check.title.is_empty() && !check.title.ends_with('.') && !check.reads.is_empty(), "{}", check.id);
        for sentence in check.remedy.split(". ") {
            assert!(sentence.split(' ').count() <= 25, "{}: {sentence}", check.id);
        }
    }
}

#[test]
fn sentences_are_short() {
    for (base, id, change, ..) in TABLE {
        let mut seen = base();
        change(&mut seen);
        for text in said(&seen, id) {
            for sentence in text.split(". ") {
                assert!(sentence.split(' ').count() <= 25, "{id}: {sentence}");
            }
        }
    }
}

#[test]
fn findings_are_ordered_by_weight() {
    let mut seen = group();
    seen.servers[0].append_only = Seen::Known(false);
    seen.servers[0].watched = Seen::Known(true);
    groups(&mut seen).others = Some(0);
    let weights: Vec<Weight> = findings(&seen, None).into_iter().map(|finding| finding.weight).collect();
    assert!(weights.is_sorted() && weights.len() > 2, "{weights:?}");
}

#[test]
fn numbers_of_a_hostile_server_break_nothing() {
    let mut seen = group();
    replicas(&mut seen).lag_s = Some(u64::MAX);
    let group = groups(&mut seen);
    (group.down_after_ms, group.failover_timeout_ms, group.others) =
        (Some(u64::MAX), Some(u64::MAX), Some(i64::MAX as u64));
    seen.servers[0].clock = Some(Clock { ahead_us: i64::MIN, within_us: 0 });
    seen.servers[1].clock = Some(Clock { ahead_us: i64::MAX, within_us: u64::MAX / 4 });
    seen.servers[0].max_memory = Seen::Known(1);
    seen.servers[0].used_memory = Seen::Known(u64::MAX);
    for ttl in [None, Some(Duration::from_secs(30)), Some(Duration::MAX)] {
        let diagnosis = crate::diagnose(seen.clone(), ttl);
        assert!(!crate::text(&diagnosis, 20).is_empty());
    }
}
