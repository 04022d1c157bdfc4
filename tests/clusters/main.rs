//! Tests that need real servers: clusters in Docker and on this machine, faults, runs and suites. [`turns`] decides which tests
//! run at the same time.

mod client_check;
mod databases;
mod docker;
mod doubt;
mod end_to_end;
mod existing;
mod existing_hooks;
mod existing_killed;
mod existing_proxied;
mod explore;
mod faithful;
mod faults;
mod files;
mod fleet;
mod gallery;
mod groups;
mod killed;
mod kit;
mod languages;
mod library;
mod local;
mod observer;
mod power;
mod protocol;
mod readers;
mod redis_commands;
#[path = "../../crates/doctor/tests/servers/redis_server.rs"]
mod redis_server;
mod replay;
mod reset;
mod starved;
mod suite;
mod turns;
