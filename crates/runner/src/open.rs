//! The state of a suite run in a store: a new one, or an interrupted one that is resumed.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{PROGRAM, RunnerError};
use base::runs;
use base::words::hex;
use suite::plan::Suite;
use suite::state::{Earlier, Identity, SuiteState};

/// The state of a suite that is always run completely, see [`open_state`].
pub fn open_whole(store: &Path, suite: &Suite, fresh: bool, say: fn(&str)) -> Result<SuiteState, RunnerError> {
    let identity = Identity {
        suite: suite.name.clone(),
        suite_sha256: suite.sha256.clone(),
        program_sha256: program_sha256().map_err(RunnerError::could_not_run)?,
        shard: None,
        cut_sha256: None,
        only: Vec::new(),
    };
    open_state(store, &identity, suite.runs(), fresh, say)
}

/// The state of an interrupted suite run if there is one to resume, otherwise a new one. Prints which.
pub fn open_state(
    store: &Path,
    identity: &Identity,
    runs: usize,
    fresh: bool,
    say: fn(&str),
) -> Result<SuiteState, RunnerError> {
    let earlier = runs::suites(store, &identity.suite);
    let found = if fresh { Earlier::Nothing } else { SuiteState::find(&earlier, identity) };
    match found {
        Earlier::Unfinished(state) => {
            let done = state.runs.iter().filter(|run| run.valid.is_some()).count();
            let folder = state.folder().display();
            say(&format!("resuming {folder}: {done} of {runs} runs are done"));
            return Ok(state);
        }
        Earlier::Changed { folder, why } => {
            say(&format!("starting over: {} is not finished, but {why}", folder.display()));
        }
        Earlier::Busy { folder } => {
            say(&format!("starting over: another process is working on {}", folder.display()));
        }
        Earlier::Nothing => {}
    }
    let failed = |error| RunnerError::could_not_run(format!("--store {}: {error}", store.display()));
    let folder = create(store, &identity.suite, say).map_err(failed)?;
    SuiteState::begin(&folder, identity).map_err(RunnerError::could_not_run)
}

pub fn create(store: &Path, suite: &str, say: fn(&str)) -> io::Result<PathBuf> {
    let folder = runs::create_suite(store, suite)?;
    if let Some(other) = runs::in_the_way(&folder) {
        say(&format!("{}: redjepsen did not create this link, so it was left unchanged", other.display()));
    }
    Ok(folder)
}

/// SHA-256 of this program's file, in hexadecimal.
pub fn program_sha256() -> io::Result<String> {
    Ok(hex(&Sha256::digest(std::fs::read(PROGRAM)?)))
}
