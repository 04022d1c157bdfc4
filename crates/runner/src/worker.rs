//! A process (`redjepsen runs`) that makes the runs of another process, one at a time, so that the runs can share a cluster.
//!
//! It reads one [`RunOrder`] per line from standard input. If a run's cluster is kept for the next run, it answers with a line
//! on standard output once the run's folder is complete. Otherwise the process exits with the run, as `redjepsen run` does. So
//! a failure affects only its own run, and nothing outlives it.
//!
//! It has its own process group. Ctrl-C reaches only its parent, which passes it on and waits until the run has healed and
//! removed everything. If the parent is killed, this process stops in the same way. If the parent must exit at once, so does
//! this process, and the parent reports what it left behind.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::request::KeepCluster;
use super::run::{Place, RunSettings, Runner};
use super::signals::{self, Leftovers, is_left_behind};
use super::{Checked, Console, PROGRAM, RunnerError};
use base::interrupt::{Interrupt, Interrupted};
use model::scenario::Scenario;
use report::Pictures;
use system::cluster::{self, CleanOptions};

/// The time limit for a stopping run to heal and to remove its cluster.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(60);
/// The same time limit after an interrupt. Most clusters are removed in less than a second; an engine that hangs is given up.
const SHORT_SHUTDOWN_LIMIT: Duration = Duration::from_secs(15);
/// The time limit for the last message of a process that must exit at once.
const LAST_WORDS: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
/// At most this many characters of an invalid line are shown.
const SHOWN: usize = 200;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOrder {
    pub scenario: Scenario,
    /// The run's folder, which already exists.
    pub folder: PathBuf,
    /// The command that repeats the run. If None, its saved scenario repeats it.
    pub repeat: Option<String>,
    /// True if the next run needs the same cluster and can reuse this one.
    pub keep_cluster: bool,
    /// True if the keys of the nodes are recorded during the run.
    pub observe: bool,
}

/// Makes the runs that are ordered on standard input, until a run's cluster is not kept, the orders end, or the user stops it.
/// Calls `answer` for each run whose cluster is kept. Returns the last run.
pub fn serve(
    console: Console,
    answer: &mut dyn FnMut(&Checked) -> io::Result<()>,
) -> LocalBoxFuture<'_, Result<Option<Checked>, RunnerError>> {
    Box::pin(async move {
        let mut runner = Runner::new(false, console)?;
        let outcome = AssertUnwindSafe(one_after_the_other(&mut runner, answer)).catch_unwind().await;
        // Also if a report failed while the cluster was kept.
        let removed = runner.remove_cluster().await;
        let outcome = outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        outcome.and_then(|last| removed.map(|()| last))
    })
}

async fn one_after_the_other(
    runner: &mut Runner,
    answer: &mut dyn FnMut(&Checked) -> io::Result<()>,
) -> Result<Option<Checked>, RunnerError> {
    let interrupt = runner.interrupt();
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    let mut last = None;
    loop {
        let line = tokio::select! {
            biased;
            () = interrupt.raised() => return Ok(last),
            line = orders.next_line() => line.map_err(RunnerError::could_not_run)?,
        };
        let Some(line) = line else { return Ok(last) };
        let RunOrder { scenario, folder, repeat, keep_cluster, observe } =
            serde_json::from_str(&line).map_err(|error| {
                let shown: String = line.chars().take(SHOWN).collect();
                let text = format!("cannot read the order on standard input: {error} in `{shown}`; only `redjepsen suite` should start this command");
                RunnerError::request(text)
            })?;
        scenario.check().map_err(RunnerError::request)?;
        let keep_cluster = if keep_cluster { KeepCluster::ForNextRun } else { KeepCluster::No };
        let place = Place::Folder(folder);
        let mut made = runner.make(&scenario, &RunSettings { place, repeat, keep_cluster, observe }).await?;
        // The result of the run must not be lost with its files.
        made.write_report(Pictures::OnPageOnly).map_err(|error| {
            RunnerError::could_not_run(format!("{} But {error}", made.checked.report().summary.one_line))
        })?;
        let checked = made.checked;
        if !runner.has_cluster() {
            return Ok(Some(checked));
        }
        answer(&checked).map_err(|error| RunnerError::could_not_run(format!("standard output: {error}")))?;
        last = Some(checked);
    }
}

/// A process that makes runs, from its parent's view.
pub(super) struct Worker {
    child: Child,
    /// The process exits when this is closed.
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
    interrupt: Interrupt,
    /// Remains if both processes exit at once. Empty after this one has exited.
    leftovers: Leftovers,
    /// Remains that could not be removed after it was killed, and why.
    pub left: Vec<String>,
}

/// How a run's process answered or exited.
pub(super) enum End {
    /// The run's exit code, from a process that waits for the next run.
    Answered(i32),
    Exited(ExitStatus),
}

impl Worker {
    /// Starts a process. Must be called by the first thread: the kernel takes the thread for the parent, and this thread lives
    /// on.
    pub fn start(log_path: &Path, interrupt: Interrupt, leftovers: Leftovers) -> io::Result<Worker> {
        let _ = fs::remove_file(log_path);
        let log = fs::File::options().create_new(true).append(true).open(log_path)?;
        let mut child = Command::new(PROGRAM)
            .arg0("redjepsen")
            .arg("make-runs")
            .env(signals::PARENT, std::process::id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()?;
        let missing = || io::Error::other("it has no standard input or output");
        let orders = Some(child.stdin.take().ok_or_else(missing)?);
        let answers = BufReader::new(child.stdout.take().ok_or_else(missing)?).lines();
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).ok_or_else(missing)?;
        // A pidfd stands for this very process, even if its PID is reused.
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        let log_path = log_path.to_path_buf();
        leftovers.set(move || last_words(&process, &log_path));
        Ok(Worker { child, orders, answers, interrupt, leftovers, left: Vec::new() })
    }

    /// The worker. None if its process has exited.
    pub fn if_it_waits(mut self) -> Option<Worker> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    /// Sends an order, and waits until the run is over.
    pub async fn make(&mut self, order: &RunOrder) -> io::Result<End> {
        let line = format!("{}\n", serde_json::to_string(order)?);
        if let Some(orders) = &mut self.orders {
            // A process that has exited does not read this. Its exit status says more than a write error.
            let _ = orders.write_all(line.as_bytes()).await;
        }
        match self.answers.next_line().await? {
            Some(code) => code.parse().map(End::Answered).map_err(io::Error::other),
            None => self.child.wait().await.map(End::Exited),
        }
    }

    /// Lets the process remove its cluster and exit. Kills it if it does not.
    pub async fn end(mut self) -> io::Result<ExitStatus> {
        drop(self.orders.take());
        let interrupt = self.interrupt.clone();
        match interrupt.unless(timeout(SHUTDOWN_LIMIT, self.child.wait())).await {
            Ok(Ok(status)) => status,
            Ok(Err(_)) | Err(Interrupted) => self.break_off().await,
        }
    }

    /// Stops the process in the middle of a run. If it does not exit, kills it and removes what it leaves behind.
    pub async fn break_off(&mut self) -> io::Result<ExitStatus> {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if let Some(pid) = pid {
            // If it has exited, there is no process to signal. A stopped process must continue to receive the signal.
            let _ = kill_process(pid, Signal::TERM);
            let _ = kill_process(pid, Signal::CONT);
        }
        let interrupt = self.interrupt.clone();
        let ended = match interrupt.within(SHORT_SHUTDOWN_LIMIT, timeout(SHUTDOWN_LIMIT, self.child.wait())).await {
            Ok(Ok(status)) => status,
            Ok(Err(_)) | Err(Interrupted) => self.kill(pid).await,
        };
        self.leftovers.unless_reported().await;
        ended
    }

    async fn kill(&mut self, pid: Option<Pid>) -> io::Result<ExitStatus> {
        if let Some(pid) = pid {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let ended = self.child.wait().await;
        let of = pid.map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
        if of.is_some() {
            let (cleaned, _) = cluster::clean(&CleanOptions { of, ..CleanOptions::default() }).await;
            self.left = cleaned.failed;
        }
        ended
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.leftovers.clear();
    }
}

/// Makes a worker process exit at once. Returns its message on what it left behind.
fn last_words(process: &OwnedFd, log: &Path) -> String {
    // Open the log before it exits and its log is removed.
    let log = fs::File::open(log);
    // If it has exited, there is no process to signal.
    let _ = pidfd_send_signal(process, Signal::QUIT);
    let ended = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&LAST_WORDS));
    // Progress lines may follow the message.
    let said = log.and_then(io::read_to_string).unwrap_or_default();
    let last = said.lines().rev().find_map(|line| line.strip_prefix("redjepsen: ").filter(|line| is_left_behind(line)));
    match last {
        Some(last) if matches!(ended, Ok(1)) => last.to_string(),
        _ => signals::left_behind("the parts of the run in progress"),
    }
}

pub(super) fn last_line(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().last().unwrap_or_default().to_string()
}
