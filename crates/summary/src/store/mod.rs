//! The content of a store: its runs and suite runs. They are found by walking the store, read from `results.json` and
//! `matrix.json`, and cached until those files change. There is no index and no database: 10,000 runs are found in
//! milliseconds, and read once.
//!
//! Other programs may have written to a store. So links in it are not followed, and unreadable files are reported.
//!
//! - [`results`]: the results of a run; [`night`]: the results of a suite run, and its cells over time
//! - [`live`]: a run in progress
//! - [`sides`]: the arguments of `redjepsen compare`, as sides of a comparison

pub mod live;
pub mod night;
pub mod results;
pub mod sides;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

pub use live::{LiveStatus, RunState};
pub use results::{Results, versions};

use base::sync::lock;

/// The depth of nested folders, down to the runs of a suite. Deeper files are not redjepsen's.
const DEEPEST: usize = 8;
/// The time for which a snapshot is reused.
const FRESH: Duration = Duration::from_secs(1);
/// The time for which a finished run is not read again: only `redjepsen report` changes its results.
const KNOWN: Duration = Duration::from_secs(60);

/// A store and its cache.
pub struct Store {
    root: PathBuf,
    known: Mutex<ReadCache>,
}

/// Cached entries by path, each with the stamp of its file.
type CachedEntries<S> = HashMap<String, (Stamp, S)>;
/// Found entries, each with the stamp of its file. None if there is no file.
type FoundEntries<S> = Vec<(Entry<S>, Option<Stamp>)>;

#[derive(Default)]
struct ReadCache {
    runs: CachedEntries<StoredState>,
    nights: CachedEntries<NightState>,
    /// When all runs were last checked, including finished ones.
    looked: Option<Instant>,
    last: Option<(Instant, Arc<Snapshot>)>,
}

/// The modification time and the length of a file.
type Stamp = (SystemTime, u64);

/// The content of a store at one time.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Newest first.
    pub runs: Vec<Run>,
    /// By suite, oldest first.
    pub suites: BTreeMap<String, Vec<Night>>,
}

/// A run, or a suite run.
#[derive(Clone, Debug)]
pub struct Entry<S> {
    /// The path in the store, with `/`.
    pub path: String,
    pub state: S,
}

pub type Run = Entry<StoredState>;
pub type Night = Entry<NightState>;

#[derive(Clone, Debug)]
pub enum StoredState {
    Done(Arc<Results>),
    Going(LiveStatus),
    /// It ended without results.
    BrokenOff(Option<LiveStatus>),
    /// Its results cannot be read, for this reason.
    Unreadable(String),
}

#[derive(Clone, Debug)]
pub enum NightState {
    Done(Arc<night::Results>),
    /// It has no matrix yet, and may never have one.
    Open,
    Unreadable(String),
}

impl<S> Entry<S> {
    /// The start time, from the folder's name. Sorts by time.
    pub fn time(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

impl Night {
    pub fn results(&self) -> Option<&night::Results> {
        match &self.state {
            NightState::Done(results) => Some(results.as_ref()),
            _ => None,
        }
    }
}

/// True if the found entries are the cached ones, unchanged.
fn are_the_same<S>(known: &CachedEntries<S>, found: &FoundEntries<S>) -> bool {
    let is_same = |(entry, stamp): &(Entry<S>, Option<Stamp>)| {
        stamp.is_some() && known.get(&entry.path).map(|(known, _)| *known) == *stamp
    };
    found.len() == known.len() && found.iter().all(is_same)
}

/// The entries whose files have a stamp, as a cache.
fn cached<S: Clone>(found: &FoundEntries<S>) -> CachedEntries<S> {
    let keep =
        |(entry, stamp): &(Entry<S>, Option<Stamp>)| Some((entry.path.clone(), ((*stamp)?, entry.state.clone())));
    found.iter().filter_map(keep).collect()
}

/// Returns the cached state if the file has the same stamp, and reads the file otherwise.
fn cached_or_read<S: Clone>(known: &CachedEntries<S>, path: &str, stamp: Stamp, read: impl FnOnce() -> S) -> S {
    match known.get(path) {
        Some((known, state)) if *known == stamp => state.clone(),
        _ => read(),
    }
}

impl Snapshot {
    pub fn run(&self, path: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.path == path)
    }
}

impl Store {
    pub fn new(root: &Path) -> Store {
        Store { root: root.to_path_buf(), known: Mutex::default() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The content now, or that of a second ago.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        let mut known = lock(&self.known);
        if let Some((when, last)) = &known.last
            && when.elapsed() < FRESH
        {
            return last.clone();
        }
        let trusting = known.looked.is_some_and(|looked| looked.elapsed() < KNOWN);
        let mut found = Walk { root: &self.root, known: &known, trusting, runs: Vec::new(), nights: Vec::new() };
        found.walk("", 0);
        let Walk { runs, nights, .. } = found;
        if !trusting {
            known.looked = Some(Instant::now());
        }
        // Return the same value, so that callers can keep what they derived from it.
        if are_the_same(&known.runs, &runs)
            && are_the_same(&known.nights, &nights)
            && let Some((when, last)) = &mut known.last
        {
            *when = Instant::now();
            return last.clone();
        }
        (known.runs, known.nights) = (cached(&runs), cached(&nights));
        let mut snapshot = Snapshot { runs: runs.into_iter().map(|(run, _)| run).collect(), suites: BTreeMap::new() };
        snapshot.runs.sort_by(|one, other| (other.time(), &other.path).cmp(&(one.time(), &one.path)));
        for (night, _) in nights {
            let parent = night.path.rsplit('/').nth(1).unwrap_or_default().to_string();
            let suite = night.results().map_or(parent, |results| results.suite.clone());
            snapshot.suites.entry(suite).or_default().push(night);
        }
        for nights in snapshot.suites.values_mut() {
            nights.sort_by(|one, other| (one.time(), &one.path).cmp(&(other.time(), &other.path)));
        }
        let snapshot = Arc::new(snapshot);
        known.last = Some((Instant::now(), snapshot.clone()));
        snapshot
    }
}

/// A walk through a store.
struct Walk<'a> {
    root: &'a Path,
    known: &'a ReadCache,
    /// True if finished runs are assumed to be unchanged.
    trusting: bool,
    runs: FoundEntries<StoredState>,
    nights: FoundEntries<NightState>,
}

impl Walk<'_> {
    fn walk(&mut self, below: &str, depth: usize) {
        let Ok(entries) = fs::read_dir(self.root.join(below)) else { return };
        for entry in entries.flatten() {
            // A link does not count as a folder.
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.starts_with('.') {
                continue;
            }
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            self.look(path, depth);
        }
    }

    /// Looks at a folder: a run, a suite run, or a folder that contains some.
    fn look(&mut self, path: String, depth: usize) {
        let folder = self.root.join(&path);
        let there = |name: &str| stamp(&folder.join(name));
        if let Some((stamp, state)) = self.known.runs.get(&path).filter(|_| self.trusting) {
            let state = state.clone();
            self.runs.push((Run { path, state }, Some(*stamp)));
            return;
        }
        if let Some(stamp) = there(results::FILE) {
            let state = cached_or_read(&self.known.runs, &path, stamp, || match Results::read(&folder) {
                Ok(results) => StoredState::Done(Arc::new(results)),
                Err(error) => StoredState::Unreadable(error.to_string()),
            });
            self.runs.push((Run { path, state }, Some(stamp)));
        } else if let Some(stamp) = there(night::FILE) {
            let state = cached_or_read(&self.known.nights, &path, stamp, || match night::Results::read(&folder) {
                Ok(results) => NightState::Done(Arc::new(results)),
                Err(error) => NightState::Unreadable(error.to_string()),
            });
            self.walk_runs_of(&path, depth);
            self.nights.push((Night { path, state }, Some(stamp)));
        } else if there(suite::state::FILE).is_some() {
            self.walk_runs_of(&path, depth);
            self.nights.push((Night { path, state: NightState::Open }, None));
        } else if ["history.jsonl", live::FILE, model::scenario::FILE].iter().any(|name| there(name).is_some()) {
            let state = match live::read(&folder) {
                RunState::On(moment) => StoredState::Going(moment),
                RunState::Over(last) => StoredState::BrokenOff(last),
            };
            self.runs.push((Run { path, state }, None));
        } else if depth < DEEPEST {
            self.walk(&path, depth + 1);
        }
    }

    fn walk_runs_of(&mut self, night: &str, depth: usize) {
        let runs = format!("{night}/runs");
        if depth + 1 < DEEPEST && fs::symlink_metadata(self.root.join(&runs)).is_ok_and(|there| there.is_dir()) {
            self.walk(&runs, depth + 2);
        }
    }
}

/// None if it is not a regular file.
fn stamp(path: &Path) -> Option<Stamp> {
    let there = fs::symlink_metadata(path).ok().filter(|there| there.is_file())?;
    Some((there.modified().unwrap_or(SystemTime::UNIX_EPOCH), there.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_nights_are_found_and_links_are_not_followed() {
        let (store, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let put = |folder: &Path, name: &str, text: &str| {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(name), text).unwrap();
        };
        let root = store.path();
        put(&root.join("redlock-pause/20260101T000000.000Z"), "results.json", "{}");
        put(&root.join("redlock-pause/20260102T000000.000Z"), "history.jsonl", "");
        put(&root.join("suites/mine/20260103T000000.000Z"), "matrix.json", "{}");
        put(&root.join("suites/mine/20260103T000000.000Z/runs/a-b/20260103T000001.000Z"), "scenario.toml", "");
        put(&root.join("suites/mine/20260104T000000.000Z"), "state.jsonl", "");
        put(&elsewhere.path().join("secret"), "results.json", "{}");
        std::os::unix::fs::symlink(elsewhere.path(), root.join("out")).unwrap();
        std::os::unix::fs::symlink(
            elsewhere.path().join("secret/results.json"),
            root.join("redlock-pause/results.json"),
        )
        .unwrap();
        let snapshot = Store::new(root).snapshot();
        let paths: Vec<&str> = snapshot.runs.iter().map(|run| run.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "suites/mine/20260103T000000.000Z/runs/a-b/20260103T000001.000Z",
                "redlock-pause/20260102T000000.000Z",
                "redlock-pause/20260101T000000.000Z"
            ]
        );
        assert!(matches!(&snapshot.runs[2].state, StoredState::Unreadable(why) if why.contains("missing field")));
        assert!(matches!(snapshot.runs[1].state, StoredState::BrokenOff(None)));
        let nights = &snapshot.suites["mine"];
        assert!(matches!(nights[0].state, NightState::Unreadable(_)) && matches!(nights[1].state, NightState::Open));
        assert!(Store::new(&root.join("none")).snapshot().runs.is_empty());
    }
}
