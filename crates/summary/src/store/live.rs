//! A run in progress: `events.jsonl` in its folder, with a self-contained line for each change and for each second. The process
//! that makes the run holds a lock on the file, so a reader knows if the run is still active.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use base::files;
use checker::Validity;

/// The file's name in a run's folder.
pub const FILE: &str = "events.jsonl";
/// Lines are shorter than this, unless another program wrote them.
const LONGEST_LINE: u64 = 64 << 10;

/// The progress of a run at one time. Fields may be added; existing ones keep their names and meanings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveStatus {
    /// RFC 3339.
    pub time: String,
    pub workload: String,
    pub nemesis: String,
    pub seed: u64,
    /// The current activity in a word or two. `done` in the last line.
    pub stage: String,
    /// How long clients have worked, in seconds. None before they begin.
    pub at_s: Option<f64>,
    /// How long clients will work, in seconds. None for a script, which ends with its last step.
    pub of_s: Option<f64>,
    pub ok: u64,
    pub fail: u64,
    pub info: u64,
    /// The active faults.
    pub faults: Vec<String>,
    /// Overlapping pairs of holds by their clients' stamps, and the least number of lost updates, since other updates took
    /// their place. These are the clients' reports so far. Only the last line has checked numbers.
    pub overlaps: u64,
    pub lost: u64,
    /// Messages to the user at this time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Only in the last line: the verdict in a word and in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid: Option<Validity>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
}

/// The stage of a run that ended before its first operation. The note of this line is the reason.
const BROKEN_OFF: &str = "broken off";

impl LiveStatus {
    /// The same run, which ended before its first operation for this reason.
    pub fn broken_off(&self, why: String) -> LiveStatus {
        LiveStatus { stage: BROKEN_OFF.to_string(), notes: vec![why], ..self.clone() }
    }

    /// Why the run ended before its first operation. None if no reason was written.
    pub fn reason(&self) -> Option<&str> {
        self.notes.last().filter(|_| self.stage == BROKEN_OFF).map(String::as_str)
    }
}

/// The events of a run of this process.
pub struct Events(File);

impl Events {
    /// Begins the file in a run's folder. Appends to an existing file, which an earlier attempt at this run left.
    pub fn begin(folder: &Path) -> io::Result<Events> {
        let path = folder.join(FILE);
        let file = match File::options().append(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => files::open_to_append(&path)?,
            other => other?,
        };
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Events(file))
    }

    /// Writes a line with the current time.
    pub fn write(&mut self, moment: &LiveStatus) -> io::Result<()> {
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let mut line = serde_json::to_string(&LiveStatus { time, ..moment.clone() })?;
        line.push('\n');
        self.0.write_all(line.as_bytes())
    }
}

/// The state of a run without results.
#[derive(Clone, Debug, PartialEq)]
pub enum RunState {
    /// The run is active. This is its last line.
    On(LiveStatus),
    /// Its process has ended.
    Over(Option<LiveStatus>),
}

/// Reads the progress of the run in this folder.
pub fn read(folder: &Path) -> RunState {
    let Ok(mut file) = files::open_inside(&folder.join(FILE)) else { return RunState::Over(None) };
    let last = last_line(&mut file).ok().flatten();
    // The process that makes the run holds an exclusive lock. Any other process holds a lock only for this moment.
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => RunState::On(last.unwrap_or_default()),
        _ => RunState::Over(last),
    }
}

/// The last whole line.
fn last_line(file: &mut File) -> io::Result<Option<LiveStatus>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LONGEST_LINE)))?;
    let mut bytes = Vec::new();
    file.take(LONGEST_LINE).read_to_end(&mut bytes)?;
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { return Ok(None) };
    let line = bytes[..end].rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let moment: Option<LiveStatus> = serde_json::from_slice(line).ok();
    Ok(moment.filter(|moment| !moment.stage.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_as_long_as_somebody_makes_it() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), RunState::Over(None));
        let mut events = Events::begin(folder.path()).unwrap();
        assert!(Events::begin(folder.path()).is_err(), "one process at a time");
        assert_eq!(read(folder.path()), RunState::On(LiveStatus::default()));
        for ok in [1, 2] {
            events.write(&LiveStatus { stage: "running".into(), ok, ..LiveStatus::default() }).unwrap();
        }
        let RunState::On(moment) = read(folder.path()) else { panic!() };
        assert_eq!((moment.stage.as_str(), moment.ok, moment.time.is_empty()), ("running", 2, false));
        drop(events);
        let RunState::Over(Some(last)) = read(folder.path()) else { panic!() };
        assert_eq!(last.ok, 2);
    }

    #[test]
    fn what_a_stranger_wrote_there_is_no_moment() {
        for text in ["", "no JSON\n", "{\"ok\":1", "\0\0\n", "[]\n"] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(FILE), text).unwrap();
            assert_eq!(read(folder.path()), RunState::Over(None), "{text:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join(FILE)).unwrap();
        assert_eq!(read(folder.path()), RunState::Over(None));
        assert!(Events::begin(folder.path()).is_err());
    }
}
