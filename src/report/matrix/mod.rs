//! What a person takes away from a suite: which lock is broken by what, and whether that was expected.
//!
//! Pure functions of a [`Matrix`]; only [`write()`] touches the disk. The words are the same everywhere: on the
//! terminal, on a self-contained page with links to the runs' reports, as Markdown for a CI summary, as JUnit XML.

mod html;
mod junit;
mod markdown;
mod phrases;
mod terminal;

use std::io;
use std::path::Path;

pub use html::html;
pub use junit::junit;
pub use markdown::markdown;
pub use terminal::{planned, terminal};

use crate::suite::matrix::Matrix;

/// The content of `matrix.json`.
pub fn json(matrix: &Matrix) -> String {
    let mut text = serde_json::to_string_pretty(matrix).expect("a matrix has string keys only");
    text.push('\n');
    text
}

/// Writes `matrix.json`, `matrix.html`, `matrix.md` and `junit.xml` into `dir`.
pub fn write(dir: &Path, matrix: &Matrix) -> io::Result<()> {
    std::fs::write(dir.join("matrix.json"), json(matrix))?;
    std::fs::write(dir.join("matrix.html"), html(matrix))?;
    std::fs::write(dir.join("matrix.md"), markdown(matrix))?;
    std::fs::write(dir.join("junit.xml"), junit(matrix))
}
