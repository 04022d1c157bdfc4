//! The bridge that connects the members, and its ports, as the kernel lists them (rtnetlink).
//!
//! Not read from /sys, since that shows the network namespace of whoever mounted it, which need not be ours.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};

use super::frame::Mac;

/// A bridge as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    pub index: u32,
    pub mac: Mac,
    /// The interfaces attached to it, by their index.
    pub ports: BTreeSet<u32>,
}

/// Finds the bridge of this name in the caller's network namespace; fails where there is none, or it is down.
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
struct Link {
    index: u32,
    name: String,
    kind: String,
    mac: Mac,
    master: Option<u32>,
    up: bool,
}

const MESSAGE_HEADER: usize = 16;
/// `struct ifinfomsg`.
const LINK_HEADER: usize = 16;

fn links() -> io::Result<Vec<Link>> {
    // SAFETY: no pointers are involved.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and nobody else has it. As a file it is read and written like any other.
    let mut socket = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let mut request = Vec::new();
    request.extend(((MESSAGE_HEADER + LINK_HEADER) as u32).to_ne_bytes());
    request.extend(libc::RTM_GETLINK.to_ne_bytes());
    request.extend(((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    request.resize(MESSAGE_HEADER + LINK_HEADER, 0);
    socket.write_all(&request)?;

    let mut links = Vec::new();
    let mut buffer = vec![0; 128 << 10];
    loop {
        let length = socket.read(&mut buffer)?;
        let mut rest = &buffer[..length];
        if rest.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        while let Some((kind, message)) = next_message(&mut rest) {
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(links),
                libc::NLMSG_ERROR => {
                    let code = message.get(..4).and_then(|code| code.try_into().ok()).map_or(0, i32::from_ne_bytes);
                    return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                }
                _ if kind == libc::RTM_NEWLINK => links.extend(link(message)),
                _ => {}
            }
        }
    }
}

/// Type and content of the first message; `rest` goes on to the next one.
fn next_message<'bytes>(rest: &mut &'bytes [u8]) -> Option<(u16, &'bytes [u8])> {
    let length = usize::try_from(u32_at(rest, 0)?).ok()?;
    let kind = u16::from_ne_bytes(rest.get(4..6)?.try_into().ok()?);
    let message = rest.get(MESSAGE_HEADER..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, message))
}

fn link(message: &[u8]) -> Option<Link> {
    let flags = u32_at(message, 8)?;
    let mut link = Link { index: u32_at(message, 4)?, up: flags & libc::IFF_UP as u32 != 0, ..Link::default() };
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

/// Attributes by type, without the flag bits.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_bridge_is_refused_by_name() {
        let loopback = bridge("lo").unwrap_err().to_string();
        assert_eq!(loopback, "the network device `lo` is no bridge");
        let missing = bridge("no-such-one").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    proptest! {
        #[test]
        fn no_message_makes_the_reader_stumble(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut rest = &bytes[..];
            let _ = (next_message(&mut rest), link(&bytes));
        }
    }
}
