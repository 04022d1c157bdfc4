//! Makes the runs of a suite, one after the other, each in a process that is not this one.
//!
//! A process, so that one run that crashes or hangs costs nothing but itself, and so that a run under a suite is exactly the
//! run that its `repeat` command makes. It has a process group of its own: Ctrl-C reaches this process alone, which passes
//! it on and waits until the run has healed and removed everything; and it ends in the same way when this process is killed.
//!
//! Runs that follow each other and stand on the same [`Ground`] share a process and its cluster, which is made as new before
//! each of them. From the end of one run to the first operation of the next it is then 2.2 s in Docker and 0.37 s locally,
//! where with new clusters it is 5.0 s and 0.53 s (medians of 11, on two cores with a load of 5). A run that does not end as
//! runs do takes its process and its cluster along, and so does a cluster that can't be made as new. Images are made once,
//! before the first run.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use super::progress::Progress;
use crate::cli::flags::quoted;
use crate::cli::run::Ground;
use crate::cli::runs::Request;
use crate::cli::{Failure, interrupt, understood};
use crate::suite::outcome::{CellStatus, Numbers, Results, RunOutcome, Tally};
use crate::suite::plan::{PlannedCell, Suite};
use crate::suite::state::State;
use crate::words::plural;

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
    /// Whether each run gets a cluster of its own.
    pub new_clusters: bool,
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
    /// Whether the next one that is due can have its cluster.
    more: bool,
}

/// A process that makes runs.
struct Maker {
    child: Child,
    /// Closed, it lets the process end.
    requests: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

/// What is known when a run is over.
enum End {
    /// Its exit code, from a process that waits for the next one.
    Answered(i32),
    Exited(ExitStatus),
}

impl Driver<'_> {
    /// Makes all runs that are not done yet: the first of every cell, then the second of those that have one, and so on,
    /// so that what is broken everywhere is seen early.
    pub async fn drive(self, state: &mut State) -> Result<Ended, Failure> {
        let mut maker = None;
        let ended = self.drive_with(&mut maker, state).await;
        if let Some(maker) = maker {
            let status = maker.end().await.map_err(Failure::could_not_run)?;
            if !matches!(status.code(), Some(0..=2)) {
                let said = reason(status, &last_line(&state.folder().join(LOG)));
                eprintln!("redjepsen: the last cluster may be left: {said}; `redjepsen clean` removes it");
            }
            let _ = fs::remove_file(state.folder().join(LOG));
        }
        ended
    }

    async fn drive_with(&self, maker: &mut Option<Maker>, state: &mut State) -> Result<Ended, Failure> {
        let due = self.due(state)?;
        let planned = due.iter().map(|due| per_run(due.cell));
        let mut progress = Progress::new(self.suite.runs(), self.suite.runs() - due.len(), planned.sum());
        let clusters = due.iter().filter(|due| !due.more).count();
        if clusters < due.len() {
            eprintln!("{} on {}", plural(due.len() as u64, "run"), plural(clusters as u64, "cluster"));
        }
        let mut failures = 0;
        for due in &due {
            if self.fail_fast && self.suite.cells.iter().any(|cell| surprise(state, cell)) {
                return Ok(Ended::FailFast);
            }
            if *self.interrupt.borrow() {
                return Ok(Ended::Interrupted);
            }
            let Some(outcome) = self.make(due, maker, state.folder(), &progress).await? else {
                return Ok(Ended::Interrupted);
            };
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

    /// The runs that are not done yet, in the order in which they are made. Among the first runs of all cells, those that can
    /// share a cluster follow each other, and so among the second ones.
    fn due(&self, state: &State) -> Result<Vec<Due<'_>>, Failure> {
        let mut grounds: Vec<Ground> = Vec::new();
        let mut all = Vec::new();
        for cell in &self.suite.cells {
            let flags = understood(&cell.arguments).map_err(Failure::arguments)?;
            let ground = Ground::of(&flags, &flags.scenario()?)?;
            let place = grounds.iter().position(|other| *other == ground).unwrap_or(grounds.len());
            if place == grounds.len() {
                grounds.push(ground);
            }
            for (run, seed) in (1..).zip(&cell.seeds) {
                if !state.is_done(&cell.name, run) {
                    all.push((place, Due { cell, run, seed: *seed, more: false }));
                }
            }
        }
        let shared: Vec<bool> = grounds.iter().map(|ground| !self.new_clusters && ground.can_be_shared()).collect();
        Ok(in_order(all, &shared))
    }

    /// Makes one run; none where the user ended it. With the process that made the one before, where that waits for more.
    async fn make(
        &self,
        due: &Due<'_>,
        waiting: &mut Option<Maker>,
        folder: &Path,
        progress: &Progress,
    ) -> Result<Option<RunOutcome>, Failure> {
        let runs = folder.join("runs");
        let before = latest(&runs, due.cell);
        let started = Instant::now();
        progress.begins(due.cell, due.seed);
        let log = folder.join(LOG);
        let failed = |error| Failure::could_not_run(format!("{}: a run: {error}", folder.display()));
        let mut maker = match waiting.take().and_then(Maker::if_it_waits) {
            Some(maker) => maker,
            None => Maker::start(&log).map_err(failed)?,
        };
        let limit = per_run(due.cell) * 3 + GRACE;
        let mut interrupt = self.interrupt.clone();
        let ended = tokio::select! {
            biased;
            ended = maker.make(due, &runs) => Some(ended),
            _ = interrupt.wait_for(|wanted| *wanted) => None,
            () = tokio::time::sleep(limit) => None,
            never = follow(&log, progress.line()) => match never {},
        };
        let interrupted = *self.interrupt.borrow();
        let hung = ended.is_none() && !interrupted;
        let ended = match ended {
            Some(ended) => ended.map_err(failed)?,
            None => End::Exited(maker.break_off().await.map_err(failed)?),
        };
        let (code, why) = match ended {
            End::Answered(code) => {
                *waiting = Some(maker);
                (Some(code), String::new())
            }
            End::Exited(status) => (status.code(), reason(status, &last_line(&log))),
        };
        // Emptied, since a process that waits goes on writing there.
        let _ = fs::File::create(&log);
        if waiting.is_none() {
            let _ = fs::remove_file(&log);
        }
        if interrupted {
            return Ok(None);
        }
        let after = latest(&runs, due.cell).filter(|after| Some(after) != before.as_ref());
        let why = if hung { format!("it did not end within {} s", limit.as_secs()) } else { why };
        let in_order = !hung && matches!(code, Some(0..=2));
        Ok(Some(outcome(due, after, in_order, why, folder, started.elapsed())))
    }
}

/// The runs in the order in which they are made, each given with the number of the ground that it stands on; `shared` says of
/// each ground whether it can be shared.
fn in_order<'a>(mut due: Vec<(usize, Due<'a>)>, shared: &[bool]) -> Vec<Due<'a>> {
    due.sort_by_key(|(ground, due)| (due.run, *ground));
    let next: Vec<Option<usize>> = due.iter().skip(1).map(|(ground, _)| Some(*ground)).chain([None]).collect();
    let with_next = due.into_iter().zip(next);
    with_next.map(|((ground, due), next)| Due { more: shared[ground] && next == Some(ground), ..due }).collect()
}

/// Whether a cell has come out as a surprise already.
fn surprise(state: &State, cell: &PlannedCell) -> bool {
    let runs = state.runs.iter().filter(|run| run.cell == cell.name);
    Tally::of(cell.seeds.len() as u32, runs).standing(cell.expected, cell.found) == CellStatus::Surprise
}

fn per_run(cell: &PlannedCell) -> Duration {
    Duration::from_millis(cell.planned_ms / (cell.seeds.len() as u64).max(1))
}

impl Maker {
    /// Starts a process. From the first thread, which lives as long as this process: to the kernel the parent is the thread.
    fn start(log: &Path) -> io::Result<Maker> {
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
        let requests = Some(child.stdin.take().ok_or_else(missing)?);
        let answers = BufReader::new(child.stdout.take().ok_or_else(missing)?).lines();
        Ok(Maker { child, requests, answers })
    }

    /// None where it has ended meanwhile.
    fn if_it_waits(mut self) -> Option<Maker> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    /// Has a run made, and waits until it is over.
    async fn make(&mut self, due: &Due<'_>, runs: &Path) -> io::Result<End> {
        let more = [String::from("--seed"), due.seed.to_string(), "--store".into(), runs.display().to_string()];
        let request = Request { arguments: [&due.cell.arguments[..], &more].concat(), more: due.more };
        let line = format!("{}\n", serde_json::to_string(&request)?);
        if let Some(requests) = &mut self.requests {
            // One that has ended does not read it, and how it ended says more.
            let _ = requests.write_all(line.as_bytes()).await;
        }
        match self.answers.next_line().await? {
            Some(code) => code.parse().map(End::Answered).map_err(io::Error::other),
            None => self.child.wait().await.map(End::Exited),
        }
    }

    /// Lets it remove what it has, and ends it where it does not end.
    async fn end(mut self) -> io::Result<ExitStatus> {
        drop(self.requests.take());
        match timeout(FAREWELL, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => self.break_off().await,
        }
    }

    /// Lets it end in order, in the middle of a run, and kills it where it does not.
    async fn break_off(&mut self) -> io::Result<ExitStatus> {
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

/// What a run that is over shows. Only one that ended as runs end has shown anything.
fn outcome(
    due: &Due,
    run_folder: Option<PathBuf>,
    in_order: bool,
    why: String,
    folder: &Path,
    took: Duration,
) -> RunOutcome {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(name: &str) -> PlannedCell {
        PlannedCell {
            name: name.to_string(),
            place: 0,
            workload: String::new(),
            nemesis: String::new(),
            with: String::new(),
            scripted: false,
            expected: None,
            found: None,
            arguments: Vec::new(),
            seeds: Vec::new(),
            planned_ms: 0,
        }
    }

    #[test]
    fn runs_that_can_share_a_cluster_follow_each_other_and_first_runs_go_before_second_ones() {
        let cells = ["a", "b", "c", "d"].map(cell);
        // a and c stand on one ground, b and d on another.
        let due = || {
            let runs = cells.iter().enumerate().flat_map(|(place, cell)| [1, 2].map(|run| (place % 2, cell, run)));
            runs.map(|(ground, cell, run)| (ground, Due { cell, run, seed: 0, more: false })).collect()
        };
        let told = |shared: [bool; 2]| {
            let word = |due: &Due| format!("{}{}{}", due.cell.name, due.run, if due.more { "+" } else { "" });
            in_order(due(), &shared).iter().map(word).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(told([true, true]), "a1+ c1 b1+ d1 a2+ c2 b2+ d2");
        assert_eq!(told([false, true]), "a1 c1 b1+ d1 a2 c2 b2+ d2");
        assert_eq!(told([false, false]), "a1 c1 b1 d1 a2 c2 b2 d2");
        assert!(in_order(Vec::new(), &[]).is_empty());
    }
}
