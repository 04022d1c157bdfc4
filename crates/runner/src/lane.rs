//! A lane of a suite, which makes one run at a time: its process, its cluster, and its log.

use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use super::signals::Leftovers;
use super::worker::{End, RunOrder, Worker, last_line};
use base::files;
use base::interrupt::Interrupt;

/// A lane. If the last run kept its cluster, a process waits for the next run.
pub(super) struct Lane {
    /// Counted from 0.
    pub number: usize,
    /// The output of the current run. It is a file: a run that outlives this process, for example to heal, must not fail on a
    /// pipe without a reader.
    log: PathBuf,
    worker: Option<Worker>,
    interrupt: Interrupt,
    /// Remains of this lane if the program exits at once.
    leftovers: Leftovers,
    /// Remains of a killed process that could not be removed, and why.
    left: Vec<String>,
}

pub(super) enum RunEnd {
    /// The run has a verdict, which is in its folder.
    InOrder,
    /// The run could not be made, for this reason.
    Failed(String),
    Interrupted,
}

impl Lane {
    pub fn new(number: usize, folder: &Path, interrupt: Interrupt, leftovers: Leftovers) -> Lane {
        Lane { number, log: log(folder, number), worker: None, interrupt, leftovers, left: Vec::new() }
    }

    /// Makes a run. Reuses the process of the last run if it waits. A run that takes longer than `limit` counts as hanging.
    pub async fn make(&mut self, order: &RunOrder, limit: Duration) -> io::Result<RunEnd> {
        let mut worker = match self.worker.take().and_then(Worker::if_it_waits) {
            Some(worker) => worker,
            None => Worker::start(&self.log, self.interrupt.clone(), self.leftovers.clone())?,
        };
        let ended = tokio::select! {
            biased;
            ended = worker.make(order) => Some(ended?),
            () = self.interrupt.raised() => None,
            () = tokio::time::sleep(limit) => None,
        };
        let interrupted = self.interrupt.is_raised();
        let hung = ended.is_none() && !interrupted;
        let ended = match ended {
            Some(ended) => ended,
            None => End::Exited(worker.break_off().await?),
        };
        self.left.append(&mut worker.left);
        let (code, why) = match ended {
            End::Answered(code) => {
                self.worker = Some(worker);
                (Some(code), String::new())
            }
            End::Exited(status) => (status.code(), reason(status, &last_line(&self.log))),
        };
        let _ = match self.worker {
            // A waiting process goes on writing to it.
            Some(_) => files::empty(&self.log),
            None => fs::remove_file(&self.log),
        };
        Ok(match code {
            _ if interrupted => RunEnd::Interrupted,
            _ if hung => RunEnd::Failed(format!("it did not end within {} s", limit.as_secs())),
            Some(0..=2) => RunEnd::InOrder,
            _ => RunEnd::Failed(why),
        })
    }

    /// Remains of its last runs that are not yet reported.
    pub fn left(&mut self) -> Vec<String> {
        let told = |left: String| format!("{left}; `redjepsen clean` tries again");
        std::mem::take(&mut self.left).into_iter().map(told).collect()
    }

    pub fn has_process(&self) -> bool {
        self.worker.is_some()
    }

    /// Lets the process remove its cluster and exit. Returns what may be left behind.
    pub async fn close(&mut self) -> io::Result<Option<String>> {
        let Some(worker) = self.worker.take() else { return Ok(None) };
        let status = worker.end().await?;
        let said = reason(status, &last_line(&self.log));
        let _ = fs::remove_file(&self.log);
        let failed = !matches!(status.code(), Some(0..=2));
        Ok(failed.then(|| format!("a cluster may still exist: {said}; `redjepsen clean` removes it")))
    }
}

/// The last line that the current run of a lane printed.
pub(super) fn last_words(folder: &Path, lane: usize) -> String {
    last_line(&log(folder, lane))
}

fn log(folder: &Path, lane: usize) -> PathBuf {
    folder.join(format!("lane-{}.log", lane + 1))
}

fn reason(status: ExitStatus, said: &str) -> String {
    let said = said.trim_start_matches("redjepsen: ");
    match (status.code(), status.signal()) {
        (Some(code), _) if said.is_empty() => format!("it ended with exit code {code}"),
        (Some(code), _) => format!("{said} (exit code {code})"),
        (None, signal) => format!("it was ended by signal {}: {said}", signal.unwrap_or(0)),
    }
}
