//! Searches in virtual time for scenarios that break a lock. It draws scripted scenarios from the whole language of faults,
//! runs thousands of them, and shrinks those that break the lock.
//!
//! - [`draw`]: draws a scenario from a seed; its script determines where in an operation each fault begins
//! - [`Search`]: hunts and shrinks in turn, within the time limit
//! - [`hunt`](hunt()): runs seed after seed on all processors, and groups violations by cause
//! - [`shrink`](shrink()): finds the smallest scenario with the same cause, as a file that any cluster can run
//! - [`page`]: shows the results
//!
//! Deliberately absent: making runs (see [`simulate`](runner::simulate)) and checking them (see [`checker`]).

mod cause;
pub mod draw;
mod fair;
mod hunt;
mod keep;
pub mod page;
mod search;
mod shrink;

pub use cause::{By, Cause, decisive};
pub use hunt::{Found, Hunt, Until, hunt};
pub use search::{Progress, Search, USUAL_TIME, Violation};
pub use shrink::{ShrinkEnd, Shrunk, Trials, shrink, shrink_on};
