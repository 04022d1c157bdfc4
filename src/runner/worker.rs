//! A process that makes runs for another one, which is `redjepsen runs`: one after the other, so that they can share a cluster.
//!
//! It takes a [`RunOrder`] a line on standard input, and gives for each a line on standard output, once the run's folder is
//! complete and where its cluster is kept for the next one. Where it is not, this process ends with the run and as
//! `redjepsen run` does: so whatever goes wrong with a run costs no other one, and nothing outlives what it went wrong in.
//!
//! It has a process group of its own: Ctrl-C reaches the other process alone, which passes it on and waits until the run has
//! healed and removed everything; and it ends in the same way when that one is killed.

use std::fs;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::FutureExt;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::run::{KeepCluster, RunSettings, Runner};
use super::{Checked, Console, PROGRAM, RunnerError, interrupt};
use crate::scenario::Scenario;

/// How long a run that was told to end may take to heal and to remove its cluster.
const FAREWELL: Duration = Duration::from_secs(60);
/// As much of a line that makes no sense as a message shows.
const SHOWN: usize = 200;

/// One run that is to be made.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOrder {
    pub scenario: Scenario,
    /// Folder that keeps the runs.
    pub store: PathBuf,
    /// The command that repeats it, where it is not repeated by its saved scenario.
    pub repeat: Option<String>,
    /// Whether the next run needs the same cluster, so that it can have this one's.
    pub keep_cluster: bool,
}

/// Makes the runs that are ordered on standard input, until a run's cluster is not kept, nothing more is ordered, or the user
/// wants the end. `answer` is told of each run whose cluster is kept. Gives the last run.
pub async fn serve(
    console: Console,
    answer: &mut dyn FnMut(&Checked) -> io::Result<()>,
) -> Result<Option<Checked>, RunnerError> {
    let mut runner = Runner::new(false, console)?;
    let outcome = AssertUnwindSafe(one_after_the_other(&mut runner, answer)).catch_unwind().await;
    // Also when a report failed while the cluster was kept.
    let removed = runner.remove_cluster().await;
    let outcome = outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    outcome.and_then(|last| removed.map(|()| last))
}

async fn one_after_the_other(
    runner: &mut Runner,
    answer: &mut dyn FnMut(&Checked) -> io::Result<()>,
) -> Result<Option<Checked>, RunnerError> {
    let mut interrupt = runner.interrupt();
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    let mut last = None;
    loop {
        let line = tokio::select! {
            biased;
            _ = interrupt.wait_for(|wanted| *wanted) => return Ok(last),
            line = orders.next_line() => line.map_err(RunnerError::could_not_run)?,
        };
        let Some(line) = line else { return Ok(last) };
        let RunOrder { scenario, store, repeat, keep_cluster } = serde_json::from_str(&line).map_err(|error| {
            let shown: String = line.chars().take(SHOWN).collect();
            let text = format!("standard input: {error} in `{shown}`; `redjepsen suite` starts this command");
            RunnerError::request(text)
        })?;
        scenario.check().map_err(RunnerError::request)?;
        let keep_cluster = if keep_cluster { KeepCluster::ForNextRun } else { KeepCluster::No };
        let checked = runner.make(&scenario, &RunSettings { store, repeat, keep_cluster }).await?;
        if !runner.has_cluster() {
            return Ok(Some(checked));
        }
        answer(&checked).map_err(|error| RunnerError::could_not_run(format!("standard output: {error}")))?;
        last = Some(checked);
    }
}

/// A process that makes runs, seen by the one that started it.
pub(super) struct Worker {
    child: Child,
    /// Closed, it lets the process end.
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

/// What is known when a run is over.
pub(super) enum End {
    /// Its exit code, from a process that waits for the next one.
    Answered(i32),
    Exited(ExitStatus),
}

impl Worker {
    /// Starts a process. From the first thread, which lives as long as this process: to the kernel the parent is the thread.
    pub fn start(log: &Path) -> io::Result<Worker> {
        let _ = fs::remove_file(log);
        let log = fs::File::options().create(true).append(true).open(log)?;
        let mut child = Command::new(PROGRAM)
            .arg0("redjepsen")
            .arg("runs")
            .env(interrupt::PARENT, std::process::id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()?;
        let missing = || io::Error::other("it has no standard input or output");
        let orders = Some(child.stdin.take().ok_or_else(missing)?);
        let answers = BufReader::new(child.stdout.take().ok_or_else(missing)?).lines();
        Ok(Worker { child, orders, answers })
    }

    /// None where it has ended meanwhile.
    pub fn if_it_waits(mut self) -> Option<Worker> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    /// Has a run made, and waits until it is over.
    pub async fn make(&mut self, order: &RunOrder) -> io::Result<End> {
        let line = format!("{}\n", serde_json::to_string(order)?);
        if let Some(orders) = &mut self.orders {
            // One that has ended does not read it, and how it ended says more.
            let _ = orders.write_all(line.as_bytes()).await;
        }
        match self.answers.next_line().await? {
            Some(code) => code.parse().map(End::Answered).map_err(io::Error::other),
            None => self.child.wait().await.map(End::Exited),
        }
    }

    /// Lets it remove what it has, and ends it where it does not end.
    pub async fn end(mut self) -> io::Result<ExitStatus> {
        drop(self.orders.take());
        match timeout(FAREWELL, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => self.break_off().await,
        }
    }

    /// Lets it end in order, in the middle of a run, and kills it where it does not.
    pub async fn break_off(&mut self) -> io::Result<ExitStatus> {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if let Some(pid) = pid {
            // Where it has ended meanwhile there is nobody to tell.
            let _ = kill_process(pid, Signal::TERM);
        }
        match timeout(FAREWELL, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                if let Some(pid) = pid {
                    let _ = kill_process_group(pid, Signal::KILL);
                }
                self.child.wait().await
            }
        }
    }
}
