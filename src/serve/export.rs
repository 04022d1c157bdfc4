//! The pages over a store as files: for the artifact of a CI, or for a site.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use super::site::{Site, list, open, shown};
use crate::files::{self, FileError, is_plain};
use crate::report::store::{FileEntry, pages};

/// Larger files stay in the store: histories and logs of long runs.
const MOST_BYTES: u64 = 1 << 20;
/// What a night has beside its runs.
const OF_A_NIGHT: [&str; 5] = ["matrix.html", "matrix.json", "matrix.md", "matrix.csv", "junit.xml"];

/// How much was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    pub pages: u64,
    pub files: u64,
    pub bytes: u64,
}

/// Writes all pages and the files that they link to into a new or empty folder.
pub fn export(store: &Path, into: &Path) -> Result<Exported, FileError> {
    let failed = |error| FileError::write(into, error);
    fs::create_dir_all(into).map_err(failed)?;
    if fs::read_dir(into).map_err(failed)?.next().is_some() {
        return Err(failed(io::Error::other("it is not empty; name a new folder")));
    }
    let site = Site::new(store, false);
    let is_here = |file: &FileEntry| file.bytes <= MOST_BYTES;
    let snapshot = site.snapshot();
    let mut done = Exported::default();
    for page in pages(&snapshot).into_iter().filter(|page| is_plain(page)) {
        if let Some(text) = site.page(&page, &is_here) {
            put(into, &page, text.as_bytes(), &mut done)?;
            done.pages += 1;
        }
    }
    let of_runs = snapshot.runs.iter().flat_map(|run| {
        let files = list(site.root(), &run.path).into_iter().filter(is_here);
        files.map(|file| format!("{}/{}", run.path, file.path)).collect::<Vec<_>>()
    });
    let nights = snapshot.suites.values().flatten();
    let of_nights = nights.flat_map(|night| OF_A_NIGHT.map(|name| format!("{}/{name}", night.path)));
    for path in of_runs.chain(of_nights).filter(|path| is_plain(path)) {
        // What went away meanwhile, or is no file, is left out.
        let Ok(opened) = open(site.root(), &path) else { continue };
        let mut content = Vec::new();
        let whole = opened.file.take(files::RESULTS).read_to_end(&mut content);
        whole.map_err(|error| FileError::read(Path::new(&shown(&path)), error))?;
        put(into, &format!("files/{path}"), &content, &mut done)?;
        done.files += 1;
    }
    Ok(done)
}

/// Writes a file below the folder.
fn put(into: &Path, path: &str, content: &[u8], done: &mut Exported) -> Result<(), FileError> {
    let file = into.join(path);
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| FileError::write(folder, error))?;
    }
    done.bytes += content.len() as u64;
    files::write(&file, content)
}
