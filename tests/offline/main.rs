//! Tests that need no engine, no root and no network: what is pure, what is simulated, the command line, the way out of it, and
//! that the project's pages are true.

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
