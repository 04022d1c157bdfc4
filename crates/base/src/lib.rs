//! Basics for all other crates.
//!
//! - [`units`], [`words`], [`members`], [`slots`]: lengths of time, numbers and names, as text
//! - [`files`], [`runs`]: reading and writing files, and the folders of runs
//! - [`machine`]: the clocks and the network of clients and probes, real or virtual
//! - [`interrupt`]: ends each stage when the user wants to stop
//! - [`redis_commands`]: the effect of each Redis command on a key
//! - [`sync`]: locks a mutex, waits for a change
//! - [`texts`]: fields of files that may have one or several values
//! - [`mutants`]: bugs that tests plant; a release build has none

pub mod files;
pub mod interrupt;
pub mod machine;
pub mod members;
pub mod mutants;
pub mod redis_commands;
pub mod runs;
pub mod slots;
pub mod sync;
pub mod texts;
pub mod units;
pub mod words;
