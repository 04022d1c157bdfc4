//! The possible steps, in words.

use std::fmt;

/// One step. Clients and nodes are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A client begins to ask the nodes; its clock shows `clock`.
    Start { client: u32, clock: u32 },
    /// A node sets a client's key, which lives until the tick `until`.
    Set { client: u32, node: u32, until: u32 },
    /// A node refuses: `by` has it.
    Taken { client: u32, node: u32, by: u32 },
    /// A node that is down does not answer.
    Silent { client: u32, node: u32 },
    /// A client has a majority in time by its own clock, which shows `clock`. It holds the lock.
    Acquire { client: u32, votes: u32, clock: u32 },
    /// A client has no majority, or is too late by its own clock, and deletes its keys.
    GiveUp { client: u32, votes: u32, late: bool },
    /// A holder reads the resource, which `writer` wrote last; `refused` by fencing.
    Read { client: u32, writer: Option<u32>, refused: bool },
    /// A holder that had read the value of `seen` writes, and replaces the value of `replaces`, unless it is refused.
    Write { client: u32, seen: Option<u32>, replaces: Option<u32>, denied: Option<Denial> },
    /// A client deletes its keys on all nodes that are up. It does not ask again.
    Release { client: u32 },
    /// A client's clock advances to `clock`.
    ClockAdvances { client: u32, clock: u32 },
    /// A key expires.
    Expire { node: u32, client: u32 },
    /// A node goes down. If it keeps nothing, it loses the key of client `loses`.
    Crash { node: u32, loses: Option<u32> },
    /// A node is up again.
    Restart { node: u32 },
    /// Time advances to tick `to`.
    Tick { to: u32 },
}

/// Why a resource refuses a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// The resource has already seen a greater token.
    OldToken,
    /// The value differs from the one that the client read.
    OtherValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    Client(u32),
    /// Time, nodes and clocks.
    Environment,
}

impl Step {
    pub fn actor(&self) -> Actor {
        use Step::{Acquire, GiveUp, Read, Release, Set, Silent, Start, Taken, Write};
        match *self {
            Start { client, .. }
            | Set { client, .. }
            | Taken { client, .. }
            | Silent { client, .. }
            | Acquire { client, .. }
            | GiveUp { client, .. }
            | Read { client, .. }
            | Write { client, .. }
            | Release { client } => Actor::Client(client),
            _ => Actor::Environment,
        }
    }
}

/// A sentence without its end: `c0 sets its key on n1; the key expires at tick 3`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |writer: Option<u32>| match writer {
            Some(client) => format!("c{client}'s value"),
            None => "the first value".to_string(),
        };
        match *self {
            Step::Start { client, clock } => write!(f, "c{client} begins to ask the nodes; its clock shows {clock}"),
            Step::Set { client, node, until } => {
                write!(f, "c{client} sets its key on n{node}; the key expires at tick {until}")
            }
            Step::Taken { client, node, by } if by == client => {
                write!(f, "n{node} refuses c{client}, because c{client}'s own key of an earlier attempt is there")
            }
            Step::Taken { client, node, by } => write!(f, "n{node} refuses c{client}, because c{by}'s key is there"),
            Step::Silent { client, node } => write!(f, "c{client} receives no answer from n{node}, which is down"),
            Step::Acquire { client, votes, clock } => {
                write!(f, "c{client} has {votes} nodes, a majority, and its clock shows {clock}: it holds the lock")
            }
            Step::GiveUp { client, votes, late: false } => {
                write!(f, "c{client} has {votes} nodes, no majority: it gives up and deletes its keys")
            }
            Step::GiveUp { client, votes, late: true } => {
                write!(f, "c{client} has {votes} nodes, but took too long: it gives up and deletes its keys")
            }
            Step::Read { client, refused: true, .. } => {
                write!(f, "c{client} reads and is refused: the resource has seen a greater token")
            }
            Step::Read { client, writer, refused: false } => write!(f, "c{client} reads {}", value(writer)),
            Step::Write { client, denied: Some(Denial::OldToken), .. } => {
                write!(f, "c{client} writes and is refused: the resource has seen a greater token")
            }
            Step::Write { client, denied: Some(Denial::OtherValue), .. } => {
                write!(f, "c{client} writes and is refused: the value differs from the value that it read")
            }
            Step::Write { client, seen, replaces, denied: None } if seen == replaces => {
                write!(f, "c{client} writes over {}, which it had read", value(replaces))
            }
            Step::Write { client, seen, replaces, denied: None } => {
                write!(f, "c{client} writes over {}, though it had read {}", value(replaces), value(seen))
            }
            Step::Release { client } => write!(f, "c{client} releases the lock"),
            Step::ClockAdvances { client, clock } => write!(f, "c{client}'s clock advances to {clock}"),
            Step::Expire { node, client } => write!(f, "c{client}'s key on n{node} expires"),
            Step::Crash { node, loses: Some(client) } => write!(f, "n{node} crashes and loses c{client}'s key"),
            Step::Crash { node, loses: None } => write!(f, "n{node} crashes"),
            Step::Restart { node } => write!(f, "n{node} is back"),
            Step::Tick { to } => write!(f, "time advances to tick {to}"),
        }
    }
}
