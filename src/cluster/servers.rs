//! Which server each member runs.

use std::net::Ipv4Addr;

use super::{ClusterSpec, Member, databases};
use crate::members::Role;
use crate::topology::server::{Server, as_arguments, settings};
use crate::topology::{Layout, Persistence, Program};

impl ClusterSpec {
    /// Where the servers of the group are.
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

/// Sets what each server among the members runs.
pub(super) fn assign_servers(spec: &ClusterSpec, members: &mut [Member]) {
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
    numbered(Role::Sentinel, members, &|number| group?.sentinel(&layout, number));
    // It must be there at the end, but nothing ever restarts it.
    let resource = Server::redis(as_arguments(&settings(Persistence::None)), Vec::new(), false);
    numbered(Role::Resource, members, &|_| Some(resource.clone()));
}
