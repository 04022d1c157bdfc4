//! Experiments that are made of runs, each with its page. Only `cli` names them.
//!
//! - [`fuzz`]: scripts drawn from a seed, run by the thousand in virtual time, and the smallest that breaks a lock
//! - [`library`]: tries every scenario on a published lock library
//! - [`risk`]: how often a lock loses updates, given how often its clients stand still
//! - [`explore`]: from a counterexample of a model of Redlock to a script for a run
//! - [`client_check`]: which claims and scenarios a client of the user's own can serve

pub mod client_check;
pub mod explore;
pub mod fuzz;
pub mod library;
pub mod risk;
