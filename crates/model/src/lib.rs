//! A run as data: what is tested, on which servers, with which faults, and what happened. Nothing here acts.
//!
//! - [`topology`], [`locks`], [`resource`]: servers, the locks under test, and the data that the resource stores under a key
//! - [`fault_kinds`]: the declaration of each kind of fault
//! - [`nemesis`], [`scenario`], [`scenario::catalogue`]: the checked configuration of a run
//! - [`plan`]: every operation and fault, drawn from the seed
//! - [`history`]: the events of a run

pub mod fault_kinds;
pub mod history;
pub mod locks;
pub mod nemesis;
pub mod plan;
pub mod resource;
pub mod scenario;
pub mod topology;
