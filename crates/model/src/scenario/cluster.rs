//! The cluster of a run, and which of its settings go together.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::{Scenario, ScenarioError};
use crate::history::ResourceKind;
use crate::nemesis::{Fault, TargetSpec};
use crate::topology::{ClusterKind, ExistingServers, NamedServer, OwnClient, Persistence, Program};

/// The settings of a cluster, besides the servers that the workload asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterSettings {
    pub kind: ClusterKind,
    /// The image of the nodes' Redis; if None, the default image.
    pub image: Option<String>,
    /// The program of the nodes' Redis, as an absolute path; if None, this machine's own.
    pub redis_server: Option<PathBuf>,
    /// The name and version of a Redis on this machine that the nodes run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<NamedServer>,
    /// The image in which the workload's own client runs; if None, one is built from this machine's programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_image: Option<String>,
    /// The members' network; if None, a free one.
    pub subnet: Option<Ipv4Net>,
    /// The lock's nodes, if they already run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing: Option<ExistingServers>,
}

/// Addresses that no member of a network can have (RFC 6890), and their kind.
const NO_NETWORKS: [(Ipv4Net, &str); 4] = [
    (Ipv4Net::new_assert(Ipv4Addr::new(0, 0, 0, 0), 8), "unspecified"),
    (Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8), "loopback"),
    (Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 4), "multicast"),
    (Ipv4Net::new_assert(Ipv4Addr::new(240, 0, 0, 0), 4), "reserved or broadcast"),
];

impl Scenario {
    /// The kind of cluster. An option that only one kind supports decides for that kind.
    pub fn cluster_kind(&self) -> ClusterKind {
        match (self.cluster.kind, &self.client) {
            (named @ ClusterKind::Named(_), _) => named,
            _ if self.needs_containers().is_some() => ClusterKind::DOCKER,
            (_, Some(OwnClient { image: None, .. })) => ClusterKind::LOCAL,
            (open, _) => open,
        }
    }

    /// The option that needs containers, by the name of its flag.
    fn needs_containers(&self) -> Option<&'static str> {
        let client = self.client.as_ref();
        [
            ("--image", self.cluster.image.is_some()),
            (
                "--client-image",
                self.cluster.client_image.is_some() || client.is_some_and(|client| client.image.is_some()),
            ),
            ("--mount", client.is_some_and(|client| !client.mounts.is_empty())),
        ]
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
    }

    pub(super) fn check_cluster(&self) -> Result<(), ScenarioError> {
        let refuse = |text: String| Err(ScenarioError(text));
        let ClusterSettings { image, redis_server, server, .. } = &self.cluster;
        let nodes_run =
            [("--image", image.is_some()), ("--redis-server", redis_server.is_some()), ("--server", server.is_some())];
        let mut given = nodes_run.iter().filter(|(_, given)| *given).map(|(flag, _)| flag);
        if let (Some(one), Some(other)) = (given.next(), given.next()) {
            return refuse(format!("{one} cannot be used with {other}: both choose the nodes' Redis"));
        }
        if let Some(subnet) = self.cluster.subnet
            && let Some((_, what)) = NO_NETWORKS.iter().find(|(of, _)| of.contains(&subnet) || subnet.contains(of))
        {
            return refuse(format!(
                "--subnet {subnet} has {what} addresses, so it cannot be the network of a cluster; choose a private network such as \
                 10.213.7.0/24, or leave it out"
            ));
        }
        match (self.cluster_kind().named(), self.needs_containers()) {
            (Some(kind), Some(flag)) if !kind.containers => {
                return refuse(format!("{flag} cannot be used with --cluster {}", kind.name));
            }
            (Some(kind), _) if kind.containers && self.client.as_ref().is_some_and(|client| client.image.is_none()) => {
                return refuse(
                    "--client-cmd needs --client-image in Docker, the image that it runs in; or use --cluster local"
                        .into(),
                );
            }
            _ => {}
        }
        let Some(client) = &self.client else { return Ok(()) };
        if client.command.is_empty() {
            return refuse("--client-cmd: the command is empty".into());
        }
        match &client.folder {
            Some(folder) if !folder.is_dir() => {
                refuse(format!("--client-cmd: its working directory {} does not exist", folder.display()))
            }
            _ => Ok(()),
        }
    }
}

impl Scenario {
    /// Checks that existing servers can be the nodes of this lock, and that no fault touches them.
    pub(super) fn check_existing(&self) -> Result<(), ScenarioError> {
        let refuse = |text: String| Err(ScenarioError(text));
        let kind = self.cluster_kind();
        for name in self.nemesis.hooks_in_use() {
            if kind.owns_nodes() {
                return refuse(format!(
                    "nemesis {}: `hook {name}` disturbs servers that already run; name them with --server",
                    self.nemesis_name
                ));
            }
            let needs_roles = self.nemesis.hook(name).is_some_and(|hook| hook.seen.is_none());
            if needs_roles && !self.workload.topology.has_roles() {
                return refuse(format!(
                    "nemesis {}: `hook {name}` has no `seen`, so only a new primary would show its effect, but workload {} has no \
                     primary and replicas; add `seen`",
                    self.nemesis_name, self.workload_name
                ));
            }
        }
        let servers = match &self.cluster.existing {
            None if kind.owns_nodes() => return Ok(()),
            Some(servers) if !kind.owns_nodes() && !servers.addresses.is_empty() => servers,
            None | Some(_) if !kind.owns_nodes() => {
                return refuse(
                    "--cluster existing needs the servers: give --server redis://host:port for each node".into(),
                );
            }
            _ => {
                return refuse(format!(
                    "--server redis://… and options such as --allow-writes need --cluster existing, not {}, which starts its own \
                     servers",
                    kind.word()
                ));
            }
        };
        let Scenario { workload, workload_name: name, .. } = self;
        if workload.lock.program() != Program::Redis || workload.lock.is_granted_by_controller() {
            return refuse(format!("workload {name} has no lock on Redis, so it cannot run on existing servers"));
        }
        if workload.resource.kind == ResourceKind::Replicated {
            return refuse(format!(
                "workload {name} keeps the resource on the nodes, but on existing servers redjepsen only writes locks; choose a \
                 workload such as cluster or redis-py-sentinel"
            ));
        }
        if workload.topology.is_independent() && servers.addresses.len() != self.nodes as usize {
            return refuse(format!(
                "--nodes {} contradicts {} --server: each server is a node",
                self.nodes,
                servers.addresses.len()
            ));
        }
        let own = [
            ("--image", self.cluster.image.is_some()),
            ("--redis-server", self.cluster.redis_server.is_some()),
            ("--redis-config", !self.workload.redis_config.is_empty()),
            ("--persistence", self.persistence != Persistence::None),
        ];
        if let Some((flag, _)) = own.iter().find(|(_, given)| *given) {
            return refuse(format!(
                "{flag} is for servers that redjepsen starts; leave it out with --cluster existing"
            ));
        }
        if let Some(fault) = self.nemesis.all_faults().find(|fault| self.reaches_into_a_node(fault)) {
            let remedy = match fault.kind.promotes_a_replica() {
                true => "if you are allowed to make a replica of these servers the primary, add --allow-failover",
                false => "choose one on clients or connections, such as pause, crash-holder or lost-reply",
            };
            return refuse(format!(
                "nemesis {}: `{fault}` is a fault of a server, but redjepsen does not change existing servers; {remedy}",
                self.nemesis_name
            ));
        }
        if !servers.allow_writes {
            return refuse(format!(
                "this run would write its own keys to {}, and remove them at the end. If you are allowed to do this there, \
                 add --allow-writes",
                servers.addresses.join(" ")
            ));
        }
        Ok(())
    }

    /// True if a fault hits a lock's node itself, or links between nodes. All other faults hit clients, the resource, or links
    /// between clients and nodes. A failover that the user allows does not count.
    fn reaches_into_a_node(&self, fault: &Fault) -> bool {
        let independent = self.workload.topology.is_independent();
        match &fault.whom {
            // Links between independent nodes carry nothing.
            TargetSpec::Shape(shape, _) => !independent && shape.cuts_nodes_from_each_other(),
            TargetSpec::Links(links) => {
                let only_nodes = |targets: &crate::nemesis::Targets| targets.0.iter().all(|target| target.is_node());
                links.iter().any(|link| only_nodes(&link.one) && only_nodes(&link.other))
            }
            TargetSpec::Members(_) if fault.kind.promotes_a_replica() => {
                !self.cluster.existing.as_ref().is_some_and(|servers| servers.allow_failover)
            }
            TargetSpec::Members(_) if fault.kind.is_a_hook() => false,
            TargetSpec::Members(targets) => targets.0.iter().any(|target| target.is_node()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::Options;
    use crate::topology::ClientMount;

    #[test]
    fn a_subnet_is_one_that_members_can_have_addresses_in() {
        let plain = Options::default().scenario("redlock", "pause", 7, Path::new("")).unwrap();
        let of = |subnet: &str| {
            let cluster = ClusterSettings { subnet: Some(subnet.parse().unwrap()), ..ClusterSettings::default() };
            Scenario { cluster, ..plain.clone() }.check()
        };
        for subnet in ["10.213.7.0/24", "172.16.0.0/12", "192.168.3.64/26", "100.64.0.0/16", "10.213.7.9/24"] {
            assert_eq!(of(subnet), Ok(()), "{subnet}");
        }
        for (subnet, what) in [
            ("0.0.0.0/0", "unspecified"),
            ("0.0.0.0/8", "unspecified"),
            ("127.0.0.0/8", "loopback"),
            ("127.3.0.0/24", "loopback"),
            ("96.0.0.0/3", "loopback"),
            ("224.1.0.0/16", "multicast"),
            ("255.255.255.255/32", "broadcast"),
            ("128.0.0.0/1", "multicast"),
        ] {
            let error = of(subnet).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains(subnet) && error.contains("10.213.7.0/24"), "{error}");
        }
    }

    #[test]
    fn a_client_gets_the_cluster_that_it_can_run_on_and_no_other() {
        use ClusterKind::Auto;
        const DOCKER: ClusterKind = ClusterKind::DOCKER;
        const LOCAL: ClusterKind = ClusterKind::LOCAL;
        let plain = Options::default().scenario("redlock", "pause", 7, Path::new("")).unwrap();
        let mount = ClientMount { source: "/here".into(), target: "/there".into() };
        let of = |kind: ClusterKind, node: Option<&str>, client: Option<&str>, mounts: &[ClientMount]| {
            let client = client.map(|image| OwnClient {
                command: vec!["client".into()],
                image: Some(image.to_string()).filter(|image| !image.is_empty()),
                mounts: mounts.to_vec(),
                folder: None,
            });
            let cluster = ClusterSettings { kind, image: node.map(str::to_string), ..ClusterSettings::default() };
            Scenario { cluster, client, ..plain.clone() }
        };
        for (scenario, kind) in [
            (of(Auto, None, None, &[]), Auto),
            (of(Auto, Some("redis:7"), None, &[]), DOCKER),
            (of(Auto, None, Some(""), &[]), LOCAL),
            (of(LOCAL, None, Some(""), &[]), LOCAL),
            (of(Auto, None, Some("python:3"), std::slice::from_ref(&mount)), DOCKER),
        ] {
            scenario.check().unwrap();
            assert_eq!(scenario.cluster_kind(), kind, "{:?} {:?}", scenario.cluster, scenario.client);
            assert_eq!(toml::from_str::<Scenario>(&toml::to_string(&scenario).unwrap()).unwrap(), scenario);
            let json = serde_json::to_string(&scenario).unwrap();
            assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), scenario, "{json}");
        }
        let nowhere = |mut scenario: Scenario| {
            scenario.client.as_mut().unwrap().folder = Some("/nonexistent/folder".into());
            scenario
        };
        for (scenario, expected) in [
            (of(LOCAL, Some("redis:7"), None, &[]), "--image cannot be used with --cluster local"),
            (of(LOCAL, None, Some("python:3"), &[]), "--client-image cannot be used with --cluster local"),
            (of(DOCKER, None, Some(""), &[]), "--client-cmd needs --client-image in Docker"),
            (of(Auto, Some("redis:7"), Some(""), &[]), "--client-cmd needs --client-image in Docker"),
            (of(Auto, None, Some(""), &[mount]), "--client-cmd needs --client-image in Docker"),
            (nowhere(of(Auto, None, Some(""), &[])), "/nonexistent/folder does not exist"),
        ] {
            let error = scenario.check().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
