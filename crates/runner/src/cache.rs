//! The folder in the user's cache with installed clients.
//!
//! Its content is run without another check, so it must be complete and private. A folder gets its name only when it is
//! complete and contains a mark, and no other user may have write access. An unfinished installation is removed however it
//! ends. `redjepsen clean` removes what a killed process left.

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use base::files;

/// The mark in a complete folder.
const COMPLETE: &str = ".redjepsen-complete";
/// The suffix of unfinished folders.
const UNFINISHED: &str = ".new";
/// Killed processes may still be writing for a moment. A removal is tried this often, at this interval.
const REMOVALS: u32 = 20;
const BETWEEN_REMOVALS: Duration = Duration::from_millis(50);
/// The mode of all of redjepsen's folders.
const PRIVATE: u32 = 0o700;
const OTHERS_MAY_WRITE: u32 = 0o022;
const OTHERS_MAY_ENTER: u32 = 0o011;
const EVERYBODY_MAY_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// The folder of this user's installed clients.
pub(super) struct Cache(PathBuf);

impl Cache {
    /// Opens the cache, and creates it if necessary.
    pub fn open() -> Result<Cache, String> {
        let base = base().ok_or("clients are installed in the user's cache: set HOME or XDG_CACHE_HOME")?;

        let made = DirBuilder::new().recursive(true).mode(PRIVATE).create(&base);
        made.map_err(|error| format!("{}: {error}", base.display()))?;
        nobody_can_replace(&base)?;
        let ours = base.join("redjepsen");
        let clients = ours.join("clients");
        let mut modes = Vec::new();
        for folder in [&ours, &clients] {
            match make_private(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(not_made(folder, &error)),
                _ => modes.push(closed(folder)?),
            }
        }
        let cache = Cache(clients);
        if modes.iter().any(|mode| mode & OTHERS_MAY_WRITE != 0) {
            cache.forget(|_| true)?;
        } else if modes.iter().all(|mode| mode & OTHERS_MAY_ENTER != 0) {
            cache.forget(|found| found.mode() & OTHERS_MAY_WRITE != 0)?;
        }
        Ok(cache)
    }

    /// Removes the folders that other users could have changed. Their content will be installed again.
    fn forget(&self, could_be_changed: impl Fn(&Metadata) -> bool) -> Result<(), String> {
        for path in fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir() && could_be_changed(&found)) {
                files::remove_folder(&path).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder of this name. None if it does not exist or is incomplete.
    pub fn complete(&self, name: &str) -> Result<Option<PathBuf>, String> {
        let place = self.0.join(name);
        if fs::symlink_metadata(&place).is_err() {
            return Ok(None);
        }
        // No other user can have reached it, whatever its mode: the parent folders are closed.
        closed(&place)?;
        Ok(is_complete(&place).then_some(place))
    }

    /// Creates a new folder, which will get this name.
    pub fn begin(&self, name: &str) -> Result<Unfinished, String> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = self.0.join(format!("{name}.{}-{number}{UNFINISHED}", std::process::id()));
        let make = || {
            make_private(&folder)?;
            let lock = File::open(&folder)?;
            // The lock is held while this process lives, so that `clean` leaves the folder alone.
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            make_private(&folder.join("content"))?;
            make_private(&folder.join("tmp"))?;
            Ok(lock)
        };
        let lock = make().map_err(|error: io::Error| not_made(&folder, &error))?;
        Ok(Unfinished { folder, place: self.0.join(name), _lock: lock })
    }
}

/// A folder that is being filled. It is removed when this value is dropped, unless it was finished.
pub(super) struct Unfinished {
    folder: PathBuf,
    place: PathBuf,
    _lock: File,
}

impl Unfinished {
    pub fn content(&self) -> PathBuf {
        self.folder.join("content")
    }

    /// An empty folder for an installer's temporary files. It is also the installers' working directory, so that they read none
    /// of the user's files there.
    pub fn temporary(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// Gives the folder its name, unless another process was faster.
    pub fn finish(self) -> Result<PathBuf, String> {
        let content = self.content();
        // If the installer replaced its folder, the replacement could be a link, or writable for other users.
        closed(&content).map_err(|why| format!("the installer replaced its folder ({why})"))?;
        files::write(&content.join(COMPLETE), "").map_err(|error| error.to_string())?;
        if fs::rename(&content, &self.place).is_err() && !is_complete(&self.place) {
            // The place has an incomplete folder, from an earlier version or made by hand.
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

/// Removes what killed installations left. Returns the removed folders, and messages on those that could not be removed.
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

/// True if the process that fills it is alive.
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

/// Creates a folder with private access, whatever the umask.
fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(PRIVATE).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(PRIVATE))
}

fn not_made(folder: &Path, error: &io::Error) -> String {
    format!("{}: {error}", folder.display())
}

fn is_complete(folder: &Path) -> bool {
    fs::symlink_metadata(folder.join(COMPLETE)).is_ok_and(|mark| mark.is_file())
}

/// Rejects a folder that does not belong to this user. Makes this user's folder private, because earlier versions left some
/// open. Returns its previous mode.
fn closed(folder: &Path) -> Result<u32, String> {
    let found = fs::symlink_metadata(folder).map_err(|error| not_made(folder, &error))?;
    let why = if !found.is_dir() {
        "it is not a folder".to_string()
    } else if !is_own(&found) {
        format!("it belongs to user {}, not to {}", found.uid(), geteuid().as_raw())
    } else {
        if found.mode() & 0o777 != PRIVATE {
            let mend = fs::set_permissions(folder, Permissions::from_mode(PRIVATE));
            mend.map_err(|error| not_made(folder, &error))?;
        }
        return Ok(found.mode());
    };
    Err(format!(
        "{}: {why}, but redjepsen runs programs from this folder; remove it, or set XDG_CACHE_HOME to a folder of your own",
        folder.display()
    ))
}

/// Rejects a folder in which other users could replace redjepsen's folder.
fn nobody_can_replace(base: &Path) -> Result<(), String> {
    let found = fs::metadata(base).map_err(|error| format!("{}: {error}", base.display()))?;
    let owner = is_own(&found) || found.uid() == 0;
    if owner && (found.mode() & EVERYBODY_MAY_WRITE == 0 || found.mode() & STICKY != 0) {
        return Ok(());
    }
    Err(format!(
        "{}: it belongs to user {} and has mode {:o}, so others could replace programs in it; set XDG_CACHE_HOME to a folder of \
         your own",
        base.display(),
        found.uid(),
        found.mode() & 0o7777
    ))
}
