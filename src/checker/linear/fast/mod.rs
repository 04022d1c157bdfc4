//! Checks that need no search, because the object's values say in which order its operations took effect.
//!
//! Each takes the operations on one key in the order of their invocations, and answers [`super::Answer::Undecided`] where
//! its theory does not apply.

mod cas;
mod chains;
mod conflict;
mod places;
mod register;
mod rmw;

pub use cas::cas_register;
pub use register::register;
pub use rmw::rmw;
