//! Settings of a search: the bounds, the possible faults, and the property.

use std::ops::RangeInclusive;

/// The size of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The number of independent Redis nodes.
    pub nodes: u32,
    pub clients: u32,
    /// The life of a key, in ticks.
    pub ttl: u32,
    /// The last tick, counted from 0.
    pub time: u32,
}

/// The allowed bounds. Larger ones would take too long.
pub const NODES: RangeInclusive<u32> = 1..=7;
/// See [`NODES`].
pub const CLIENTS: RangeInclusive<u32> = 2..=4;
/// See [`NODES`].
pub const TTL: RangeInclusive<u32> = 1..=12;
/// See [`NODES`].
pub const TIME: RangeInclusive<u32> = 1..=30;

/// See [`NODES`].
pub const CRASHES: RangeInclusive<u32> = 1..=3;

/// The behaviour of a client's clock, with which it measures how long it has asked and held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// It shows the true time.
    Perfect,
    /// It may lag behind by any amount, and catch up at any time.
    Lagging,
}

/// How long a client holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// Until it releases it, however long that takes.
    UntilRelease,
    /// At most while the lock is valid by the client's own clock. This assumes that nothing comes between reading the clock and
    /// the client's next act, which no real process can guarantee.
    WhileValid,
}

/// The data that a crashed node still has after its restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Nothing.
    Lost,
    /// Everything that it had acknowledged.
    Kept,
}

/// When a crashed node may restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// At any time.
    AtOnce,
    /// A TTL after the crash at the earliest.
    AfterTtl,
}

/// Nodes crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    pub memory: Memory,
    pub restart: Restart,
    /// The maximum number of crashes of all nodes together.
    pub times: u32,
}

/// How the resource guards itself against writers that lost the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// Every write is accepted.
    None,
    /// A write is refused if a greater token has written. Tokens come from a counter that never goes back, which Redlock
    /// does not have.
    Token,
    /// A read or write is refused if a greater token has read or written.
    TokenReads,
    /// A write is refused unless it replaces the value that the writer read.
    CompareAndSet,
}

/// The property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// No two clients hold the lock at once.
    MutualExclusion,
    /// Each holder reads a value and replaces it. No write replaces another value than its client read; otherwise the update in
    /// between would be lost.
    Updates(Fencing),
}

/// All inputs of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub bounds: Bounds,
    pub clocks: Clocks,
    pub holding: Holding,
    /// `None`: no node crashes.
    pub crash: Option<Crash>,
    pub claim: Claim,
}

/// Bounds that cannot be searched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("{what} {value} is out of range; it must be between {low} and {high}", low = range.start(), high = range.end())]
    OutOfRange { what: &'static str, value: u32, range: RangeInclusive<u32> },
    #[error("a state would need {bits} bits, but the limit is {most}; use fewer nodes or clients, or less time")]
    TooLarge { bits: u32, most: u32 },
}

impl Default for Settings {
    /// Three nodes, two clients, a TTL of three ticks, eight ticks. Clocks may lag, and a holder continues until it releases.
    fn default() -> Settings {
        Settings {
            bounds: Bounds { nodes: 3, clients: 2, ttl: 3, time: 8 },
            clocks: Clocks::Lagging,
            holding: Holding::UntilRelease,
            crash: None,
            claim: Claim::MutualExclusion,
        }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let of = |what, value, range: RangeInclusive<u32>| match range.contains(&value) {
            true => Ok(()),
            false => Err(SettingsError::OutOfRange { what, value, range }),
        };
        of("nodes", self.bounds.nodes, NODES)?;
        of("clients", self.bounds.clients, CLIENTS)?;
        of("ttl", self.bounds.ttl, TTL)?;
        of("time", self.bounds.time, TIME)?;
        self.crash.map_or(Ok(()), |crash| of("crashes", crash.times, CRASHES))
    }
}

impl Bounds {
    /// The number of nodes in a majority.
    pub fn majority(&self) -> u32 {
        self.nodes / 2 + 1
    }
}
