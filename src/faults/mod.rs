//! Breaks members of a cluster and puts them right again, and sees both happen.
//!
//! Faults need what the controller may not have: the PID namespace and the network of the machine where the members
//! run, which with Docker can be another machine or a virtual one. So they are carried out by the agent ([`run_agent`]),
//! a process of this same program close to the members, over its stdin and stdout (`wire`). The controller's end is
//! [`Agent`]. When the controller dies its pipe closes, and the agent heals whatever it broke before it ends.
//!
//! One file a family of faults, each with `inject` and `heal`, which both observe what they did; [`serve`] decides which
//! by the [`Injection`]. Faults act on members by name, and only on members that were adopted.
//!
//! Deliberately absent: schedules and targets (the controller decides), and starting anything again that was killed
//! (whoever started it does).

mod clear;
pub(crate) mod clock;
mod etcd_probe;
mod failover;
mod handle;
mod injection;
mod kill;
mod member;
mod memory;
pub(crate) mod network;
mod pause;
mod postgres_probe;
mod power;
mod probe;
mod process;
mod serve;
mod skew;
mod wire;
mod zookeeper_probe;

pub use clock::Skew;
pub use handle::{Agent, AgentError, AgentStreams};
pub use injection::Injection;
pub use network::Effect;
pub(crate) use process::Process as HeldProcess;
pub use process::ProcessState;
pub use serve::{run_agent, serve};
pub use wire::{Observation, RedisCommand, RedisReply, Scope};

/// State and start time (in clock ticks from boot) of a process of this machine, if it exists.
pub(crate) fn process_stat(pid: u32) -> Option<(char, u64)> {
    process::stat(pid).ok().map(|stat| (stat.state, stat.start_ticks))
}
