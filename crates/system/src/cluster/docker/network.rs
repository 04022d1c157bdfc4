//! The cluster's network: its own bridge, with an address for every member that restarts do not change.
//!
//! Picks a subnet from candidates that neither the engine's networks nor this machine's routes use. If the engine still says that
//! a candidate overlaps, tries the next candidate.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use bollard::models::{Ipam, IpamConfig, NetworkCreateRequest};
use ipnet::Ipv4Net;
use sha2::{Digest, Sha256};

use super::ask::ask;
use super::engine::Docker;
use super::{labels_of, network_name};
use crate::cluster::address::{check_room, room};
use crate::cluster::error::ClusterError;
use crate::cluster::spec::ClusterSpec;
use model::topology::Program;

#[derive(Clone, Debug)]
pub struct RunNetwork {
    pub id: String,
    pub subnet: Ipv4Net,
    /// The bridge device on the engine's machine that joins the members.
    pub bridge: String,
}

/// Option for the name of the bridge device. Without it, the engine names the device after an id that is not known in advance.
const BRIDGE_OPTION: &str = "com.docker.network.bridge.name";

/// At most this many candidates are tried.
const ATTEMPTS: usize = 16;

impl Docker {
    /// Checks that a cluster of this many members can use this subnet. The engine may still refuse it.
    pub async fn check_subnet(&self, subnet: Ipv4Net, members: u64) -> Result<(), ClusterError> {
        let subnet = subnet.trunc();
        if let Some((other, whose)) = self.taken_subnets().await?.iter().find(|(other, _)| overlap(*other, subnet)) {
            return Err(ClusterError::SubnetTaken { subnet, reason: format!("{whose} uses {other}") });
        }
        check_room(subnet, members)
    }

    /// Fails if the engine runs on this machine and the kernel's neighbour table cannot hold all pairs of members that talk.
    pub fn check_neighbours(&self, spec: &ClusterSpec) -> Result<(), ClusterError> {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let limit = read("/proc/sys/net/ipv4/neigh/default/gc_thresh3").and_then(|text| text.trim().parse().ok());
        // The second line has it as a hexadecimal number.
        let taken = read("/proc/net/stat/arp_cache").and_then(|text| {
            let entries = text.lines().nth(1)?.split_whitespace().next()?;
            u64::from_str_radix(entries, 16).ok()
        });
        let needed = neighbours(spec);
        match limit {
            Some(limit) if self.engine.local && needed + taken.unwrap_or(0) > limit => {
                let (clients, nodes) = (spec.clients, spec.nodes);
                Err(ClusterError::TooManyNeighbours {
                    clients,
                    nodes,
                    needed,
                    room: limit - taken.unwrap_or(0).min(limit),
                })
            }
            _ => Ok(()),
        }
    }

    pub async fn make_network(&self, spec: &ClusterSpec) -> Result<RunNetwork, ClusterError> {
        let candidates: Vec<Ipv4Net> = match spec.subnet {
            Some(subnet) => {
                self.check_subnet(subnet, spec.addresses()).await?;
                vec![subnet.trunc()]
            }
            None => {
                let taken = self.taken_subnets().await?;
                candidates(&spec.run_id)
                    .filter(|subnet| spec.addresses() <= room(*subnet))
                    .filter(|subnet| !taken.iter().any(|(other, _)| overlap(*other, *subnet)))
                    .take(ATTEMPTS)
                    .collect()
            }
        };
        let bridge = bridge_name(&spec.run_id);
        let mut last = "all candidate networks are in use".to_string();
        for subnet in candidates {
            let request = NetworkCreateRequest {
                name: network_name(&spec.run_id),
                driver: Some("bridge".to_string()),
                // Members reach each other and nothing else.
                internal: Some(true),
                options: Some(HashMap::from([(BRIDGE_OPTION.to_string(), bridge.clone())])),
                ipam: Some(Ipam {
                    config: Some(vec![IpamConfig { subnet: Some(subnet.to_string()), ..Default::default() }]),
                    ..Default::default()
                }),
                labels: Some(labels_of(spec, "network")),
                ..Default::default()
            };
            match ask(format!("make the network {subnet}"), self.api.create_network(request)).await {
                Ok(made) => return Ok(RunNetwork { id: made.id, subnet, bridge }),
                Err(ClusterError::Engine { reason, .. }) if says_overlap(&reason) => {
                    if spec.subnet.is_some() {
                        return Err(ClusterError::SubnetTaken { subnet, reason });
                    }
                    last = reason;
                }
                Err(error) => return Err(error),
            }
        }
        Err(ClusterError::NoSubnet { reason: last })
    }

    /// Subnets in use, each with the name of its user.
    async fn taken_subnets(&self) -> Result<Vec<(Ipv4Net, String)>, ClusterError> {
        let networks = ask("list its networks", self.api.list_networks(None)).await?;
        let mut taken = Vec::new();
        for network in networks {
            let name = network.name.unwrap_or_default();
            for config in network.ipam.and_then(|ipam| ipam.config).unwrap_or_default() {
                if let Some(subnet) = config.subnet.and_then(|subnet| subnet.parse::<Ipv4Net>().ok()) {
                    taken.push((subnet, format!("the Docker network {name}")));
                }
            }
        }
        if self.engine.local
            && let Ok(table) = std::fs::read_to_string("/proc/net/route")
        {
            taken.extend(routes(&table).into_iter().map(|(subnet, device)| (subnet, format!("a route by {device}"))));
        }
        Ok(taken)
    }
}

/// How many entries the members need in the kernel's neighbour table. Each member needs one for each member that it talks to.
fn neighbours(spec: &ClusterSpec) -> u64 {
    let clients = spec.client_processes();
    let servers = spec.addresses() - clients;
    let one_group = spec.program != Program::Redis || spec.topology.has_roles();
    let among_servers = if one_group { servers * servers.saturating_sub(1) } else { 0 };
    // All servers talk to the agent, which is on the machine itself.
    2 * clients * servers + among_servers + 2 * servers
}

/// A name for the bridge device. A device name has at most 15 characters, so the run's id is hashed.
fn bridge_name(run_id: &str) -> String {
    format!("rj-{}", base::words::hex(&Sha256::digest(run_id.as_bytes())[..6]))
}

/// Private networks that few people use. The order depends on the run, so that concurrent runs seldom collide.
fn candidates(run_id: &str) -> impl Iterator<Item = Ipv4Net> {
    let first = run_id.bytes().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    let tens = (0..=255u8).map(move |step| Ipv4Addr::new(10, 213, first.wrapping_add(step), 0));
    let others = (0..=255u8).map(|third| Ipv4Addr::new(172, 31, third, 0));
    let more = (200..=254u8).map(|third| Ipv4Addr::new(192, 168, third, 0));
    tens.chain(others).chain(more).filter_map(|address| Ipv4Net::new(address, 24).ok())
}

fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

fn says_overlap(reason: &str) -> bool {
    let reason = reason.to_lowercase();
    reason.contains("overlap") || reason.contains("conflicts with network")
}

/// Destinations in /proc/net/route with their devices, without the default route.
fn routes(table: &str) -> Vec<(Ipv4Net, String)> {
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // Addresses are in the processor's byte order, which is little endian wherever redjepsen runs.
        let address = |text: &str| u32::from_str_radix(text, 16).ok().map(|number| Ipv4Addr::from(number.swap_bytes()));
        let (destination, mask) = (address(fields.get(1)?)?, address(fields.get(7)?)?);
        let subnet = Ipv4Net::with_netmask(destination, mask).ok()?;
        (subnet.prefix_len() > 0).then(|| (subnet, fields[0].to_string()))
    };
    table.lines().skip(1).filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_and_the_default_one_is_no_obstacle() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\nbroken line\n";
        assert_eq!(routes(table), [("172.17.0.0/16".parse().unwrap(), "docker0".to_string())]);
    }

    #[test]
    fn whoever_talks_is_a_neighbour_of_the_other() {
        let spec = |nodes, clients| ClusterSpec { nodes, clients, ..ClusterSpec::for_test() };
        // Each client talks to each node and to the resource, and each server to the agent.
        assert_eq!(neighbours(&spec(5, 5)), 2 * 5 * 6 + 2 * 6);
        assert!(neighbours(&spec(15, 40)) > 1024, "more than a kernel has room for by default");
        let etcd = ClusterSpec { program: Program::Etcd, ..spec(5, 5) };
        assert_eq!(neighbours(&etcd), 2 * 5 * 6 + 6 * 5 + 2 * 6, "and nodes with each other");
    }

    #[test]
    fn every_run_has_a_bridge_of_its_own() {
        assert_eq!(bridge_name("20250101T000000-1").len(), 15);
        assert_ne!(bridge_name("20250101T000000-1"), bridge_name("20250101T000000-2"));
    }

    #[test]
    fn candidates_are_many_and_differ_in_order() {
        assert_ne!(candidates("a").next(), candidates("b").next());
        assert!(candidates("a").all(|subnet| subnet.prefix_len() == 24));
        assert!(candidates("a").count() > 500);
    }

    #[test]
    fn overlaps_are_seen_both_ways() {
        let net = |text: &str| text.parse::<Ipv4Net>().unwrap();
        assert!(overlap(net("10.0.0.0/8"), net("10.213.1.0/24")));
        assert!(overlap(net("10.213.1.0/24"), net("10.0.0.0/8")));
        assert!(!overlap(net("10.212.0.0/16"), net("10.213.1.0/24")));
        assert!(says_overlap("Pool overlaps with other one on this address space"));
    }
}
