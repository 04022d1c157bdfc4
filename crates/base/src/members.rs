//! The members of a cluster: their names and roles. A member has the same name in orders, histories and folders. Only this file
//! defines how names are built.

use std::fmt;

/// The name of the resource's own Redis.
pub const RESOURCE: &str = "resource";
pub const AGENT: &str = "agent";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Node,
    /// Watches the nodes and promotes a replica.
    Sentinel,
    Resource,
    Client,
    Agent,
}

impl Role {
    /// The role of the member with this name. None if there is none. Histories of version 0.1 call the resource `store`.
    pub fn of(name: &str) -> Option<Role> {
        match name {
            RESOURCE | "store" => return Some(Role::Resource),
            AGENT => return Some(Role::Agent),
            _ => {}
        }
        let (letter, number) = name.split_at_checked(1)?;
        number.parse::<u32>().ok()?;
        [Role::Node, Role::Sentinel, Role::Client].into_iter().find(|role| role.letter() == Some(letter))
    }

    /// The first letter of its members' names. None if there is only one member.
    fn letter(self) -> Option<&'static str> {
        match self {
            Role::Node => Some("n"),
            Role::Sentinel => Some("s"),
            Role::Client => Some("c"),
            Role::Resource | Role::Agent => None,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Role::Node => "node",
            Role::Sentinel => "sentinel",
            Role::Resource => "resource",
            Role::Client => "client",
            Role::Agent => "agent",
        }
    }

    /// True if it watches other members. It would take members that have not started yet for dead.
    pub fn watches(self) -> bool {
        self == Role::Sentinel
    }

    pub fn is_server(self) -> bool {
        matches!(self, Role::Node | Role::Sentinel | Role::Resource)
    }
}

/// The name of lock node number `node`, counted from 0.
pub fn node_name(node: impl fmt::Display) -> String {
    format!("n{node}")
}

/// The name of Sentinel number `sentinel`, counted from 0.
pub fn sentinel_name(sentinel: impl fmt::Display) -> String {
    format!("s{sentinel}")
}

/// The name of client number `client`, counted from 0.
pub fn client_name(client: impl fmt::Display) -> String {
    format!("c{client}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_role_of_its_member_and_nothing_else_does() {
        for (name, role) in [
            (node_name(0), Role::Node),
            (sentinel_name(2), Role::Sentinel),
            (client_name(17), Role::Client),
            (RESOURCE.to_string(), Role::Resource),
            (AGENT.to_string(), Role::Agent),
        ] {
            assert_eq!(Role::of(&name), Some(role), "{name}");
        }
        for name in ["", "n", "nodes", "n-1", "x1", "é1", "c1:0"] {
            assert_eq!(Role::of(name), None, "{name}");
        }
    }
}
