//! Runs in virtual time: what repeats by its seed, what comes out as expected, whom the tester must not accuse, and what is told
//! of it all.

mod advice;
mod client_check;
mod cold;
mod diagnoses;
mod digests;
mod hunts;
mod library;
mod marked;
mod mutants;
mod mutation;
mod nightly;
mod permits;
mod placebo;
mod readers;
mod replay;
mod report;
mod risk;
mod safe;
mod scripts;
pub mod sides;
mod suites;
mod terminal;
mod threads;
mod timeline;
mod words;
