//! `redjepsen run`: the main job, from flags to exit code.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Instant;

use tokio::sync::watch;
use tracing::{info, warn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use super::flags::RunFlags;
use super::{Exit, Failure, exit_for, interrupt, print, progress};
use crate::checker;
use crate::cluster::{ClientCommand, Cluster, ClusterSpec, Owner, Platform};
use crate::controller::{self, Request, RunError, Status};
use crate::history::{self, FORMAT, Header, Recorder};
use crate::plan::Plan;
use crate::report::{self, Report, RunFacts};
use crate::scenario::Scenario;
use crate::store::RunFolder;

pub async fn run(flags: RunFlags) -> Result<Exit, Failure> {
    // Everything that can be wrong with the request is found before anything is started.
    let scenario = flags.scenario()?;
    let plan = Plan::draw(&scenario).map_err(Failure::arguments)?;
    interrupt::with_parent().map_err(Failure::could_not_run)?;
    let own_client = flags.own_client()?;
    let interrupt = interrupt::wanted().map_err(Failure::could_not_run)?;
    let mut note = |line: String| eprintln!("{line}");
    let platform = Platform::find(flags.platform(scenario.workload.lock.program())?, &mut note)
        .await
        .map_err(Failure::could_not_run)?;

    let mut spec = ClusterSpec {
        run_id: String::new(),
        nodes: scenario.nodes,
        program: scenario.workload.lock.program(),
        topology: scenario.workload.topology.clone(),
        clients: scenario.clients,
        client: own_client.unwrap_or(ClientCommand::BuiltIn),
        subnet: flags.subnet,
        owner: Owner::current(),
        persistence: scenario.persistence,
        preload: scenario.nemesis.needs_preload(),
        network_faults: scenario.nemesis.touches_the_network(),
    };
    platform.check(&spec).await.map_err(Failure::could_not_run)?;

    let folder = RunFolder::create(&flags.store, &scenario.name())
        .map_err(|error| Failure::could_not_run(format!("--store {}: {error}", flags.store.display())))?;
    keep_log(&folder, flags.verbose).map_err(Failure::could_not_run)?;
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
    folder.write_toml("scenario.toml", &scenario).map_err(Failure::could_not_run)?;
    folder.write_json("plan.json", &plan).map_err(Failure::could_not_run)?;

    spec.run_id = run_id(&folder);
    let mut facts = RunFacts {
        repeat: flags.repeat(scenario.seed),
        folder: folder.path().display().to_string(),
        ..RunFacts::default()
    };
    let job = Job { scenario: &scenario, plan: &plan, folder: &folder, keep: flags.keep };
    job.on_a_cluster(&platform, spec, interrupt, &mut facts).await?;
    conclude(&scenario, &folder, &facts)
}

/// What is to be done, where, and whether the cluster stays up afterwards.
struct Job<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    folder: &'a RunFolder,
    keep: bool,
}

impl Job<'_> {
    /// Starts the cluster, runs on it, and removes it whichever way the run ended. A run that broke off is no failure of
    /// this function: its history says so, and is checked like any other.
    async fn on_a_cluster(
        &self,
        platform: &Platform,
        spec: ClusterSpec,
        interrupt: watch::Receiver<bool>,
        facts: &mut RunFacts,
    ) -> Result<(), Failure> {
        let (status, shown) = watch::channel(Status { stage: "starting the cluster".into(), ..Status::default() });
        let progress = tokio::spawn(progress::show(shown, self.scenario.time_limit));
        let outcome = self.start_run_stop(platform, spec, interrupt, facts, &status).await;
        drop(status);
        let _ = progress.await;
        match outcome {
            Ok(()) => Ok(()),
            // Without a single operation there is nothing to check or to show.
            Err(error) if no_operation_in(self.folder) => Err(Failure::could_not_run(error)),
            Err(error) => {
                eprintln!("redjepsen: the run broke off: {error}");
                Ok(())
            }
        }
    }

    async fn start_run_stop(
        &self,
        platform: &Platform,
        spec: ClusterSpec,
        interrupt: watch::Receiver<bool>,
        facts: &mut RunFacts,
        status: &watch::Sender<Status>,
    ) -> Result<(), RunError> {
        let started = Instant::now();
        let cluster = platform.start(spec).await?;
        info!(seconds = started.elapsed().as_secs_f64(), "cluster started");
        let outcome = self.run_on(&cluster, interrupt, facts, status).await;
        status.send_modify(|status| status.stage = "collecting logs".into());
        if let Err(error) = cluster.collect_logs(self.folder.path()).await {
            warn!(%error, "not every log could be collected");
        }
        if self.keep {
            eprintln!(
                "the cluster stays up: nodes {}, resource {}",
                cluster.node_urls().join(" "),
                cluster.store_url()
            );
        } else {
            let stopped = Instant::now();
            cluster.stop().await?;
            info!(seconds = stopped.elapsed().as_secs_f64(), "cluster removed");
        }
        outcome
    }

    async fn run_on(
        &self,
        cluster: &Cluster,
        interrupt: watch::Receiver<bool>,
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
            interrupt,
            status: status.clone(),
        };
        controller::run(cluster, request).await
    }
}

/// From the history on disk to verdict, report and exit code: the same way that `redjepsen check` takes.
fn conclude(scenario: &Scenario, folder: &RunFolder, facts: &RunFacts) -> Result<Exit, Failure> {
    let history = history::load(&folder.history()).map_err(Failure::could_not_run)?;
    let verdict = checker::check(&history);
    let fewest = super::check::fewest(&history, &verdict);
    let report =
        Report { scenario: Some(scenario), history: &history, verdict: &verdict, facts, fewest: fewest.as_ref() };
    report::write(folder.path(), &report).map_err(Failure::could_not_run)?;
    print(report::terminal(&report, std::io::stdout().is_terminal()))?;
    Ok(exit_for(verdict.valid, scenario.expect))
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
        started: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
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

/// Keeps the log in the run folder, and shows it on standard error where the user wants to see it.
fn keep_log(folder: &RunFolder, verbose: bool) -> std::io::Result<()> {
    let file = std::fs::File::create(folder.log())?;
    let ours = || EnvFilter::new("redjepsen=debug");
    let to_file = fmt::layer().with_ansi(false).with_writer(Mutex::new(file)).with_filter(ours());
    let to_terminal = verbose.then(|| fmt::layer().with_writer(std::io::stderr).with_filter(ours()));
    tracing_subscriber::registry().with(to_file).with(to_terminal).try_init().map_err(std::io::Error::other)
}
