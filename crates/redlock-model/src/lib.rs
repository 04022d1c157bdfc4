//! Redlock as a small model, and an exhaustive search of it.
//!
//! A few clients ask a few nodes, one after the other, for a lock that expires; time passes in ticks, and everything
//! that can happen next may happen. [`search()`] visits every state within the [`Bounds`], in parallel and breadth first,
//! so it finds the shortest [`Counterexample`] if there is one, and otherwise has shown that there is none *within
//! these bounds*.
//!
//! - [`settings`]: the bounds, what may go wrong, and the property
//! - [`step`]: what can happen, in words
//! - `layout`: a state in 128 bits
//! - [`model`]: which steps a state allows, and which states break the property
//! - [`search()`]: all states, level by level
//! - `parallel`: work that threads share
//! - `shortest`: of all shortest counterexamples the one that is easiest to follow
//!
//! Left out on purpose: messages under way (a request and its reply are one step), drift of the nodes' clocks, extending
//! a lock, more than one hold for each client, and liveness.

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
