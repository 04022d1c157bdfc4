//! Writes the pages over a store as files: for a CI artifact, or for a web site.
//!
//! Readers trust the name of a site, but any program may have put files into the store. So pages and drawings of runs are
//! exported only if they contain only redjepsen's elements. They carry the policy that the server would send. Pages of suite
//! runs are written anew. Files that a browser could take for a page are left out, and so are files that are too long.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::site::{Site, list, open};
use crate::foreign::{self, FileLook};
use crate::matrix;
use crate::store::pages;
use base::files::{self, FileError, is_plain};
use summary::store::night;

/// Larger files stay in the store: histories and logs of long runs.
const MOST_BYTES: u64 = 1 << 20;
/// Files of these kinds are passive, whatever program shows them.
const STILL: [&str; 12] = ["json", "jsonl", "log", "toml", "md", "txt", "csv", "edn", "conf", "png", "gz", "zst"];
/// The folder for the files until all are complete, inside the target folder.
const UNFINISHED: &str = ".redjepsen-export.new";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    pub pages: u64,
    pub files: u64,
    pub bytes: u64,
    /// Files that cannot have their name in the target folder: the name is too long, or a folder has it.
    pub left_out: Vec<String>,
}

/// Writes all pages and the files that they link to into a new or empty folder. If `is_over` returns true, nothing is left.
///
/// # Errors
///
/// If the folder is not writable, is not empty, or is inside the store. Then nothing is left.
pub fn export(store: &Path, into: &Path, is_over: &dyn Fn() -> bool) -> Result<Exported, FileError> {
    let failed = |error| FileError::write(into, error);
    let site = Site::new(store, false);
    let root = site.root();
    let unfinished = Unfinished::begin(root, into).map_err(failed)?;
    let mut writer = Writer { folder: &unfinished.folder, is_over, done: Exported::default() };
    let snapshot = site.snapshot();
    let mut here = HashSet::new();
    for run in &snapshot.runs {
        for file in list(root, &run.path) {
            let path = format!("{}/{}", run.path, file.path);
            if let Some(content) = of_run(root, &path)
                && writer.put(&format!("files/{path}"), &content)?
            {
                writer.done.files += 1;
                here.insert(path);
            }
        }
    }
    for night in snapshot.suites.values().flatten() {
        let Ok(Ok(matrix)) = files::below(root, &night.path).map(|folder| night::matrix(&folder)) else { continue };
        for (name, content) in matrix::pages(&matrix) {
            let written = writer.put(&format!("files/{}/{name}", night.path), content.as_bytes())?;
            writer.done.files += u64::from(written);
        }
    }
    for page in pages(&snapshot) {
        if let Some(text) = site.page(&page, &|path| here.contains(path)) {
            let written = writer.put(&page, text.as_bytes())?;
            writer.done.pages += u64::from(written);
        }
    }
    let done = writer.done;
    unfinished.finish().map_err(failed)?;
    Ok(done)
}

/// The exported content of a run's file. None if the file stays in the store.
fn of_run(root: &Path, path: &str) -> Option<Vec<u8>> {
    let opened = open(root, path).ok().filter(|opened| opened.bytes <= MOST_BYTES && is_plain(path))?;
    let mut content = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(opened.file, MOST_BYTES), &mut content).ok()?;
    let endings: Vec<&str> = opened.name.split('.').skip(1).collect();
    // A server may choose the file's type by any of these endings.
    let is_still = |ending: &&str| STILL.contains(ending) || ending.bytes().all(|byte| byte.is_ascii_digit());
    match endings[..] {
        ["html"] => {
            let text = std::str::from_utf8(&content).ok()?;
            (foreign::page(text) != FileLook::Strange).then(|| foreign::with_policy(text).into_bytes())
        }
        ["svg"] => foreign::is_our_drawing(std::str::from_utf8(&content).ok()?).then_some(content),
        [.., last] if STILL.contains(&last) && endings.iter().all(is_still) => {
            // A browser may take this file for a page if the server sends no type.
            let begin = content.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&content[..]).trim_ascii_start();
            (!begin.starts_with(b"<") && !begin.starts_with(b"%PDF")).then_some(content)
        }
        _ => None,
    }
}

struct Writer<'a> {
    folder: &'a Path,
    is_over: &'a dyn Fn() -> bool,
    done: Exported,
}

impl Writer<'_> {
    /// Writes a file below the folder. Returns false if no file can have that name.
    fn put(&mut self, path: &str, content: &[u8]) -> Result<bool, FileError> {
        let file = self.folder.join(path);
        let written = match (is_plain(path), (self.is_over)()) {
            (_, true) => Err(io::Error::other("interrupted; everything written so far was removed")),
            (false, _) => Err(io::ErrorKind::InvalidInput.into()),
            (true, false) => fs::create_dir_all(file.parent().unwrap_or(self.folder))
                .and_then(|()| File::create_new(&file))
                .and_then(|mut file| file.write_all(content)),
        };
        match written {
            Ok(()) => self.done.bytes += content.len() as u64,
            Err(error) if is_its_name(&error) => {
                self.done.left_out.push(path.to_string());
                return Ok(false);
            }
            Err(error) => return Err(FileError::write(&file, error)),
        }
        Ok(true)
    }
}

/// True if the error means that no file can have this name here.
fn is_its_name(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, InvalidInput, IsADirectory, NotADirectory};
    let too_long = Errno::from_io_error(error) == Some(Errno::NAMETOOLONG);
    too_long || [AlreadyExists, InvalidInput, IsADirectory, NotADirectory].contains(&error.kind())
}

/// An export in progress. Unless it is finished, dropping it removes everything.
struct Unfinished<'a> {
    into: &'a Path,
    folder: PathBuf,
    /// True if this export created the target folder.
    is_new: bool,
    /// A lock, so that only one export runs at a time.
    _alone: File,
}

impl Unfinished<'_> {
    fn begin<'a>(store: &Path, into: &'a Path) -> io::Result<Unfinished<'a>> {
        let in_store = || {
            io::Error::other("it is inside the store, which would then contain its runs twice; name a folder outside")
        };
        if lies_in(into, store)? {
            return Err(in_store());
        }
        let is_new = !into.exists();
        fs::create_dir_all(into)?;
        let alone = File::open(into)?;
        if flock(&alone, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(io::Error::other("another export is writing to it"));
        }
        if fs::read_dir(into)?.any(|entry| entry.is_ok_and(|entry| entry.file_name() != UNFINISHED)) {
            return Err(io::Error::other("it is not empty; name a new folder"));
        }
        let unfinished = Unfinished { into, folder: into.join(UNFINISHED), is_new, _alone: alone };
        // The new folder may be reached through a path that did not exist before.
        if lies_in(into, store)? {
            return Err(in_store());
        }
        // Left over from an export that was killed.
        files::remove_folder(&unfinished.folder).map_err(io::Error::other)?;
        fs::create_dir(&unfinished.folder)?;
        Ok(unfinished)
    }

    /// Moves everything to its place, the first page last.
    fn finish(mut self) -> io::Result<()> {
        let mut names: Vec<_> =
            fs::read_dir(&self.folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        names.sort_by_key(|name| name == "index.html");
        for name in names {
            fs::rename(self.folder.join(&name), self.into.join(&name))?;
        }
        self.is_new = false;
        Ok(())
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // The name of the remaining folder explains it, and the next export removes it.
        let _ = files::remove_folder(&self.folder);
        if self.is_new {
            let _ = fs::remove_dir(self.into);
        }
    }
}

/// True if a folder, which may not exist yet, is inside another one.
fn lies_in(folder: &Path, other: &Path) -> io::Result<bool> {
    let (folder, other) = (std::path::absolute(folder)?, other.canonicalize()?);
    let there = folder.ancestors().find_map(|folder| folder.canonicalize().ok());
    Ok(there.is_some_and(|there| there.starts_with(other)))
}
