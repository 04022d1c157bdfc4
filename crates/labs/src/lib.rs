//! Experiments that consist of many runs, each with its report. Only `cli` uses them.
//!
//! - [`fuzz`]: draws scripts from a seed, runs thousands of them in virtual time, and shrinks those that break a lock
//! - [`library`]: tries every scenario on a published lock library
//! - [`risk`]: estimates how often a lock loses updates, given how often its clients pause
//! - [`explore`]: turns a counterexample of a Redlock model into a script for a run
//! - [`client_check`]: finds which claims and scenarios a user's client can serve

pub mod client_check;
pub mod explore;
pub mod fuzz;
pub mod library;
pub mod risk;
