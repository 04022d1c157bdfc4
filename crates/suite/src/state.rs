//! The finished runs of a suite: one line of JSON each, written at once, so that an interrupted or killed suite run can resume.
//!
//! The file's first line names the suite and the program. If the last line is cut off, its run is rerun. A suite run holds a
//! lock on the file, so that no two processes resume the same one.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::outcome::RunOutcome;
use super::shard::Shard;
use base::files::{self, FileError};

/// The file's name in the suite's folder.
pub const FILE: &str = "state.jsonl";

/// The identity of a suite run. All runs in the file share it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub suite: String,
    /// [`Suite::sha256`](super::plan::Suite).
    pub suite_sha256: String,
    /// SHA-256 of the program's file.
    pub program_sha256: String,
    pub shard: Option<Shard>,
    /// Identifies the cut into shards, see [`Suite`](super::plan::Suite).
    pub cut_sha256: Option<String>,
    /// The indexes of the cells that the user selected; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StateLine {
    Suite {
        identity: Identity,
        started: String,
    },
    Run(Box<RunOutcome>),
    /// No more runs follow.
    End,
}

/// The folder of a suite run that this process is working on.
pub struct SuiteState {
    folder: PathBuf,
    file: File,
    pub started: String,
    /// The finished runs, in the order in which they finished.
    pub runs: Vec<RunOutcome>,
}

/// An earlier suite run to resume, if there is one.
pub enum Earlier {
    Unfinished(SuiteState),
    Nothing,
    /// An unfinished run of a different suite: its folder, and the difference.
    Changed {
        folder: PathBuf,
        why: &'static str,
    },
    /// Another process is working on it.
    Busy {
        folder: PathBuf,
    },
}

impl SuiteState {
    pub fn begin(folder: &Path, identity: &Identity) -> Result<SuiteState, FileError> {
        let path = folder.join(FILE);
        let file = File::options().read(true).append(true).create_new(true).open(&path);
        let locked = file.and_then(|file| {
            flock(&file, FlockOperation::NonBlockingLockExclusive).map(|()| file).map_err(io::Error::from)
        });
        let file = locked.map_err(|error| FileError::write(&path, error))?;
        let started = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let mut state = SuiteState { folder: folder.to_path_buf(), file, started: started.clone(), runs: Vec::new() };
        state.write(&StateLine::Suite { identity: identity.clone(), started })?;
        Ok(state)
    }

    /// Finds the newest folder with the same shard and the same selection of cells, and returns whether it can be resumed. Folders
    /// must be ordered newest first. Older ones count as given up. Unreadable files are skipped, so that they do not prevent a
    /// run.
    pub fn find(folders: &[PathBuf], identity: &Identity) -> Earlier {
        for folder in folders {
            let Ok(Some((file, content))) = open(folder) else { continue };
            if content.identity.shard != identity.shard || content.identity.only != identity.only {
                continue;
            }
            if content.ended {
                return Earlier::Nothing;
            }
            let folder = folder.clone();
            if content.identity.suite_sha256 != identity.suite_sha256 {
                return Earlier::Changed { folder, why: "the suite, or a file that it names, has changed" };
            }
            if content.identity.cut_sha256 != identity.cut_sha256 {
                return Earlier::Changed { folder, why: "its shards were divided by other --durations" };
            }
            if content.identity.program_sha256 != identity.program_sha256 {
                return Earlier::Changed { folder, why: "another build of redjepsen began it" };
            }
            match resume(&folder, file) {
                Ok(Some(state)) => return Earlier::Unfinished(state),
                Ok(None) => return Earlier::Busy { folder },
                Err(_) => {}
            }
        }
        Earlier::Nothing
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// True if this run of a cell was made. A run that could not be made is tried again.
    pub fn is_done(&self, cell: &str, run: u32) -> bool {
        self.made(cell, run).is_some_and(|made| made.valid.is_some())
    }

    /// The result of the last attempt at this run of a cell.
    pub fn made(&self, cell: &str, run: u32) -> Option<&RunOutcome> {
        self.runs.iter().find(|made| made.cell == cell && made.run == run)
    }

    /// Adds a finished run. It is on disk when this returns. After a write error it is still in memory.
    pub fn add(&mut self, run: RunOutcome) -> Result<(), FileError> {
        let written = self.write(&StateLine::Run(Box::new(run.clone())));
        put(&mut self.runs, run);
        written
    }

    /// Records that no more runs follow.
    pub fn end(&mut self) -> Result<(), FileError> {
        self.write(&StateLine::End)
    }

    fn write(&mut self, line: &StateLine) -> Result<(), FileError> {
        self.append(line).map_err(|error| FileError::write(&self.folder.join(FILE), error))
    }

    fn append(&mut self, line: &StateLine) -> io::Result<()> {
        // If the file was deleted, the kernel would still accept writes to it.
        if self.file.metadata()?.nlink() == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut text = serde_json::to_string(line).map_err(io::Error::other)?;
        text.push('\n');
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()
    }
}

/// A run replaces an earlier attempt at it.
fn put(runs: &mut Vec<RunOutcome>, run: RunOutcome) {
    runs.retain(|earlier| (&earlier.cell, earlier.run) != (&run.cell, run.run));
    runs.push(run);
}

struct StateContent {
    identity: Identity,
    started: String,
    runs: Vec<RunOutcome>,
    ended: bool,
    /// The length of the complete, valid lines at the start of the file, in bytes.
    whole: u64,
}

/// The file and its content. None if its first line cannot be read.
fn open(folder: &Path) -> io::Result<Option<(File, StateContent)>> {
    let mut file = files::open_to_append(&folder.join(FILE))?;
    Ok(read(&mut file)?.map(|content| (file, content)))
}

fn read(file: &mut File) -> io::Result<Option<StateContent>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(files::RESULTS).read_to_end(&mut bytes)?;
    let mut content: Option<StateContent> = None;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let parsed = if line.ends_with(b"\n") { serde_json::from_slice(line).ok() } else { None };
        // Lines after a cut-off one are not reliable either.
        let Some(parsed) = parsed else { break };
        match (parsed, &mut content) {
            (StateLine::Suite { identity, started }, None) => {
                content = Some(StateContent { identity, started, runs: Vec::new(), ended: false, whole: 0 });
            }
            (StateLine::Run(run), Some(content)) => put(&mut content.runs, *run),
            (StateLine::End, Some(content)) => content.ended = true,
            _ => break,
        }
        if let Some(content) = &mut content {
            content.whole += line.len() as u64;
        }
    }
    Ok(content)
}

/// Takes over a file. None if another process holds it.
fn resume(folder: &Path, mut file: File) -> io::Result<Option<SuiteState>> {
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    // The previous owner may have written after the first read.
    let Some(content) = read(&mut file)?.filter(|content| !content.ended) else { return Ok(None) };
    file.set_len(content.whole)?;
    Ok(Some(SuiteState { folder: folder.to_path_buf(), file, started: content.started, runs: content.runs }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use checker::Validity;

    fn identity() -> Identity {
        Identity {
            suite: "mine".into(),
            suite_sha256: "s".into(),
            program_sha256: "p".into(),
            shard: None,
            cut_sha256: None,
            only: Vec::new(),
        }
    }

    fn run(run: u32, valid: Option<Validity>) -> RunOutcome {
        RunOutcome {
            cell: "redlock under pause".into(),
            run,
            seed: u64::from(run),
            valid,
            summary: "as it was".into(),
            seconds: 1.5,
            ..RunOutcome::default()
        }
    }

    fn found(folder: &Path, identity: &Identity) -> Earlier {
        SuiteState::find(&[folder.to_path_buf()], identity)
    }

    #[test]
    fn what_was_cut_off_is_done_again_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = SuiteState::begin(folder.path(), &identity()).unwrap();
        state.add(run(1, Some(Validity::Valid))).unwrap();
        state.add(run(2, None)).unwrap();
        assert!(matches!(found(folder.path(), &identity()), Earlier::Busy { .. }), "one process at a time");
        drop(state);

        let path = folder.path().join(FILE);
        let whole = std::fs::read(&path).unwrap();
        for torn in ["{\"run\":{\"cell\":\"redlock un", "{}", "\0\0\0\0"] {
            std::fs::write(&path, [&whole[..], torn.as_bytes()].concat()).unwrap();
            let Earlier::Unfinished(mut state) = found(folder.path(), &identity()) else { panic!("{torn}") };
            assert!(state.is_done("redlock under pause", 1));
            assert!(!state.is_done("redlock under pause", 2), "it could not be run, so it is tried again");
            assert!(!state.is_done("redlock under pause", 3));
            assert_eq!(std::fs::read(&path).unwrap(), whole, "{torn}");
            state.add(run(2, Some(Validity::Invalid))).unwrap();
            assert_eq!(state.runs, [run(1, Some(Validity::Valid)), run(2, Some(Validity::Invalid))]);
        }
    }

    #[test]
    fn a_suite_whose_folder_is_deleted_notices_and_knows_its_runs_all_the_same() {
        let store = tempfile::tempdir().unwrap();
        let folder = store.path().join("suite");
        std::fs::create_dir(&folder).unwrap();
        let mut state = SuiteState::begin(&folder, &identity()).unwrap();
        state.add(run(1, Some(Validity::Valid))).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let error = state.add(run(2, Some(Validity::Invalid))).unwrap_err().to_string();
        assert!(error.contains("/suite/state.jsonl") && error.ends_with("; its folder is gone"), "{error}");
        assert!(state.is_done("redlock under pause", 2));
    }

    #[test]
    fn only_the_same_suite_of_the_same_program_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        drop(SuiteState::begin(folder.path(), &identity()).unwrap());
        let suite = Identity { suite_sha256: "t".into(), ..identity() };
        assert!(matches!(found(folder.path(), &suite), Earlier::Changed { why, .. } if why.contains("has changed")));
        let program = Identity { program_sha256: "q".into(), ..identity() };
        assert!(
            matches!(found(folder.path(), &program), Earlier::Changed { why, .. } if why.contains("another build"))
        );
        let cut = Identity { cut_sha256: Some("c".into()), ..identity() };
        assert!(matches!(found(folder.path(), &cut), Earlier::Changed { why, .. } if why.contains("--durations")));
        let shard = Identity { shard: Some(Shard { index: 1, of: 2 }), ..identity() };
        assert!(matches!(found(folder.path(), &shard), Earlier::Nothing));
        let Earlier::Unfinished(mut state) = found(folder.path(), &identity()) else { panic!() };
        state.end().unwrap();
        drop(state);
        assert!(matches!(found(folder.path(), &identity()), Earlier::Nothing), "it is finished");
        std::fs::write(folder.path().join(FILE), "no JSON\n").unwrap();
        assert!(matches!(found(folder.path(), &identity()), Earlier::Nothing));
    }
}
