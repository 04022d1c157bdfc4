//! Messages between the controller and the sandbox, besides the agent's orders. Each is one JSON object, with file descriptors if
//! it starts a process.
//!
//! The sandbox gets its end as stdin. Both ends are the same binary, so the messages have no version.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// An order with a number that its answer repeats; answers may come in a different order.
#[derive(Debug, Serialize, Deserialize)]
pub struct SandboxRequest {
    pub id: u64,
    pub order: SandboxOrder,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxOrder {
    /// The first order: make the namespaces and the network. Carries a stream for the agent's orders and answers.
    Begin(Begin),
    /// Start a member's process. Carries its stdin, stdout and stderr.
    Spawn(Spawn),
    /// Wait until none of the member's processes run; with `kill`, kill them first.
    End { member: String, kill: bool, limit_ms: u64 },
    /// Report the state of every member.
    States,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Begin {
    /// The sandbox's own address in the members' network.
    pub gateway: Ipv4Addr,
    /// The prefix length of the members' network.
    pub prefix: u8,
    /// An empty folder on which the members' view of the file system is assembled.
    pub root: PathBuf,
    /// The run's own folder. It has a folder for each member, which the member sees as
    /// [`FILES`](crate::cluster::spec::FILES).
    pub files: PathBuf,
    /// The addresses of all servers.
    pub servers: Vec<Ipv4Addr>,
    /// The addresses of all clients.
    pub clients: Vec<Ipv4Addr>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Spawn {
    pub member: String,
    pub program: PathBuf,
    /// The first element is the name by which the program is called.
    pub argv: Vec<String>,
    /// Variables in addition to the sandbox's own.
    pub env: Vec<(String, String)>,
    pub address: Ipv4Addr,
    /// The folder in which the process starts.
    pub directory: PathBuf,
    /// The user as which the process runs; None for the user that runs the sandbox.
    pub user: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Reply {
    pub id: u64,
    pub answer: SandboxAnswer,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxAnswer {
    Done,
    /// The member was still running after the time limit.
    StillRuns,
    /// The state of every member that was ever started, by name.
    States(Vec<(String, MemberStatus)>),
    Failed(String),
}

/// The state of a member's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberStatus {
    /// The process runs, with this PID as the agent sees it.
    Runs(u32),
    /// The process ended with this exit code, or with 128 plus the number of the signal that ended it.
    Ended(i32),
}

/// Longer than any order or answer, even with a few hundred members or a long command line.
const LONGEST_MESSAGE: usize = 128 << 10;
/// At most this many descriptors come with one order.
const MOST_DESCRIPTORS: usize = 3;

/// One end of the connection.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(one), Channel(other)))
    }

    pub fn send(&self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > LONGEST_MESSAGE || descriptors.len() > MOST_DESCRIPTORS {
            return Err(io::Error::from(io::ErrorKind::ArgumentListTooLong));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::from(io::ErrorKind::ArgumentListTooLong));
        }
        sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next message; None if the other end is gone.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut bytes = vec![0; LONGEST_MESSAGE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let pieces = &mut [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, pieces, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::other("a message was too long"));
        }
        let descriptors = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
            _ => Vec::new(),
        });
        let descriptors = descriptors.collect();
        let message = serde_json::from_slice(bytes.get(..received.bytes).unwrap_or_default())?;
        Ok(Some((message, descriptors)))
    }
}

impl From<OwnedFd> for Channel {
    fn from(descriptor: OwnedFd) -> Channel {
        Channel(descriptor)
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> OwnedFd {
        channel.0
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn messages_arrive_whole_and_with_their_descriptors() {
        let (one, other) = Channel::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        one.send(&SandboxRequest { id: 7, order: SandboxOrder::States }, &[writer.as_fd()]).unwrap();
        one.send(&SandboxRequest { id: 8, order: SandboxOrder::States }, &[]).unwrap();
        drop((one, writer));
        let (request, mut descriptors) = other.receive::<SandboxRequest>().unwrap().unwrap();
        assert_eq!((request.id, descriptors.len()), (7, 1));
        io::PipeWriter::from(descriptors.pop().unwrap()).write_all(b"through").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        let (request, descriptors) = other.receive::<SandboxRequest>().unwrap().unwrap();
        assert_eq!((request.id, descriptors.len()), (8, 0));
        assert!(other.receive::<SandboxRequest>().unwrap().is_none(), "the other end is gone");
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let (one, _other) = Channel::pair().unwrap();
        assert!(one.send(&"x".repeat(LONGEST_MESSAGE), &[]).is_err());
    }
}
