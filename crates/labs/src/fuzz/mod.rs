//! Looks for what breaks a lock, in virtual time: draws scripted scenarios from the whole language of faults, runs
//! thousands of them, and makes the smallest that still breaks the lock out of one that does.
//!
//! - [`draw`]: a scenario from a seed; the script says where in an operation each fault strikes
//! - [`Search`]: hunting and making smaller by turns, in the time that there is
//! - [`hunt`](hunt()): runs seed after seed on all processors, and groups what breaks the lock by its cause
//! - [`shrink`](shrink()): the smallest scenario with the same cause, as a file that any cluster can carry out
//! - [`page`]: the answer for people
//!
//! Deliberately absent: how runs are made (see [`simulate`](runner::simulate)), and whether a run broke the lock
//! (see [`checker`]).

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
