//! The run itself: the only place with control flow over time, and the only reader of the run's clock.
//!
//! It checks that the cluster is as the run assumes. It keeps the clients busy ([`clients`], whose [`messages`] become
//! [`answers`] of the history; [`flood`]). It injects and heals faults ([`nemesis`], [`blocks`], [`reconfigure`], [`script`]), and grants the
//! perfect lock ([`grants`]). However the run ends, it heals all faults. It waits until nothing can write any more, checks for
//! leftovers of locks ([`left_behind`]), and makes the final reads ([`facts`]). It records all of this as it happens. It never
//! decides a verdict.
//!
//! The run's clock is tokio's, which can be virtual. Every `select!` is biased, so that simultaneous events are handled in the
//! same order in every run.

mod answers;
mod block;
mod blocks;
mod board;
mod clients;
mod commands;
mod excerpt;
mod facts;
mod flag;
mod flood;
mod grants;
mod hooks;
mod left_behind;
mod messages;
mod nemesis;
mod reconfigure;
mod script;
mod seen;
mod servers;
mod waits;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{LocalBoxFuture, join_all, try_join};
use futures_util::stream::{FuturesUnordered, TryStreamExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use self::board::ClientStates;
use self::clients::Client;
use self::flag::Flag;
use self::grants::Grants;
use self::messages::ClientHost;
use self::script::ScriptedClients;
use self::seen::SeenSoFar;
use crate::client::protocol::ToClient;
use crate::cluster::{Cluster, ClusterError};
use crate::faults::AgentError;
use base::files::FileError;
use base::interrupt::{Interrupt, Interrupted};
use base::units::nanos;
use model::history::{Body, ClockBound, End, FactName, Header, Outcome, Presence, Recorder, SharedRecorder, Stall};
use model::plan::{Plan, PlanError, quiet};
use model::scenario::{Scenario, ScenarioError};

/// The parts of a run besides the cluster.
pub struct RunRequest<'a> {
    pub scenario: &'a Scenario,
    pub plan: &'a Plan,
    pub header: Header,
    pub recorder: Recorder,
    /// The presence of the history's file; None if the history is not a file. A run whose history is removed ends.
    pub presence: Option<Presence>,
    /// True to record, in files beside the history, the contents of the lock's nodes and the commands that they carry out. The
    /// scenario can override the recording of commands.
    pub observe: bool,
    /// Raised when the user wants the run to end now.
    pub interrupt: Interrupt,
    /// Receives the run's progress, to show it.
    pub status: watch::Sender<Status>,
}

#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The current stage, for messages.
    pub stage: String,
    /// How long clients have worked; `None` before they start.
    pub at: Option<Duration>,
    /// How long clients will work; `None` in a script, which ends with its last step.
    pub of: Option<Duration>,
    pub ok: u64,
    pub fail: u64,
    pub info: u64,
    /// The faults in effect: number and description.
    pub faults: Vec<(u32, String)>,
    /// Pairs of holds that overlap, according to the clients' messages so far. These are not checked.
    pub overlaps: u64,
    /// Acknowledged updates so far that replaced a value which another update had already replaced.
    pub lost: u64,
    /// Notes for the user, in order of time.
    pub notes: Vec<String>,
    /// The worst delay of a timer while clients worked; `None` before clients start.
    pub late: Option<Duration>,
}

/// Why a run failed. The history so far is kept, and ends with this error.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{0}")]
    Cluster(#[from] ClusterError),
    #[error("{0}")]
    Agent(#[from] AgentError),
    #[error("client {client}: {text}")]
    Client { client: String, text: String },
    #[error("the history can't be written: {0}")]
    History(#[from] io::Error),
    #[error("{0}")]
    Unwritten(#[from] FileError),
    #[error(
        "{path} is gone: it was deleted, moved or replaced during the run, so the run ends; run it again, and leave its folder \
         in place"
    )]
    HistoryLost { path: String },
    #[error("{0}")]
    Scenario(#[from] ScenarioError),
    #[error("{0}")]
    Plan(#[from] PlanError),
    #[error("{0}")]
    NotReady(String),
}

/// The stage in which clients begin new operations.
pub const RUNNING: &str = "running";

/// How long operations in flight may still take once the user ends the run.
const HURRY: Duration = Duration::from_millis(300);
/// How long the run may then take to record cut-off operations, and to heal members that faults have hit.
const CUT_LIMIT: Duration = Duration::from_millis(700);
/// How long everything after that may take: other heals, ending the clients, the final reads.
const SETTLE_GRACE: Duration = Duration::from_secs(1);
/// How long the clients may take to end after `bye`.
const BYE_LIMIT: Duration = Duration::from_secs(1);
/// How long after its time limit a run waits for its last heal.
const MOST_LATE_HEAL: Duration = Duration::from_secs(30);
/// How often the run checks whether its timers are late.
const TICK: Duration = Duration::from_millis(10);
/// How often the run publishes its progress.
const TELL: Duration = Duration::from_millis(100);
/// A stall of this machine that is at least this long may delay a script's deadline. With a short TTL, half the TTL is enough.
const LEAST_STALL: Duration = Duration::from_millis(50);

/// The state that all parts of the controller share.
struct Run<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    cluster: &'a Cluster,
    observe: bool,
    record_commands: bool,
    recorder: SharedRecorder,
    /// The run's folder, for messages.
    folder: PathBuf,
    board: ClientStates,
    /// The clients' processes, once they are ready.
    hosts: OnceLock<Vec<Arc<ClientHost>>>,
    seen: SeenSoFar,
    grants: Grants,
    /// How long an operation may wait for the lock, as the history's header says.
    usual_timeout_ms: Option<u64>,
    status: watch::Sender<Status>,
    /// Raised when no new operation or fault may begin.
    stop: Flag,
    /// Raised when the run no longer waits for operations in flight.
    cut_off: Flag,
    /// Raised when no more faults will come.
    faults_are_over: Flag,
    /// `script_has_begun` is raised before a script's first step, `script_is_over` after its last step or when it breaks off.
    script_has_begun: Flag,
    script_is_over: Flag,
    without_ttl: left_behind::WithoutTtl,
    next_operation: AtomicU64,
    in_effect: nemesis::FaultsInEffect,
    hooks: hooks::BegunHooks,
}

/// Runs the scenario on a started cluster. However the run ends, all faults are healed when this returns, and the history ends
/// with the outcome of the run.
pub fn run<'a>(cluster: &'a Cluster, request: RunRequest<'a>) -> LocalBoxFuture<'a, Result<(), RunError>> {
    Box::pin(async move {
        let run = Run {
            scenario: request.scenario,
            plan: request.plan,
            cluster,
            // If a lock has several holders, a node's keys do not show which client holds it.
            observe: request.observe && request.scenario.workload.permits == 1,
            record_commands: request.observe && request.scenario.workload.lock.is_on_redis(),
            recorder: SharedRecorder::new(request.recorder),
            folder: request
                .presence
                .as_ref()
                .and_then(|file| file.path().parent())
                .map(Path::to_path_buf)
                .unwrap_or_default(),
            board: ClientStates::new(request.scenario.clients),
            hosts: OnceLock::new(),
            seen: SeenSoFar::default(),
            grants: Grants::new(request.scenario),
            usual_timeout_ms: request.header.acquire_timeout_ms,
            status: request.status,
            stop: Flag::default(),
            cut_off: Flag::default(),
            faults_are_over: Flag::default(),
            script_has_begun: Flag::default(),
            script_is_over: Flag::default(),
            without_ttl: left_behind::WithoutTtl::default(),
            next_operation: AtomicU64::new(0),
            in_effect: nemesis::FaultsInEffect::default(),
            hooks: hooks::BegunHooks::default(),
        };
        let outcome = tokio::select! {
            biased;
            // Without the agent, no fault can be healed or observed.
            lost = cluster.agent.lost() => Err(lost.into()),
            outcome = run.run_phases(request.header, &request.interrupt) => outcome,
            path = lost(request.presence.as_ref()) => Err(RunError::HistoryLost { path }),
        };
        let outcome = match outcome {
            // If the agent is gone, other parts may be gone too. The agent's end explains this better than the first symptom.
            Err(error) => Err(cluster.agent.heartbeat().await.err().map_or(error, RunError::Agent)),
            went_on => went_on,
        };
        let end = match &outcome {
            Ok(interrupted) => End {
                completed: !interrupted,
                text: if *interrupted { "interrupted by the user" } else { "ran to its planned end" }.into(),
            },
            Err(error) => {
                run.heal_everything().await;
                // Records stalls, which may explain why the run broke off.
                _ = run.write_waits().await;
                End { completed: false, text: error.to_string() }
            }
        };
        let ended = run.recorder.append(Body::End(end));
        // Return the first error of writing the history.
        outcome?;
        ended?;
        Ok(())
    })
}

/// Resolves to the path of the history when its file is gone.
async fn lost(presence: Option<&Presence>) -> String {
    match presence {
        Some(presence) => {
            presence.lost().await;
            presence.path().display().to_string()
        }
        None => std::future::pending().await,
    }
}

impl Run<'_> {
    /// Runs everything from a started cluster to the last read. True if the user ended the run early.
    async fn run_phases(&self, header: Header, interrupt: &Interrupt) -> Result<bool, RunError> {
        self.recorder.append(Body::Run(Box::new(header)))?;
        let Ok(prepared) = interrupt.unless(self.prepare()).await else { return Ok(true) };
        let (clients, clock) = prepared?;

        self.stage(RUNNING);
        let began = Instant::now();
        let of = self.plan.script.is_empty().then_some(self.scenario.time_limit);
        self.status.send_modify(|status| (status.at, status.of) = (Some(Duration::ZERO), of));
        let (clients, interrupted) = tokio::select! {
            biased;
            worked = self.work_until_the_end(clients, began, interrupt) => worked?,
            never = self.watch_for_lateness(began) => match never? {},
        };
        self.note_ends(&clients)?;
        self.write_commands(clock).await?;
        self.write_sightings(clock).await;
        self.write_waits().await?;

        self.stage("settling");
        match interrupt.within(SETTLE_GRACE, self.settle(interrupted)).await {
            Ok(settled) => settled.map(|()| interrupted),
            Err(Interrupted) => {
                warn!("settling was cut short, so some keys were not read at the end");
                Ok(true)
            }
        }
    }

    /// Heals all faults, waits until nothing can write any more, and reads every key. If the user ended the run, it does not wait
    /// for all nodes to recover. It still makes the final reads, since they may show lost updates.
    async fn settle(&self, interrupted: bool) -> Result<(), RunError> {
        self.heal_everything().await;
        let _ = timeout(BYE_LIMIT, join_all(self.hosts().iter().map(|host| host.send(&ToClient::Bye)))).await;
        self.cluster.stop_clients().await?;
        if !interrupted {
            self.check_health().await?;
        }
        self.look_for_endless_locks().await?;
        self.final_reads().await
    }

    /// Establishes everything that must be true before the first operation.
    async fn prepare(&self) -> Result<(Vec<Client>, ClockBound), RunError> {
        self.stage("waiting for the nodes");
        self.establish_facts().await?;
        let clock = self.cluster.agent.clock_bound(self.recorder.start()).await?;
        self.recorder.append(Body::Clock(clock))?;
        if self.records_commands() {
            self.begin_to_record_commands().await?;
        }
        self.begin_to_observe().await;
        self.begin_to_watch().await;
        self.stage("starting the clients");
        let clients = self.start_clients().await?;
        self.fact(
            FactName::ClientsReady,
            true,
            format!("{} said `ready`", base::words::plural(clients.len() as u64, "client")),
        )?;
        Ok((clients, clock))
    }

    /// Runs clients and faults side by side, until the run stops and everything in flight has ended.
    async fn work(&self, mut clients: Vec<Client>, began: Instant) -> Result<Vec<Client>, RunError> {
        let scripted = match &self.plan.script[..] {
            [] => None,
            _ => Some(ScriptedClients::new(clients.iter_mut().map(Client::follow_script).collect())),
        };
        let clients = all_or_first_error(clients.into_iter().map(|client| self.drive(client)));
        let nemesis = async {
            let over = match scripted {
                Some(clients) => self.run_script(clients).await,
                None => {
                    let series: BTreeSet<usize> = self.plan.faults.iter().map(|planned| planned.series).collect();
                    let series = series.into_iter().map(|series| self.inject_series(series, began));
                    all_or_first_error(series).await.map(|_| ())
                }
            };
            self.faults_are_over.raise();
            over
        };
        tokio::select! {
            biased;
            worked = try_join(clients, nemesis) => Ok(worked?.0),
            never = self.watch_for_strikes() => match never? {},
            never = self.watch_for_promotions() => match never? {},
            never = self.watch_for_long_locks() => match never? {},
            never = self.watch_for_missing_ttl() => match never {},
        }
    }

    /// Works until the time limit or until the user ends the run, then lets operations in flight finish. Returns the clients, and
    /// whether the user ended the run.
    async fn work_until_the_end(
        &self,
        clients: Vec<Client>,
        began: Instant,
        interrupt: &Interrupt,
    ) -> Result<(Vec<Client>, bool), RunError> {
        let work = self.work(clients, began);
        tokio::pin!(work);
        let interrupted = tokio::select! {
            biased;
            // Clients work until they must stop, so this is an error, or a client that had no operations left.
            ended = &mut work => return Ok((ended?, false)),
            () = interrupt.raised() => true,
            () = self.time_is_up(began) => false,
        };
        self.stop.raise();
        self.stage(if interrupted { "stopping" } else { "finishing operations in progress" });
        // Every operation has its own time limits; only the user cuts it short.
        if let Ok(ended) = interrupt.within(HURRY, &mut work).await {
            return Ok((ended?, interrupted));
        }
        self.cut_off.raise();
        // Slower work, such as a restart of a client, is no longer needed, so its clients are dropped.
        let clients = timeout(CUT_LIMIT, work).await.unwrap_or_else(|_| Ok(Vec::new()))?;
        Ok((clients, true))
    }

    /// Waits for the end of the time limit. The plan leaves a quiet time after the last heal. If the last heal was so late that
    /// less than half of the quiet time is left, clients get the whole quiet time. Otherwise the run could not show that clients
    /// recover.
    async fn time_is_up(&self, began: Instant) {
        let end = began + self.scenario.time_limit;
        if self.scenario.nemesis.faults.is_empty() {
            return sleep_until(end).await;
        }
        let healed = timeout(self.scenario.time_limit + MOST_LATE_HEAL, async {
            self.faults_are_over.raised().await;
            Instant::now()
        });
        let ((), healed) = tokio::join!(sleep_until(end), healed);
        let Ok(healed) = healed else { return };
        let quiet = quiet(self.scenario);
        if end.saturating_duration_since(healed) < quiet / 2 {
            self.stage("continuing after a late heal");
            sleep_until(healed + quiet).await;
        }
    }

    /// Records how late timers fire, for as long as it is polled: on an overloaded machine, planned events happen late.
    async fn watch_for_lateness(&self, began: Instant) -> Result<Infallible, RunError> {
        let mut worst = None;
        let mut told = began;
        loop {
            let due = Instant::now() + TICK;
            sleep_until(due).await;
            let late = due.elapsed();
            if Some(late) > worst {
                worst = Some(late);
                self.status.send_modify(|status| status.late = worst);
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                self.status.send_modify(|status| status.at = Some(began.elapsed()));
            }
            if late > self.least_stall() {
                let lasted_ns = nanos(late);
                self.recorder.append(Body::Stall(Stall { lasted_ns }))?;
            }
        }
    }

    fn least_stall(&self) -> Duration {
        LEAST_STALL.min(self.scenario.ttl / 2)
    }

    fn hosts(&self) -> &[Arc<ClientHost>] {
        self.hosts.get().map_or(&[], Vec::as_slice)
    }

    fn stage(&self, stage: &str) {
        info!(stage);
        self.status.send_modify(|status| status.stage = stage.to_string());
    }

    fn next_operation_id(&self) -> u64 {
        self.next_operation.fetch_add(1, Ordering::Relaxed)
    }

    fn overlapped(&self, pairs: u64) {
        // For a lock with several permits, overlapping pairs prove nothing.
        if pairs > 0 && self.scenario.workload.permits == 1 {
            self.status.send_modify(|status| status.overlaps += pairs);
        }
    }

    fn count(&self, outcome: Outcome) {
        self.status.send_modify(|status| match outcome {
            Outcome::Ok => status.ok += 1,
            Outcome::Fail => status.fail += 1,
            Outcome::Info => status.info += 1,
        });
    }
}

/// The results of all futures in order, or the first error. `try_join_all` polls all futures whenever one is ready. With more
/// than thirty futures, it returns an error only after all futures before it have ended.
async fn all_or_first_error<T, E>(
    work: impl IntoIterator<Item = impl Future<Output = Result<T, E>>>,
) -> Result<Vec<T>, E> {
    let work = (0_usize..).zip(work).map(|(place, work)| async move { Ok((place, work.await?)) });
    let mut done: Vec<(usize, T)> = work.collect::<FuturesUnordered<_>>().try_collect().await?;
    done.sort_unstable_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests;
