//! Redis servers as pure state machines, for a simulated cluster in virtual time.
//!
//! A server does no I/O and has no thread, clock or random source of its own: it receives events, and returns actions.
//! The modules, in the order in which a command passes through them:
//!
//! - [`process`]: the programs of a simulated machine, and the contract with its driver
//! - `config`, `version`, `disk`: the configuration of a server, and the files that outlive it
//! - `server`, `client`, `cron`: from events to actions; connections; periodic work
//! - `request`, `execute`, `commands`, `reply`: from bytes to an answer
//! - `data`, `keyspace`, `propagation`: keys, and which listeners receive changes
//! - `script`: Lua
//! - `replication`, `cluster`, `sentinel`: servers that know each other

#![warn(missing_docs)]

mod busy;
mod client;
mod cluster;
mod commands;
mod config;
mod cron;
mod data;
mod disk;
mod execute;
mod keyspace;
mod number;
pub mod process;
mod propagation;
mod pubsub;
mod replication;
mod reply;
mod request;
mod script;
mod sentinel;
mod server;
mod version;

pub use config::{ClusterConfig, ClusterMember, Config, Persistence};
pub use data::ExecutedCommand;
pub use disk::Disk;
pub use process::{Action, Clocks, Connection, Process, ProcessEvent};
pub use sentinel::{Sentinel, SentinelConfig};
pub use server::Server;
pub use version::Version;

/// Compiles the README's example as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
