//! A run's log, in its folder.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use base::files::FileError;
use base::runs::RunFolder;
use base::sync::lock;
use base::words;

#[derive(Clone, Default)]
pub struct RunLog(Arc<Mutex<Current>>);

#[derive(Default)]
struct Current {
    path: PathBuf,
    /// None before the first run, and after a write error.
    file: Option<File>,
    failed: Option<FileError>,
}

/// The crates of redjepsen that log. Other crates, such as a container engine's client, are not logged.
const LOGGING_CRATES: [&str; 2] = ["runner", "system"];

/// Standard error, for a user who wants to see the log.
struct Terminal;

impl RunLog {
    /// Starts logging to this log, and also to standard error if `verbose`.
    pub fn begin(&self, verbose: bool) -> io::Result<()> {
        let ours = || Targets::new().with_targets(LOGGING_CRATES.map(|name| (name, LevelFilter::DEBUG)));
        let file = self.clone();
        let to_file = fmt::layer().with_ansi(false).with_writer(move || file.clone()).with_filter(ours());
        let to_terminal = verbose.then(|| fmt::layer().with_ansi(false).with_writer(|| Terminal).with_filter(ours()));
        tracing_subscriber::registry().with(to_file).with(to_terminal).try_init().map_err(io::Error::other)
    }

    pub fn keep_in(&self, folder: &RunFolder) -> Result<(), FileError> {
        let path = folder.log();
        let file = File::create_new(&path).map_err(|error| FileError::write(&path, error))?;
        *self.current() = Current { path, file: Some(file), failed: None };
        Ok(())
    }

    /// Why the log of the current run ends early. Ok if it does not.
    pub fn failure(&self) -> Result<(), FileError> {
        self.current().failed.take().map_or(Ok(()), Err)
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        lock(&self.0)
    }
}

/// A line of the log. Text from outside cannot control a terminal or begin another line.
fn tamed(event: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(event);
    let mut line = words::line(text.strip_suffix('\n').unwrap_or(&text), usize::MAX).into_bytes();
    line.push(b'\n');
    line
}

impl Write for RunLog {
    /// Writes one event. After a write error the log ends: the run does not depend on it.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let mut current = self.current();
        if let Some(Err(error)) = current.file.as_mut().map(|file| file.write_all(&tamed(event))) {
            current.file = None;
            current.failed = Some(FileError::write(&current.path, error));
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Terminal {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        // Standard error may have no reader any more.
        let _ = io::stderr().write_all(&tamed(event));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_steers_no_terminal() {
        assert_eq!(tamed(b"stderr=\x1b[2J\rok\nVALID\n"), "stderr=\u{fffd}[2J ok VALID\n".as_bytes());
        assert_eq!(tamed(b"as it is\n"), b"as it is\n");
    }

    #[test]
    fn a_log_that_cannot_be_written_ends_and_says_so_once() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let current = Current { path: "/dev/full".into(), file: Some(full), failed: None };
        let mut log = RunLog(Arc::new(Mutex::new(current)));
        for _ in 0..2 {
            log.write_all(b"an event\n").unwrap();
        }
        let error = log.failure().unwrap_err().to_string();
        assert!(error.contains("/dev/full: No space left") && error.contains("free some space"), "{error}");
        assert!(log.failure().is_ok());
    }
}
