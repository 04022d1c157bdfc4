//! Keeps the members' bridge to the members: whoever else has access to the machine cannot talk to them, and they cannot
//! talk to the machine.
//!
//! An engine's internal network leads nowhere, but the machine itself is on its bridge: without more, each of its users
//! could write into the nodes, and clients could use its services. So what the machine's users but root send there is
//! dropped, and what members send to the machine unless they answer, which is all that they do for the agent. These
//! rules are for this bridge alone, in a table of their own, which the kernel removes when this process ends.

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
