//! Finds and removes old runs of a store. A folder counts as a run or suite run only if its name is a time in redjepsen's
//! format and it contains redjepsen's files. It must be at its usual place, and no link on the way is followed. Everything else
//! in a store is left alone, and so are folders that may be in use.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

use crate::files::FileError;

/// The files that identify the folder of a run, and of a suite run.
const OF_A_RUN: [&str; 2] = ["scenario.toml", "history.jsonl"];
const OF_A_SUITE: [&str; 2] = ["state.jsonl", "matrix.json"];
/// A folder that was written to within this time may be in use.
const IN_USE: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneLimits {
    /// Selects runs that began longer ago than this. None selects all.
    pub older_than: Option<Duration>,
    /// Keeps at least this many of the newest runs of each test and of each suite.
    pub keep: usize,
}

/// A run or suite run that is selected for removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Old {
    pub folder: PathBuf,
    /// The time since it began.
    pub age: Duration,
    /// The size of all its files.
    pub bytes: u64,
}

/// The runs of a store that these limits select, oldest first.
///
/// # Errors
///
/// If the store itself cannot be read. Unreadable folders in it are left alone.
pub fn find(store: &Path, limits: PruneLimits, now: SystemTime) -> Result<Vec<Old>, FileError> {
    let mut old = Vec::new();
    for (test, name) in folders(store).map_err(|error| FileError::read(store, error))? {
        if name == "suites" {
            for (suite, _) in folders(&test).unwrap_or_default() {
                old.extend(of_one(&suite, &OF_A_SUITE, limits, now));
            }
        } else {
            old.extend(of_one(&test, &OF_A_RUN, limits, now));
        }
    }
    old.sort_by(|one, other| other.age.cmp(&one.age).then_with(|| one.folder.cmp(&other.folder)));
    Ok(old)
}

/// Removes these runs, and the links `latest` and the folders that become empty.
///
/// # Errors
///
/// At the first folder that cannot be removed. Earlier removals are not undone.
pub fn remove(store: &Path, old: &[Old]) -> Result<(), FileError> {
    for one in old {
        // Another program may have put a link there meanwhile.
        if !is_folder(&one.folder) {
            continue;
        }
        // This follows no links.
        fs::remove_dir_all(&one.folder).map_err(|error| FileError::remove(&one.folder, error))?;
        if let Some(parent) = one.folder.parent() {
            drop_dangling(&parent.join("latest"));
            // This removes only an empty folder.
            let _ = fs::remove_dir(parent);
        }
    }
    drop_dangling(&store.join("latest"));
    Ok(())
}

/// The selected runs of one test, or of one suite.
fn of_one(test: &Path, marks: &[&str], limits: PruneLimits, now: SystemTime) -> Vec<Old> {
    let mut runs: Vec<(SystemTime, PathBuf)> = folders(test)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|(folder, name)| Some((begun(&name)?, folder)))
        .filter(|(_, folder)| marks.iter().any(|mark| is_file(&folder.join(mark))))
        .collect();
    runs.sort_by(|one, other| other.cmp(one));
    let mut old = Vec::new();
    for (begun, folder) in runs.into_iter().skip(limits.keep) {
        // A clock that was set back makes no run old.
        let age = now.duration_since(begun).unwrap_or_default();
        if limits.older_than.is_none_or(|limit| age > limit) && !is_in_use(&folder, now) {
            let bytes = size(&folder);
            old.push(Old { folder, age, bytes });
        }
    }
    old
}

/// The subfolders of a folder, with their names. Links and hidden folders are left out.
fn folders(folder: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let real = entries.into_iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let named = real.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)));
    Ok(named.filter(|(_, name)| !name.starts_with('.')).collect())
}

/// The start time in a folder's name. None if redjepsen gives no such names.
pub(super) fn begun(name: &str) -> Option<SystemTime> {
    let shaped = name.len() == 20
        && name.bytes().enumerate().all(|(place, byte)| match place {
            8 => byte == b'T',
            15 => byte == b'.',
            19 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        });
    if !shaped {
        return None;
    }
    let text =
        format!("{}-{}-{}T{}:{}:{}", &name[..4], &name[4..6], &name[6..8], &name[9..11], &name[11..13], &name[13..]);
    humantime::parse_rfc3339(&text).ok()
}

/// True if a file in the folder was written recently, or if a suite run is active there.
fn is_in_use(folder: &Path, now: SystemTime) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut written = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    if written.any(|written| now.duration_since(written).unwrap_or_default() < IN_USE) {
        return true;
    }
    let state = folder.join(OF_A_SUITE[0]);
    is_file(&state) && File::open(&state).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(of) if of.is_dir() => size(&entry.path()),
        Ok(of) => of.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|of| of.is_dir())
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|of| of.is_file())
}

/// Removes one of redjepsen's links if its target is gone.
fn drop_dangling(link: &Path) {
    if super::is_our_link(link) && !link.exists() {
        let _ = fs::remove_file(link);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    /// A time long after everything that a test writes.
    fn later() -> SystemTime {
        humantime::parse_rfc3339("2100-01-01T00:00:00Z").unwrap()
    }

    fn put(store: &Path, folder: &str, file: &str) -> PathBuf {
        let folder = store.join(folder);
        fs::create_dir_all(folder.join("runs")).unwrap();
        fs::write(folder.join(file), "ten bytes.").unwrap();
        folder
    }

    fn found(store: &Path, older_than: Option<Duration>, keep: usize) -> Vec<String> {
        let old = find(store, PruneLimits { older_than, keep }, later()).unwrap();
        old.iter().map(|one| one.folder.strip_prefix(store).unwrap().display().to_string()).collect()
    }

    #[test]
    fn only_our_own_runs_are_found_by_their_age_or_their_number() {
        let (store, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = store.path();
        let old = put(root, "redlock-pause/20991101T000000.000Z", "scenario.toml");
        put(root, "redlock-pause/20991230T000000.000Z", "history.jsonl");
        put(root, "suites/mine/20991001T000000.000Z", "matrix.json");
        // A suite run does not count as a run of a test, nor the other way around.
        put(root, "redlock-pause/20991002T000000.000Z", "matrix.json");
        put(root, "suites/mine/20991002T000000.000Z", "history.jsonl");
        // Names and files that are not redjepsen's.
        for name in ["2099", "20991101T000000.000", "20991301T000000.000Z", "2099110 T000000.000Z", "notes"] {
            put(root, &format!("redlock-pause/{name}"), "scenario.toml");
        }
        put(root, "redlock-pause/20991003T000000.000Z", "photo.jpg");
        // Hidden folders are left alone.
        put(root, ".trash/20991003T000000.000Z", "scenario.toml");
        put(root, "suites/.trash/20991003T000000.000Z", "matrix.json");
        fs::write(root.join("redlock-pause/20991004T000000.000Z"), "a file").unwrap();
        // Links lead out of the store.
        let theirs = put(elsewhere.path(), "20991005T000000.000Z", "scenario.toml");
        symlink(elsewhere.path(), root.join("linked")).unwrap();
        symlink(&theirs, root.join("redlock-pause/20991005T000000.000Z")).unwrap();
        symlink("20991230T000000.000Z", root.join("redlock-pause/latest")).unwrap();
        fs::create_dir_all(root.join("redlock-pause/20991006T000000.000Z")).unwrap();
        symlink(theirs.join("scenario.toml"), root.join("redlock-pause/20991006T000000.000Z/scenario.toml")).unwrap();

        let (suite, run) = ("suites/mine/20991001T000000.000Z", "redlock-pause/20991101T000000.000Z");
        assert_eq!(found(root, Some(30 * DAY), 0), [suite, run]);
        assert_eq!(found(root, Some(80 * DAY), 0), [suite]);
        assert_eq!(found(root, None, 1), [run], "the newest of each stay");
        assert_eq!(found(root, Some(30 * DAY), 1), [run]);
        assert!(found(root, None, 2).is_empty());
        let both = find(root, PruneLimits { older_than: Some(30 * DAY), keep: 0 }, later()).unwrap();
        assert_eq!(both.iter().map(|one| one.bytes).collect::<Vec<_>>(), [10, 10]);

        remove(root, &both).unwrap();
        assert!(!old.exists() && !root.join("suites/mine/20991001T000000.000Z").exists());
        assert!(root.join("redlock-pause/latest/history.jsonl").exists());
        assert!(theirs.join("scenario.toml").exists() && root.join("redlock-pause/notes/scenario.toml").exists());
        assert!(found(root, Some(30 * DAY), 0).is_empty());
        assert!(find(&root.join("none"), PruneLimits { older_than: None, keep: 0 }, later()).is_err());
    }

    #[test]
    fn links_to_what_is_gone_go_too_and_what_may_be_in_use_stays() {
        let store = tempfile::tempdir().unwrap();
        let root = store.path();
        put(root, "none-none/20200101T000000.000Z", "scenario.toml");
        symlink("20200101T000000.000Z", root.join("none-none/latest")).unwrap();
        symlink("none-none/20200101T000000.000Z", root.join("latest")).unwrap();
        let limits = PruneLimits { older_than: Some(30 * DAY), keep: 0 };
        assert!(find(root, limits, SystemTime::now()).unwrap().is_empty(), "written a moment ago");
        let suite = put(root, "suites/mine/20200101T000000.000Z", "state.jsonl");
        let state = File::open(suite.join("state.jsonl")).unwrap();
        flock(&state, FlockOperation::NonBlockingLockExclusive).unwrap();
        let old = find(root, limits, later()).unwrap();
        assert_eq!(old.len(), 1, "a suite is at work on the other: {old:?}");
        remove(root, &old).unwrap();
        assert!(fs::symlink_metadata(root.join("latest")).is_err());
        assert!(fs::symlink_metadata(root.join("none-none")).is_err());
        // A folder that became a link after it was found is not followed.
        drop(state);
        let old = find(root, limits, later()).unwrap();
        fs::rename(&suite, root.join("moved")).unwrap();
        symlink(root.join("moved"), &suite).unwrap();
        remove(root, &old).unwrap();
        assert!(root.join("moved/state.jsonl").exists());
    }
}
