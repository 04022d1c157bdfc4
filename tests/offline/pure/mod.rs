//! Turns a history or a model into a verdict or a page. Apart from the program itself, nothing is run.

mod checker;
mod counterexample;
mod explore;
pub mod formats;
pub mod matrix;
mod repro;
