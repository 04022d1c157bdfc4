//! Is this history of concurrent operations linearizable? If not, which few operations show it, and why?
//!
//! The modules in the order in which a history flows through them:
//!
//! - [`formats`]: reads EDN, JSON lines and logs, compressed or not, and refuses what cannot be a history
//! - [`history`]: operations in a compact form, whatever they came from
//! - [`models`]: what an object may do: registers, counters, sets, lists, locks; [`Model`] for one of your own
//! - [`value_graph`]: values that are written once, and the order of operations that follows from them
//! - [`linear_time`]: checks in near-linear time, where theory has one
//! - [`search`]: the general search, where it has none
//! - [`explain`]: few operations that have no order by themselves, and the reason in words
//! - [`words`]: operations and values as people write them
//!
//! Each key is an object of its own (P-compositionality: Horn and Kroening 2015). [`check`] takes a whole history and a
//! built-in model and decides each object; [`check_object`] searches with a model of one's own.

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
pub use model::{Model, Step};
pub use models::{FailedCas, ModelSpec};
pub use search::{Limits, check_object};

/// The example in the README holds.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// What a check concludes about the operations on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Some order of the operations is legal and agrees with real time.
    Linearizable,
    /// No order is.
    NotLinearizable(Conflict),
    /// Not decided: the check does not apply to such a history, or a limit was reached.
    Undecided(String),
}

impl Answer {
    /// No order is; see [`Conflict::new`].
    fn refused(operations: Vec<u32>, reason: String) -> Answer {
        Answer::NotLinearizable(Conflict::new(operations, reason))
    }
}

/// Why there is no legal order, as far as the check that found it can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Places in the list of operations that was checked: operations that by themselves have no legal order, few but not
    /// always the fewest.
    pub operations: Vec<u32>,
    /// One plain sentence.
    pub reason: String,
}

impl Conflict {
    /// Puts the operations in order, each once; those that are none ([`linear_time::NONE`]) are left out.
    fn new(mut operations: Vec<u32>, reason: impl Into<String>) -> Conflict {
        operations.sort_unstable();
        operations.dedup();
        operations.retain(|place| *place != linear_time::NONE);
        Conflict { operations, reason: reason.into() }
    }
}
