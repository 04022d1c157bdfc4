//! The folders of runs. A run is in `store/<workload>-<nemesis>/<time>/`, with links to the latest run. A suite run is in
//! `store/suites/<suite>/<time>/`, with its runs in it. [`prune`] removes old ones. [`Temporary`] is a store that removes
//! itself.

pub mod prune;

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

use crate::files::{self, FileError};

/// At most this many names for a new link are tried; other programs may use some.
const NAMES_TRIED: u32 = 100;

/// The kind of a folder that contains runs, without being the folder of a run. None for any other folder.
pub fn with_runs_in_it(folder: &Path) -> Option<&'static str> {
    let has = |name: &str| folder.join(name).exists();
    match (has("runs"), has("latest")) {
        _ if !folder.is_dir() || has("history.jsonl") => None,
        (true, _) => Some("it is the folder of a suite; its runs are in `runs`"),
        (_, true) => Some("it contains several runs; name one, such as `latest`"),
        _ if has("suites") => Some("it is a store of suites; their runs are in `suites/SUITE/latest/runs`"),
        _ => None,
    }
}

#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Creates a new folder, named by the current UTC time, and points the links `latest` at it.
    pub fn create(store: &Path, test: &str) -> io::Result<RunFolder> {
        let path = create_by_time(store, &[test])?;
        let time = path.file_name().unwrap_or_default();
        link(&store.join("latest"), &Path::new(test).join(time))?;
        Ok(RunFolder { path })
    }

    pub fn at(path: &Path) -> RunFolder {
        RunFolder { path: path.to_path_buf() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn history(&self) -> PathBuf {
        self.path.join("history.jsonl")
    }

    pub fn log(&self) -> PathBuf {
        self.path.join("redjepsen.log")
    }

    pub fn write_toml<T: Serialize>(&self, name: &str, value: &T) -> Result<(), FileError> {
        self.write(name, toml::to_string(value).map_err(io::Error::other))
    }

    pub fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), FileError> {
        self.write(name, serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(io::Error::other))
    }

    fn write(&self, name: &str, text: io::Result<String>) -> Result<(), FileError> {
        let path = self.path.join(name);
        files::write(&path, text.map_err(|error| FileError::write(&path, error))?)
    }
}

/// A folder for temporary runs. It is removed when this value is dropped.
#[derive(Debug)]
pub struct Temporary(PathBuf);

impl Temporary {
    /// Creates a folder that only this user can read.
    ///
    /// # Errors
    ///
    /// If the folder for temporary files is not writable.
    pub fn new() -> Result<Temporary, FileError> {
        let name = format!("redjepsen-{}-{:08x}", std::process::id(), getrandom::u32().unwrap_or_default());
        let path = std::env::temp_dir().join(name);
        // An existing folder belongs to another program and is rejected.
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| FileError::write(&path, error))?;
        Ok(Temporary(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // If the removal fails, the machine cleans its temporary folder anyway.
        let _ = files::remove_folder(&self.0);
    }
}

/// Creates a new folder for a suite run, and points the suite's link `latest` at it.
pub fn create_suite(store: &Path, suite: &str) -> io::Result<PathBuf> {
    create_by_time(store, &["suites", suite])
}

/// The folders of all runs of a suite in a store, newest first.
pub fn suites(store: &Path, suite: &str) -> Vec<PathBuf> {
    // A link on the way is not redjepsen's.
    let parents = [store.join("suites"), store.join("suites").join(suite)];
    if parents.iter().any(|parent| parent.is_symlink()) {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(&parents[1]) else { return Vec::new() };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    folders.sort_unstable_by(|one, other| other.cmp(one));
    folders
}

/// True if the folder has a link `latest` to one of redjepsen's folders, so that it is a store.
pub fn is_store(folder: &Path) -> bool {
    let suites = fs::read_dir(folder.join("suites")).into_iter().flatten().flatten();
    suites.map(|suite| suite.path()).chain([folder.to_path_buf()]).any(|folder| is_our_link(&folder.join("latest")))
}

/// A file that has the name of a link `latest` to this new folder, and stays because it is not redjepsen's. None if there is
/// none.
pub fn in_the_way(folder: &Path) -> Option<PathBuf> {
    let mut links = folder.ancestors().skip(1).take(2).map(|above| above.join("latest"));
    links.find(|link| is_anothers(link))
}

/// True if a link leads to a folder whose name is a time, relative to the link. redjepsen's links do.
fn is_our_link(link: &Path) -> bool {
    let target = fs::read_link(link).ok().filter(|target| target.is_relative());
    let name = target.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    name.and_then(prune::begun).is_some()
}

fn is_anothers(link: &Path) -> bool {
    fs::symlink_metadata(link).is_ok() && !is_our_link(link)
}

/// Creates a folder named by the current UTC time, with a link `latest` beside it, below these folders of a store. The store's
/// path may contain links, because the user named it. Links inside the store are not followed.
fn create_by_time(store: &Path, below: &[&str]) -> io::Result<PathBuf> {
    fs::create_dir_all(store)?;
    let mut parent = store.to_path_buf();
    for folder in below {
        parent.push(folder);
        files::create_folder(&parent).map_err(io::Error::other)?;
    }
    loop {
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string().replace(['-', ':'], "");
        let path = parent.join(&time);
        match fs::create_dir(&path) {
            Ok(()) => {
                link(&parent.join("latest"), Path::new(&time))?;
                return Ok(path);
            }
            // Another process created a folder in the same millisecond.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Points a symbolic link at a target in one step, so that it is never missing. A file with its name that is not redjepsen's
/// stays.
fn link(link: &Path, target: &Path) -> io::Result<()> {
    if is_anothers(link) {
        return Ok(());
    }
    let mut attempts = 0..NAMES_TRIED;
    loop {
        let number = attempts.next().ok_or(io::ErrorKind::AlreadyExists)?;
        let next = link.with_file_name(format!(".latest.{}-{number}.new", std::process::id()));
        match std::os::unix::fs::symlink(target, &next) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.and_then(|()| fs::rename(&next, link)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_above_runs_says_where_they_are() {
        let store = tempfile::tempdir().unwrap();
        assert_eq!(with_runs_in_it(store.path()), None);
        let suite = create_suite(store.path(), "smoke").unwrap();
        assert!(with_runs_in_it(store.path()).unwrap().starts_with("it is a store of suites"));
        fs::create_dir(suite.join("runs")).unwrap();
        assert!(with_runs_in_it(&suite).unwrap().starts_with("it is the folder of a suite"));
        let run = RunFolder::create(store.path(), "redlock-pause").unwrap();
        assert!(with_runs_in_it(store.path()).unwrap().starts_with("it contains several runs"));
        assert_eq!(with_runs_in_it(run.path()), None);
    }

    #[test]
    fn a_store_of_which_nothing_stays_is_this_users_alone() {
        use std::os::unix::fs::PermissionsExt;
        let temporary = Temporary::new().unwrap();
        let path = temporary.path().to_path_buf();
        RunFolder::create(&path, "redlock-pause").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(temporary);
        assert!(!path.exists());
    }

    #[test]
    fn the_links_lead_to_the_newest_run() {
        let store = tempfile::tempdir().unwrap();
        let first = RunFolder::create(store.path(), "redlock-pause").unwrap();
        let second = RunFolder::create(store.path(), "redlock-pause").unwrap();
        assert_ne!(first.path(), second.path());
        for link in ["latest", "redlock-pause/latest"] {
            assert_eq!(store.path().join(link).canonicalize().unwrap(), second.path().canonicalize().unwrap());
        }
        let other = RunFolder::create(store.path(), "none-none").unwrap();
        assert_eq!(store.path().join("latest").canonicalize().unwrap(), other.path().canonicalize().unwrap());
        assert_eq!(
            store.path().join("redlock-pause/latest").canonicalize().unwrap(),
            second.path().canonicalize().unwrap()
        );
    }

    #[test]
    fn no_link_leads_out_of_the_store() {
        let (store, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["redlock-pause", "suites"] {
            std::os::unix::fs::symlink(elsewhere.path(), store.path().join(name)).unwrap();
        }
        let run = RunFolder::create(store.path(), "redlock-pause").unwrap_err();
        let suite = create_suite(store.path(), "smoke").unwrap_err();
        for error in [run, suite] {
            assert!(error.to_string().contains("it is a link, not a folder"), "{error}");
        }
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        // A link that is not redjepsen's stays, wherever it leads. The store itself may be a link that the user has made.
        std::os::unix::fs::symlink(elsewhere.path(), store.path().join("latest")).unwrap();
        let run = RunFolder::create(store.path(), "none-none").unwrap();
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        assert_eq!(in_the_way(run.path()), Some(store.path().join("latest")));
        let linked = store.path().join("linked");
        std::os::unix::fs::symlink(elsewhere.path(), &linked).unwrap();
        RunFolder::create(&linked, "none-none").unwrap();
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 2, "the run and `latest`");
    }

    #[test]
    fn whatever_a_user_calls_latest_stays() {
        let links = ["latest", "redlock-pause/latest", "suites/smoke/latest"];
        let old = Path::new("20260101T000000.000Z");
        type Make = fn(&Path);
        let make: [(Make, bool); 6] = [
            (|path| fs::write(path, "mine").unwrap(), false),
            (|path| fs::create_dir(path).unwrap(), false),
            (|path| std::os::unix::fs::symlink("notes.txt", path).unwrap(), false),
            (|path| std::os::unix::fs::symlink("/elsewhere/20260101T000000.000Z", path).unwrap(), false),
            (|path| std::os::unix::fs::symlink("20260101T000000.000Z", path).unwrap(), true),
            (|path| std::os::unix::fs::symlink("redlock-pause/20260101T000000.000Z", path).unwrap(), true),
        ];
        for (number, (make, is_ours)) in make.into_iter().enumerate() {
            let store = tempfile::tempdir().unwrap();
            fs::create_dir_all(store.path().join("redlock-pause").join(old)).unwrap();
            fs::create_dir_all(store.path().join("suites/smoke")).unwrap();
            links.iter().for_each(|link| make(&store.path().join(link)));
            let look = |link: &str| {
                let path = store.path().join(link);
                (fs::read_link(&path).ok(), fs::read_to_string(&path).ok(), path.is_dir())
            };
            let before = links.map(look);
            let run = RunFolder::create(store.path(), "redlock-pause").unwrap();
            let suite = create_suite(store.path(), "smoke").unwrap();
            for (link, before) in links.iter().zip(&before) {
                assert_eq!(look(link) != *before, is_ours, "{number}: {link}");
            }
            assert_eq!(in_the_way(run.path()).is_none() && in_the_way(&suite).is_none(), is_ours, "{number}");
            let mut names = fs::read_dir(store.path()).unwrap().map(|entry| entry.unwrap().file_name());
            assert!(names.all(|name| !name.to_string_lossy().ends_with(".new")), "{number}");
        }
    }

    #[test]
    fn a_store_that_cannot_be_written_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(RunFolder::create(file.path(), "redlock-pause").is_err());
    }
}
