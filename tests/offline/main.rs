//! Tests that need no engine, no root and no network: the checker, the pages, the command line, and the way out of it.

mod architecture;
mod checker;
mod circles;
mod cli;
mod counterexample;
mod docs;
mod engine_miscounts;
mod explore;
mod files;
mod formats;
mod hostile;
mod hunts;
mod install;
mod library;
mod matrix;
mod replay;
mod report;
mod repro;
mod risk;
mod sides;
mod simulated;
mod support;
mod terminal;
mod trust;
mod way_out;
mod words;

/// How many histories of each kind a property is tried on; `REDJEPSEN_CASES` asks for more, as CI does every night.
fn cases(usual: u32) -> u32 {
    std::env::var("REDJEPSEN_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}
