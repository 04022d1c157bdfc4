//! Makes the runs of a suite, one after the other, each as a process of its own.
//!
//! A process, so that one run that crashes or hangs costs nothing but itself, and so that a run under a suite is exactly the
//! run that its `repeat` command makes. It has a process group of its own: Ctrl-C reaches this process alone, which passes
//! it on and waits until the run has healed and removed everything; and it ends in the same way when this process is killed.
//!
//! Each run has a cluster of its own as well. To start and to remove one takes 0.2 s locally and 2.4 s in Docker, which is
//! little for the certainty that no key, no clock and no late packet of one run is there in the next. Images are made once,
//! before the first run.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use super::progress::Progress;
use crate::cli::flags::quoted;
use crate::cli::{Failure, interrupt};
use crate::suite::outcome::{Numbers, Results, RunOutcome, Standing, Tally};
use crate::suite::plan::{PlannedCell, Suite};
use crate::suite::state::State;

/// This very file, also when the one at its path has been replaced meanwhile.
pub const PROGRAM: &str = "/proc/self/exe";
/// How much longer than planned, and than thrice that, a run may take before it counts as hanging.
const GRACE: Duration = Duration::from_secs(120);
/// How long a run that was told to end may take to heal and to remove its cluster.
const FAREWELL: Duration = Duration::from_secs(60);
/// What the run under way says, in the suite's folder. A file, since a run that outlives this process, if only to heal, must
/// not break over a pipe that nobody reads.
const LOG: &str = "run.log";
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// After so many runs in a row that could not be made, the others can't be either.
const MOST_FAILURES: u32 = 3;

/// Makes the runs of a suite.
pub struct Driver<'a> {
    pub suite: &'a Suite,
    /// Turns true when the user wants it to end now.
    pub interrupt: watch::Receiver<bool>,
    pub fail_fast: bool,
}

/// Why no more runs are made.
pub enum Ended {
    Done,
    FailFast,
    Interrupted,
    /// They can't be made, for this reason.
    CannotRun(String),
}

/// One run that is due.
struct Due<'a> {
    cell: &'a PlannedCell,
    /// Counted from 1.
    run: u32,
    seed: u64,
}

impl Driver<'_> {
    /// Makes all runs that are not done yet: the first of every cell, then the second of those that have one, and so on,
    /// so that what is broken everywhere is seen early.
    pub async fn drive(self, state: &mut State) -> Result<Ended, Failure> {
        let due = self.due(state);
        let planned = due.iter().map(|due| per_run(due.cell));
        let mut progress = Progress::new(self.suite.runs(), self.suite.runs() - due.len(), planned.sum());
        let mut failures = 0;
        for due in &due {
            if self.fail_fast && self.suite.cells.iter().any(|cell| surprise(state, cell)) {
                return Ok(Ended::FailFast);
            }
            if *self.interrupt.borrow() {
                return Ok(Ended::Interrupted);
            }
            let Some(outcome) = self.make(due, state.folder(), &progress).await? else { return Ok(Ended::Interrupted) };
            progress.ended(due.cell, &outcome, per_run(due.cell));
            failures = if outcome.valid.is_none() { failures + 1 } else { 0 };
            let reason = outcome.summary.clone();
            state
                .add(outcome)
                .map_err(|error| Failure::could_not_run(format!("{}: {error}", state.folder().display())))?;
            if failures == MOST_FAILURES {
                return Ok(Ended::CannotRun(format!("{failures} runs in a row could not be made; the last: {reason}")));
            }
        }
        Ok(Ended::Done)
    }

    fn due(&self, state: &State) -> Vec<Due<'_>> {
        let most = self.suite.cells.iter().map(|cell| cell.seeds.len()).max().unwrap_or(0);
        let all = (0..most).flat_map(|number| self.suite.cells.iter().map(move |cell| (number, cell)));
        let all =
            all.filter_map(|(number, cell)| Some(Due { cell, run: number as u32 + 1, seed: *cell.seeds.get(number)? }));
        all.filter(|due| !state.is_done(&due.cell.name, due.run)).collect()
    }

    /// Makes one run; none where the user ended it.
    async fn make(&self, due: &Due<'_>, folder: &Path, progress: &Progress) -> Result<Option<RunOutcome>, Failure> {
        let runs = folder.join("runs");
        let before = latest(&runs, due.cell);
        let started = Instant::now();
        progress.begins(due.cell, due.seed);
        let log = folder.join(LOG);
        let failed = |error| Failure::could_not_run(format!("{}: a run: {error}", folder.display()));
        let mut child = start(due, &runs, &log).map_err(failed)?;
        let limit = per_run(due.cell) * 3 + GRACE;
        let mut interrupt = self.interrupt.clone();
        let ended = tokio::select! {
            biased;
            ended = child.wait() => Some(ended),
            _ = interrupt.wait_for(|wanted| *wanted) => None,
            () = tokio::time::sleep(limit) => None,
            never = follow(&log, progress.line()) => match never {},
        };
        let interrupted = *self.interrupt.borrow();
        let hung = ended.is_none() && !interrupted;
        let status = match ended {
            Some(status) => status,
            None => end(&mut child).await,
        };
        let status = status.map_err(failed)?;
        let said = last_line(&log);
        let _ = fs::remove_file(&log);
        if interrupted {
            return Ok(None);
        }
        let after = latest(&runs, due.cell).filter(|after| Some(after) != before.as_ref());
        let why = if hung { format!("it did not end within {} s", limit.as_secs()) } else { reason(status, &said) };
        Ok(Some(outcome(due, after, status, hung, why, folder, started.elapsed())))
    }
}

/// Whether a cell has come out as a surprise already.
fn surprise(state: &State, cell: &PlannedCell) -> bool {
    let runs = state.runs.iter().filter(|run| run.cell == cell.name);
    Tally::of(cell.seeds.len() as u32, runs).standing(cell.expected, cell.found) == Standing::Surprise
}

fn per_run(cell: &PlannedCell) -> Duration {
    Duration::from_millis(cell.planned_ms / (cell.seeds.len() as u64).max(1))
}

/// Starts a run. From the first thread, which lives as long as this process: to the kernel the parent is the thread.
fn start(due: &Due, runs: &Path, log: &Path) -> io::Result<Child> {
    Command::new(PROGRAM)
        .arg0("redjepsen")
        .arg("run")
        .args(&due.cell.arguments)
        .args(["--seed", &due.seed.to_string()])
        .arg("--store")
        .arg(runs)
        .env(interrupt::PARENT, std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(log)?)
        .process_group(0)
        .spawn()
}

/// Lets a run end in order, and kills it where it does not.
async fn end(child: &mut Child) -> io::Result<ExitStatus> {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    if let Some(pid) = pid {
        // Where it has ended meanwhile there is nobody to tell.
        let _ = kill_process(pid, Signal::TERM);
    }
    match timeout(FAREWELL, child.wait()).await {
        Ok(status) => status,
        Err(_) => {
            if let Some(pid) = pid {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            child.wait().await
        }
    }
}

/// Shows what a run says of its progress, until nobody waits for it any more.
async fn follow(log: &Path, shown: indicatif::ProgressBar) -> Infallible {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let line = last_line(log);
        if !line.is_empty() {
            shown.set_message(line);
        }
    }
}

/// The last thing that a run said.
fn last_line(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().last().unwrap_or_default().to_string()
}

/// The newest run of this workload under this nemesis, if there is any.
fn latest(runs: &Path, cell: &PlannedCell) -> Option<PathBuf> {
    let test = PathBuf::from(format!("{}-{}", cell.workload, cell.nemesis));
    let time = fs::read_link(runs.join(&test).join("latest")).ok()?;
    Some(Path::new("runs").join(test).join(time))
}

/// The results of the run in this folder, where it has any.
pub fn results(folder: &Path) -> Option<Results> {
    serde_json::from_str(&fs::read_to_string(folder.join("results.json")).ok()?).ok()
}

fn reason(status: ExitStatus, said: &str) -> String {
    let said = said.trim_start_matches("redjepsen: ");
    match (status.code(), status.signal()) {
        (Some(code), _) if said.is_empty() => format!("it ended with exit code {code}"),
        (Some(code), _) => format!("{said} (exit code {code})"),
        (None, signal) => format!("it was ended by signal {}: {said}", signal.unwrap_or(0)),
    }
}

/// What a process that ended shows. Only one that ended as runs end has shown anything.
fn outcome(
    due: &Due,
    run_folder: Option<PathBuf>,
    status: ExitStatus,
    hung: bool,
    why: String,
    folder: &Path,
    took: Duration,
) -> RunOutcome {
    let in_order = !hung && matches!(status.code(), Some(0..=2));
    let results = run_folder.as_deref().filter(|_| in_order).and_then(|run| results(&folder.join(run)));
    let words: Vec<String> = due.cell.arguments.iter().map(|word| quoted(word)).collect();
    RunOutcome {
        cell: due.cell.name.clone(),
        run: due.run,
        seed: due.seed,
        valid: results.as_ref().map(|results| results.valid),
        summary: results
            .as_ref()
            .map_or(format!("the run could not be made: {why}"), |results| results.summary.clone()),
        folder: run_folder.map(|folder| folder.display().to_string()).unwrap_or_default(),
        repeat: format!("redjepsen run {} --seed {}", words.join(" "), due.seed),
        seconds: (took.as_secs_f64() * 1e3).round() / 1e3,
        numbers: results.map_or(Numbers::default(), |results| results.numbers()),
    }
}
