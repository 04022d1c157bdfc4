//! Runs in virtual time: repeatability from the seed, expected results, locks that must never be accused, and the texts about all
//! of this.

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
