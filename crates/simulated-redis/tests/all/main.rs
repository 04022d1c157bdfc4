//! Simulated servers by themselves, in virtual time.

mod alone;
mod groups;
mod sharded;
#[path = "../support/mod.rs"]
mod support;
mod versions;
