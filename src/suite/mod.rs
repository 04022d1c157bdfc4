//! Many runs as one question: is every lock still as safe, and as unsafe, as it is known to be?
//!
//! A suite is a matrix of workloads, nemeses and seeds that is held against what each cell is expected to show.
//!
//! - [`mod@file`]: what a suite's file says
//! - [`plan`]: the cells that it means, complete, with how long they take and which machine takes which
//! - [`outcome`]: what a run showed, and what its cell therefore is
//! - [`state`]: the runs that are done, on disk one by one, so that an interrupted suite goes on where it was
//! - [`matrix`]: all of it as one value, which the pages are made of, and which shards are joined by
//!
//! Everything but [`state`] is pure. A suite repeats runs to see how often something is found, never to get a result that
//! it would like better.

pub mod file;
pub mod matrix;
pub mod outcome;
pub mod plan;
pub mod state;
