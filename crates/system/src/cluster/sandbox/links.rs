//! The members' network: a bridge in the sandbox's namespace. A pair of devices, joined like the two ends of a cable, connects
//! each member to the bridge.
//!
//! A member's hardware address follows from its IP address. So members know each other's hardware addresses from the start and
//! need not ask. The kernel keeps the answers for all namespaces of the machine in one table of 1024 entries by default. Forty
//! clients of fifteen nodes would exceed it. Permanent entries do not count.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::cluster::back_off::SHORT_BACK_OFF;
use crate::faults::network::netlink::{Message, Netlink};

/// The bridge that joins the members.
pub const BRIDGE: &str = "members";
/// The name of a member's device in its namespace.
const INSIDE: &str = "eth0";
/// The attribute that describes the other end of a pair.
const VETH_INFO_PEER: u16 = 1;

/// The bridge, in the network namespace of the thread that created it.
pub(super) struct Bridge {
    netlink: Netlink,
    index: u32,
}

impl Bridge {
    /// Creates the bridge and gives this namespace an address on it. Enters the hardware addresses of `neighbours`.
    pub fn make(address: Ipv4Addr, prefix: u8, neighbours: &[Ipv4Addr]) -> io::Result<Bridge> {
        let mut netlink = Netlink::open(libc::NETLINK_ROUTE)?;
        let mut bridge = make_device(false);
        bridge.text(libc::IFLA_IFNAME, BRIDGE);
        // Sets the bridge's own hardware address. Otherwise the bridge would take over its members' addresses in turn, and
        // members could not find it.
        bridge.bytes(libc::IFLA_ADDRESS, &hardware_address(address));
        bridge.nest(libc::IFLA_LINKINFO, |info| _ = info.text(libc::IFLA_INFO_KIND, "bridge"));
        netlink.request(bridge)?;
        configure(&mut netlink, BRIDGE, address, prefix, neighbours)?;
        Ok(Bridge { netlink, index: index_of(BRIDGE)? })
    }

    /// Connects the member with this namespace, in place of its earlier connection.
    pub fn connect(&mut self, member: &str, address: Ipv4Addr, namespace: BorrowedFd<'_>) -> io::Result<()> {
        // The kernel removes the earlier device some time after the member's last process is gone.
        let mut earlier = Message::new(libc::RTM_DELLINK, 0, &device(false));
        earlier.text(libc::IFLA_IFNAME, member);
        match self.netlink.request(earlier) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            other => other?,
        }
        let mut cable = make_device(true);
        cable.text(libc::IFLA_IFNAME, member).bytes(libc::IFLA_MASTER, &self.index.to_ne_bytes());
        cable.nest(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "veth").nest(libc::IFLA_INFO_DATA, |data| {
                data.nest_behind(VETH_INFO_PEER, &device(false), |inside| {
                    inside.text(libc::IFLA_IFNAME, INSIDE);
                    // The hardware address follows from the IP address, so no member must learn a new address when this member
                    // restarts.
                    inside.bytes(libc::IFLA_ADDRESS, &hardware_address(address));
                    inside.bytes(libc::IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
                });
            });
        });
        self.netlink.request(cable)
    }
}

/// The member's side of [`Bridge::connect`]. Runs on a thread in the member's namespace.
pub(super) fn configure_inside(address: Ipv4Addr, prefix: u8, neighbours: &[Ipv4Addr]) -> io::Result<()> {
    configure(&mut Netlink::open(libc::NETLINK_ROUTE)?, INSIDE, address, prefix, neighbours)
}

/// Gives a device its address and its neighbours, and switches it on, together with the namespace's loopback device.
fn configure(
    netlink: &mut Netlink,
    name: &str,
    address: Ipv4Addr,
    prefix: u8,
    neighbours: &[Ipv4Addr],
) -> io::Result<()> {
    // Older kernels lack some of these settings, so errors are ignored. The settings apply to new connections.
    let _ = SHORT_BACK_OFF
        .iter()
        .try_for_each(|(name, value)| std::fs::write(format!("/proc/sys/{}", name.replace('.', "/")), value));
    let broadcast = u32::from(address) | u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
    // `struct ifaddrmsg`: family, length of the prefix, flags, scope, device.
    let index = index_of(name)?.to_ne_bytes();
    let mut fixed = vec![libc::AF_INET as u8, prefix, 0, 0];
    fixed.extend(index);
    let mut its = Message::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &fixed);
    its.bytes(libc::IFA_LOCAL, &address.octets()).bytes(libc::IFA_ADDRESS, &address.octets());
    its.bytes(libc::IFA_BROADCAST, &broadcast.to_be_bytes());
    netlink.request(its)?;
    for name in ["lo", name] {
        let mut up = Message::new(libc::RTM_NEWLINK, 0, &device(true));
        up.text(libc::IFLA_IFNAME, name);
        netlink.request(up)?;
    }
    for neighbour in neighbours {
        // `struct ndmsg`: family, padding, device, state, flags and type.
        let mut fixed = vec![libc::AF_INET as u8, 0, 0, 0];
        fixed.extend(index);
        fixed.extend(libc::NUD_PERMANENT.to_ne_bytes());
        fixed.extend([0, 0]);
        let mut known = Message::new(libc::RTM_NEWNEIGH, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, &fixed);
        known.bytes(libc::NDA_DST, &neighbour.octets()).bytes(libc::NDA_LLADDR, &hardware_address(*neighbour));
        netlink.request(known)?;
    }
    Ok(())
}

/// A request that creates a device.
fn make_device(up: bool) -> Message {
    Message::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &device(up))
}

/// `struct ifinfomsg` for a device known by its name.
fn device(up: bool) -> [u8; 16] {
    let flags = if up { libc::IFF_UP as u32 } else { 0 }.to_ne_bytes();
    let mut fixed = [0; 16];
    fixed[8..12].copy_from_slice(&flags);
    // The last field is a mask of the flags to change.
    fixed[12..].copy_from_slice(&flags);
    fixed
}

/// The index of a device in this thread's network namespace.
fn index_of(device: &str) -> io::Result<u32> {
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok(name_to_index(any.as_fd(), device)?)
}

/// A hardware address that is marked as locally administered by the second bit of its first byte.
fn hardware_address(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x02, 0x52, a, b, c, d]
}
