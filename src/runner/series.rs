//! The runs of a suite, one after the other, each in another process.
//!
//! A separate process means that a run that crashes or hangs costs only itself, and that a run in a suite is exactly
//! the run that its `repeat` command makes.
//!
//! Consecutive runs that need the same cluster share a [`Worker`] and its cluster, which is reset before each run. From
//! the end of one run to the first operation of the next it then takes 2.2 s in Docker and 0.37 s locally; with new
//! clusters it takes 5.0 s and 0.53 s (medians of 11, on two cores with a load of 5). A run that does not end normally
//! costs its process and cluster, and a cluster that can't be reset is removed. Images are made once, at the start.

use std::convert::Infallible;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::run::{ClusterRequest, KeepCluster, find_platform};
use super::signals::Remains;
use super::worker::{End, RunOrder, Worker, last_line};
use super::{RunnerError, repeat_saved, results};
use crate::cluster::{Platform, PlatformRequest};
use crate::files;
use crate::interrupt::Interrupt;
use crate::scenario::Scenario;
use crate::suite::outcome::{CellStatus, Numbers, RunOutcome, Tally};
use crate::suite::plan::{PlannedCell, Suite};
use crate::suite::state::State;
use crate::topology::ClusterKind;

/// A run counts as hanging after three times its planned duration plus this.
const GRACE: Duration = Duration::from_secs(120);
/// The output of the current run, in the suite's folder. A file, because a run that outlives this process, if only to
/// heal, must not fail on a pipe that nobody reads.
const LOG: &str = "run.log";
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// If this many runs in a row could not be made, the others can't be either.
const MOST_FAILURES: u32 = 3;

/// The runs of a suite that are to be made.
pub struct Series<'a> {
    pub suite: &'a Suite,
    /// Raised when the user wants to stop now.
    pub interrupt: Interrupt,
    /// What is left if the program ends at once.
    pub remains: Remains,
    pub fail_fast: bool,
    /// Whether each run gets its own cluster.
    pub new_clusters: bool,
}

/// What a series is about to do.
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    /// How many runs the suite has, and how many of them are to be made now.
    pub all: usize,
    pub due: usize,
    /// How many clusters those runs take if all goes well.
    pub clusters: usize,
    /// The planned duration of those runs.
    pub planned: Duration,
}

/// Shows the progress of a series.
pub trait SeriesProgress {
    /// Before the first run.
    fn starts(&mut self, outlook: Outlook);
    fn begins(&mut self, cell: &PlannedCell, seed: u64);
    /// The last output of the current run.
    fn says(&self, line: String);
    /// A run that was planned to take `planned` is over.
    fn ended(&mut self, cell: &PlannedCell, outcome: &RunOutcome, planned: Duration);
}

/// Why no more runs are made.
pub enum Ended {
    Done,
    FailFast,
    Interrupted,
    /// The runs can't be made, for this reason.
    CannotRun(String),
}

/// One run to be made.
struct Due<'a> {
    cell: &'a PlannedCell,
    /// Counted from 1.
    run: u32,
    seed: u64,
    /// Whether the next run can share this run's cluster.
    keep_cluster: bool,
}

/// Makes sure, once and before the first run, that everything the clusters need is there. Returns the kind of cluster
/// to use for scenarios that accept any.
pub async fn prepare(suite: &Suite, interrupt: &Interrupt, say: fn(&str)) -> Result<ClusterKind, RunnerError> {
    let mut auto = ClusterKind::Auto;
    let mut prepared: Vec<PlatformRequest> = Vec::new();
    for cell in &suite.cells {
        let request = ClusterRequest::of(&cell.scenario, KeepCluster::No)?.platform;
        if prepared.contains(&request) {
            continue;
        }
        prepared.push(request.clone());
        let kind = request.kind;
        let platform = find_platform(request, interrupt, say).await?;
        if kind == ClusterKind::Auto {
            auto = match platform {
                Platform::Docker { .. } => ClusterKind::Docker,
                Platform::Local(_) => ClusterKind::Local,
            };
        }
    }
    Ok(auto)
}

impl Series<'_> {
    /// Makes all runs that are not done yet: first the first run of every cell, then the second of each cell that has
    /// one, and so on, so that what is broken everywhere shows early.
    pub async fn make(
        self,
        state: &mut State,
        say: fn(&str),
        progress: &mut dyn SeriesProgress,
    ) -> Result<Ended, RunnerError> {
        let mut worker = None;
        let ended = self.make_with(&mut worker, state, progress).await;
        if let Some(worker) = worker {
            let status = worker.end().await.map_err(RunnerError::could_not_run)?;
            if !matches!(status.code(), Some(0..=2)) {
                let said = reason(status, &last_line(&state.folder().join(LOG)));
                say(&format!("redjepsen: the last cluster may be left: {said}; `redjepsen clean` removes it"));
            }
            let _ = fs::remove_file(state.folder().join(LOG));
        }
        ended
    }

    async fn make_with(
        &self,
        worker: &mut Option<Worker>,
        state: &mut State,
        progress: &mut dyn SeriesProgress,
    ) -> Result<Ended, RunnerError> {
        let due = self.due(state)?;
        progress.starts(Outlook {
            all: self.suite.runs(),
            due: due.len(),
            clusters: due.iter().filter(|due| !due.keep_cluster).count(),
            planned: due.iter().map(|due| per_run(due.cell)).sum(),
        });
        let mut failures = 0;
        for due in &due {
            if self.fail_fast && self.suite.cells.iter().any(|cell| surprise(state, cell)) {
                return Ok(Ended::FailFast);
            }
            if self.interrupt.is_raised() {
                return Ok(Ended::Interrupted);
            }
            let Some(outcome) = self.make_one(due, worker, state.folder(), progress).await? else {
                return Ok(Ended::Interrupted);
            };
            progress.ended(due.cell, &outcome, per_run(due.cell));
            failures = if outcome.valid.is_none() { failures + 1 } else { 0 };
            let reason = outcome.summary.clone();
            if let Err(error) = state.add(outcome) {
                return Ok(Ended::CannotRun(error.to_string()));
            }
            if failures == MOST_FAILURES {
                return Ok(Ended::CannotRun(format!("{failures} runs in a row could not be made; the last: {reason}")));
            }
        }
        Ok(Ended::Done)
    }

    /// The runs that are not done yet, in the order to make them. Among the first runs of all cells, those that can
    /// share a cluster follow each other; likewise among the second runs, and so on.
    fn due(&self, state: &State) -> Result<Vec<Due<'_>>, RunnerError> {
        let mut clusters: Vec<ClusterRequest> = Vec::new();
        let mut all = Vec::new();
        for cell in &self.suite.cells {
            let request = ClusterRequest::of(&cell.scenario, KeepCluster::ForNextRun)?;
            let number = clusters.iter().position(|other| *other == request).unwrap_or(clusters.len());
            if number == clusters.len() {
                clusters.push(request);
            }
            for (run, seed) in (1..).zip(&cell.seeds) {
                if !state.is_done(&cell.name, run) {
                    all.push((number, Due { cell, run, seed: *seed, keep_cluster: false }));
                }
            }
        }
        let shared = clusters.iter().map(|request| !self.new_clusters && request.spec.can_be_reset());
        Ok(in_order(all, &shared.collect::<Vec<bool>>()))
    }

    /// Makes one run; None if the user stopped it. Reuses the previous run's process if that waits for more.
    async fn make_one(
        &self,
        due: &Due<'_>,
        waiting: &mut Option<Worker>,
        folder: &Path,
        progress: &mut dyn SeriesProgress,
    ) -> Result<Option<RunOutcome>, RunnerError> {
        let order = RunOrder {
            scenario: Scenario { seed: due.seed, ..due.cell.scenario.clone() },
            store: folder.join("runs"),
            repeat: due.cell.repeat(due.seed),
            keep_cluster: due.keep_cluster,
        };
        let before = latest(&order);
        let started = Instant::now();
        progress.begins(due.cell, due.seed);
        let log = folder.join(LOG);
        let failed = |error| RunnerError::could_not_run(format!("{}: a run: {error}", folder.display()));
        let mut worker = match waiting.take().and_then(Worker::if_it_waits) {
            Some(worker) => worker,
            None => Worker::start(&log, self.interrupt.clone(), self.remains.clone()).map_err(failed)?,
        };
        let limit = per_run(due.cell) * 3 + GRACE;
        let ended = tokio::select! {
            biased;
            ended = worker.make(&order) => Some(ended),
            () = self.interrupt.raised() => None,
            () = tokio::time::sleep(limit) => None,
            never = follow(&log, progress) => match never {},
        };
        let interrupted = self.interrupt.is_raised();
        let hung = ended.is_none() && !interrupted;
        let ended = match ended {
            Some(ended) => ended.map_err(failed)?,
            None => End::Exited(worker.break_off().await.map_err(failed)?),
        };
        let (code, why) = match ended {
            End::Answered(code) => {
                *waiting = Some(worker);
                (Some(code), String::new())
            }
            End::Exited(status) => (status.code(), reason(status, &last_line(&log))),
        };
        // Emptied, because a waiting process goes on writing to it.
        let _ = files::empty(&log);
        if waiting.is_none() {
            let _ = fs::remove_file(&log);
        }
        if interrupted {
            return Ok(None);
        }
        let after = latest(&order).filter(|after| Some(after) != before.as_ref());
        let why = if hung { format!("it did not end within {} s", limit.as_secs()) } else { why };
        let in_order = !hung && matches!(code, Some(0..=2));
        Ok(Some(outcome(due, after, in_order.then_some(()).ok_or(why), folder, started.elapsed())))
    }
}

/// Orders the runs, each given with the number of the cluster that it needs; `shared` says of each cluster whether it
/// can be shared.
fn in_order<'a>(mut due: Vec<(usize, Due<'a>)>, shared: &[bool]) -> Vec<Due<'a>> {
    due.sort_by_key(|(cluster, due)| (due.run, *cluster));
    let next: Vec<Option<usize>> = due.iter().skip(1).map(|(cluster, _)| Some(*cluster)).chain([None]).collect();
    let with_next = due.into_iter().zip(next);
    let keep = |cluster: usize, next| shared.get(cluster) == Some(&true) && next == Some(cluster);
    with_next.map(|((cluster, due), next)| Due { keep_cluster: keep(cluster, next), ..due }).collect()
}

/// Whether a cell is already a surprise.
fn surprise(state: &State, cell: &PlannedCell) -> bool {
    let runs = state.runs.iter().filter(|run| run.cell == cell.name);
    Tally::of(cell.seeds.len() as u32, runs).standing(cell.expected, cell.found) == CellStatus::Surprise
}

fn per_run(cell: &PlannedCell) -> Duration {
    Duration::from_millis(cell.planned_ms / (cell.seeds.len() as u64).max(1))
}

/// Shows a run's progress, until the caller drops this.
async fn follow(log: &Path, progress: &dyn SeriesProgress) -> Infallible {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let line = last_line(log);
        if !line.is_empty() {
            progress.says(line);
        }
    }
}

/// The folder of the newest run of this order's workload under its nemesis, if any.
fn latest(order: &RunOrder) -> Option<PathBuf> {
    let test = order.scenario.name();
    let time = fs::read_link(order.store.join(&test).join("latest")).ok()?;
    Some(Path::new("runs").join(test).join(time))
}

fn reason(status: ExitStatus, said: &str) -> String {
    let said = said.trim_start_matches("redjepsen: ");
    match (status.code(), status.signal()) {
        (Some(code), _) if said.is_empty() => format!("it ended with exit code {code}"),
        (Some(code), _) => format!("{said} (exit code {code})"),
        (None, signal) => format!("it was ended by signal {}: {said}", signal.unwrap_or(0)),
    }
}

/// The outcome of a run, with its folder relative to the suite's. Only a run that `ended` normally shows anything.
fn outcome(
    due: &Due,
    run_folder: Option<PathBuf>,
    ended: Result<(), String>,
    folder: &Path,
    took: Duration,
) -> RunOutcome {
    let results = run_folder.as_deref().filter(|_| ended.is_ok()).and_then(|run| results(&folder.join(run)));
    let saved = || Some(repeat_saved(&folder.join(run_folder.as_ref()?).display().to_string()));
    let why = ended.err().unwrap_or_default();
    RunOutcome {
        cell: due.cell.name.clone(),
        run: due.run,
        seed: due.seed,
        valid: results.as_ref().map(|results| results.valid),
        summary: results
            .as_ref()
            .map_or(format!("the run could not be made: {why}"), |results| results.summary.clone()),
        repeat: due.cell.repeat(due.seed).or_else(saved).unwrap_or_default(),
        folder: run_folder.map(|folder| folder.display().to_string()).unwrap_or_default(),
        seconds: (took.as_secs_f64() * 1e3).round() / 1e3,
        numbers: results.map_or(Numbers::default(), |results| results.numbers()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Options;

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
            command: None,
            scenario: Options::default().scenario("redlock", "pause", 1, Path::new("")).unwrap(),
            seeds: Vec::new(),
            planned_ms: 0,
        }
    }

    #[test]
    fn runs_that_can_share_a_cluster_follow_each_other_and_first_runs_go_before_second_ones() {
        let cells = ["a", "b", "c", "d"].map(cell);
        // a and c need one cluster, b and d another.
        let due = || {
            let runs = cells.iter().enumerate().flat_map(|(place, cell)| [1, 2].map(|run| (place % 2, cell, run)));
            runs.map(|(number, cell, run)| (number, Due { cell, run, seed: 0, keep_cluster: false })).collect()
        };
        let told = |shared: [bool; 2]| {
            let word = |due: &Due| format!("{}{}{}", due.cell.name, due.run, if due.keep_cluster { "+" } else { "" });
            in_order(due(), &shared).iter().map(word).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(told([true, true]), "a1+ c1 b1+ d1 a2+ c2 b2+ d2");
        assert_eq!(told([false, true]), "a1 c1 b1+ d1 a2 c2 b2+ d2");
        assert_eq!(told([false, false]), "a1 c1 b1 d1 a2 c2 b2 d2");
        assert!(in_order(Vec::new(), &[]).is_empty());
    }
}
