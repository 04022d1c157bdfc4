//! A Redis Cluster.

use std::time::Duration;

use simulated_redis::{ClusterConfig, ClusterMember, Config};

use super::network::{Network, Program};
pub use super::watched::{SECOND, node};

/// Keys of the first, second and third primary.
pub const KEYS: [&str; 3] = ["b", "c", "a"];

/// Nodes 1 to 3 are primaries, and 4 to 6 follow them.
pub fn cluster() -> Network {
    let id = |number: u8| format!("{number:040x}");
    let member = |number: u8| {
        let of = (number - 1) % 3;
        let edge = |part: u8| (16384 * u32::from(part) / 3) as u16;
        ClusterMember {
            id: id(number),
            address: node(number),
            primary: (number > 3).then(|| id(of + 1)),
            slots: if number > 3 { Vec::new() } else { vec![(edge(of), edge(of + 1) - 1)] },
            epoch: u64::from(of) + 1,
        }
    };
    let nodes: Vec<ClusterMember> = (1..=6).map(member).collect();
    let mut network = Network::default();
    for number in 1..=6 {
        let cluster = ClusterConfig { node_timeout: Duration::from_millis(500), nodes: nodes.clone() };
        let config = Config { cluster: Some(cluster), ..Config::new(node(number), u64::from(number)) };
        network.add(node(number), Program::Server(config));
    }
    network.until(10 * SECOND, "all agree", settled);
    network.pass(2 * SECOND);
    network
}

pub fn settled(network: &mut Network) -> bool {
    let views: Vec<String> = (1..=6).map(|number| view(network, number)).collect();
    (1..=6).all(|number| network.ask(node(number), &["CLUSTER", "INFO"]).contains("cluster_state:ok"))
        && views.iter().all(|view| *view == views[0] && !view.contains("fail") && !view.contains("disconnected"))
        && (1..=6).all(|number| {
            let info = network.ask(node(number), &["INFO", "replication"]);
            info.contains("role:master") || info.contains("master_link_status:up")
        })
}

/// Who follows whom and serves what, as a node sees it.
pub fn view(network: &mut Network, number: u8) -> String {
    let answer = network.ask(node(number), &["CLUSTER", "NODES"]);
    let fields = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, _, flags, primary, _, _, _, link, slots @ ..] = &words[..] else { return String::new() };
        format!("{id} {} {primary} {link} {}\n", flags.replace("myself,", ""), slots.join(" "))
    };
    answer.lines().map(fields).collect()
}

pub fn is_primary(network: &mut Network, number: u8) -> bool {
    network.ask(node(number), &["ROLE"]).contains("master")
}
