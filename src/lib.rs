//! The command line of redjepsen. The crates in `crates/` do the work.

pub mod cli;
