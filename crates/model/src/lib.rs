//! What a run is, as data: what is tested, on what, with which faults, and what happened. Nothing here acts.
//!
//! - [`topology`], [`locks`], [`resource`]: servers, the locks under test, and what the resource keeps under a key
//! - [`fault_kinds`]: each kind of fault, for all who read or write of it
//! - [`nemesis`], [`scenario`], [`scenario::catalogue`]: what to run, checked
//! - [`plan`]: every operation and fault, drawn from the seed
//! - [`history`]: what happened, event by event

pub mod fault_kinds;
pub mod history;
pub mod locks;
pub mod nemesis;
pub mod plan;
pub mod resource;
pub mod scenario;
pub mod topology;
