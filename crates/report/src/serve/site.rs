//! Finds a page, or a file of the store, by its address.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

use crate::store::{self as pages, At, FileEntry};
use base::files;
use base::sync::lock;
use suite::compare::compare;
use summary::store::{NightState, Snapshot, Store, night, sides};

/// At most this many files of a run are listed. A client may write any number of files.
const MOST_FILES: usize = 300;
/// Files are in the folder of a run, or in that of one of its members.
const DEEPEST: usize = 2;

pub(super) struct Site {
    store: Store,
    name: String,
    live: bool,
    /// Cached comparisons of suite runs with earlier ones, valid while both stay unchanged.
    compared: Mutex<HashMap<String, Compared>>,
    /// The cached page of all runs, for this snapshot.
    index: Mutex<Option<(Arc<Snapshot>, String)>>,
}

struct Compared {
    of: [Arc<night::Results>; 2],
    page: String,
}

pub(super) enum SiteAnswer {
    Page(String),
    File(Opened),
    Nothing,
}

/// A regular file in the store.
pub(super) struct Opened {
    pub file: File,
    pub bytes: u64,
    pub name: String,
}

impl Site {
    pub fn new(store: &Path, live: bool) -> Site {
        Site {
            store: Store::new(store),
            name: store.display().to_string(),
            live,
            compared: Mutex::default(),
            index: Mutex::default(),
        }
    }

    pub fn warm(&self) {
        self.store.snapshot();
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.store.snapshot()
    }

    pub fn answer(&self, path: &str) -> SiteAnswer {
        if let Some(file) = path.strip_prefix("files/") {
            let snapshot = self.store.snapshot();
            let is_below = |folder: &str| file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
            let known = snapshot.runs.iter().any(|run| is_below(&run.path))
                || snapshot.suites.values().flatten().any(|night| is_below(&night.path));
            return match known.then(|| open(self.store.root(), file)) {
                Some(Ok(opened)) => SiteAnswer::File(opened),
                _ => SiteAnswer::Nothing,
            };
        }
        self.page(path, &|_| true).map_or(SiteAnswer::Nothing, SiteAnswer::Page)
    }

    /// The page at this path. `is_here` returns true if a run's file is available, by its path in the store.
    pub fn page(&self, path: &str, is_here: &dyn Fn(&str) -> bool) -> Option<String> {
        let snapshot = self.store.snapshot();
        let path = if path.is_empty() { "index.html" } else { path };
        let at = At { page: path, store: &self.name, live: self.live };
        match path {
            "index.html" => return Some(self.index(at, &snapshot)),
            "live.html" if self.live => return Some(pages::live(At { page: "index.html", ..at }, &snapshot)),
            _ => {}
        }
        let (kind, name) = path.strip_suffix(".html")?.split_once('/')?;
        match kind {
            "suites" => Some(pages::suite(at, name, snapshot.suites.get(name)?)),
            "nights" => self.comparison(at, name, &snapshot),
            "runs" => {
                let run = snapshot.run(name)?;
                let mut files = list(self.store.root(), name);
                files.iter_mut().for_each(|file| file.here = is_here(&format!("{name}/{}", file.path)));
                Some(pages::run(at, run, &files))
            }
            _ => None,
        }
    }

    fn index(&self, at: At, snapshot: &Arc<Snapshot>) -> String {
        let mut known = lock(&self.index);
        match &*known {
            Some((of, page)) if Arc::ptr_eq(of, snapshot) => page.clone(),
            _ => {
                let page = pages::index(at, snapshot);
                *known = Some((snapshot.clone(), page.clone()));
                page
            }
        }
    }

    fn comparison(&self, at: At, path: &str, snapshot: &Snapshot) -> Option<String> {
        let (suite, nights) =
            snapshot.suites.iter().find(|(_, nights)| nights.iter().any(|night| night.path == path))?;
        let place = nights.iter().position(|night| night.path == path)?;
        let before = &nights[place.checked_sub(1)?];
        let (NightState::Done(a), NightState::Done(b)) = (&before.state, &nights[place].state) else { return None };
        if let Some(known) = lock(&self.compared).get(path)
            && Arc::ptr_eq(&known.of[0], a)
            && Arc::ptr_eq(&known.of[1], b)
        {
            return Some(known.page.clone());
        }
        let read = |night: &str| {
            let folder = self.store.root().join(night);
            sides::read(&folder.display().to_string()).ok()
        };
        let comparison = compare(&read(&before.path)?, &read(path)?);
        let page = pages::comparison(at, suite, &comparison);
        let compared = Compared { of: [a.clone(), b.clone()], page: page.clone() };
        lock(&self.compared).insert(path.to_string(), compared);
        Some(page)
    }

    pub fn root(&self) -> &Path {
        self.store.root()
    }
}

/// Opens a regular file of the store, by a plain path.
pub(super) fn open(root: &Path, path: &str) -> io::Result<Opened> {
    let file = files::open_below(root, path)?;
    let bytes = file.metadata()?.len();
    Ok(Opened { file, bytes, name: path.rsplit('/').next().unwrap_or_default().to_string() })
}

/// The regular files in a folder of the store and its subfolders, in order.
pub(super) fn list(root: &Path, path: &str) -> Vec<FileEntry> {
    let mut found = Vec::new();
    if let Ok(folder) = files::folder_below(root, path) {
        collect(&folder, "", 0, &mut found);
    }
    found.sort();
    found
}

fn collect(folder: &OwnedFd, below: &str, depth: usize, found: &mut Vec<FileEntry>) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name.starts_with('.') || found.len() >= MOST_FILES {
            continue;
        }
        let Ok(there) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let path = if below.is_empty() { name.to_string() } else { format!("{below}/{name}") };
        match FileType::from_raw_mode(there.st_mode) {
            FileType::RegularFile => {
                found.push(FileEntry { path, bytes: u64::try_from(there.st_size).unwrap_or(0), here: true });
            }
            FileType::Directory if depth < DEEPEST => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                if let Ok(inner) = openat(folder, name, flags, Mode::empty()) {
                    collect(&inner, &path, depth + 1, found);
                }
            }
            _ => {}
        }
    }
}
