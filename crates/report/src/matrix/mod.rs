//! The result of a suite run: which nemesis breaks which lock, and if that was expected.
//!
//! All formats print the same [`SuiteSummary`], which has all the words. The formats are the terminal, a self-contained page
//! with links to the runs' reports, Markdown for a CI summary, JUnit XML, and CSV. Only [`write()`] touches the disk.

mod badges;
mod cells;
mod csv;
mod grid;
mod html;
mod junit;
mod markdown;
mod servers;
mod sweep;
mod terminal;

use std::path::Path;

pub(super) use html::SCRIPT;
pub use html::html;
pub use junit::junit;
pub use markdown::markdown;
pub use sweep::lines as sweep_lines;
pub use terminal::{planned, terminal};

use base::files::{self, Unwritten};
use suite::matrix::{Matrix, Overall};
pub use summary::table::SuiteSummary;

/// The class of a verdict, for the page and the terminal.
fn verdict_class(verdict: Overall) -> &'static str {
    match verdict {
        Overall::AsExpected => "valid",
        Overall::Surprise => "invalid",
        Overall::Unknown => "unknown",
    }
}

/// The content of `matrix.json`, from which matrices can be merged.
pub fn json(matrix: &Matrix) -> String {
    let mut text = serde_json::to_string_pretty(matrix).expect("a matrix has string keys only");
    text.push('\n');
    text
}

pub fn pages(matrix: &Matrix) -> [(&'static str, String); 5] {
    let table = SuiteSummary::new(matrix);
    [
        ("matrix.json", json(matrix)),
        ("matrix.html", html(&table)),
        ("matrix.md", markdown(&table)),
        ("matrix.csv", csv::csv(matrix)),
        ("junit.xml", junit(&table)),
    ]
}

/// Writes `matrix.json`, `matrix.html`, `matrix.md`, `matrix.csv` and `junit.xml` into `dir`, and a badge for each library
/// under test into `badges`. Each file is written completely or not at all. A failure does not stop the other files.
pub fn write(dir: &Path, matrix: &Matrix) -> Result<(), Unwritten> {
    let mut unwritten = Unwritten::default();
    for (name, content) in pages(matrix) {
        unwritten.note(files::write(&dir.join(name), content));
    }
    let badges = badges::badges(&SuiteSummary::new(matrix));
    if !badges.is_empty() {
        let folder = dir.join("badges");
        unwritten.note(files::create_folder(&folder));
        for (name, picture) in badges {
            unwritten.note(files::write(&folder.join(name), picture));
        }
    }
    unwritten.conclude()
}
