//! The primitives that faults are made of: what is done to members and to their network, and what is seen of it.
//!
//! A kind of fault ([`kinds`](super::kinds)) is injected and healed by these alone, so it is the same on every host.
//! [`ThisHost`](super::this_host) stops processes and changes packets of the machine it runs on; a simulated host does the same to
//! simulated members. What can be done by a server's own commands takes no primitive but [`Host::machine`].

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use super::clock::Skew;
use super::network::{Effect, Ends, Pair, SoFar};
use super::wire::{Observation, Scope};
use base::machine::Machine;

/// What can be done to one member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemberAction {
    /// Every process stops.
    Stop,
    /// Every process goes on.
    Continue,
    /// Every thread but the first of each process stops.
    StopBackground,
    /// They go on.
    ContinueBackground,
    /// Every process ends at once.
    Kill,
    /// The same, and what was not synced to a file is lost.
    LosePower,
    /// Nothing is done; it is observed that the member runs.
    VerifyRunning,
    /// The wall clock goes wrong.
    Skew(Skew),
    /// The wall clock is right again.
    RestoreClock,
    /// From now on, a snapshot that it writes is removed when its process is killed.
    KeepNoSnapshot,
    /// It is removed now, and what was in its place is back.
    RemoveSnapshot,
    /// Each sync of a file takes so many ms longer, more or less by the jitter.
    SlowDisk { ms: u64, jitter_ms: u64 },
    /// It takes as long as it does.
    RestoreDisk,
}

/// A place where members run. Errors are for people.
pub trait Host: Send + Sync + 'static {
    /// Whether what it does keeps a thread waiting, so that it needs one of its own.
    fn blocks(&self) -> bool;

    /// The clock that clients stamp with.
    fn monotonic(&self) -> Duration;

    /// From where servers are reached, whatever faults there are between members.
    fn machine(&self) -> Arc<dyn Machine>;

    /// Keeps strangers off the members' network.
    fn guard(&self, bridge: &str, table: &str) -> Result<(), String>;

    /// Learns which network joins the members.
    fn set_network(&self, bridge: &str, table: &str) -> Result<(), String>;

    /// Makes the process with this PID a member. One that is known stands for the new process from now on.
    fn adopt(&self, name: &str, pid: u32, scope: Scope, address: Option<Ipv4Addr>) -> Result<(), String>;

    /// A member's address, if it has one; an error if nobody of this name was adopted.
    fn address_of(&self, name: &str) -> Result<Option<Ipv4Addr>, String>;

    /// Whether a member has a process that runs, stopped or not.
    fn runs(&self, name: &str) -> bool;

    /// Does this to a member, and says what was seen.
    fn act(&self, name: &str, action: MemberAction) -> Result<Observation, String>;

    /// Applies an effect to these links, under the number of its fault; see [`Network::inject`](super::network::Network::inject).
    fn change_links(&self, fault: u32, links: &[Pair], effect: Effect) -> Result<Observation, String>;

    /// Undoes that.
    fn restore_links(&self, fault: u32) -> Result<Observation, String>;

    /// What a fault at a command has struck so far.
    fn strike(&self, fault: u32, disarm: bool) -> SoFar;

    /// Makes something pass on these connections, so that a fault that chose them strikes.
    fn provoke(&self, fault: u32, connections: &[Ends]) -> Result<(), String>;

    /// The faults of the network that are not undone.
    fn on_network(&self) -> Vec<u32>;

    /// Forgets the members, and clears the network of whatever is left there.
    fn reset(&self) -> Result<(), String>;

    /// Undoes whatever is left on the network, for good.
    fn close_network(&self) -> Result<(), String>;
}
