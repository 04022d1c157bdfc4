//! Breaks members of a cluster, heals them, and observes both.
//!
//! Faults need the PID namespace and the network of the machine where the members run, to which the controller may not have
//! access. With Docker, this can be another machine or a virtual one. So the agent ([`run_agent`]) injects them. The agent is a
//! process of this program next to the members. It talks over stdin and stdout (`wire`) to the controller's end, [`Agent`]. If
//! the controller dies, its pipe closes, and the agent heals everything before it ends.
//!
//! [`serve`] keeps the list of faults in effect; `kinds` injects, observes and heals each kind by the primitives of a [`Host`].
//! This machine's primitives are in `this_host` for members, and in `network` for links. Faults act on members by name, and only
//! on adopted members.
//!
//! The agent also watches: `observer` the contents of the lock's nodes, `sampler` the members that do not run.
//!
//! Deliberately absent: schedules and targets (the controller decides), and restarting killed members (their starter does).

mod async_host;
mod clear;
pub mod clock;
mod etcd_probe;
mod handle;
mod host;
mod injection;
mod kinds;
mod monitor;
pub mod network;
mod observer;
mod postgres_probe;
mod probe;
mod process;
mod sampler;
mod serve;
mod this_host;
mod wire;
mod zookeeper_probe;

pub use clock::Skew;
pub use clock::WrongClock;
pub use handle::{Agent, AgentError, AgentStreams};
pub use host::{Host, MemberAction};
pub use injection::{Injection, Parameter, Promotion};
pub use model::history::{Held, NodeState, Sighting, Sightings, Waited};
pub use monitor::SeenCommand;
pub(crate) use monitor::{Keeps, MonitorLine, Open, Watched, seen, theirs};
pub use network::{Effect, Ends, LinkFaults, Pair, Released, Segment, SegmentFate, SoFar};
pub use observer::LOCKS;
pub use probe::UNREACHED;
pub use process::ProcessHandle as HeldProcess;
pub use process::ProcessState;
pub use serve::serve_orders;
pub use serve::{run_agent, serve};
pub use wire::Request;
pub use wire::{Observation, RedisCommand, RedisReply, Scope, Struck};

/// State and start time (in clock ticks from boot) of a process of this machine, if it exists.
pub fn process_stat(pid: u32) -> Option<(char, u64)> {
    process::stat(pid).ok().map(|stat| (stat.state, stat.start_ticks))
}
