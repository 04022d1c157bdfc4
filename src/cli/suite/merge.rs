//! `redjepsen suite --merge`: joins the shards of a suite, run on several machines, into one matrix.

use std::path::{Component, Path, PathBuf};

use super::{Exit, Failure, conclude};
use crate::files;
use crate::runs;
use crate::suite::matrix::Matrix;

/// Joins the matrices in these folders, or directly below them, into a new folder of the store.
pub fn merge(folders: &[PathBuf], into: &Path) -> Result<Exit, Failure> {
    let mut parts = Vec::new();
    for folder in folders {
        let matrix = folder.join("matrix.json");
        let failed = |error: String| Failure::arguments(format!("--merge {}: {error}", matrix.display()));
        let text = files::read_inside(&matrix, files::RESULTS);
        let text = text.map_err(|error| Failure::arguments(format!("--merge {error}")))?;
        let matrix: Matrix = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let folder = folder.canonicalize().map_err(|error| failed(error.to_string()))?;
        parts.push((folder, matrix));
    }
    let name = parts.first().map(|(_, matrix)| matrix.suite.clone()).unwrap_or_default();
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if name.is_empty() || !plain {
        return Err(Failure::arguments(format!("--merge: `{name}` is no name of a suite")));
    }
    let joined = |home: &Path| {
        let parts = parts.iter().map(|(folder, matrix)| (relative(folder, home), matrix.clone())).collect();
        Matrix::join(parts).map_err(|error| Failure::arguments(format!("--merge: {error}")))
    };
    // Shards that can't be joined are rejected before a folder is created.
    joined(into)?;
    let failed = |error| Failure::could_not_run(format!("--store {}: {error}", into.display()));
    let home = runs::create_suite(into, &name).map_err(failed)?;
    conclude(&joined(&home.canonicalize().map_err(failed)?)?, &home)
}

/// The relative path from one absolute folder to another.
fn relative(to: &Path, from: &Path) -> String {
    let shared = to.components().zip(from.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(to.components().skip(shared)).collect();
    way.display().to_string()
}
