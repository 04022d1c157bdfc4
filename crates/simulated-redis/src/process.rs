//! The processes of a simulated machine, and the contract between the machine and its driver.
//!
//! A process does no I/O of its own. It receives events, with the time on its machine's clocks, and returns actions. The
//! driver owns everything else: the network, the clocks, and the times at which a process runs. With the same events at the same
//! times, a process returns the same actions.

use std::net::SocketAddrV4;
use std::time::Duration;

/// A program that runs on a simulated machine.
pub trait Process {
    /// Handles one event, and appends the resulting actions to `actions`, in order.
    fn handle(&mut self, event: ProcessEvent<'_>, clocks: Clocks, actions: &mut Vec<Action>);

    /// The latest time, on its monotonic clock, at which it needs a [`ProcessEvent::Wake`]; None if nothing is due.
    ///
    /// It may change with every event. A wake may come early or late: the process then does all work that is due.
    fn next_wake(&self) -> Option<Duration>;
}

/// The times of a machine's clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// The time of day, since 1970. It may jump in either direction.
    pub wall: Duration,
    /// Time since an arbitrary start. It never goes back.
    pub monotonic: Duration,
}

/// A connection. The opening side decides who numbers it. A process never reuses a number before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Connection {
    /// Opened by another process or a client, and numbered by the driver.
    Accepted(u64),
    /// Opened by this process with [`Action::Connect`], and numbered by it.
    Opened(u64),
}

/// An event for a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEvent<'a> {
    /// A peer has connected.
    Accepted {
        /// Always [`Connection::Accepted`].
        connection: Connection,
        /// The address of the peer.
        peer: SocketAddrV4,
        /// The address and port of this machine to which the peer connected.
        local: SocketAddrV4,
    },
    /// A requested connection is open.
    Connected {
        /// Always [`Connection::Opened`].
        connection: Connection,
    },
    /// A requested connection could not be opened, and is gone.
    Refused {
        /// Always [`Connection::Opened`].
        connection: Connection,
    },
    /// Bytes have arrived, in the order in which they were sent, in pieces of any length.
    Received {
        /// The connection from which they came.
        connection: Connection,
        /// The bytes; at least one.
        bytes: &'a [u8],
    },
    /// The peer has closed the connection, or it broke. It carries no more bytes in either direction.
    Closed {
        /// The connection.
        connection: Connection,
    },
    /// The time from [`Process::next_wake`] has come.
    Wake,
}

/// An action of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Opens a connection. [`ProcessEvent::Connected`] or [`ProcessEvent::Refused`] follows, or nothing while the network is silent.
    Connect {
        /// The number that the process chose.
        connection: Connection,
        /// The destination.
        to: SocketAddrV4,
    },
    /// Sends bytes on a connection. It was accepted, or [`ProcessEvent::Connected`] has been seen.
    Send {
        /// The connection.
        connection: Connection,
        /// The bytes; at least one.
        bytes: Vec<u8>,
    },
    /// Closes a connection after all bytes sent before, or stops waiting for it to open. No further event names it.
    Close {
        /// The connection.
        connection: Connection,
    },
}
