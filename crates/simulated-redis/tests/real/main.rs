//! Simulated servers against real ones. These tests need redis-server on the PATH, and fail without it. `REDJEPSEN_SERVERS` names
//! other programs to compare with, separated by colons, such as those that `redjepsen install --servers` prints.

mod commands;
mod generate;
mod groups;
mod recorded;
#[path = "../support/mod.rs"]
mod support;
