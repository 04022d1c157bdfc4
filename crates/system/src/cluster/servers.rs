//! The members of a cluster, and the server that each runs.

use std::net::Ipv4Addr;

use super::spec::{ClusterSpec, Member};
use super::{address, databases};
use base::members::{RESOURCE, Role, client_name, node_name, sentinel_name};
use model::topology::server::{Server, as_arguments, settings};
use model::topology::{Layout, Persistence, Program};

impl ClusterSpec {
    /// All members with an address in this network, in the order of their addresses.
    pub fn members(&self, subnet: ipnet::Ipv4Net) -> Vec<Member> {
        let nodes = (0..self.nodes).map(|node| (node_name(node), Role::Node));
        let sentinels = (0..self.topology.sentinels()).map(|sentinel| (sentinel_name(sentinel), Role::Sentinel));
        let clients =
            (0..self.clients).step_by(self.threads.max(1) as usize).map(|client| (client_name(client), Role::Client));
        let resource = (!self.program.keeps_resource()).then(|| (RESOURCE.to_string(), Role::Resource));
        let named = nodes.chain(sentinels).chain(resource).chain(clients);
        let member = |(place, (name, role))| {
            let address = address::address(subnet, place);
            Member { name, role, address, server: None, container: None }
        };
        let mut members: Vec<Member> = (0..).zip(named).map(member).collect();
        assign_servers(self, &mut members);
        members
    }

    /// The addresses of the group's servers.
    pub(super) fn layout(&self, members: &[Member]) -> Layout {
        let of_role = |role| {
            let members = members.iter().filter(|member| member.role == role);
            members.map(|member| member.address.unwrap_or(Ipv4Addr::UNSPECIFIED)).collect()
        };
        Layout {
            run_id: self.run_id.clone(),
            nodes: of_role(Role::Node),
            sentinels: of_role(Role::Sentinel),
            primaries: self.topology.primaries(self.nodes) as usize,
        }
    }
}

fn assign_servers(spec: &ClusterSpec, members: &mut [Member]) {
    let layout = spec.layout(members);
    let numbered = |role: Role, members: &mut [Member], server: &dyn Fn(usize) -> Option<Server>| {
        let of_role = members.iter_mut().filter(|member| member.role == role);
        of_role.enumerate().for_each(|(number, member)| member.server = server(number));
    };
    let group = spec.topology.group();
    numbered(Role::Node, members, &|number| {
        Some(match (spec.program, group) {
            (Program::Redis, Some(group)) => group.node(&layout, number, settings(spec.persistence)),
            (Program::Redis, None) => {
                let data = spec.persistence != Persistence::None;
                Server::redis(as_arguments(&settings(spec.persistence)), Vec::new(), data)
            }
            (Program::Etcd, _) => databases::etcd(&spec.run_id, &layout.nodes, number),
            (Program::Zookeeper, _) => databases::zookeeper(&layout.nodes, number),
            (Program::Postgres, _) => databases::postgres(),
        })
    });
    if spec.program == Program::Redis {
        // If a setting appears twice, Redis uses the last one.
        let lines = spec.config.iter().filter_map(|line| line.split_first());
        let further: Vec<String> =
            lines.flat_map(|(name, values)| [&[format!("--{name}")][..], values].concat()).collect();
        for node in members.iter_mut().filter(|member| member.role == Role::Node) {
            node.server.iter_mut().for_each(|server| server.arguments.extend(further.clone()));
        }
    }
    numbered(Role::Sentinel, members, &|number| group?.sentinel(&layout, number));
    // The run needs it at the end, but nothing ever restarts it.
    let resource = Server::redis(as_arguments(&settings(Persistence::None)), Vec::new(), false);
    numbered(Role::Resource, members, &|_| Some(resource.clone()));
}
