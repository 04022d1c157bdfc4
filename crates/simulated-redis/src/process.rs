//! The processes of a simulated machine, and the contract between the machine and its driver.
//!
//! A process does no I/O of its own. It is told what happens to it, with the time on its machine's clocks, and says what it
//! does in consequence. The driver owns everything else: the network, the clocks, and when a process is run at all.
//! A process that is given the same events at the same times does the same.

use std::net::SocketAddrV4;
use std::time::Duration;

/// A program that runs on a simulated machine.
pub trait Process {
    /// Handles one event, and appends the resulting actions to `actions`, in order.
    fn handle(&mut self, event: ProcessEvent<'_>, clocks: Clocks, actions: &mut Vec<Action>);

    /// When it wants an [`ProcessEvent::Wake`] at the latest, on its monotonic clock; None if nothing is due.
    ///
    /// It may change with every event. A wake that comes early or late is no error: what is due by then is done.
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

/// A connection, by who numbered it. Numbers of either kind are never used again in one life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Connection {
    /// Opened by somebody else, and numbered by the driver.
    Accepted(u64),
    /// Opened by the process with [`Action::Connect`], and numbered by it.
    Opened(u64),
}

/// An event for a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEvent<'a> {
    /// Somebody has connected.
    Accepted {
        /// Always [`Connection::Accepted`].
        connection: Connection,
        /// Where the other end is.
        peer: SocketAddrV4,
        /// Which address and port of this machine the peer connected to.
        local: SocketAddrV4,
    },
    /// A connection that the process asked for is open.
    Connected {
        /// Always [`Connection::Opened`].
        connection: Connection,
    },
    /// A connection that the process asked for could not be opened, and is gone.
    Refused {
        /// Always [`Connection::Opened`].
        connection: Connection,
    },
    /// Bytes have arrived, in the order in which they were sent, in pieces of any length.
    Received {
        /// Where they came from.
        connection: Connection,
        /// The bytes; at least one.
        bytes: &'a [u8],
    },
    /// The other end has closed the connection, or it broke. Nothing more comes from it or goes to it.
    Closed {
        /// The connection.
        connection: Connection,
    },
    /// The time that [`Process::next_wake`] named has come.
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
    /// Closes a connection, or stops waiting for it to open, once everything sent on it before has left. No further event
    /// names it.
    Close {
        /// The connection.
        connection: Connection,
    },
}
