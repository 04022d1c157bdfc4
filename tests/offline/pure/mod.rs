//! A history or a model goes in, and a verdict or a page comes out: nothing is run but the program on what it is given.

mod checker;
mod counterexample;
mod explore;
pub mod formats;
pub mod matrix;
mod repro;
