//! Many runs as one question: is every lock still as safe, and as unsafe, as it is known to be?
//!
//! A suite is a matrix of workloads, nemeses and seeds that is held against what each cell is expected to show.
//!
//! - [`mod@file`]: a suite file
//! - [`plan`]: the cells that it means, complete, with their planned duration
//! - [`shard`]: the part of it that one machine runs; [`balance`]: which cells that are
//! - [`choice`]: the cells of it that the user asks for
//! - [`outcome`]: what a run showed, and the status of its cell that follows
//! - [`state`]: the finished runs, written to disk one by one, so that an interrupted suite can continue
//! - [`trend`]: what is different from the last time
//! - [`matrix`]: everything as one value, from which pages are made and shards are joined
//!
//! Everything but [`state`] is pure. A suite repeats runs to see how often something is found, never to get a result
//! that it likes better; what other runs on the same machine may have made late is made again once, see [`outcome`].

pub mod balance;
pub mod choice;
pub mod compare;
pub mod file;
pub mod matrix;
pub mod outcome;
pub mod plan;
pub mod shard;
pub mod state;
pub mod sweep;
pub mod trend;
