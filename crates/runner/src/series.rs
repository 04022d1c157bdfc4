//! Makes the runs of a suite, each in another process, in one or more parallel lanes.
//!
//! With a separate process, a run that crashes or hangs affects only itself. And a run in a suite is exactly the run of its
//! `repeat` command.
//!
//! Consecutive runs of a lane that need the same cluster share a process and its cluster, which is reset before each run. From
//! the end of one run to the first operation of the next it then takes 2.2 s in Docker and 0.37 s locally. With new clusters it
//! takes 5.0 s and 0.53 s (medians of 11, on two cores with a load of 5). A run that does not end normally costs its process
//! and cluster, and a cluster that cannot be reset is removed. Images are made once, at the start.
//!
//! Lanes share nothing but the machine. If that made a run late, and the run does not show what is expected, it is rerun at the
//! end. The rerun is alone, happens once, and has the same seed ([`RunOutcome::needs_rerun`]).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::sleep;

use super::failures::Failures;
use super::lane::{Lane, RunEnd, last_words};
use super::pace::{Concurrency, Jobs, Processors, Resources};
use super::queue::{ClusterNeed, DueRun, Queue};
use super::request::{ClusterRequest, KeepCluster};
use super::run::find_platform;
use super::signals::Leftovers;
use super::simulate::{can_be_simulated, can_have_its_lock};
use super::worker::RunOrder;
use super::{RunnerError, installation, repeat_saved, servers};
use base::interrupt::Interrupt;
use base::runs::RunFolder;
use model::scenario::Scenario;
use model::topology::{ClusterKind, InstalledClient};
use suite::outcome::{CellStatus, Numbers, RunOutcome, Tally, Timing};
use suite::plan::{PlannedCell, Suite};
use suite::state::SuiteState;
use summary::store::Results;
use system::cluster::PlatformRequest;

/// A run counts as hanging after three times its planned duration plus this.
const GRACE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// At most this many rounds: after several failures in a row, the series goes on if those runs can be made alone.
const MOST_ROUNDS: u32 = 3;

pub struct Series<'a> {
    pub suite: &'a Suite,
    /// Raised when the user wants to stop now.
    pub interrupt: Interrupt,
    /// Remains of the series if the program exits at once.
    pub leftovers: Leftovers,
    pub fail_fast: bool,
    /// No run begins after this time.
    pub until: Option<Instant>,
    /// True if each run gets its own cluster.
    pub new_clusters: bool,
    /// True if the keys of the nodes are recorded during runs.
    pub observe: bool,
    pub jobs: Jobs,
    /// The workloads that are left out, see [`Prepared`].
    pub not_here: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    /// The number of runs of the suite, and of runs that are due now.
    pub all: usize,
    pub due: usize,
    /// The number of clusters for the due runs if all goes well. If lanes share the runs of a cluster, a few more.
    pub clusters: usize,
    /// The total planned duration of the due runs.
    pub planned: Duration,
    /// The current number of parallel runs.
    pub lanes: usize,
    /// No run begins after this time, see [`Series::until`].
    pub until: Option<Instant>,
}

/// Shows the progress of a series. Lanes are numbered from 0.
pub trait SeriesProgress {
    /// Called before the first run.
    fn starts(&mut self, outlook: Outlook);
    /// Called before the first rerun.
    fn starts_again(&mut self, outlook: Outlook);
    /// From now on this many runs are made in parallel, for this reason.
    fn changes_lanes(&mut self, lanes: usize, why: &str);
    fn begins(&mut self, lane: usize, cell: &PlannedCell, seed: u64);
    /// The last output of a lane's current run.
    fn says(&mut self, lane: usize, line: String);
    fn ended(&mut self, lane: usize, cell: &PlannedCell, outcome: &RunOutcome, planned: Duration);
    fn warns(&mut self, text: &str);
    /// A run has shown a defect that no earlier run has shown.
    fn finds(&mut self, defect: &str);
}

pub enum Ended {
    Done,
    FailFast,
    Interrupted,
    /// See [`Series::until`].
    OutOfTime,
    CannotRun(String),
}

#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// The kind of cluster for scenarios that accept any.
    pub auto: ClusterKind,
    /// The workloads whose clients cannot be installed here, each with the reason.
    pub not_here: BTreeMap<String, String>,
    /// If everything is simulated, the workloads that cannot be, each with the reason.
    pub not_simulated: BTreeMap<String, String>,
}

/// Makes sure, once and before the first run, that the clusters and clients have everything they need.
pub fn prepare<'a>(
    suite: &'a Suite,
    interrupt: &'a Interrupt,
    say: fn(&str),
) -> LocalBoxFuture<'a, Result<Prepared, RunnerError>> {
    Box::pin(async move {
        let mut auto = ClusterKind::Auto;
        let (mut not_here, mut not_simulated) = (BTreeMap::new(), BTreeMap::new());
        let mut prepared: Vec<PlatformRequest> = Vec::new();
        // Checking an installation starts programs, and cells of one workload mostly follow each other.
        let mut last: Option<(&Scenario, Option<InstalledClient>)> = None;
        let has_same_client = |one: &Scenario, other: &Scenario| {
            (&one.workload.client, &one.workload.library, &one.client, &one.cluster.client_image)
                == (&other.workload.client, &other.workload.library, &other.client, &other.cluster.client_image)
        };
        // Check this before installing a client, which takes longer.
        for cell in suite.cells.iter().filter(|cell| !cell.scenario.cluster_kind().is_simulated()) {
            let Some(server) = &cell.scenario.cluster.server else { continue };
            let found = servers::program_of(server).and_then(|_| can_have_its_lock(&cell.scenario));
            match found {
                // Only some servers can have this lock. The other workloads are run anyway.
                Err(RunnerError::CouldNotRun(reason)) if cell.scenario.workload.lock.needs_ifeq() => {
                    if not_here.insert(cell.workload.clone(), reason.clone()).is_none() {
                        say(&format!("skipped on this machine: {}: {reason}", cell.workload));
                    }
                }
                found => found?,
            }
        }
        for cell in &suite.cells {
            if not_here.contains_key(&cell.workload) || not_simulated.contains_key(&cell.workload) {
                continue;
            }
            if cell.scenario.cluster_kind().is_simulated()
                && let Err(error) = can_be_simulated(&cell.scenario)
            {
                // The other workloads are run anyway.
                not_simulated.insert(cell.workload.clone(), error.to_string());
                continue;
            }
            installation::announce(&cell.scenario, say);
            let known = last.as_ref().filter(|(scenario, _)| has_same_client(scenario, &cell.scenario));
            let installed = match known {
                Some((_, installed)) => installed.clone(),
                None => match installation::client_of(&cell.scenario, interrupt, say).await {
                    Err(RunnerError::CouldNotRun(reason)) if !interrupt.is_raised() => {
                        say(&format!("skipped on this machine: {reason}"));
                        not_here.insert(cell.workload.clone(), reason);
                        continue;
                    }
                    other => other?,
                },
            };
            last = Some((&cell.scenario, installed.clone()));
            let ClusterRequest { platform: request, spec } =
                ClusterRequest::of(&cell.scenario, installed, KeepCluster::No)?;
            if request.kind.is_simulated() || prepared.contains(&request) {
                continue;
            }
            prepared.push(request.clone());
            let kind = request.kind;
            let platform = find_platform(request, interrupt, say).await?;
            if platform.kind().is_simulated()
                && let Err(error) = platform.check(&spec).await
            {
                not_simulated.insert(cell.workload.clone(), error.to_string());
            }
            if kind.named().is_none() {
                auto = platform.kind();
            }
        }
        let mut left_out: BTreeMap<&String, Vec<&str>> = BTreeMap::new();
        not_simulated.iter().for_each(|(workload, why)| left_out.entry(why).or_default().push(workload));
        for (why, workloads) in left_out {
            let number = base::words::plural(workloads.len() as u64, "workload");
            say(&format!("{number} left out ({}): {why}", workloads.join(", ")));
        }
        Ok(Prepared { auto, not_here, not_simulated })
    })
}

impl Series<'_> {
    /// Makes all runs that are not done yet. First comes the first run of every cell, then the second run of each cell, and so
    /// on, so that general failures show early. Then reruns alone the runs that other runs may have disturbed.
    ///
    /// If several parallel runs in a row could not be made, they are tried alone at once. If that works, the other runs follow.
    pub fn make<'a>(
        self,
        state: &'a mut SuiteState,
        progress: &'a mut dyn SeriesProgress,
    ) -> LocalBoxFuture<'a, Result<Ended, RunnerError>>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let machine = Resources::here();
            for _ in 0..MOST_ROUNDS {
                let due = self.queue(self.due(state))?;
                let pace = Concurrency::new(self.jobs, machine);
                progress.starts(self.outlook(&due, pace.lanes()));
                let ended = Lanes::new(&self, due, pace, false).make_all(state, progress).await?;
                let again = self.to_be_made_again(state);
                if again.is_empty() || !matches!(ended, Ended::Done | Ended::CannotRun(_)) {
                    return Ok(ended);
                }
                let again = self.queue(again)?;
                progress.starts_again(self.outlook(&again, 1));
                let alone = Lanes::new(&self, again, Concurrency::new(Jobs::ALONE, machine), true)
                    .make_all(state, progress)
                    .await?;
                if !matches!((&ended, &alone), (Ended::CannotRun(_), Ended::Done)) {
                    return Ok(alone);
                }
            }
            Ok(Ended::CannotRun("too many runs succeed only alone; use fewer --jobs".to_string()))
        })
    }

    /// The runs that are not done yet.
    fn due(&self, state: &SuiteState) -> Vec<DueRun<'_>> {
        self.runs().filter(|due| !state.is_done(&due.cell.name, due.run)).collect()
    }

    /// The runs whose first attempt shows nothing, see [`RunOutcome::needs_rerun`]. Runs whose cell is as expected anyway are
    /// left out.
    fn to_be_made_again(&self, state: &SuiteState) -> Vec<DueRun<'_>> {
        let again = |due: &DueRun| {
            state.made(&due.cell.name, due.run).is_some_and(|made| {
                let settled = matches!(status(state, due.cell), CellStatus::AsExpected | CellStatus::Observed);
                made.needs_rerun(due.cell.expected) && (made.valid.is_none() || !settled)
            })
        };
        self.runs().filter(again).collect()
    }

    fn runs(&self) -> impl Iterator<Item = DueRun<'_>> {
        let cells = self.suite.cells.iter().filter(|cell| !self.not_here.contains_key(&cell.workload));
        cells.flat_map(|cell| (1..).zip(&cell.seeds).map(move |(run, seed)| DueRun { cell, run, seed: *seed }))
    }

    fn queue<'a>(&self, due: Vec<DueRun<'a>>) -> Result<Queue<'a>, RunnerError> {
        let mut clusters: Vec<ClusterRequest> = Vec::new();
        let mut numbered = Vec::new();
        for due in due {
            // A cluster with a client of its own serves one run only, so the client does not matter here.
            let own = due.cell.scenario.workload.client.as_ref().map(|_| InstalledClient::default());
            let request = ClusterRequest::of(&due.cell.scenario, own, KeepCluster::ForNextRun)?;
            let number = clusters.iter().position(|other| *other == request).unwrap_or(clusters.len());
            if number == clusters.len() {
                clusters.push(request);
            }
            numbered.push((number, due));
        }
        let needs = clusters.iter().map(|request| ClusterNeed {
            shared: !self.new_clusters && request.spec.can_be_reset(),
            only_one: request.spec.subnet.is_some(),
        });
        Ok(Queue::new(numbered, &needs.collect::<Vec<_>>()))
    }

    fn outlook(&self, queue: &Queue<'_>, lanes: usize) -> Outlook {
        let (due, planned) =
            queue.all().fold((0, Duration::ZERO), |(due, planned), run| (due + 1, planned + per_run(run.cell)));
        Outlook { all: self.suite.runs(), due, clusters: queue.clusters(), planned, lanes, until: self.until }
    }

    /// Why no more runs may begin. None if they may.
    fn reason_to_stop(&self, state: &SuiteState) -> Option<Ended> {
        let surprise = |cell| status(state, cell) == CellStatus::Surprise;
        if self.fail_fast && self.suite.cells.iter().any(surprise) {
            return Some(Ended::FailFast);
        }
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Some(Ended::OutOfTime);
        }
        self.interrupt.is_raised().then_some(Ended::Interrupted)
    }

    async fn make_one<'s>(
        &'s self,
        mut lane: Lane,
        due: DueRun<'s>,
        keep_cluster: bool,
        suite: PathBuf,
    ) -> LaneEvent<'s> {
        let started = Instant::now();
        let scenario = Scenario { seed: due.seed, ..due.cell.scenario.clone() };
        let store = suite.join("runs");
        let folder = match RunFolder::create(&store, &scenario.name()) {
            Ok(folder) => folder.path().to_path_buf(),
            Err(error) => {
                let failure = format!("{}: {error}", store.display());
                let outcome = outcome(&due, None, Some(failure), &suite, started.elapsed());
                return LaneEvent::Made(lane, due, Some(Box::new(outcome)));
            }
        };
        let repeat = due.cell.repeat(due.seed);
        let order = RunOrder { scenario, folder: folder.clone(), repeat, keep_cluster, observe: self.observe };
        let limit = per_run(due.cell) * 3 + GRACE;
        let failure = match lane.make(&order, limit).await {
            Ok(RunEnd::InOrder) => None,
            Ok(RunEnd::Failed(why)) => Some(why),
            Ok(RunEnd::Interrupted) => return LaneEvent::Made(lane, due, None),
            Err(error) => Some(error.to_string()),
        };
        // If a run wrote nothing, its folder is empty.
        let folder = if fs::remove_dir(&folder).is_ok() { None } else { Some(folder) };
        let outcome = outcome(&due, folder.as_deref(), failure, &suite, started.elapsed());
        LaneEvent::Made(lane, due, Some(Box::new(outcome)))
    }
}

/// The lanes at work, and their remaining runs.
struct Lanes<'s> {
    series: &'s Series<'s>,
    queue: Queue<'s>,
    pace: Concurrency,
    processors: Processors,
    /// True if these are reruns, see [`RunOutcome::needs_rerun`].
    again: bool,
    /// The number of lanes, including idle ones.
    all: usize,
    /// Lanes without a process.
    idle: Vec<Lane>,
    running: BTreeMap<usize, RunInProgress>,
    failures: Failures,
}

struct RunInProgress {
    /// The epoch of the [`Concurrency`] when the run began.
    epoch: u32,
    beside_others: bool,
}

enum LaneEvent<'s> {
    /// A run has ended. None if the user stopped it.
    Made(Lane, DueRun<'s>, Option<Box<RunOutcome>>),
    /// It has no process any more. If closing failed, the reason.
    Closed(Lane, Option<String>),
}

impl LaneEvent<'_> {
    /// Remains of runs that are not yet reported.
    fn left(&mut self) -> Vec<String> {
        let (LaneEvent::Made(lane, _, _) | LaneEvent::Closed(lane, _)) = self;
        lane.left()
    }
}

impl<'s> Lanes<'s> {
    fn new(series: &'s Series<'s>, queue: Queue<'s>, pace: Concurrency, again: bool) -> Lanes<'s> {
        let (idle, running, mut processors) = (Vec::new(), BTreeMap::new(), Processors::default());
        // Measure from now on.
        processors.in_use();
        Lanes { series, queue, pace, processors, again, all: 0, idle, running, failures: Failures::default() }
    }

    /// Makes all runs. When it returns, no run is in progress and no cluster is kept. A reason to stop prevents new runs, and
    /// runs in progress are waited for.
    async fn make_all(
        &mut self,
        state: &mut SuiteState,
        progress: &mut dyn SeriesProgress,
    ) -> Result<Ended, RunnerError> {
        let folder = state.folder().to_path_buf();
        let mut at_work: FuturesUnordered<LocalBoxFuture<'s, LaneEvent<'s>>> = FuturesUnordered::new();
        // A lane that has just made a run, and may have a cluster for the next one.
        let mut ready: Option<Lane> = None;
        let mut stop = None;
        loop {
            stop = stop.or_else(|| self.series.reason_to_stop(state).map(Ok));
            while stop.is_none() && self.running.len() < self.pace.lanes() {
                let lane = ready.take().or_else(|| self.idle.pop());
                let lane = lane.unwrap_or_else(|| self.one_more(&folder));
                let Some((due, keep_cluster)) = self.queue.next(lane.number) else {
                    ready = Some(lane);
                    break;
                };
                progress.begins(lane.number, due.cell, due.seed);
                self.begins(&lane);
                at_work.push(self.series.make_one(lane, due, keep_cluster, folder.clone()).boxed_local());
            }
            match ready.take() {
                Some(lane) if lane.has_process() => at_work.push(closed(lane).boxed_local()),
                Some(lane) => self.closed(lane),
                None => {}
            }
            if at_work.is_empty() {
                return stop.unwrap_or(Ok(Ended::Done));
            }
            tokio::select! {
                biased;
                Some(mut step) = at_work.next() => {
                    step.left().iter().for_each(|left| progress.warns(left));
                    match step {
                        LaneEvent::Made(lane, _, None) => {
                            self.running.remove(&lane.number);
                            ready = Some(lane);
                            stop = stop.or(Some(Ok(Ended::Interrupted)));
                        }
                        LaneEvent::Made(lane, due, Some(outcome)) => {
                            stop = stop.or(self.made(lane.number, &due, *outcome, state, progress));
                            ready = Some(lane);
                        }
                        LaneEvent::Closed(lane, left) => {
                            if let Some(left) = left {
                                progress.warns(&left);
                            }
                            self.closed(lane);
                        }
                    }
                }
                () = sleep(LOOK_EVERY) => {
                    for lane in self.running.keys() {
                        progress.says(*lane, last_words(&folder, *lane));
                    }
                }
            }
        }
    }

    fn one_more(&mut self, folder: &Path) -> Lane {
        self.all += 1;
        Lane::new(self.all - 1, folder, self.series.interrupt.clone(), self.series.leftovers.beside())
    }

    fn begins(&mut self, lane: &Lane) {
        let beside_others = !self.running.is_empty();
        for other in self.running.values_mut() {
            other.beside_others = true;
        }
        self.running.insert(lane.number, RunInProgress { epoch: self.pace.epoch(), beside_others });
    }

    /// A lane has no process any more: other lanes get its remaining runs.
    fn closed(&mut self, lane: Lane) {
        self.queue.give_back(lane.number);
        self.idle.push(lane);
    }

    /// Stores the result of a run. Returns why no more runs may be made. None if they may.
    fn made(
        &mut self,
        lane: usize,
        due: &DueRun<'s>,
        mut outcome: RunOutcome,
        state: &mut SuiteState,
        progress: &mut dyn SeriesProgress,
    ) -> Option<Result<Ended, RunnerError>> {
        let all_busy = self.running.len() == self.pace.lanes();
        let begun = self.running.remove(&lane);
        outcome.timing.beside_others = begun.as_ref().is_some_and(|begun| begun.beside_others);
        if self.again {
            outcome.first_attempt = state.made(&due.cell.name, due.run).map(|first| Box::new(first.as_attempt()));
        }
        progress.ended(lane, due.cell, &outcome, per_run(due.cell));
        let epoch = begun.map_or(0, |begun| begun.epoch);
        if let Some(why) = self.pace.ended(epoch, outcome.timing, all_busy, self.processors.in_use()) {
            progress.changes_lanes(self.pace.lanes(), &why);
        }
        let failed = self.failures.ended(&outcome.cell, outcome.valid.is_some());
        let failed = failed.map(|failed| format!("{failed} runs in a row failed; the last: {}", outcome.summary));
        match state.add(outcome) {
            Err(error) => Some(Ok(Ended::CannotRun(error.to_string()))),
            Ok(()) => failed.map(|why| Ok(Ended::CannotRun(why))),
        }
    }
}

/// Makes a lane's process remove its cluster and exit.
async fn closed<'s>(mut lane: Lane) -> LaneEvent<'s> {
    let left = lane.close().await.unwrap_or_else(|error| Some(error.to_string()));
    LaneEvent::Closed(lane, left)
}

fn status(state: &SuiteState, cell: &PlannedCell) -> CellStatus {
    let runs = state.runs.iter().filter(|run| run.cell == cell.name);
    Tally::of(cell.seeds.len() as u32, cell.expected, runs).status(cell.expected, cell.found)
}

fn per_run(cell: &PlannedCell) -> Duration {
    Duration::from_millis(cell.planned_ms / (cell.seeds.len() as u64).max(1))
}

/// The outcome of a run in this folder of the suite run. A run with a `failure` shows nothing.
fn outcome(
    due: &DueRun,
    run_folder: Option<&Path>,
    failure: Option<String>,
    suite: &Path,
    took: Duration,
) -> RunOutcome {
    let results = run_folder.filter(|_| failure.is_none()).and_then(|folder| Results::read(folder).ok());
    let saved = || Some(repeat_saved(&run_folder?.display().to_string(), &due.cell.scenario));
    let relative = run_folder.map(|run| run.strip_prefix(suite).unwrap_or(run).display().to_string());
    let why = failure.unwrap_or_default();
    RunOutcome {
        cell: due.cell.name.clone(),
        run: due.run,
        seed: due.seed,
        valid: results.as_ref().map(|results| results.valid),
        simulated: results.as_ref().is_some_and(|results| results.simulated),
        summary: results.as_ref().map_or(format!("could not run: {why}"), |results| results.summary.clone()),
        repeat: due.cell.repeat(due.seed).or_else(saved).unwrap_or_default(),
        folder: relative.unwrap_or_default(),
        struck: results.as_ref().and_then(|results| results.struck()),
        seconds: (took.as_secs_f64() * 1e3).round() / 1e3,
        timing: Timing {
            asks_for_quiet: results.as_ref().is_some_and(Results::asks_for_quiet),
            ..Timing::of(results.as_ref().and_then(|results| results.late_ms), due.cell.scenario.ttl)
        },
        numbers: results.as_ref().map_or(Numbers::default(), |results| results.numbers()),
        misdiagnosed: results.as_ref().and_then(|results| results.misdiagnosed.clone()),
        defects: results.as_ref().map(Results::defects).unwrap_or_default(),
        advisories: results.map(|results| results.advisories).unwrap_or_default(),
        first_attempt: None,
    }
}
