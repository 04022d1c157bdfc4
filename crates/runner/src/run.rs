//! A run from its scenario to its report, on a cluster that may also serve the next run.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place};
use tracing::{info, warn};

use super::events::Diary;
use super::log::RunLog;
use super::request::{ClusterRequest, KeepCluster, header};
use super::signals::{self, Leftovers};
use super::simulate::can_be_simulated;
use super::{Checked, Console, PendingReport, RunnerError, installation, repeat_saved};
use base::files::{FileError, Unwritten};
use base::interrupt::{Interrupt, Interrupted};
use base::runs::{self, RunFolder};
use base::sync::lock;
use base::words;
use model::history::{self, Presence, Recorder};
use model::plan::Plan;
use model::scenario::{self, Scenario, WorkloadClient};
use model::topology::ClusterKind;
use report::RunFacts;
use system::cluster::{Cluster, ClusterError, ClusterSpec, InitialState, Platform, PlatformRequest, in_virtual_time};
use system::controller::{self, RunError, RunRequest, Status};

/// Makes runs, one at a time.
pub struct Runner {
    console: Console,
    log: RunLog,
    interrupt: Interrupt,
    leftovers: Leftovers,
    kept: Option<KeptCluster>,
}

/// A cluster that was kept for the next run.
struct KeptCluster {
    request: ClusterRequest,
    platform: Platform,
    cluster: Cluster,
    new: InitialState,
}

/// The time limit for collecting logs after an interrupt.
const LOGS_GRACE: Duration = Duration::from_millis(500);
/// The time limit for the last progress line, on a terminal that accepts no output.
const SHOWN_LIMIT: Duration = Duration::from_secs(1);

/// The settings of a run, apart from its scenario.
#[derive(Clone, Debug)]
pub struct RunSettings {
    pub place: Place,
    /// The command that repeats the run. If None, its saved scenario repeats it.
    pub repeat: Option<String>,
    pub keep_cluster: KeepCluster,
    /// True if an observer records the keys of the lock's nodes, besides the history.
    pub observe: bool,
}

#[derive(Clone, Debug)]
pub enum Place {
    Store(PathBuf),
    /// This existing folder.
    Folder(PathBuf),
}

impl Runner {
    /// Must be called by the first thread: see [`signals::with_parent`].
    pub fn new(verbose: bool, console: Console) -> Result<Runner, RunnerError> {
        signals::with_parent().map_err(RunnerError::could_not_run)?;
        let (interrupt, leftovers) = signals::listen(console).map_err(RunnerError::could_not_run)?;
        let log = RunLog::default();
        log.begin(verbose).map_err(RunnerError::could_not_run)?;
        Ok(Runner { console, log, interrupt, leftovers, kept: None })
    }

    /// A runner for a process that already listens for signals, see [`signals::listen`].
    pub fn of_listener(console: Console, interrupt: Interrupt, leftovers: &Leftovers) -> Result<Runner, RunnerError> {
        let log = RunLog::default();
        log.begin(false).map_err(RunnerError::could_not_run)?;
        Ok(Runner { console, log, interrupt, leftovers: leftovers.beside(), kept: None })
    }

    /// Raised when the user wants this process to stop.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Work after an interrupt may still take this much longer. Must be called in a runtime.
    pub fn extend_grace(&mut self, grace: Duration) {
        self.interrupt = self.interrupt.later_by(grace);
    }

    /// True if the last run's cluster was kept for the next one.
    pub fn has_cluster(&self) -> bool {
        self.kept.is_some()
    }

    pub fn remove_cluster(&mut self) -> LocalBoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(async move {
            match self.kept.take() {
                Some(kept) => {
                    let (run_id, members) = (kept.cluster.run_id().to_string(), kept.request.spec.addresses());
                    let owned = OwnedCluster { run_id, members, made: Some((kept.cluster, None)) };
                    let removed = owned.remove(&kept.platform, &self.interrupt, &self.leftovers).await;
                    removed.map_err(RunnerError::could_not_run)
                }
                None => Ok(()),
            }
        })
    }

    /// Makes one run, from its scenario to its verdict. The report is not written yet.
    pub fn make<'a>(
        &'a mut self,
        scenario: &'a Scenario,
        settings: &'a RunSettings,
    ) -> LocalBoxFuture<'a, Result<PendingReport, RunnerError>> {
        Box::pin(async move {
            if scenario.cluster_kind().is_simulated() {
                // Check before anything is installed for it.
                can_be_simulated(scenario)?;
            }
            let plan = Plan::draw(scenario).map_err(RunnerError::request)?;
            if self.kept.is_none() {
                installation::announce(scenario, self.console.say);
            }
            let installed = installation::client_of(scenario, &self.interrupt, self.console.say).await?;
            let request = ClusterRequest::of(scenario, installed, settings.keep_cluster)?;
            if self.kept.as_ref().is_some_and(|kept| kept.request != request) {
                self.remove_cluster().await?;
            }
            let platform = match &self.kept {
                Some(kept) => kept.platform.clone(),
                None => {
                    let found = find_platform(request.platform.clone(), &self.interrupt, self.console.say).await?;
                    let checked = self.interrupt.unless(found.check(&request.spec)).await?;
                    checked.map_err(RunnerError::could_not_run)?;
                    found
                }
            };

            if self.kept.is_none() && request.platform.kind.named().is_none() && is_first(&settings.place) {
                (self.console.say)(why_here(platform.kind()));
            }
            let folder = match &settings.place {
                Place::Store(store) => RunFolder::create(store, &scenario.name())
                    .map_err(|error| RunnerError::could_not_run(format!("--store {}: {error}", store.display())))?,
                Place::Folder(folder) => RunFolder::at(folder),
            };
            if let (Place::Store(_), Some(other)) = (&settings.place, runs::in_the_way(folder.path())) {
                (self.console.say)(&format!(
                    "{}: redjepsen did not create this link, so it was left unchanged",
                    other.display()
                ));
            }
            self.log.keep_in(&folder).map_err(RunnerError::could_not_run)?;
            (self.console.progress)(&format!(
                "{} under {} · seed {} · {}, {}, TTL {} · {}",
                scenario.workload_name,
                scenario.nemesis_name,
                scenario.seed,
                match scenario.threads {
                    1 => words::plural(scenario.clients.into(), "client"),
                    threads => format!("{} clients ({threads} threads per process)", scenario.clients),
                },
                words::plural(scenario.nodes.into(), "node"),
                humantime::format_duration(scenario.ttl),
                folder.path().display()
            ));
            folder.write_toml(scenario::FILE, scenario).map_err(RunnerError::could_not_run)?;
            folder.write_json("plan.json", &plan).map_err(RunnerError::could_not_run)?;

            let path = folder.path().display().to_string();
            let repeat = settings.repeat.clone().unwrap_or_else(|| repeat_saved(&path, scenario));
            // On a machine with Docker or Redis, `any` would mean those.
            let repeat = match platform.kind().is_simulated() {
                true => repeat.replace("--cluster any", "--cluster sim"),
                false => repeat,
            };
            let mut facts = RunFacts { repeat, folder: path.clone(), ..RunFacts::default() };
            let keep = match settings.keep_cluster {
                KeepCluster::ForNextRun if !request.spec.can_be_reset() => KeepCluster::No,
                _ if platform.kind().is_simulated() || !platform.kind().owns_nodes() => KeepCluster::No,
                keep => keep,
            };
            let (console, interrupt, leftovers) = (self.console, self.interrupt(), self.leftovers.clone());
            let unwritten = Mutex::default();
            let diary = Mutex::new(Some(Diary::begin(&folder, scenario)));
            let run = RunOnCluster {
                scenario,
                plan: &plan,
                folder: &folder,
                request,
                platform,
                console,
                interrupt,
                leftovers,
                keep,
                observe: settings.observe,
                unwritten: &unwritten,
                diary: &diary,
            };
            self.kept = run.run_to_end(self.kept.take(), &mut facts).await?;

            let history = history::load(&folder.history()).map_err(RunnerError::could_not_run)?;
            let mut unwritten = unwritten.into_inner().unwrap_or_else(PoisonError::into_inner);
            unwritten.note(self.log.failure());
            let mut checked = Checked::new(history, Some(scenario.clone()), facts);
            checked.read_artifacts(folder.path());
            let diary = diary.into_inner().unwrap_or_else(PoisonError::into_inner);
            Ok(PendingReport::new(checked, folder, unwritten, diary))
        })
    }
}

struct RunOnCluster<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    folder: &'a RunFolder,
    request: ClusterRequest,
    platform: Platform,
    console: Console,
    interrupt: Interrupt,
    leftovers: Leftovers,
    keep: KeepCluster,
    observe: bool,
    /// The files that could not be written, although the run went on or is checked as far as it went.
    unwritten: &'a Mutex<Unwritten>,
    /// The progress records, before and after a task follows the run.
    diary: &'a Mutex<Option<Diary>>,
}

/// The cluster that a run has made, or will make. It is owned outside of all stages, so that it can be removed however they
/// end.
struct OwnedCluster {
    run_id: String,
    /// The number of members, existing or planned.
    members: u64,
    /// The cluster, with its initial state if the next run may reuse it.
    made: Option<(Cluster, Option<InitialState>)>,
}

impl RunOnCluster<'_> {
    /// Starts or resets a cluster and runs on it. Then removes the cluster however the run ended, or returns it if it is kept
    /// for the next run. A run that broke off is not an error here: its history says so, and is checked as usual.
    async fn run_to_end(
        &self,
        kept: Option<KeptCluster>,
        facts: &mut RunFacts,
    ) -> Result<Option<KeptCluster>, RunnerError> {
        let (status, shown) = watch::channel(Status { stage: "starting the cluster".into(), ..Status::default() });
        let diary = lock(self.diary).take().map(|diary| diary.follow(shown.clone()));
        let progress = (self.console.show)(shown);
        let outcome = self.start_run_stop(kept, facts, &status).await;
        drop(status);
        let _ = tokio::time::timeout(SHOWN_LIMIT, progress).await;
        if let Some(diary) = diary {
            *lock(self.diary) = diary.await.ok();
        }
        match outcome {
            Ok(kept) => Ok(kept),
            // Without any operation, there is nothing to check or show.
            Err(error) if no_operation_in(self.folder) => {
                tracing::error!(%error, "the run ended before its first operation");
                lock(self.diary).iter_mut().for_each(|diary| diary.break_off(error.to_string()));
                Err(error)
            }
            Err(error) => {
                (self.console.say)(&format!("redjepsen: the run stopped early: {error}"));
                Ok(None)
            }
        }
    }

    /// Runs, and removes the cluster unless it is kept, even after an interrupt or a panic.
    async fn start_run_stop(
        &self,
        kept: Option<KeptCluster>,
        facts: &mut RunFacts,
        status: &watch::Sender<Status>,
    ) -> Result<Option<KeptCluster>, RunnerError> {
        let members = self.request.spec.addresses();
        let mut owned = match kept {
            Some(KeptCluster { cluster, new, .. }) => {
                OwnedCluster { run_id: cluster.run_id().to_string(), members, made: Some((cluster, Some(new))) }
            }
            None => OwnedCluster { run_id: run_id(self.folder), members, made: None },
        };
        let run = if self.simulated() {
            // On its own thread, with a runtime whose clock only this run advances.
            let run = || in_virtual_time(async || self.start_and_run(&mut owned, facts, status).await);
            Ok(block_in_place(run).map_err(RunnerError::could_not_run)?)
        } else {
            AssertUnwindSafe(self.start_and_run(&mut owned, facts, status)).catch_unwind().await
        };
        let went_well = matches!(run, Ok(Ok(()))) && !self.interrupt.is_raised();
        match (self.keep, owned.made) {
            // Without an agent, nothing else would undo its faults.
            (KeepCluster::ForUser, Some((cluster, _))) if !cluster.agent.is_lost() => {
                self.leftovers.clear();
                (self.console.say)(&format!(
                    "the cluster keeps running: nodes {}, resource {}",
                    cluster.node_urls().join(" "),
                    cluster.resource_url()
                ));
            }
            (KeepCluster::ForNextRun, Some((cluster, Some(new)))) if went_well => {
                let (request, platform) = (self.request.clone(), self.platform.clone());
                info!(cluster = cluster.run_id(), "cluster kept for the next run");
                return Ok(Some(KeptCluster { request, platform, cluster, new }));
            }
            (_, made) => {
                status.send_modify(|status| status.stage = "removing the cluster".into());
                let stopped = Instant::now();
                let owned = OwnedCluster { made, ..owned };
                match owned.remove(&self.platform, &self.interrupt, &self.leftovers).await {
                    Ok(()) => info!(seconds = stopped.elapsed().as_secs_f64(), "cluster removed"),
                    // The result of the run is not affected.
                    Err(error) => (self.console.say)(&format!("redjepsen: {error}")),
                }
            }
        }
        run.unwrap_or_else(|panic| resume_unwind(panic)).map(|()| None)
    }

    /// Runs on its own cluster, and collects the logs.
    async fn start_and_run(
        &self,
        owned: &mut OwnedCluster,
        facts: &mut RunFacts,
        status: &watch::Sender<Status>,
    ) -> Result<(), RunnerError> {
        let started = self.interrupt.unless(self.cluster(owned)).await?;
        let cluster = started.map_err(RunnerError::could_not_run)?;
        let outcome = self.run_on(cluster, facts, status).await;
        status.send_modify(|status| status.stage = "collecting logs".into());
        match self.interrupt.within(LOGS_GRACE, cluster.collect_logs(self.folder.path())).await {
            Ok(Ok(())) => {}
            Ok(Err(ClusterError::File(error))) => self.unwritten().note(Err(error)),
            Ok(Err(error)) => warn!(%error, "not every log could be collected"),
            Err(Interrupted) => warn!("interrupted before every log was collected"),
        }
        outcome.map_err(RunnerError::could_not_run)
    }

    /// The kept cluster after a reset, or a new one.
    async fn cluster<'s>(&self, owned: &'s mut OwnedCluster) -> Result<&'s Cluster, ClusterError> {
        let began = Instant::now();
        self.register_leftovers(&owned.run_id);
        if let Some((cluster, Some(new))) = &owned.made {
            match cluster.reset(new).await {
                Ok(()) => {
                    let seconds = began.elapsed().as_secs_f64();
                    info!(seconds, cluster = cluster.run_id(), "reset the cluster of the previous run");
                }
                Err(error) => {
                    warn!(%error, cluster = cluster.run_id(), "discarded the cluster of the previous run");
                    let text = "so redjepsen removes the cluster of the previous run and starts a new one";
                    (self.console.say)(&format!("{error}; {text}"));
                    cluster.stop().await?;
                    owned.made = None;
                }
            }
        }
        if owned.made.is_none() {
            owned.run_id = run_id(self.folder);
            self.register_leftovers(&owned.run_id);
            let spec = ClusterSpec { run_id: owned.run_id.clone(), ..self.request.spec.clone() };
            let (cluster, new) = owned.made.insert((self.platform.start(spec).await?, None));
            info!(seconds = began.elapsed().as_secs_f64(), "cluster started");
            if self.keep == KeepCluster::ForNextRun {
                match cluster.initial_state().await {
                    Ok(state) => *new = Some(state),
                    Err(error) => warn!(%error, "this cluster will be used for this run only"),
                }
            }
        }
        owned.made.as_ref().map(|(cluster, _)| cluster).ok_or(ClusterError::GivenUp)
    }

    fn simulated(&self) -> bool {
        self.platform.kind().is_simulated()
    }

    /// Registers what is left of the cluster if the program exits at once, so that the user is informed.
    fn register_leftovers(&self, run_id: &str) {
        let traces = self.platform.traces(run_id);
        self.leftovers.set(move || signals::left_behind(&traces));
    }

    async fn run_on(
        &self,
        cluster: &Cluster,
        facts: &mut RunFacts,
        status: &watch::Sender<Status>,
    ) -> Result<(), RunError> {
        describe(cluster, facts);
        if let Some(library) = &self.scenario.workload.library {
            facts.versions.insert(library.name.clone(), library.version.clone());
        }
        // The same version may be built from other files.
        let sources = self.scenario.workload.client.as_ref().filter(|_| self.scenario.client.is_none());
        if let Some(sources) = sources.and_then(WorkloadClient::sources) {
            let library = self.scenario.workload.library.as_ref().map(|library| &library.name);
            let name = format!("sources of {}", library.unwrap_or(&self.scenario.workload_name));
            facts.versions.insert(name, sources);
        }
        self.folder.write_json("facts.json", facts)?;
        let history = self.folder.history();
        let unwritten = |source| FileError::write(&history, source);
        let request = RunRequest {
            scenario: self.scenario,
            plan: self.plan,
            header: header(self.scenario, self.plan, self.simulated()),
            // Time 0 of the run: everything is up, and nothing has happened.
            recorder: Recorder::create(&history).map_err(unwritten)?,
            presence: Some(Presence::of(&history).map_err(unwritten)?),
            observe: self.observe,
            interrupt: self.interrupt.clone(),
            status: status.clone(),
        };
        let outcome = controller::run(cluster, request).await;
        facts.late_ms = status.borrow().late.map(|late| late.as_millis() as u64);
        if let Err(error) = self.folder.write_json("facts.json", facts) {
            warn!(%error, "facts.json lacks how late timers were");
        }
        outcome.map_err(|error| match error {
            RunError::History(source) => {
                let error = FileError::write(&history, source);
                self.unwritten().note(Err(error.clone()));
                error.into()
            }
            error => error,
        })
    }

    fn unwritten(&self) -> MutexGuard<'_, Unwritten> {
        lock(self.unwritten)
    }
}

impl OwnedCluster {
    /// Removes the cluster. After an interrupt, the wait is limited.
    async fn remove(
        self,
        platform: &Platform,
        interrupt: &Interrupt,
        leftovers: &Leftovers,
    ) -> Result<(), ClusterError> {
        let removal = async {
            match &self.made {
                Some((cluster, _)) => cluster.stop().await,
                None => platform.remove(&self.run_id).await,
            }
        };
        let reason = match interrupt.with(platform.patience(self.members), removal).await {
            Ok(Ok(())) => {
                leftovers.clear();
                return Ok(());
            }
            Ok(Err(error)) => error.to_string(),
            Err(Interrupted) => "there was too little time for it after the interrupt".to_string(),
        };
        Err(ClusterError::NotRemoved { what: platform.traces(&self.run_id), reason })
    }
}

/// True if no run was ever made in this store.
fn is_first(place: &Place) -> bool {
    matches!(place, Place::Store(store) if !store.join("latest").exists())
}

/// The kind of cluster that was chosen, if the user left that open, and why.
fn why_here(kind: ClusterKind) -> &'static str {
    if kind == ClusterKind::DOCKER {
        "in Docker, since an engine answers; to use this machine's own redis-server, give --cluster local"
    } else if kind.is_simulated() {
        "simulated, since this machine has neither a running Docker engine nor redis-server"
    } else {
        "on this machine's own redis-server, since no Docker engine answers; to choose, give --cluster"
    }
}

/// Finds a place for the clusters, with everything that they need. In a task of its own, because it also runs other programs:
/// one that hangs must not block an interrupt.
pub(super) async fn find_platform(
    request: PlatformRequest,
    interrupt: &Interrupt,
    say: fn(&str),
) -> Result<Platform, RunnerError> {
    let mut task = JoinSet::new();
    task.spawn(async move { Platform::find(request, &mut |line| say(&line)).await });
    let found = interrupt.unless(task.join_next()).await?;
    let lost = || {
        RunnerError::could_not_run(
            "the search for a place for the cluster ended without a result; this is a bug of \
        redjepsen",
        )
    };
    let found = found.ok_or_else(lost)?.map_err(RunnerError::could_not_run)?;
    found.map_err(|error| match error {
        // The user's address is wrong, before any server was asked.
        ClusterError::Existing { .. } => RunnerError::request(error),
        error => RunnerError::could_not_run(error),
    })
}

fn describe(cluster: &Cluster, facts: &mut RunFacts) {
    let description = cluster.describe();
    facts.cluster = description.cluster.to_string();
    facts.image = description.nodes.clone();
    for (name, version) in [
        ("redjepsen", Some(env!("CARGO_PKG_VERSION"))),
        ("server", Some(description.server.as_str())),
        ("docker", description.engine.as_deref()),
        ("kernel", Some(description.kernel.as_str()).filter(|kernel| !kernel.is_empty())),
    ] {
        facts.versions.extend(version.map(|version| (name.to_string(), version.to_string())));
    }
}

/// The name of the run in the container engine: unique across machines, and short enough for a container's name.
fn run_id(folder: &RunFolder) -> String {
    let time = folder.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{}-{}", time.replace('.', "").to_lowercase(), std::process::id())
}

fn no_operation_in(folder: &RunFolder) -> bool {
    !history::load(&folder.history()).is_ok_and(|history| !history.operations.is_empty())
}
