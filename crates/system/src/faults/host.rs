//! The primitives that faults are made of: actions on members and their network, and their observations.
//!
//! Each fault kind ([`kinds`](super::kinds)) is injected and healed only by these primitives, so it is the same on every host.
//! [`ThisHost`](super::this_host) stops processes and changes packets of its own machine; a simulated host does the same to
//! simulated members. Faults by a server's own commands need only [`Host::machine`].

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use super::clock::Skew;
use super::network::{Effect, Ends, Pair, SoFar};
use super::wire::{Observation, Scope};
use base::machine::Machine;

/// An action on one member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemberAction {
    /// Every process stops.
    Stop,
    /// Every process continues.
    Continue,
    /// Every thread but the first of each process stops.
    StopBackground,
    /// The stopped threads continue.
    ContinueBackground,
    /// Every process ends at once.
    Kill,
    /// A server is asked to end, and every process of it ends.
    ShutDown,
    /// Every process ends at once, and data that was not synced to a file is lost.
    LosePower,
    /// Only checks that the member runs.
    VerifyRunning,
    /// The wall clock becomes wrong.
    Skew(Skew),
    /// The wall clock becomes right again.
    RestoreClock,
    /// From now on, a snapshot that the member writes is removed when its process is killed.
    KeepNoSnapshot,
    /// Removes the snapshot now, and restores the file that it replaced.
    RemoveSnapshot,
    /// Each sync of a file takes this many ms longer, plus or minus the jitter.
    SlowDisk { ms: u64, jitter_ms: u64 },
    /// Syncs take their normal time again.
    RestoreDisk,
}

/// A place where members run. Errors are sentences for the user.
pub trait Host: Send + Sync + 'static {
    /// True if its primitives block, so that they need their own thread.
    fn blocks(&self) -> bool;

    /// The clock of the clients' time stamps.
    fn monotonic(&self) -> Duration;

    /// The machine from which servers are reached, whatever faults are between members.
    fn machine(&self) -> Arc<dyn Machine>;

    /// Blocks access to the members' network from outside.
    fn guard(&self, bridge: &str, table: &str) -> Result<(), String>;

    /// Sets the network that joins the members.
    fn set_network(&self, bridge: &str, table: &str) -> Result<(), String>;

    /// Makes the process with this PID a member. A known name stands for the new process from now on.
    fn adopt(&self, name: &str, pid: u32, scope: Scope, address: Option<Ipv4Addr>) -> Result<(), String>;

    /// A member's address; None if it has none. An error if no member has this name.
    fn address_of(&self, name: &str) -> Result<Option<Ipv4Addr>, String>;

    /// True if a member has a process, paused or not.
    fn runs(&self, name: &str) -> bool;

    /// Applies the action to a member and returns the observation.
    fn act(&self, name: &str, action: MemberAction) -> Result<Observation, String>;

    /// Applies an effect to these links, under the number of its fault; see [`Network::inject`](super::network::Network::inject).
    fn change_links(&self, fault: u32, links: &[Pair], effect: Effect) -> Result<Observation, String>;

    /// Undoes the effect of this fault.
    fn restore_links(&self, fault: u32) -> Result<Observation, String>;

    /// The members that a fault at a command has hit so far.
    fn strike(&self, fault: u32, disarm: bool) -> SoFar;

    /// Makes a segment pass on these connections, so that a fault that chose them fires.
    fn provoke(&self, fault: u32, connections: &[Ends]) -> Result<(), String>;

    /// The faults on the network that are not undone.
    fn on_network(&self) -> Vec<u32>;

    /// Forgets the members, and removes all remaining effects from the network.
    fn reset(&self) -> Result<(), String>;

    /// Removes all remaining effects from the network, for good.
    fn close_network(&self) -> Result<(), String>;
}
