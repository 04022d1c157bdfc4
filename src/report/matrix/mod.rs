//! What a person takes away from a suite: which lock is broken by what, and whether that was expected.
//!
//! Pure functions of a [`Matrix`]; only [`write()`] touches the disk. The words are the same everywhere: on the
//! terminal, on a self-contained page with links to the runs' reports, as Markdown for a CI summary, as JUnit XML.

mod html;
mod junit;
mod markdown;
mod phrases;
mod scoreboard;
mod terminal;

use std::path::Path;

pub use html::html;
pub use junit::junit;
pub use markdown::markdown;
pub use terminal::{planned, terminal};

use crate::files::{self, Unwritten};
use crate::suite::matrix::Matrix;

/// The content of `matrix.json`.
pub fn json(matrix: &Matrix) -> String {
    let mut text = serde_json::to_string_pretty(matrix).expect("a matrix has string keys only");
    text.push('\n');
    text
}

/// Writes `matrix.json`, `matrix.html`, `matrix.md` and `junit.xml` into `dir`, and into `badges` a picture for each
/// library under test: each whole or not at all, and as many of them as can be written.
pub fn write(dir: &Path, matrix: &Matrix) -> Result<(), Unwritten> {
    let mut unwritten = Unwritten::default();
    for (name, content) in [
        ("matrix.json", json(matrix)),
        ("matrix.html", html(matrix)),
        ("matrix.md", markdown(matrix)),
        ("junit.xml", junit(matrix)),
    ] {
        unwritten.note(files::write(&dir.join(name), content));
    }
    let badges = scoreboard::badges(matrix);
    if !badges.is_empty() {
        let folder = dir.join("badges");
        unwritten.note(files::create_folder(&folder));
        for (name, picture) in badges {
            unwritten.note(files::write(&folder.join(name), picture));
        }
    }
    unwritten.conclude()
}
