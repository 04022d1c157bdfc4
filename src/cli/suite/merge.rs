//! `redjepsen suite --merge`: merges the shards of a suite, run on several machines, into one matrix. A folder may contain
//! several shards, for example if all machines wrote below one shared folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::conclude;
use crate::cli::console::{Exit, Failure, tell};
use base::files;
use runner::open::create;
use suite::matrix::Matrix;
use summary::store::night;

/// A folder with this file counts as a shard.
const MATRIX: &str = night::FILE;

/// Merges the matrices in these folders, or anywhere below them, into a new folder of the store.
pub fn merge(folders: &[PathBuf], into: &Path, json: bool) -> Result<Exit, Failure> {
    let mut parts = Vec::new();
    for folder in found(folders)? {
        let failed = |error: String| Failure::arguments(format!("--merge {error}"));
        let matrix = read(&folder).map_err(failed)?;
        let home = folder.canonicalize().map_err(|error| failed(format!("{}: {error}", folder.display())))?;
        let folder = if home.is_dir() { home } else { home.parent().unwrap_or(&home).to_path_buf() };
        parts.push((folder, matrix));
    }
    let name = parts.first().map(|(_, matrix)| matrix.suite.clone()).unwrap_or_default();
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if name.is_empty() || !plain {
        return Err(Failure::arguments(format!("--merge: `{name}` is not a name of a suite")));
    }
    let joined = |home: &Path| {
        let parts = parts.iter().map(|(folder, matrix)| (files::relative(home, folder), matrix.clone())).collect();
        Matrix::join(parts).map_err(|error| Failure::arguments(format!("--merge: {error}")))
    };
    // Invalid shards are rejected before a folder is created.
    joined(into)?;
    let failed = |error| Failure::could_not_run(format!("--store {}: {error}", into.display()));
    let home = create(into, &name, tell).map_err(failed)?;
    conclude(joined(&home.canonicalize().map_err(failed)?)?, &home, into, json)
}

/// The folders that contain a matrix, among these and below them.
fn found(folders: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for folder in folders {
        let before = found.len();
        let failed = |error: String| Failure::arguments(format!("--merge {}: {error}", folder.display()));
        find(folder, &mut found).map_err(|error| failed(format!("{error}; give the store of a part")))?;
        if found.len() == before {
            return Err(failed(format!("no {MATRIX} in this folder or below, so no shard has finished")));
        }
    }
    Ok(found)
}

/// Follows no links below `folder`: through `latest`, a shard would be found twice.
fn find(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if folder.is_file() || fs::symlink_metadata(folder.join(MATRIX)).is_ok() {
        found.push(folder.to_path_buf());
        return Ok(());
    }
    let mut below: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            below.push(entry.path());
        }
    }
    // In the same order on every machine.
    below.sort_unstable();
    below.iter().try_for_each(|folder| find(folder, found))
}

/// The matrix in a suite's folder, or in a file.
pub fn read(path: &Path) -> Result<Matrix, String> {
    night::matrix(path).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_wherever_they_are_below_and_only_once() {
        let store = tempfile::tempdir().unwrap();
        let part = |name: &str| {
            let folder = store.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(MATRIX), "{}").unwrap();
            std::os::unix::fs::symlink(&folder, folder.with_file_name("latest")).unwrap();
            folder
        };
        let parts = [part("part-0/suites/mine/1"), part("part-1/suites/mine/2")];
        fs::create_dir_all(store.path().join("part-2/suites/mine/3")).unwrap();
        let names = |folders: &[PathBuf]| found(folders).map_err(|failure| failure.text);
        assert_eq!(names(&[store.path().into()]).unwrap(), parts);
        // The results are the given paths, including links and files.
        let given = [store.path().join("part-0/suites/mine/latest"), parts[1].join(MATRIX)];
        assert_eq!(names(&given).unwrap(), given);

        for none in ["part-2", "part-3"] {
            let text = names(&[store.path().into(), store.path().join(none)]).unwrap_err();
            assert!(text.contains(none), "{text}");
        }
    }
}
