//! Linearizability of any history, usable without the rest of redjepsen.
//!
//! Each key is an object of its own (P-compositionality: Horn and Kroening 2015). An object is decided by a check that is
//! near-linear where theory gives one ([`fast`]), and by a general search otherwise ([`search`]). [`check`] does all of
//! that for a built-in model; [`check_object`] searches with a model of one's own ([`Model`]).

mod dispatch;
pub mod evidence;
pub mod explain;
pub mod fast;
pub mod model;
pub mod models;
pub mod search;
pub mod words;

pub use dispatch::{How, Object, Options, WithModel, check, examine_object, search_object, with_model};
pub use model::{Model, Step};
pub use models::{FailedCas, ModelSpec};
pub use search::{Limits, check_object};

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

/// Why there is no legal order, as far as the check that found it can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Places in the list of operations that was checked: operations that by themselves have no legal order, few but not
    /// always the fewest.
    pub operations: Vec<u32>,
    /// One plain sentence.
    pub reason: String,
}
