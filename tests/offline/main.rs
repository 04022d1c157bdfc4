//! What needs no engine, no root and no network: the checker, the pages and the command line.

mod architecture;
mod checker;
mod cli;
mod counterexample;
mod docs;
mod formats;
mod matrix;
mod report;
mod repro;
mod support;
