//! Netlink, the interface for reading and changing the kernel's network state: messages made of attributes.
//!
//! The numbers of the protocol itself are in native byte order.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::c_int;

const HEADER: usize = 16;
/// Marks an attribute that contains others; the kernel requires it in some places only.
const NESTED: u16 = 0x8000;
const TYPE_BITS: u16 = 0x3fff;
/// More bytes than the kernel ever puts into one datagram.
const BUFFER: usize = 128 << 10;
/// Time limit for an answer. The kernel answers at once or never.
const PATIENCE: libc::timeval = libc::timeval { tv_sec: 5, tv_usec: 0 };

pub struct Netlink {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// A message to the kernel under construction.
pub struct Message {
    bytes: Vec<u8>,
}

/// The kernel's error, and the index of the refused message, from 0; None if it is unknown.
#[derive(Debug)]
pub struct Refusal {
    pub error: io::Error,
    pub at: Option<usize>,
}

impl Netlink {
    /// Opens a socket of one of the NETLINK protocols in the caller's network namespace.
    pub fn open(protocol: c_int) -> io::Result<Netlink> {
        // SAFETY: no pointers are involved.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let patience = PATIENCE;
        let length = mem::size_of_val(&patience) as libc::socklen_t;
        // SAFETY: the pointer and the length are those of a live value.
        let set = unsafe {
            let value = std::ptr::from_ref(&patience).cast();
            libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, value, length)
        };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Netlink { fd, sequence: 0, buffer: vec![0; BUFFER] })
    }

    /// Sends one request and waits until the kernel has carried it out.
    pub fn request(&mut self, mut request: Message) -> io::Result<()> {
        let sequence = self.next_sequence();
        request.finish(libc::NLM_F_ACK, sequence);
        self.write(&request.bytes)?;
        loop {
            let length = self.read()?;
            let mut rest = &self.buffer[..length];
            while let Some(message) = next_message(&mut rest) {
                if message.sequence == sequence && c_int::from(message.kind) == libc::NLMSG_ERROR {
                    return message.error().map_or(Ok(()), Err);
                }
            }
        }
    }

    /// Requests a list, and calls `each` with the type and content of every entry.
    pub fn dump(&mut self, mut request: Message, mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        let sequence = self.next_sequence();
        request.finish(libc::NLM_F_DUMP, sequence);
        self.write(&request.bytes)?;
        loop {
            let length = self.read()?;
            let mut rest = &self.buffer[..length];
            while let Some(message) = next_message(&mut rest).filter(|message| message.sequence == sequence) {
                match c_int::from(message.kind) {
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR => message.error().map_or(Ok(()), Err)?,
                    _ => each(message.kind, message.content),
                }
            }
        }
    }

    /// Sends messages that take effect together or not at all. `begin` and `end` enclose the transaction.
    pub fn transact(&mut self, begin: Message, messages: Vec<Message>, end: Message) -> Result<(), Refusal> {
        let unknown = |error| Refusal { error, at: None };
        let count = messages.len();
        let first = self.next_sequence();
        let mut bytes = Vec::new();
        let acknowledged = std::iter::repeat_n(libc::NLM_F_ACK, count);
        let flags = [0].into_iter().chain(acknowledged).chain([0]);
        for (mut message, flags) in [begin].into_iter().chain(messages).chain([end]).zip(flags) {
            message.finish(flags, self.sequence);
            bytes.extend(message.bytes);
            self.next_sequence();
        }
        self.write(&bytes).map_err(unknown)?;
        let mut acknowledged = 0;
        while acknowledged < count {
            let length = self.read().map_err(unknown)?;
            let mut rest = &self.buffer[..length];
            while let Some(message) = next_message(&mut rest) {
                // Number 0 is the beginning, which is answered only if the whole transaction is refused. Numbers out of range
                // belong to an earlier refused transaction.
                let number = message.sequence.wrapping_sub(first) as usize;
                if c_int::from(message.kind) != libc::NLMSG_ERROR || number > count {
                    continue;
                }
                if let Some(error) = message.error() {
                    return Err(Refusal { error, at: number.checked_sub(1) });
                }
                acknowledged += 1;
            }
        }
        Ok(())
    }

    fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        // The kernel takes a datagram as a whole.
        rustix::io::write(&self.fd, bytes).map(|_| ()).map_err(io::Error::from)
    }

    fn read(&mut self) -> io::Result<usize> {
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.fd, &mut self.buffer[..])) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => Ok(length),
            Err(rustix::io::Errno::AGAIN) => Err(io::Error::new(io::ErrorKind::TimedOut, "the kernel does not answer")),
            Err(error) => Err(error.into()),
        }
    }
}

impl Message {
    /// Begins a message of this type. `flags` are added to the usual flags of a request; `fixed` is the message's fixed part.
    pub fn new(kind: u16, flags: c_int, fixed: &[u8]) -> Message {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        bytes.extend(fixed);
        Message { bytes }
    }

    pub fn bytes(&mut self, kind: u16, value: &[u8]) -> &mut Message {
        // The values here are short, and lists are split into pieces that fit.
        self.bytes.extend(((value.len() + 4) as u16).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// A number in network byte order, as netfilter uses it.
    pub fn number(&mut self, kind: u16, value: u32) -> &mut Message {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub fn text(&mut self, kind: u16, value: &str) -> &mut Message {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// An attribute that contains others.
    pub fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) -> &mut Message {
        self.nest_behind(kind, &[], fill)
    }

    /// An attribute that contains others after a fixed part.
    pub fn nest_behind(&mut self, kind: u16, fixed: &[u8], fill: impl FnOnce(&mut Message)) -> &mut Message {
        let start = self.bytes.len();
        self.bytes(kind | NESTED, fixed);
        fill(self);
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    fn finish(&mut self, flags: c_int, sequence: u32) {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        let flags = u16::from_ne_bytes([self.bytes[6], self.bytes[7]]) | flags as u16;
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    }
}

struct Received<'bytes> {
    kind: u16,
    sequence: u32,
    content: &'bytes [u8],
}

impl Received<'_> {
    /// The error in a message of type NLMSG_ERROR; `None` for an acknowledgement.
    fn error(&self) -> Option<io::Error> {
        match u32_at(self.content, 0).map(u32::cast_signed) {
            Some(0) => None,
            Some(code) => Some(io::Error::from_raw_os_error(code.saturating_neg())),
            None => Some(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// The first message; moves `rest` on to the next message.
fn next_message<'bytes>(rest: &mut &'bytes [u8]) -> Option<Received<'bytes>> {
    let length = usize::try_from(u32_at(rest, 0)?).ok()?;
    let kind = u16::from_ne_bytes(rest.get(4..6)?.try_into().ok()?);
    let sequence = u32_at(rest, 8)?;
    let content = rest.get(HEADER..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some(Received { kind, sequence, content })
}

/// Attributes by type, without the flag bits.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & TYPE_BITS;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// A text attribute's value.
pub(super) fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned()
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_reads_as_what_was_meant() {
        let mut message = Message::new(7, 0, &[]);
        message.text(1, "abc").nest(2, |inner| _ = inner.number(3, 0x0102_0304).bytes(4, &[9]));
        message.finish(libc::NLM_F_ACK, 5);
        let mut rest = &message.bytes[..];
        let read = next_message(&mut rest).unwrap();
        assert_eq!((read.kind, read.sequence, rest), (7, 5, &[][..]));
        let found: Vec<_> = attributes(read.content).collect();
        assert_eq!(text(found[0].1), "abc");
        let inner: Vec<_> = attributes(found[1].1).collect();
        assert_eq!(inner, [(3, &[1, 2, 3, 4][..]), (4, &[9])]);
    }

    proptest! {
        #[test]
        fn no_message_makes_the_reader_stumble(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut rest = &bytes[..];
            while let Some(message) = next_message(&mut rest) {
                let _ = message.error();
                attributes(message.content).for_each(drop);
            }
            attributes(&bytes).for_each(drop);
        }
    }
}
