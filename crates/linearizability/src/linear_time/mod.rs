//! Checks that need no search, because the object's values determine the order in which its operations took effect.
//!
//! Each check takes the operations on one key in the order of their invocations, and answers [`super::Answer::Undecided`] if its
//! theory does not apply.

mod balance;
mod chain;
mod chains;
mod conflict;
mod counter;
mod decide;
mod elements;
mod fenced_mutex;
mod holds;
mod levels;
mod list;
mod owner_mutex;
mod places;
mod refusals;
mod register;
mod set;

/// Stands for a missing operation, value or level.
pub(crate) const NONE: u32 = u32::MAX;

pub use counter::counter;
pub use fenced_mutex::fenced_mutex;
pub use list::list_append;
pub use owner_mutex::owner_mutex;
pub use register::register;
pub use set::set;
