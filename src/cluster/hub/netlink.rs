//! Requests to the kernel's part for network devices and addresses (rtnetlink), each answered with success or an error.

use std::io;

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// A socket in the network namespace of the thread that opened it, wherever it is used.
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// What is requested: a fixed part, and attributes that may hold attributes.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

/// Length, kind, flags, sequence number, sender.
const HEADER: usize = 16;

impl Netlink {
    pub fn open() -> io::Result<Netlink> {
        // The protocol left out is that of routing and devices (NETLINK_ROUTE).
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Sends a request of this kind (`RTM_…`) and waits until it was carried out.
    pub fn request(&mut self, kind: u16, flags: i32, message: &Message) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let flags = flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK;
        let length = u32::try_from(HEADER + message.0.len()).map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        bytes.extend(length.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(u16::try_from(flags).map_err(io::Error::other)?.to_ne_bytes());
        bytes.extend(self.sequence.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(&message.0);
        send(&self.socket, &bytes, SendFlags::empty())?;
        let mut answer = [0; 8192];
        loop {
            let (length, _) = match recv(&self.socket, &mut answer, RecvFlags::empty()) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            if let Some(outcome) = outcome(answer.get(..length).unwrap_or_default(), self.sequence) {
                return outcome;
            }
        }
    }
}

/// What an answer says of the request with this number; none where it is not about that.
fn outcome(answer: &[u8], sequence: u32) -> Option<io::Result<()>> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let number = u32::from_ne_bytes(answer.get(8..12)?.try_into().ok()?);
    if i32::from(kind) != libc::NLMSG_ERROR || number != sequence {
        return None;
    }
    let code = i32::from_ne_bytes(answer.get(HEADER..HEADER + 4)?.try_into().ok()?);
    Some(if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code.saturating_neg())) })
}

impl Message {
    /// About a network device: `struct ifinfomsg`. Index 0 where it goes by its name.
    pub fn device(index: u32, up: bool) -> Message {
        let flags = if up { libc::IFF_UP as u32 } else { 0 };
        let mut bytes = vec![0; 4];
        bytes.extend(index.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        // Which of the flags are meant.
        bytes.extend(flags.to_ne_bytes());
        Message(bytes)
    }

    /// About an IPv4 address of a device: `struct ifaddrmsg`.
    pub fn address(index: u32, prefix: u8) -> Message {
        let mut bytes = vec![libc::AF_INET as u8, prefix, 0, 0];
        bytes.extend(index.to_ne_bytes());
        Message(bytes)
    }

    pub fn with(mut self, kind: u16, value: &[u8]) -> Message {
        // Attributes are far shorter than what a length can say.
        let length = (4 + value.len()).min(usize::from(u16::MAX)) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub fn with_name(self, kind: u16, name: &str) -> Message {
        let mut value = name.as_bytes().to_vec();
        value.push(0);
        self.with(kind, &value)
    }

    /// With an attribute that holds attributes.
    pub fn with_all(self, kind: u16, inner: Message) -> Message {
        self.with(kind, &inner.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nested() {
        let inner = Message::default().with_name(1, "ab");
        let message = Message::default().with_all(2, inner);
        assert_eq!(message.0, [12, 0, 2, 0, 7, 0, 1, 0, b'a', b'b', 0, 0]);
    }

    #[test]
    fn answers_are_understood_and_broken_ones_are_none() {
        let mut answer = vec![0; 36];
        answer[4] = libc::NLMSG_ERROR as u8;
        answer[8] = 5;
        assert!(outcome(&answer, 5).unwrap().is_ok());
        assert!(outcome(&answer, 6).is_none(), "somebody else's");
        answer[16..20].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        assert_eq!(outcome(&answer, 5).unwrap().unwrap_err().raw_os_error(), Some(libc::EPERM));
        for length in 0..20 {
            assert!(outcome(&answer[..length], 5).is_none());
        }
    }
}
