//! Is this history of concurrent operations linearizable? If not, which few operations show it, and why?
//!
//! The modules, in the order in which they process a history:
//!
//! - [`formats`]: reads EDN, JSON lines and logs, compressed or not, and refuses impossible histories
//! - [`history`]: operations in a compact form, the same for every file format
//! - [`models`]: the allowed behaviour of an object: registers, counters, sets, lists, locks; implement [`Model`] for your own
//! - [`value_graph`]: values that are written once, and the order of operations that follows
//! - [`linear_time`]: near-linear checks, for models that have one
//! - [`search`]: the general search, for everything else
//! - [`explain`]: a few operations that alone have no legal order, and the reason in words
//! - [`words`]: operations and values in readable form
//!
//! Each key is a separate object (P-compositionality: Horn and Kroening 2015). [`check`] takes a whole history and a
//! built-in model, and decides each object. [`check_object`] searches with your own model.

#![warn(missing_docs)]

mod dispatch;
pub mod evidence;
pub mod explain;
pub mod formats;
pub mod history;
pub mod linear_time;
pub mod model;
pub mod models;
pub mod search;
pub mod value_graph;
pub mod words;

pub use dispatch::{How, Object, Options, WithModel, check, examine_object, search_object, with_model};
pub use model::{Model, Transition};
pub use models::{FailedCas, ModelSpec};
pub use search::{Limits, check_object};

/// Compiles the README's example as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The result of a check of the operations on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Some order of the operations is legal and agrees with real time.
    Linearizable,
    /// No order of them is legal and agrees with real time.
    NotLinearizable(Conflict),
    /// Not decided: the check does not apply to such a history, or it hit a limit.
    Undecided(String),
}

impl Answer {
    /// Not linearizable; see [`Conflict::new`].
    fn refused(operations: Vec<u32>, reason: String) -> Answer {
        Answer::NotLinearizable(Conflict::new(operations, reason))
    }
}

/// Why there is no legal order, as far as the check knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Indices into the list of checked operations. These operations alone have no legal order; they are few, but not always the
    /// fewest.
    pub operations: Vec<u32>,
    /// One sentence.
    pub reason: String,
}

impl Conflict {
    /// Sorts the operations and removes duplicates and placeholders ([`linear_time::NONE`]).
    fn new(mut operations: Vec<u32>, reason: impl Into<String>) -> Conflict {
        operations.sort_unstable();
        operations.dedup();
        operations.retain(|place| *place != linear_time::NONE);
        Conflict { operations, reason: reason.into() }
    }
}
