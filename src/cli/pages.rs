//! Files that `redjepsen check` writes besides its answer: a page and a picture.

use std::path::{Path, PathBuf};

use clap::Args;

use super::console::{Failure, tell};
use base::files;

/// The flags that say where to write the page and the drawing.
#[derive(Debug, Args)]
pub struct PageFlags {
    /// Also write a page with the verdict and each counterexample, explained and drawn; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Also write a drawing of the first counterexample; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl PageFlags {
    pub fn any(&self) -> bool {
        self.html.is_some() || self.svg.is_some()
    }

    /// Rejects files that cannot be written, or that are the history itself. Called before the check, which may take minutes.
    pub fn refuse(&self, history: &Path) -> Result<(), Failure> {
        if self.html.is_some() && self.html == self.svg {
            return Err(Failure::arguments("--html and --svg name the same file"));
        }
        let history = if history.is_dir() { history.join("history.jsonl") } else { history.to_path_buf() };
        for (flag, file) in [("--html", &self.html), ("--svg", &self.svg)] {
            let Some(file) = file else { continue };
            let refused = |reason: &str| Err(Failure::arguments(format!("{flag} {}: {reason}", file.display())));
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if file.is_dir() {
                return refused("is a directory; name a file");
            }
            if file.as_os_str().is_empty() || !folder.is_dir() {
                return refused("there is no such directory");
            }
            if same(file, &history) {
                return refused("is the history itself, and would be overwritten");
            }
        }
        Ok(())
    }

    /// Writes the requested files. If there is no counterexample, there is no drawing, and a message says so.
    pub fn write(&self, html: impl FnOnce() -> String, svg: impl FnOnce() -> Option<String>) -> Result<(), Failure> {
        if let Some(file) = &self.html {
            put(file, &html())?;
        }
        if let Some(file) = &self.svg {
            match svg() {
                Some(svg) => put(file, &svg)?,
                None => {
                    let file = file.display();
                    tell(&format!("redjepsen: no counterexample to draw, so {file} was not written"));
                }
            }
        }
        Ok(())
    }
}

fn put(file: &Path, text: &str) -> Result<(), Failure> {
    files::export(file, text).map_err(Failure::could_not_run)
}

fn same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
