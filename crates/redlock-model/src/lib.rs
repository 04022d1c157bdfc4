//! Redlock as a small model, and an exhaustive search of it.
//!
//! A few clients ask a few nodes, one at a time, for a lock that expires. Time passes in ticks, and every possible next
//! step may happen. [`search()`] visits every state within the [`Bounds`], in parallel and breadth first. So it finds the
//! shortest [`Counterexample`] if there is one, and otherwise has shown that there is none *within these bounds*.
//!
//! - [`settings`]: the bounds, the possible faults, and the property
//! - [`step`]: the possible steps, in words
//! - `layout`: a state in 128 bits
//! - [`model`]: the steps that a state allows, and the states that violate the property
//! - [`search()`]: all states, level by level
//! - `parallel`: work that threads share
//! - `shortest`: the easiest to follow among all shortest counterexamples
//!
//! Left out on purpose: messages in flight (a request and its reply are one step) and drift of the nodes' clocks. Also extending
//! a lock, more than one hold per client, and liveness.

mod layout;
pub mod model;
mod parallel;
pub mod search;
pub mod settings;
mod shortest;
pub mod step;
mod visited;

pub use model::Model;
pub use search::{Limits, Outcome, Verdict, search};
pub use settings::{Bounds, Claim, Clocks, Crash, Fencing, Holding, Memory, Restart, Settings, SettingsError};
pub use shortest::{Counterexample, Move};
pub use step::{Actor, Denial, Step};

/// Compiles the README's example as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
