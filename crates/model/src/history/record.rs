//! Appends events to `history.jsonl` while the run goes on.
//!
//! Each event is written to the file at once, in one write. So a controller that dies loses nothing: data in the kernel survive
//! the process.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use super::{Body, Event, line};

use base::units::nanos;

/// Stamps events from one monotonic clock, the runtime's, and appends them to a file or to memory.
pub struct Recorder {
    to: Box<dyn Write + Send>,
    start: Instant,
    next_index: u64,
    /// Why a line could not be written. It may be cut off, so no line may follow it, even if there is room again.
    failed: Option<io::ErrorKind>,
}

impl Recorder {
    /// Creates the file; the run's time 0 is now. Fails if the file already exists.
    pub fn create(path: &Path) -> io::Result<Recorder> {
        Ok(Recorder::to(File::options().append(true).create_new(true).open(path)?))
    }

    /// Appends to another writer than a file; the run's time 0 is now.
    pub fn to(to: impl Write + Send + 'static) -> Recorder {
        Recorder { to: Box::new(to), start: Instant::now(), next_index: 0, failed: None }
    }

    /// The moment that counts as the run's time 0.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Stamps and appends one event; returns its time in nanoseconds since the start.
    pub fn append(&mut self, body: Body) -> io::Result<u64> {
        let time = nanos(self.start.elapsed());
        let event = Event { index: self.next_index, time, body };
        let mut text = line::to_line(&event);
        text.push('\n');
        if let Some(failed) = self.failed {
            return Err(failed.into());
        }
        self.to.write_all(text.as_bytes()).inspect_err(|error| self.failed = Some(error.kind()))?;
        self.next_index += 1;
        Ok(time)
    }
}

/// A recorder that several tasks append to; its mutex orders their events, so times never go back from line to line.
#[derive(Clone)]
pub struct SharedRecorder(Arc<Mutex<Recorder>>);

impl SharedRecorder {
    pub fn new(recorder: Recorder) -> SharedRecorder {
        SharedRecorder(Arc::new(Mutex::new(recorder)))
    }

    /// See [`Recorder::append`].
    pub fn append(&self, body: Body) -> io::Result<u64> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).append(body)
    }

    /// See [`Recorder::start`].
    pub fn start(&self) -> Instant {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).start()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::End;

    #[test]
    fn nothing_follows_a_line_that_may_be_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let mut recorder = Recorder::create(&path).unwrap();
        let end = || Body::End(End { completed: false, text: "…".to_string() });
        recorder.append(end()).unwrap();
        let there = std::fs::read(&path).unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let file = std::mem::replace(&mut recorder.to, Box::new(full));
        assert_eq!(recorder.append(end()).unwrap_err().kind(), io::ErrorKind::StorageFull);
        recorder.to = file;
        assert_eq!(recorder.append(end()).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(std::fs::read(&path).unwrap(), there);
    }
}
