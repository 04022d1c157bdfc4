//! Tests that need real servers: clusters in Docker and on this machine, faults, runs and suites. How many go side by side is in
//! `.config/nextest.toml`.

mod databases;
mod docker;
mod doubt;
mod end_to_end;
mod explore;
mod faithful;
mod faults;
mod files;
mod fleet;
mod gallery;
mod groups;
mod killed;
mod local;
mod power;
mod protocol;
mod reset;
mod suite;
