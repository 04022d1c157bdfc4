//! Packet sockets. They see every frame that enters or leaves an interface of the network namespace, and they send forged frames.
//!
//! A socket sees a forwarded frame twice. The first time is on the bridge's port where it enters, before any rule applies. The
//! second is on the port where it leaves, if all rules let it pass.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use libc::{c_int, sock_filter, sockaddr_ll, socklen_t};

/// Length of `struct virtio_net_hdr`, which precedes frames on a socket with [`Frames::WithOffload`].
pub(super) const OFFLOAD_HEADER: usize = 10;
/// The receive buffer in bytes, as the kernel counts them with its own overhead.
const RECEIVE_BUFFER: c_int = 16 << 20;

/// The frames that a socket sees, and their form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frames {
    /// All frames that enter or leave an interface.
    BothWays,
    /// Frames that enter an interface, each behind a header. The header says which checksum is still to be computed, and how the
    /// frame is still to be segmented. Sent again with the same header, a frame arrives as if it had never been captured.
    WithOffload,
}

pub(super) struct PacketSocket {
    fd: OwnedFd,
}

/// A frame that was read.
pub(super) struct Received {
    /// The length of the frame in the buffer, in bytes.
    pub length: usize,
    /// The index of the interface where it was seen.
    pub interface: u32,
    /// True if the frame was leaving.
    pub outgoing: bool,
    /// When the kernel saw the frame, by its wall clock, as the time since 1970. So a late reader still gets the right time.
    /// [`None`] if the kernel does not say.
    pub seen: Option<Duration>,
}

/// Room for the one control message that is requested, aligned as the kernel needs it.
#[repr(C, align(8))]
struct ControlBuffer([u8; 64]);

impl PacketSocket {
    /// Opens a socket that sees the frames of all interfaces that the filter accepts.
    pub fn open(frames: Frames, filter: &[sock_filter]) -> io::Result<PacketSocket> {
        // With protocol 0, the socket sees nothing yet, so no frame arrives before the filter is set. SAFETY: no pointers are
        // involved.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made, and nothing else owns it.
        let socket = PacketSocket { fd: unsafe { OwnedFd::from_raw_fd(fd) } };
        // With privileges, the first option may exceed the machine's limit.
        if socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER).is_err() {
            socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER)?;
        }
        if frames == Frames::BothWays {
            socket.set::<c_int>(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)?;
        }
        if frames == Frames::WithOffload {
            socket.set::<c_int>(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
            socket.set::<c_int>(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
        }
        socket.set_filter(filter)?;
        // SAFETY: all zeros is a valid address.
        let mut address: sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        // All protocols: a socket for a single protocol gets a frame only after the bridge has taken it.
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: the pointer and the length are those of a live address.
        let bound = unsafe { libc::bind(socket.fd.as_raw_fd(), ptr::from_ref(&address).cast(), length_of(&address)) };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
    }

    /// Replaces the filter; frames that already wait to be read stay.
    pub fn set_filter(&self, filter: &[sock_filter]) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: u16::try_from(filter.len()).map_err(|_| io::Error::other("the filter is too long"))?,
            // The kernel only reads it.
            filter: filter.as_ptr().cast_mut(),
        };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// The next frame; `None` if no frame is waiting. A frame larger than the buffer is an error.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        // SAFETY: all zeros is a valid address.
        let mut address: sockaddr_ll = unsafe { mem::zeroed() };
        let mut control = ControlBuffer([0; 64]);
        let mut content = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all zeros is a valid message.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_name = ptr::from_mut(&mut address).cast();
        message.msg_namelen = length_of(&address);
        message.msg_iov = &mut content;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        // SAFETY: all pointers come with the lengths of the live buffers that they point to.
        let length = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut message, libc::MSG_DONTWAIT | libc::MSG_TRUNC) };
        let Ok(length) = usize::try_from(length) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        };
        if length > buffer.len() {
            return Err(io::Error::other(format!("a frame of {length} bytes is too long")));
        }
        Ok(Some(Received {
            length,
            interface: u32::try_from(address.sll_ifindex).unwrap_or(0),
            outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
            seen: stamp(&message),
        }))
    }

    /// Sends a frame out of an interface; `ethertype` must be the frame's own.
    pub fn send(&self, interface: u32, ethertype: u16, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: all zeros is a valid address.
        let mut address: sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = i32::try_from(interface).map_err(io::Error::other)?;
        address.sll_halen = 6;
        address.sll_protocol = ethertype.to_be();
        // SAFETY: both pointers come with the lengths of the data that they point to.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                0,
                ptr::from_ref(&address).cast(),
                length_of(&address),
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// How many frames were lost since the last call because they were not read in time.
    pub fn missed(&self) -> io::Result<u64> {
        // SAFETY: all zeros is a valid value.
        let mut statistics: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut length = length_of(&statistics);
        // SAFETY: the pointer and the length are those of a live value.
        let asked = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                ptr::from_mut(&mut statistics).cast(),
                &mut length,
            )
        };
        if asked < 0 { Err(io::Error::last_os_error()) } else { Ok(u64::from(statistics.tp_drops)) }
    }

    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        // SAFETY: the pointer and the length are those of a live value; the kernel rejects a value of the wrong length.
        let set = unsafe {
            libc::setsockopt(self.fd.as_raw_fd(), level, option, ptr::from_ref(value).cast(), length_of(value))
        };
        if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The timestamp that the kernel gave a frame.
fn stamp(message: &libc::msghdr) -> Option<Duration> {
    // SAFETY: the kernel has filled in the control messages and their length, and the buffer is alive.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: not null, so it points to a control message in the buffer.
        let header = unsafe { &*next };
        if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            // SAFETY: this kind of message holds one timespec, which may be at any address.
            let time = unsafe { libc::CMSG_DATA(next).cast::<libc::timespec>().read_unaligned() };
            return Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?));
        }
        // SAFETY: as above.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    None
}

fn length_of<T>(value: &T) -> socklen_t {
    // Only small structures are passed here.
    mem::size_of_val(value) as socklen_t
}
