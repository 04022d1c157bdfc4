//! The bridge that connects the members, and its ports, as the kernel lists them (rtnetlink).
//!
//! Not read from /sys, because /sys shows the network namespace in which it was mounted, which may be another one.

use std::collections::BTreeSet;
use std::io;

use super::frame::Mac;
use super::netlink::{Message, Netlink, attributes, text, u32_at};

/// A bridge's state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    pub index: u32,
    pub mac: Mac,
    /// The interfaces attached to it, by index.
    pub ports: BTreeSet<u32>,
}

/// Finds the bridge with this name in the caller's network namespace. Fails if it does not exist or is down.
pub(super) fn bridge(name: &str) -> io::Result<Bridge> {
    let links = links()?;
    let Some(found) = links.iter().find(|link| link.name == name) else {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no network device `{name}`")));
    };
    if found.kind != "bridge" {
        return Err(io::Error::other(format!("the network device `{name}` is no bridge")));
    }
    if !found.up {
        return Err(io::Error::other(format!("the bridge `{name}` is down")));
    }
    let ports = links.iter().filter(|link| link.master == Some(found.index)).map(|link| link.index).collect();
    Ok(Bridge { index: found.index, mac: found.mac, ports })
}

#[derive(Debug, Default)]
struct InterfaceRecord {
    index: u32,
    name: String,
    kind: String,
    mac: Mac,
    master: Option<u32>,
    up: bool,
}

/// Length of `struct ifinfomsg`.
const LINK_HEADER: usize = 16;

fn links() -> io::Result<Vec<InterfaceRecord>> {
    let mut links = Vec::new();
    let request = Message::new(libc::RTM_GETLINK, 0, &[0; LINK_HEADER]);
    Netlink::open(libc::NETLINK_ROUTE)?.dump(request, |kind, message| {
        if kind == libc::RTM_NEWLINK {
            links.extend(link(message));
        }
    })?;
    Ok(links)
}

fn link(message: &[u8]) -> Option<InterfaceRecord> {
    let flags = u32_at(message, 8)?;
    let mut link = InterfaceRecord {
        index: u32_at(message, 4)?,
        up: flags & libc::IFF_UP as u32 != 0,
        ..InterfaceRecord::default()
    };
    for (kind, value) in attributes(message.get(LINK_HEADER..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MASTER => link.master = u32_at(value, 0),
            libc::IFLA_ADDRESS => link.mac = value.try_into().unwrap_or_default(),
            libc::IFLA_LINKINFO => {
                let mut info = attributes(value);
                link.kind =
                    info.find(|(kind, _)| *kind == libc::IFLA_INFO_KIND).map_or(String::new(), |(_, v)| text(v));
            }
            _ => {}
        }
    }
    Some(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_bridge_is_refused_by_name() {
        let loopback = bridge("lo").unwrap_err().to_string();
        assert_eq!(loopback, "the network device `lo` is no bridge");
        let missing = bridge("no-such-one").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
