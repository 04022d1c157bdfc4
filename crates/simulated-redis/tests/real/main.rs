//! Simulated servers against real ones. These tests need redis-server on the PATH, and fail without it.

mod commands;
mod generate;
mod groups;
mod recorded;
#[path = "../support/mod.rs"]
mod support;
