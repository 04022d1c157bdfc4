//! Tests that need no engine, no root and no network: pure functions, simulations, the command line, and the truth of the
//! project's pages.

mod architecture;
mod circles;
mod citations;
mod cli;
mod docs;
mod doctor;
mod engine_miscounts;
mod files;
mod hostile;
mod install;
mod kit;
mod language;
mod licenses;
mod pure;
mod serve;
mod simulated;
mod trust;
mod way_out;
