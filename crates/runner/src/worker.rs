//! A process that makes runs for another one (`redjepsen runs`), one after the other, so that they can share a cluster.
//!
//! It reads one [`RunOrder`] per line from standard input. If a run's cluster is kept for the next run, it answers with
//! a line on standard output once the run's folder is complete. Otherwise the process ends with the run, as
//! `redjepsen run` does. So a failure costs only its own run, and nothing outlives it.
//!
//! It has its own process group: Ctrl-C reaches only the other process, which passes it on and waits until the run has
//! healed and removed everything. If the other process is killed, this one stops in the same way. If the other process
//! is to end at once, so does this one, and the other one says what this one has left.

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

/// How long a run that was told to stop may take to heal and to remove its cluster.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(60);
/// The same once the user wants to stop: most clusters are removed in less than a second, and an engine that hangs is given up
/// before that.
const SHORT_SHUTDOWN_LIMIT: Duration = Duration::from_secs(15);
/// How long a process that is to end at once may take to say what it leaves.
const LAST_WORDS: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
/// How much of a line that makes no sense a message shows.
const SHOWN: usize = 200;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOrder {
    pub scenario: Scenario,
    /// The run's folder, which exists.
    pub folder: PathBuf,
    /// The command that repeats the run; if None, its saved scenario repeats it.
    pub repeat: Option<String>,
    /// Whether the next run needs the same cluster and can reuse this one.
    pub keep_cluster: bool,
    /// Whether what the nodes hold is noted meanwhile.
    pub observe: bool,
}

/// Makes the runs that are ordered on standard input, until a run's cluster is not kept, the orders end, or the user
/// stops it. `answer` is called for each run whose cluster is kept. Returns the last run.
pub fn serve(
    console: Console,
    answer: &mut dyn FnMut(&Checked) -> io::Result<()>,
) -> LocalBoxFuture<'_, Result<Option<Checked>, RunnerError>> {
    Box::pin(async move {
        let mut runner = Runner::new(false, console)?;
        let outcome = AssertUnwindSafe(one_after_the_other(&mut runner, answer)).catch_unwind().await;
        // Also when a report failed while the cluster was kept.
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
                let text = format!("standard input: {error} in `{shown}`; `redjepsen suite` starts this command");
                RunnerError::request(text)
            })?;
        scenario.check().map_err(RunnerError::request)?;
        let keep_cluster = if keep_cluster { KeepCluster::ForNextRun } else { KeepCluster::No };
        let place = Place::Folder(folder);
        let mut made = runner.make(&scenario, &RunSettings { place, repeat, keep_cluster, observe }).await?;
        // What the run showed must not be lost with its files.
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

/// A process that makes runs, as seen by the process that started it.
pub(super) struct Worker {
    child: Child,
    /// The process ends once this is closed.
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
    interrupt: Interrupt,
    /// What is left if both processes end at once; none once this one has ended.
    leftovers: Leftovers,
    /// What could not be removed after it was killed, and why.
    pub left: Vec<String>,
}

/// How a run's process answered or ended.
pub(super) enum End {
    /// The run's exit code, from a process that waits for the next run.
    Answered(i32),
    Exited(ExitStatus),
}

impl Worker {
    /// Starts a process. To be called by the first thread: to the kernel a thread is the parent, and this one lives on.
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
        // Stands for this very process, even when its PID is somebody else's.
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        let log_path = log_path.to_path_buf();
        leftovers.set(move || last_words(&process, &log_path));
        Ok(Worker { child, orders, answers, interrupt, leftovers, left: Vec::new() })
    }

    /// None if it has ended.
    pub fn if_it_waits(mut self) -> Option<Worker> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    /// Has a run made, and waits until it is over.
    pub async fn make(&mut self, order: &RunOrder) -> io::Result<End> {
        let line = format!("{}\n", serde_json::to_string(order)?);
        if let Some(orders) = &mut self.orders {
            // A process that has ended does not read this, and how it ended says more than an error here.
            let _ = orders.write_all(line.as_bytes()).await;
        }
        match self.answers.next_line().await? {
            Some(code) => code.parse().map(End::Answered).map_err(io::Error::other),
            None => self.child.wait().await.map(End::Exited),
        }
    }

    /// Lets the process remove its cluster and end; kills it if it does not.
    pub async fn end(mut self) -> io::Result<ExitStatus> {
        drop(self.orders.take());
        let interrupt = self.interrupt.clone();
        match interrupt.unless(timeout(SHUTDOWN_LIMIT, self.child.wait())).await {
            Ok(Ok(status)) => status,
            Ok(Err(_)) | Err(Interrupted) => self.break_off().await,
        }
    }

    /// Stops the process in an orderly way in the middle of a run. If it does not end, kills it, and removes what it leaves.
    pub async fn break_off(&mut self) -> io::Result<ExitStatus> {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if let Some(pid) = pid {
            // If it has ended, there is nobody to signal. One that was stopped must go on to hear it.
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

/// Has a process that makes runs end at once; returns what it said of what it left.
fn last_words(process: &OwnedFd, log: &Path) -> String {
    // Before it ends, and its log is removed.
    let log = fs::File::open(log);
    // If it has ended, there is nobody to signal.
    let _ = pidfd_send_signal(process, Signal::QUIT);
    let ended = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&LAST_WORDS));
    // Its progress may come after that.
    let said = log.and_then(io::read_to_string).unwrap_or_default();
    let last = said.lines().rev().find_map(|line| line.strip_prefix("redjepsen: ").filter(|line| is_left_behind(line)));
    match last {
        Some(last) if matches!(ended, Ok(1)) => last.to_string(),
        _ => signals::left_behind("the parts of the run in progress"),
    }
}

/// The last line that a run printed.
pub(super) fn last_line(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().last().unwrap_or_default().to_string()
}
