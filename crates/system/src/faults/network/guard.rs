//! Isolates the members' bridge: other users of the machine cannot talk to members, and members cannot talk to the machine.
//!
//! An engine's internal network has no route outside, but the machine itself is on its bridge. Without a guard, each of the
//! machine's users could write to the nodes, and clients could use the machine's services. So the guard drops packets from the
//! machine's users except root, and packets from members to the machine except answers. Members only need to answer the agent.
//! The rules apply only to this bridge. They have their own table, which the kernel removes when this process ends.

use std::io;

use super::netlink::Netlink;
use super::rules::{self, Sender};
use super::table::{explain, table_name};

/// The rules are in effect as long as this exists.
pub struct Guard {
    _owner: Netlink,
}

impl Guard {
    /// Guards a bridge in the caller's network namespace.
    pub fn set_up(bridge: &str, table: &str) -> io::Result<Guard> {
        let table = table_name(table)?;
        let mut owner = Netlink::open(libc::NETLINK_NETFILTER).map_err(|error| explain(&error))?;
        let mut messages = vec![rules::new_guard(&table)];
        for sender in [Sender::Members, Sender::Machine] {
            messages.extend(rules::guard_chain(&table, sender, bridge));
        }
        let made = owner.transact(rules::begin(), messages, rules::end());
        made.map_err(|refusal| explain(&refusal.error))?;
        Ok(Guard { _owner: owner })
    }
}
