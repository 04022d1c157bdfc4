//! The members' network: a bridge in the hub's namespace, and from it to each member a pair of devices that are joined
//! like the two ends of a cable.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::netlink::{Message, Netlink};

/// The bridge that joins the members.
pub(crate) const BRIDGE: &str = "members";
/// What a member's device is called in its namespace.
const INSIDE: &str = "eth0";
/// The attribute that describes a pair's other end.
const VETH_INFO_PEER: u16 = 1;

/// The bridge, in the network namespace of the thread that made it.
pub(super) struct Bridge {
    netlink: Netlink,
    index: u32,
}

impl Bridge {
    /// Makes the bridge and gives this namespace an address on it.
    pub fn make(address: Ipv4Addr, prefix: u8) -> io::Result<Bridge> {
        let mut netlink = Netlink::open()?;
        // With a hardware address of its own: it would follow its members', and they would lose sight of it.
        let bridge = Message::device(0, false)
            .with_name(libc::IFLA_IFNAME, BRIDGE)
            .with(libc::IFLA_ADDRESS, &hardware_address(address))
            .with_all(libc::IFLA_LINKINFO, Message::default().with_name(libc::IFLA_INFO_KIND, "bridge"));
        netlink.request(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &bridge)?;
        settle(&mut netlink, BRIDGE, address, prefix)?;
        Ok(Bridge { netlink, index: index_of(BRIDGE)? })
    }

    /// Lays a cable to a member, whose namespace this is, in the place of an earlier one.
    pub fn connect(&mut self, member: &str, address: Ipv4Addr, namespace: BorrowedFd<'_>) -> io::Result<()> {
        // The kernel removes the earlier one some time after the member's last process is gone.
        let earlier = Message::device(0, false).with_name(libc::IFLA_IFNAME, member);
        match self.netlink.request(libc::RTM_DELLINK, 0, &earlier) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            other => other?,
        }
        // By its address, so that nobody has to learn a new one when the member comes back.
        let inside = Message::device(0, false)
            .with_name(libc::IFLA_IFNAME, INSIDE)
            .with(libc::IFLA_ADDRESS, &hardware_address(address))
            .with(libc::IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
        let pair = Message::default()
            .with_name(libc::IFLA_INFO_KIND, "veth")
            .with_all(libc::IFLA_INFO_DATA, Message::default().with_all(VETH_INFO_PEER, inside));
        let cable = Message::device(0, true)
            .with_name(libc::IFLA_IFNAME, member)
            .with(libc::IFLA_MASTER, &self.index.to_ne_bytes())
            .with_all(libc::IFLA_LINKINFO, pair);
        self.netlink.request(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &cable)
    }
}

/// The member's side of [`Bridge::connect`], from a thread in the member's namespace.
pub(super) fn settle_inside(address: Ipv4Addr, prefix: u8) -> io::Result<()> {
    settle(&mut Netlink::open()?, INSIDE, address, prefix)
}

/// Gives a device its address and switches it on, along with the namespace's loopback.
fn settle(netlink: &mut Netlink, device: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
    // An old connection waits out TCP's back-off after a cut; with this it tries again each second at the latest. Holds
    // for connections made from now on, with kernels that have it (6.15 and later).
    let _ = std::fs::write("/proc/sys/net/ipv4/tcp_rto_max_ms", "1000");
    let index = index_of(device)?;
    let broadcast = u32::from(address) | u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
    let its = Message::address(index, prefix)
        .with(libc::IFA_LOCAL, &address.octets())
        .with(libc::IFA_ADDRESS, &address.octets())
        .with(libc::IFA_BROADCAST, &broadcast.to_be_bytes());
    netlink.request(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &its)?;
    for name in ["lo", device] {
        let up = Message::device(0, true).with_name(libc::IFLA_IFNAME, name);
        netlink.request(libc::RTM_NEWLINK, 0, &up)?;
    }
    Ok(())
}

/// The number of a device in this thread's network namespace.
fn index_of(device: &str) -> io::Result<u32> {
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok(name_to_index(any.as_fd(), device)?)
}

/// One that nobody sold: the second bit of the first byte says so.
fn hardware_address(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x02, 0x52, a, b, c, d]
}
