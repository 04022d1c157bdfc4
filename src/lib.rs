//! The command line of redjepsen. Everything that it asks for is in the crates of `crates/`.

pub mod cli;
