//! A primary with replicas, and Sentinels that watch them.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use simulated_redis::{Config, Persistence, SentinelConfig};

use super::network::{Network, Program, address};

pub const SECOND: Duration = Duration::from_secs(1);

pub fn node(number: u8) -> SocketAddrV4 {
    address(number, 6379)
}

pub fn sentinel(number: u8) -> SocketAddrV4 {
    address(100 + number, 26379)
}

/// A primary, node 1, with so many replicas.
pub fn replicated(replicas: u8, persistence: Persistence) -> Network {
    let mut network = Network::default();
    for number in 1..=replicas + 1 {
        let config = Config {
            persistence,
            replica_of: (number > 1).then(|| node(1)),
            replica_priority: 10 * u32::from(number),
            ..Config::new(node(number), u64::from(number))
        };
        network.add(node(number), Program::Server(config));
    }
    network.until(3 * SECOND, "replicas have a link", |network| {
        (2..=replicas + 1).all(|number| has(network, node(number), "master_link_status:up"))
    });
    // The stream begins with the acknowledgement after that.
    network.pass(2 * SECOND);
    network
}

pub fn has(network: &mut Network, at: SocketAddrV4, line: &str) -> bool {
    network.ask(at, &["INFO", "replication"]).contains(line)
}

/// The same, watched by three Sentinels.
pub fn watched(replicas: u8) -> Network {
    let mut network = replicated(replicas, Persistence::None);
    let id = |number: u8| format!("{number:040x}");
    for number in 1..=3 {
        let others = (1..=3).filter(|other| *other != number).map(|other| (sentinel(other), id(other)));
        let config = SentinelConfig {
            address: sentinel(number),
            id: id(number),
            group: "lock".to_string(),
            primary: node(1),
            quorum: 2,
            down_after: Duration::from_millis(500),
            failover_timeout: 2 * SECOND,
            parallel_syncs: 9,
            replicas: (2..=replicas + 1).map(node).collect(),
            sentinels: others.collect(),
            seed: u64::from(number),
        };
        network.add(sentinel(number), Program::Sentinel(config));
    }
    network.until(10 * SECOND, "the Sentinels are sure", settled);
    network
}

/// True if every Sentinel knows each server and considers none down. Redis's own tests define it so.
pub fn settled(network: &mut Network) -> bool {
    (1..=3).all(|number| {
        let quorum = network.ask(sentinel(number), &["SENTINEL", "CKQUORUM", "lock"]);
        quorum.starts_with("+OK 3 usable")
            && ["MASTER", "REPLICAS", "SENTINELS"].iter().all(|what| {
                let answer = network.ask(sentinel(number), &["SENTINEL", what, "lock"]);
                let lines: Vec<&str> = answer.split("\r\n").collect();
                let value = |name: &str| -> Vec<&str> {
                    let pairs = lines.iter().zip(lines.iter().skip(2));
                    pairs.filter(|(line, _)| **line == name).map(|(_, value)| *value).collect()
                };
                value("flags").iter().all(|flags| !flags.contains(','))
                    && value("info-refresh").iter().all(|text| text.parse::<u64>().is_ok_and(|millis| millis < 60_000))
            })
    })
}

pub fn primary_by(network: &mut Network, number: u8) -> Option<Ipv4Addr> {
    let answer = network.ask(sentinel(number), &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "lock"]);
    answer.split("\r\n").nth(2)?.parse().ok()
}

pub fn is_primary(network: &mut Network, at: SocketAddrV4) -> bool {
    network.ask(at, &["ROLE"]).contains("master")
}
