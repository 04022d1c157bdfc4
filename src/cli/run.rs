//! `redjepsen run`: the main job, from flags to exit code.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use tokio::sync::watch;
use tracing::{info, warn};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use super::flags::{self, RunFlags};
use super::{Exit, Failure, exit_for, interrupt, print, progress};
use crate::checker;
use crate::cluster::{AsNew, ClientCommand, Cluster, ClusterError, ClusterSpec, Owner, Platform, PlatformRequest};
use crate::controller::{self, Request, RunError, Status};
use crate::history::{self, FORMAT, Header, Recorder};
use crate::plan::Plan;
use crate::report::{self, Report, RunFacts};
use crate::scenario::Scenario;
use crate::store::RunFolder;

pub async fn run(flags: RunFlags) -> Result<Exit, Failure> {
    // Everything that can be wrong with the request is found before anything is started.
    let scenario = flags.scenario()?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let made = Place::new(flags.verbose)?.make(&flags, &scenario, &words, false).await?;
    print(made.shown)?;
    Ok(made.exit)
}

/// Where runs are made: one, or some of a suite one after the other, which can share a cluster.
pub(super) struct Place {
    log: LogFile,
    interrupt: watch::Receiver<bool>,
    /// The cluster that the last run left up for the next one.
    left: Option<Left>,
}

/// A cluster that a run left up.
struct Left {
    ground: Ground,
    platform: Platform,
    cluster: Cluster,
    new: AsNew,
}

/// What a run stands on. Runs that stand on the same can share a cluster, where it [can be](Ground::can_be_shared).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ground {
    platform: PlatformRequest,
    /// Without the run's id.
    spec: ClusterSpec,
}

/// A run that was made.
pub(super) struct Made {
    pub exit: Exit,
    /// What the user is shown of it.
    pub shown: String,
}

impl Ground {
    pub fn of(flags: &RunFlags, scenario: &Scenario) -> Result<Ground, Failure> {
        let program = scenario.workload.lock.program();
        let spec = ClusterSpec {
            run_id: String::new(),
            nodes: scenario.nodes,
            program,
            topology: scenario.workload.topology.clone(),
            clients: scenario.clients,
            client: flags.own_client()?.unwrap_or(ClientCommand::BuiltIn),
            subnet: flags.subnet,
            owner: Owner::current(),
            persistence: scenario.persistence,
            preload: scenario.nemesis.needs_preload(),
            network_faults: scenario.nemesis.touches_the_network(),
        };
        Ok(Ground { platform: flags.platform(program)?, spec })
    }

    pub fn can_be_shared(&self) -> bool {
        self.spec.can_be_renewed()
    }
}

impl Place {
    /// To be called by the first thread: see [`interrupt::with_parent`].
    pub fn new(verbose: bool) -> Result<Place, Failure> {
        interrupt::with_parent().map_err(Failure::could_not_run)?;
        let interrupt = interrupt::wanted().map_err(Failure::could_not_run)?;
        let log = LogFile::default();
        log.begin(verbose).map_err(Failure::could_not_run)?;
        Ok(Place { log, interrupt, left: None })
    }

    /// Turns true when the user wants this process to end.
    pub fn interrupt(&self) -> watch::Receiver<bool> {
        self.interrupt.clone()
    }

    /// Whether the last run left its cluster up.
    pub fn has_cluster(&self) -> bool {
        self.left.is_some()
    }

    /// Removes the cluster that the last run left up, if it did.
    pub async fn clear_away(&mut self) -> Result<(), Failure> {
        match self.left.take() {
            Some(left) => left.cluster.stop().await.map_err(Failure::could_not_run),
            None => Ok(()),
        }
    }

    /// Makes one run, from its scenario to its report. `words` are what its repeat command is made of. Where `leave` is set
    /// its cluster stays up for the next run, if this one went as runs go and there can be another one on it.
    pub async fn make(
        &mut self,
        flags: &RunFlags,
        scenario: &Scenario,
        words: &[String],
        leave: bool,
    ) -> Result<Made, Failure> {
        let plan = Plan::draw(scenario).map_err(Failure::arguments)?;
        let ground = Ground::of(flags, scenario)?;
        if self.left.as_ref().is_some_and(|left| left.ground != ground) {
            self.clear_away().await?;
        }
        let platform = match &self.left {
            Some(left) => left.platform.clone(),
            None => {
                let mut note = |line: String| eprintln!("{line}");
                let found = Platform::find(ground.platform.clone(), &mut note).await.map_err(Failure::could_not_run)?;
                found.check(&ground.spec).await.map_err(Failure::could_not_run)?;
                found
            }
        };

        let folder = RunFolder::create(&flags.store, &scenario.name())
            .map_err(|error| Failure::could_not_run(format!("--store {}: {error}", flags.store.display())))?;
        self.log.keep_in(&folder).map_err(Failure::could_not_run)?;
        eprintln!(
            "{} under {} · seed {} · {} clients, {} nodes, TTL {} · {}",
            scenario.workload_name,
            scenario.nemesis_name,
            scenario.seed,
            scenario.clients,
            scenario.nodes,
            humantime::format_duration(scenario.ttl),
            folder.path().display()
        );
        folder.write_toml("scenario.toml", scenario).map_err(Failure::could_not_run)?;
        folder.write_json("plan.json", &plan).map_err(Failure::could_not_run)?;

        let mut facts = RunFacts {
            repeat: flags::repeat(words, scenario.seed),
            folder: folder.path().display().to_string(),
            ..RunFacts::default()
        };
        let afterwards = match (flags.keep, leave && ground.can_be_shared()) {
            (true, _) => Afterwards::Keep,
            (false, true) => Afterwards::Leave,
            (false, false) => Afterwards::Remove,
        };
        let interrupt = self.interrupt();
        let job = Job { scenario, plan: &plan, folder: &folder, ground, platform, interrupt, afterwards };
        self.left = job.on_a_cluster(self.left.take(), &mut facts).await?;
        conclude(scenario, &folder, &facts)
    }
}

/// What becomes of the cluster when the run is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Afterwards {
    Remove,
    /// The user wants to look at it.
    Keep,
    /// For the next run, unless something went wrong with this one.
    Leave,
}

/// What is to be done, where, and what becomes of the cluster afterwards.
struct Job<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    folder: &'a RunFolder,
    ground: Ground,
    platform: Platform,
    interrupt: watch::Receiver<bool>,
    afterwards: Afterwards,
}

impl Job<'_> {
    /// Sees to a cluster, runs on it, and removes it whichever way the run ended, unless it was left for the next run: then
    /// it is given back. A run that broke off is no failure of this function: its history says so, and is checked like any
    /// other.
    async fn on_a_cluster(&self, left: Option<Left>, facts: &mut RunFacts) -> Result<Option<Left>, Failure> {
        let (status, shown) = watch::channel(Status { stage: "starting the cluster".into(), ..Status::default() });
        let progress = tokio::spawn(progress::show(shown, self.scenario.time_limit));
        let outcome = self.start_run_stop(left, facts, &status).await;
        drop(status);
        let _ = progress.await;
        match outcome {
            Ok(left) => Ok(left),
            // Without a single operation there is nothing to check or to show.
            Err(error) if no_operation_in(self.folder) => Err(Failure::could_not_run(error)),
            Err(error) => {
                eprintln!("redjepsen: the run broke off: {error}");
                Ok(None)
            }
        }
    }

    async fn start_run_stop(
        &self,
        left: Option<Left>,
        facts: &mut RunFacts,
        status: &watch::Sender<Status>,
    ) -> Result<Option<Left>, RunError> {
        let (cluster, new) = self.cluster(left).await?;
        let outcome = self.run_on(&cluster, facts, status).await;
        status.send_modify(|status| status.stage = "collecting logs".into());
        if let Err(error) = cluster.collect_logs(self.folder.path()).await {
            warn!(%error, "not every log could be collected");
        }
        let went_well = outcome.is_ok() && !*self.interrupt.borrow();
        match (self.afterwards, new) {
            (Afterwards::Keep, _) => {
                eprintln!(
                    "the cluster stays up: nodes {}, resource {}",
                    cluster.node_urls().join(" "),
                    cluster.store_url()
                );
            }
            (Afterwards::Leave, Some(new)) if went_well => {
                let (ground, platform) = (self.ground.clone(), self.platform.clone());
                info!(cluster = cluster.run_id(), "cluster left up for the next run");
                return Ok(Some(Left { ground, platform, cluster, new }));
            }
            _ => {
                let stopped = Instant::now();
                cluster.stop().await?;
                info!(seconds = stopped.elapsed().as_secs_f64(), "cluster removed");
            }
        }
        outcome.map(|()| None)
    }

    /// The cluster of the run before, made as new, or else a new one. With it what it is like when it is new, where it can
    /// serve more than one run.
    async fn cluster(&self, left: Option<Left>) -> Result<(Cluster, Option<AsNew>), ClusterError> {
        let began = Instant::now();
        if let Some(Left { cluster, new, .. }) = left {
            match cluster.renew(&new).await {
                Ok(()) => {
                    let seconds = began.elapsed().as_secs_f64();
                    info!(seconds, cluster = cluster.run_id(), "cluster of the run before made as new");
                    return Ok((cluster, Some(new)));
                }
                Err(error) => {
                    warn!(%error, cluster = cluster.run_id(), "cluster of the run before thrown away");
                    eprintln!("{error}; so the cluster of the run before is removed, and a new one started");
                    cluster.stop().await?;
                }
            }
        }
        let spec = ClusterSpec { run_id: run_id(self.folder), ..self.ground.spec.clone() };
        let cluster = self.platform.start(spec).await?;
        info!(seconds = began.elapsed().as_secs_f64(), "cluster started");
        if self.afterwards != Afterwards::Leave {
            return Ok((cluster, None));
        }
        match cluster.as_new().await {
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
        controller::run(cluster, request).await
    }
}

/// From the history on disk to verdict, report and exit code: the same way that `redjepsen check` takes.
fn conclude(scenario: &Scenario, folder: &RunFolder, facts: &RunFacts) -> Result<Made, Failure> {
    let history = history::load(&folder.history()).map_err(Failure::could_not_run)?;
    let verdict = checker::check(&history);
    let fewest = super::check::fewest(&history, &verdict);
    let report =
        Report { scenario: Some(scenario), history: &history, verdict: &verdict, facts, fewest: fewest.as_ref() };
    report::write(folder.path(), &report).map_err(Failure::could_not_run)?;
    let shown = report::terminal(&report, io::stdout().is_terminal());
    Ok(Made { exit: exit_for(verdict.valid, scenario.expect), shown })
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

/// Names the run in the engine: unique on any machine, and short enough for a container's name.
fn run_id(folder: &RunFolder) -> String {
    let time = folder.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{}-{}", time.replace('.', "").to_lowercase(), std::process::id())
}

fn no_operation_in(folder: &RunFolder) -> bool {
    !history::load(&folder.history()).is_ok_and(|history| !history.operations.is_empty())
}

/// The log of the run under way, in its folder.
#[derive(Clone, Default)]
struct LogFile(Arc<Mutex<Option<File>>>);

impl LogFile {
    /// From now on what is logged goes there, and is shown on standard error where the user wants to see it.
    fn begin(&self, verbose: bool) -> io::Result<()> {
        let ours = || Targets::new().with_target("redjepsen", LevelFilter::DEBUG);
        let file = self.clone();
        let to_file = fmt::layer().with_ansi(false).with_writer(move || file.clone()).with_filter(ours());
        let to_terminal = verbose.then(|| fmt::layer().with_writer(io::stderr).with_filter(ours()));
        tracing_subscriber::registry().with(to_file).with(to_terminal).try_init().map_err(io::Error::other)
    }

    fn keep_in(&self, folder: &RunFolder) -> io::Result<()> {
        let file = File::create(folder.log())?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => file.write(bytes),
            // Before the first run there is nothing that it would belong to.
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
