//! Combines many runs to check that every lock is still as safe, or unsafe, as it is known to be.
//!
//! A suite is a matrix of workloads, nemeses and seeds. Each cell's result is compared with its expectation.
//!
//! - [`mod@file`]: a suite file
//! - [`plan`]: its cells, with all options and the planned duration
//! - [`shard`]: the part that one machine runs; [`balance`] assigns the cells
//! - [`choice`]: the cells that the user selects
//! - [`outcome`]: the result of a run, and the status of its cell
//! - [`state`]: the finished runs, written to disk one by one, so that an interrupted suite run can resume
//! - [`trend`]: the changes since the last suite run
//! - [`matrix`]: everything as one value, for pages and for merging shards
//!
//! Everything but [`state`] is pure. A suite repeats runs to measure how often they fail, never to get a better result. It
//! reruns a run once if other runs on the same machine may have delayed it; see [`outcome`].

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
