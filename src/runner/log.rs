//! A run's log, in its folder.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::runs::RunFolder;

/// The log of the current run.
#[derive(Clone, Default)]
pub struct RunLog(Arc<Mutex<Option<File>>>);

impl RunLog {
    /// Starts logging to this log, and to standard error as well if the user wants that.
    pub fn begin(&self, verbose: bool) -> io::Result<()> {
        let ours = || Targets::new().with_target("redjepsen", LevelFilter::DEBUG);
        let file = self.clone();
        let to_file = fmt::layer().with_ansi(false).with_writer(move || file.clone()).with_filter(ours());
        let to_terminal = verbose.then(|| fmt::layer().with_writer(io::stderr).with_filter(ours()));
        tracing_subscriber::registry().with(to_file).with(to_terminal).try_init().map_err(io::Error::other)
    }

    /// Makes this the log of the run in `folder`.
    pub fn keep_in(&self, folder: &RunFolder) -> io::Result<()> {
        let file = File::create(folder.log())?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(())
    }
}

impl Write for RunLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => file.write(bytes),
            // Before the first run there is no log to write to.
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
