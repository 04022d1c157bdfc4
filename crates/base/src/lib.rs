//! What every room above may use: files, names of members, numbers with units, words, one clock and network for real and virtual time.
//!
//! - [`units`], [`words`], [`members`], [`slots`]: lengths of time, numbers and names as they are written everywhere
//! - [`files`], [`runs`]: how files are written and read, and the folder that keeps a run
//! - [`machine`]: the clocks and the network that clients and probes see, which may be virtual
//! - [`interrupt`]: how each stage ends when the user wants to stop
//! - [`redis_commands`]: what each command of Redis does to a key
//! - [`sync`]: how a mutex is taken
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
pub mod units;
pub mod words;
