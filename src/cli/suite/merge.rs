//! `redjepsen suite --merge`: joins the shards of a suite, run on several machines, into one matrix.

use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::{Exit, Failure, conclude};
use crate::runs;
use crate::suite::matrix::Matrix;

/// No matrix has as many bytes. A longer file is cut off here, and refused for that.
const LONGEST: u64 = 1 << 28;

/// Joins the matrices in these folders into a new folder of the store.
pub fn merge(folders: &[PathBuf], into: &Path) -> Result<Exit, Failure> {
    let mut parts = Vec::new();
    for folder in folders {
        let failed = |error: String| Failure::arguments(format!("--merge {error}"));
        let matrix = read(folder).map_err(failed)?;
        let home = folder.canonicalize().map_err(|error| failed(format!("{}: {error}", folder.display())))?;
        let folder = if home.is_dir() { home } else { home.parent().unwrap_or(&home).to_path_buf() };
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

/// The matrix in a suite's folder, or in a file.
pub fn read(path: &Path) -> Result<Matrix, String> {
    let path = if path.is_dir() { path.join("matrix.json") } else { path.to_path_buf() };
    let failed = |error: String| format!("{}: {error}", path.display());
    let mut text = String::new();
    let file = fs::File::open(&path).map_err(|error| failed(error.to_string()))?;
    file.take(LONGEST).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

/// The relative path from one absolute folder to another.
fn relative(to: &Path, from: &Path) -> String {
    let shared = to.components().zip(from.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(to.components().skip(shared)).collect();
    way.display().to_string()
}
