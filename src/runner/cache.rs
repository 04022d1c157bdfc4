//! The folder of the user's cache in which clients are installed.
//!
//! What is there is run without another look, so it must be whole and this user's own: a folder gets its name once it is
//! complete, with a mark in it that says so, and nobody else may be able to write there. What an installation has made so
//! far is removed however it ends; what one that was killed left, `redjepsen clean` removes.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use crate::files;

/// In a folder that is complete.
const COMPLETE: &str = ".redjepsen-complete";
/// How the names of unfinished folders end.
const UNFINISHED: &str = ".new";
/// Processes that were killed a moment ago may still be writing: how often a removal is tried, and how far apart.
const REMOVALS: u32 = 20;
const BETWEEN_REMOVALS: Duration = Duration::from_millis(50);
const OTHERS_MAY_WRITE: u32 = 0o022;
const EVERYBODY_MAY_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Where clients are installed, for this user.
pub(super) struct Cache(PathBuf);

impl Cache {
    /// The cache, which is made if there is none.
    pub fn open() -> Result<Cache, String> {
        let base = base().ok_or("it is installed in the user's cache: set HOME or XDG_CACHE_HOME")?;

        fs::create_dir_all(&base).map_err(|error| format!("{}: {error}", base.display()))?;
        nobody_can_replace(&base)?;
        let ours = base.join("redjepsen");
        let clients = ours.join("clients");
        for folder in [&ours, &clients] {
            match DirBuilder::new().mode(0o700).create(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(format!("{}: {error}", folder.display()));
                }
                _ => must_be_own(folder)?,
            }
        }
        Ok(Cache(clients))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder of this name, if it is there and complete.
    pub fn complete(&self, name: &str) -> Result<Option<PathBuf>, String> {
        let place = self.0.join(name);
        if fs::symlink_metadata(&place).is_err() {
            return Ok(None);
        }
        must_be_own(&place)?;
        Ok(place.join(COMPLETE).is_file().then_some(place))
    }

    /// A new folder that is to get this name.
    pub fn begin(&self, name: &str) -> Result<Unfinished, String> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = self.0.join(format!("{name}.{}-{number}{UNFINISHED}", std::process::id()));
        let make = || {
            let new = DirBuilder::new();
            new.create(&folder)?;
            let lock = File::open(&folder)?;
            // Held while this process lives, so that `clean` leaves it alone.
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            new.create(folder.join("content"))?;
            new.create(folder.join("tmp"))?;
            Ok(lock)
        };
        let lock = make().map_err(|error: io::Error| format!("{}: {error}", folder.display()))?;
        Ok(Unfinished { folder, place: self.0.join(name), _lock: lock })
    }
}

/// A folder that is being filled. It is removed with this value, unless it was finished.
pub(super) struct Unfinished {
    folder: PathBuf,
    place: PathBuf,
    _lock: File,
}

impl Unfinished {
    /// What becomes the finished folder.
    pub fn content(&self) -> PathBuf {
        self.folder.join("content")
    }

    /// An empty folder for what an installer writes for a while. Nothing of this user's work is there, so it is also where
    /// installers start: whatever they read from their working directory nobody has put there.
    pub fn temporary(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// Gives the folder its name, unless another process was faster.
    pub fn finish(self) -> Result<PathBuf, String> {
        let content = self.content();
        files::write(&content.join(COMPLETE), "").map_err(|error| error.to_string())?;
        if fs::rename(&content, &self.place).is_err() && !self.place.join(COMPLETE).is_file() {
            // Something incomplete is there, left by an earlier version or by hand.
            files::remove_folder(&self.place).map_err(|error| error.to_string())?;
            fs::rename(&content, &self.place).map_err(|error| format!("{}: {error}", self.place.display()))?;
        }
        Ok(self.place.clone())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            if files::remove_folder(&self.folder).is_ok() {
                return;
            }
            sleep(BETWEEN_REMOVALS);
        }
    }
}

/// Removes what installations left that were killed. Returns what was removed, and what could not be, with the reason.
pub fn clean_cache() -> (Vec<PathBuf>, Vec<String>) {
    let (mut removed, mut failed) = (Vec::new(), Vec::new());
    let clients = base().map(|base| base.join("redjepsen/clients"));
    let entries = clients.and_then(|clients| fs::read_dir(clients).ok());
    for entry in entries.into_iter().flatten().flatten() {
        let path = entry.path();
        let unfinished = path.to_string_lossy().ends_with(UNFINISHED);
        let own = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir() && is_own(&found));
        if !unfinished || !own || is_in_use(&path) {
            continue;
        }
        match files::remove_folder(&path) {
            Ok(()) => removed.push(path),
            Err(error) => failed.push(error.to_string()),
        }
    }
    removed.sort();
    (removed, failed)
}

/// Whether the process that fills it lives.
fn is_in_use(unfinished: &Path) -> bool {
    let lock = File::open(unfinished).map(|folder| flock(&folder, FlockOperation::NonBlockingLockExclusive));
    matches!(lock, Ok(Err(_)))
}

fn base() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
}

fn is_own(found: &Metadata) -> bool {
    found.uid() == geteuid().as_raw()
}

/// Refuses a folder to which another user could have added, or could add, what is run from it.
fn must_be_own(folder: &Path) -> Result<(), String> {
    let found = fs::symlink_metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let why = if !found.is_dir() {
        "it is no folder".to_string()
    } else if !is_own(&found) {
        format!("it belongs to user {}, not to {}", found.uid(), geteuid().as_raw())
    } else if found.mode() & OTHERS_MAY_WRITE != 0 {
        format!("others may write there (mode {:o})", found.mode() & 0o7777)
    } else {
        return Ok(());
    };
    Err(format!(
        "{}: {why}, and programs are run from there; remove it, or set XDG_CACHE_HOME to a folder of your own",
        folder.display()
    ))
}

/// Refuses a folder in which anybody could replace the one that is ours.
fn nobody_can_replace(base: &Path) -> Result<(), String> {
    let found = fs::metadata(base).map_err(|error| format!("{}: {error}", base.display()))?;
    let owner = is_own(&found) || found.uid() == 0;
    if owner && (found.mode() & EVERYBODY_MAY_WRITE == 0 || found.mode() & STICKY != 0) {
        return Ok(());
    }
    Err(format!(
        "{}: it belongs to user {} and has mode {:o}, so others could replace what is run from there; set XDG_CACHE_HOME to a \
         folder of your own",
        base.display(),
        found.uid(),
        found.mode() & 0o7777
    ))
}
