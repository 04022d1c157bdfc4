//! A run from its scenario to its report, on a cluster that may also serve the next run.

use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use tokio::sync::watch;
use tracing::{info, warn};

use super::log::RunLog;
use super::{Checked, Console, RunnerError, interrupt, repeat_saved};
use crate::cluster::{
    ClientCommand, Cluster, ClusterError, ClusterSpec, InitialState, NodeSource, Owner, Platform, PlatformRequest,
};
use crate::controller::{self, Request, RunError, Status};
use crate::history::{self, FORMAT, Header, Recorder};
use crate::plan::Plan;
use crate::report::{self, RunFacts};
use crate::runs::RunFolder;
use crate::scenario::{self, Scenario};
use crate::topology::ClusterKind;

/// Makes runs, one after the other.
pub struct Runner {
    console: Console,
    log: RunLog,
    interrupt: watch::Receiver<bool>,
    /// The cluster kept after the last run.
    kept: Option<KeptCluster>,
}

/// A cluster that was kept for the next run.
struct KeptCluster {
    request: ClusterRequest,
    platform: Platform,
    cluster: Cluster,
    new: InitialState,
}

/// The cluster that a run needs. Runs with equal requests can share it if it can be [reset](ClusterSpec::can_be_reset).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClusterRequest {
    pub platform: PlatformRequest,
    /// Without the run's id.
    pub spec: ClusterSpec,
}

/// How a run is made, apart from its scenario.
#[derive(Clone, Debug)]
pub struct RunSettings {
    pub place: Place,
    /// The command that repeats the run; if None, its saved scenario repeats it.
    pub repeat: Option<String>,
    pub keep_cluster: KeepCluster,
}

/// Where a run's files go.
#[derive(Clone, Debug)]
pub enum Place {
    /// Into a new folder of this store.
    Store(PathBuf),
    /// Into this folder, which exists.
    Folder(PathBuf),
}

/// Whether a cluster stays up after the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepCluster {
    No,
    /// The user wants to inspect it.
    ForUser,
    /// If it can be reset, and the run ended normally.
    ForNextRun,
}

impl ClusterRequest {
    pub fn of(scenario: &Scenario, keep: KeepCluster) -> Result<ClusterRequest, RunnerError> {
        let kind = match (scenario.cluster_kind(), keep) {
            (ClusterKind::Local, KeepCluster::ForUser) => {
                let text = "--keep makes no sense with --cluster local: a local cluster ends with this process";
                return Err(RunnerError::request(text));
            }
            (_, KeepCluster::ForUser) => ClusterKind::Docker,
            (kind, _) => kind,
        };
        let program = scenario.workload.lock.program();
        let node = match (&scenario.cluster.image, &scenario.cluster.redis_server) {
            (Some(image), _) => NodeSource::Named(image.clone()),
            (None, Some(program)) => NodeSource::Program(program.clone()),
            (None, None) => NodeSource::Default,
        };
        let client_image = scenario.client.as_ref().and_then(|client| client.image.clone());
        let spec = ClusterSpec {
            run_id: String::new(),
            nodes: scenario.nodes,
            program,
            topology: scenario.workload.topology.clone(),
            clients: scenario.clients,
            client: scenario.client.clone().map_or(ClientCommand::BuiltIn, ClientCommand::Own),
            subnet: scenario.cluster.subnet,
            owner: Owner::current(),
            persistence: scenario.persistence,
            preload: scenario.nemesis.needs_preload(),
            network_faults: scenario.nemesis.touches_the_network(),
        };
        Ok(ClusterRequest { platform: PlatformRequest { kind, node, program, client_image }, spec })
    }
}

impl Runner {
    /// To be called by the first thread: see [`interrupt::with_parent`].
    pub fn new(verbose: bool, console: Console) -> Result<Runner, RunnerError> {
        interrupt::with_parent().map_err(RunnerError::could_not_run)?;
        let interrupt = interrupt::wanted(console.say).map_err(RunnerError::could_not_run)?;
        let log = RunLog::default();
        log.begin(verbose).map_err(RunnerError::could_not_run)?;
        Ok(Runner { console, log, interrupt, kept: None })
    }

    /// Turns true when the user wants this process to stop.
    pub fn interrupt(&self) -> watch::Receiver<bool> {
        self.interrupt.clone()
    }

    /// Whether the last run's cluster was kept for the next one.
    pub fn has_cluster(&self) -> bool {
        self.kept.is_some()
    }

    /// Removes the cluster that was kept, if there is one.
    pub async fn remove_cluster(&mut self) -> Result<(), RunnerError> {
        match self.kept.take() {
            Some(kept) => kept.cluster.stop().await.map_err(RunnerError::could_not_run),
            None => Ok(()),
        }
    }

    /// Makes one run, from its scenario to its report.
    pub async fn make(&mut self, scenario: &Scenario, settings: &RunSettings) -> Result<Checked, RunnerError> {
        let plan = Plan::draw(scenario).map_err(RunnerError::request)?;
        let request = ClusterRequest::of(scenario, settings.keep_cluster)?;
        if self.kept.as_ref().is_some_and(|kept| kept.request != request) {
            self.remove_cluster().await?;
        }
        let platform = match &self.kept {
            Some(kept) => kept.platform.clone(),
            None => {
                let mut note = |line: String| (self.console.say)(&line);
                let found = Platform::find(request.platform.clone(), &mut note).await;
                let found = found.map_err(RunnerError::could_not_run)?;
                found.check(&request.spec).await.map_err(RunnerError::could_not_run)?;
                found
            }
        };

        let folder = match &settings.place {
            Place::Store(store) => RunFolder::create(store, &scenario.name())
                .map_err(|error| RunnerError::could_not_run(format!("--store {}: {error}", store.display())))?,
            Place::Folder(folder) => RunFolder::at(folder),
        };
        self.log.keep_in(&folder).map_err(RunnerError::could_not_run)?;
        (self.console.say)(&format!(
            "{} under {} · seed {} · {} clients, {} nodes, TTL {} · {}",
            scenario.workload_name,
            scenario.nemesis_name,
            scenario.seed,
            scenario.clients,
            scenario.nodes,
            humantime::format_duration(scenario.ttl),
            folder.path().display()
        ));
        folder.write_toml(scenario::FILE, scenario).map_err(RunnerError::could_not_run)?;
        folder.write_json("plan.json", &plan).map_err(RunnerError::could_not_run)?;

        let path = folder.path().display().to_string();
        let repeat = settings.repeat.clone().unwrap_or_else(|| repeat_saved(&path));
        let mut facts = RunFacts { repeat, folder: path.clone(), ..RunFacts::default() };
        let keep = match settings.keep_cluster {
            KeepCluster::ForNextRun if !request.spec.can_be_reset() => KeepCluster::No,
            keep => keep,
        };
        let (console, interrupt) = (self.console, self.interrupt());
        let run = RunOnCluster { scenario, plan: &plan, folder: &folder, request, platform, console, interrupt, keep };
        self.kept = run.to_its_end(self.kept.take(), &mut facts).await?;

        let history = history::load(&folder.history()).map_err(RunnerError::could_not_run)?;
        let checked = Checked::new(history, Some(scenario.clone()), facts, true);
        report::write(folder.path(), &checked.report()).map_err(RunnerError::could_not_run)?;
        Ok(checked)
    }
}

/// A run and the cluster to make it on.
struct RunOnCluster<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    folder: &'a RunFolder,
    request: ClusterRequest,
    platform: Platform,
    console: Console,
    interrupt: watch::Receiver<bool>,
    keep: KeepCluster,
}

impl RunOnCluster<'_> {
    /// Starts or resets a cluster and runs on it. Then removes the cluster however the run ended, or returns it if it
    /// is kept for the next run. A run that broke off is not an error here: its history says so, and is checked like
    /// any other.
    async fn to_its_end(
        &self,
        kept: Option<KeptCluster>,
        facts: &mut RunFacts,
    ) -> Result<Option<KeptCluster>, RunnerError> {
        let (status, shown) = watch::channel(Status { stage: "starting the cluster".into(), ..Status::default() });
        let progress = (self.console.show)(shown, self.scenario.time_limit);
        let outcome = self.start_run_stop(kept, facts, &status).await;
        drop(status);
        let _ = progress.await;
        match outcome {
            Ok(kept) => Ok(kept),
            // Without a single operation there is nothing to check or show.
            Err(error) if no_operation_in(self.folder) => Err(RunnerError::could_not_run(error)),
            Err(error) => {
                (self.console.say)(&format!("redjepsen: the run broke off: {error}"));
                Ok(None)
            }
        }
    }

    async fn start_run_stop(
        &self,
        kept: Option<KeptCluster>,
        facts: &mut RunFacts,
        status: &watch::Sender<Status>,
    ) -> Result<Option<KeptCluster>, RunError> {
        let (cluster, new) = self.cluster(kept).await?;
        let outcome = self.run_on(&cluster, facts, status).await;
        status.send_modify(|status| status.stage = "collecting logs".into());
        if let Err(error) = cluster.collect_logs(self.folder.path()).await {
            warn!(%error, "not every log could be collected");
        }
        let went_well = outcome.is_ok() && !*self.interrupt.borrow();
        match (self.keep, new) {
            (KeepCluster::ForUser, _) => (self.console.say)(&format!(
                "the cluster stays up: nodes {}, resource {}",
                cluster.node_urls().join(" "),
                cluster.resource_url()
            )),
            (KeepCluster::ForNextRun, Some(new)) if went_well => {
                let (request, platform) = (self.request.clone(), self.platform.clone());
                info!(cluster = cluster.run_id(), "cluster kept for the next run");
                return Ok(Some(KeptCluster { request, platform, cluster, new }));
            }
            _ => {
                let stopped = Instant::now();
                cluster.stop().await?;
                info!(seconds = stopped.elapsed().as_secs_f64(), "cluster removed");
            }
        }
        outcome.map(|()| None)
    }

    /// The kept cluster after a reset, or a new one. Comes with its initial state if the next run may reuse it.
    async fn cluster(&self, kept: Option<KeptCluster>) -> Result<(Cluster, Option<InitialState>), ClusterError> {
        let began = Instant::now();
        if let Some(KeptCluster { cluster, new, .. }) = kept {
            match cluster.reset(&new).await {
                Ok(()) => {
                    let seconds = began.elapsed().as_secs_f64();
                    info!(seconds, cluster = cluster.run_id(), "reset the cluster of the previous run");
                    return Ok((cluster, Some(new)));
                }
                Err(error) => {
                    warn!(%error, cluster = cluster.run_id(), "discarded the cluster of the previous run");
                    let text = "so the cluster of the previous run is removed and a new one started";
                    (self.console.say)(&format!("{error}; {text}"));
                    cluster.stop().await?;
                }
            }
        }
        let spec = ClusterSpec { run_id: run_id(self.folder), ..self.request.spec.clone() };
        let cluster = self.platform.start(spec).await?;
        info!(seconds = began.elapsed().as_secs_f64(), "cluster started");
        if self.keep != KeepCluster::ForNextRun {
            return Ok((cluster, None));
        }
        match cluster.initial_state().await {
            Ok(new) => Ok((cluster, Some(new))),
            Err(error) => {
                warn!(%error, "this cluster will serve this run alone");
                Ok((cluster, None))
            }
        }
    }

    async fn run_on(
        &self,
        cluster: &Cluster,
        facts: &mut RunFacts,
        status: &watch::Sender<Status>,
    ) -> Result<(), RunError> {
        describe(cluster, facts);
        self.folder.write_json("facts.json", facts)?;
        let request = Request {
            scenario: self.scenario,
            plan: self.plan,
            header: header(self.scenario, self.plan),
            // The run's time 0: everything is up, nothing has been done.
            recorder: Recorder::create(&self.folder.history())?,
            interrupt: self.interrupt.clone(),
            status: status.clone(),
        };
        let outcome = controller::run(cluster, request).await;
        facts.late_ms = status.borrow().late.map(|late| late.as_millis() as u64);
        if let Err(error) = self.folder.write_json("facts.json", facts) {
            warn!(%error, "facts.json does not say how late timers were");
        }
        outcome
    }
}

fn header(scenario: &Scenario, plan: &Plan) -> Header {
    let script_steps = u32::try_from(plan.script.len()).unwrap_or(u32::MAX);
    Header {
        format: FORMAT,
        redjepsen: env!("CARGO_PKG_VERSION").to_string(),
        workload: scenario.workload_name.clone(),
        nemesis: scenario.nemesis_name.clone(),
        seed: scenario.seed,
        clients: scenario.clients,
        nodes: scenario.nodes,
        keys: scenario.keys,
        ttl_ms: scenario.ttl.as_millis() as u64,
        time_limit_ms: scenario.time_limit.as_millis() as u64,
        resource: scenario.workload.resource.kind,
        claims: scenario.workload.claims.clone(),
        faults_expected: scenario.nemesis.injects(),
        script_steps,
        progress: scenario.nemesis.progress,
        outlives: scenario.nemesis.outlives,
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
    }
}

fn describe(cluster: &Cluster, facts: &mut RunFacts) {
    let description = cluster.describe();
    facts.cluster = description.cluster.to_string();
    facts.image = description.nodes.clone();
    for (name, version) in [
        ("redjepsen", Some(env!("CARGO_PKG_VERSION"))),
        ("server", Some(description.server.as_str())),
        ("docker", description.engine.as_deref()),
        ("kernel", Some(description.kernel.as_str())),
    ] {
        facts.versions.extend(version.map(|version| (name.to_string(), version.to_string())));
    }
}

/// Names the run in the container engine: unique across machines, and short enough for a container's name.
fn run_id(folder: &RunFolder) -> String {
    let time = folder.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{}-{}", time.replace('.', "").to_lowercase(), std::process::id())
}

fn no_operation_in(folder: &RunFolder) -> bool {
    !history::load(&folder.history()).is_ok_and(|history| !history.operations.is_empty())
}
