//! From images to a cluster that answers: a network, then all members at once, then the agent takes hold of each.
//!
//! A start that fails removes what it had made before it says why.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, StartContainerOptions};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc;

use super::cluster::{Cluster, Description, Seat};
use super::containers::{Plan, RTO_SYSCTL, plan};
use super::engine::Docker;
use super::error::{ClusterError, ask, one_line};
use super::lines::{ClientOutput, ClientProcess, Log, follow};
use super::network::Network;
use super::starts::{GiveUpWhenDropped, Start};
use super::{AGENT, ClusterSpec, Member, REDIS_PORT, Role, container_name, network_name, nft};
use crate::faults::{Agent, AgentStreams, RedisCommand, RedisReply, Scope};

/// A Redis answers within a tenth of a second of its start; a loaded machine gets more.
const READY_LIMIT: Duration = Duration::from_secs(15);
/// For one question to one that may not listen yet.
const PROBE_LIMIT: Duration = Duration::from_secs(1);
const ASK_AGAIN: Duration = Duration::from_millis(10);
/// How often, and after what time each, the engine is asked whether a process ended that the agent did not find.
const LAST_LOOKS: u32 = 20;
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Members on which the engine works at the same time. With a hundred at once each would wait for all the others, and
/// some beyond its time limit.
pub(crate) const AT_ONCE: usize = 16;

/// A member whose container runs.
struct Started {
    member: Member,
    log: Log,
    process: Option<ClientProcess>,
}

impl Docker {
    /// Starts a cluster and waits until every server answers and every client process runs.
    ///
    /// To give up a start, drop the future and call [`Docker::remove_run`], which waits for what is still being made.
    pub async fn start(&self, spec: ClusterSpec) -> Result<Cluster, ClusterError> {
        check_run_id(&spec.run_id)?;
        let start = self.starts.begin(&spec.run_id)?;
        let dropped = GiveUpWhenDropped(Arc::clone(&start));
        // In a task of its own: a request that is dropped half-way is still carried out by the engine, and nobody would
        // know when.
        let docker = self.clone();
        let task = tokio::spawn(async move {
            let _busy = start.busy.lock().await;
            docker.start_new(&spec, &start).await
        });
        let result = task.await;
        drop(dropped);
        result.unwrap_or_else(|error| {
            let doing = "start the cluster".to_string();
            Err(ClusterError::Engine { doing, reason: error.to_string(), status: None })
        })
    }

    async fn start_new(&self, spec: &ClusterSpec, start: &Start) -> Result<Cluster, ClusterError> {
        if spec.network_faults && nft::find().is_none() {
            return Err(ClusterError::NoNft);
        }
        if !self.containers_of(&spec.run_id).await?.is_empty() {
            return Err(ClusterError::RunExists { run_id: spec.run_id.clone() });
        }
        let short_rto = self.engine.kernel_is_at_least(6, 15);
        match self.start_or_remove(spec, short_rto, start).await {
            // The kernel has it, and the engine still does not let it be set.
            Err(error) if short_rto && error.says(RTO_SYSCTL) => self.start_or_remove(spec, false, start).await,
            other => other,
        }
    }

    async fn start_or_remove(
        &self,
        spec: &ClusterSpec,
        short_rto: bool,
        start: &Start,
    ) -> Result<Cluster, ClusterError> {
        let result = self.start_members(spec, short_rto, start).await;
        if result.is_err()
            && let Err(error) = self.remove_remains(&spec.run_id).await
        {
            tracing::warn!("what the failed start had made is still there: {error}");
        }
        result
    }

    async fn start_members(&self, spec: &ClusterSpec, short_rto: bool, start: &Start) -> Result<Cluster, ClusterError> {
        let began = Instant::now();
        let network = self.make_network(spec).await?;
        tracing::debug!("network made after {:?}", began.elapsed());
        let plans = plan(spec, &network, short_rto);
        // Every one is awaited even when one fails, so that none is still being made while they are removed.
        let starts = plans.into_iter().map(|plan| self.start_member(&spec.run_id, plan, start));
        let started: Vec<_> = stream::iter(starts).buffered(AT_ONCE).collect().await;
        let mut started = started.into_iter().collect::<Result<Vec<Started>, _>>()?;
        start.go_on()?;
        tracing::debug!("members started after {:?}", began.elapsed());
        let agent = agent_of(&mut started)?;
        if spec.network_faults {
            // The run's name tells `redjepsen clean` whose table it is.
            let told = agent.network(&network.bridge, &network_name(&spec.run_id)).await;
            told.map_err(|error| ClusterError::NoNetworkFaults { reason: error.to_string() })?;
        }
        let cluster = seat(self, spec, network, started, agent);
        stream::iter(&cluster.seats).map(Ok).try_for_each_concurrent(AT_ONCE, |seat| cluster.settle(seat)).await?;
        let server = cluster.server_version().await?;
        tracing::debug!("cluster ready after {:?}", began.elapsed());
        Ok(Cluster { description: Description { server, ..cluster.description }, ..cluster })
    }

    async fn start_member(&self, run_id: &str, plan: Plan, start: &Start) -> Result<Started, ClusterError> {
        start.go_on()?;
        let name = container_name(run_id, &plan.name);
        let options = CreateContainerOptionsBuilder::new().name(&name).build();
        let doing = format!("make the container {name}");
        let made = ask(doing, self.api.create_container(Some(options), plan.body)).await.map_err(|error| {
            if error.is_conflict() { ClusterError::RunExists { run_id: run_id.to_string() } } else { error }
        })?;
        let log = Log::default();
        let container = made.id;
        start.go_on()?;
        self.upload(&plan.name, &container, plan.upload).await?;
        let process = match plan.role {
            Role::Client | Role::Agent => Some(self.start_attached(&plan.name, &container, &log).await?),
            Role::Node | Role::Store => {
                let start = self.api.start_container(&container, None::<StartContainerOptions>);
                ask(format!("start {}", plan.name), start).await?;
                None
            }
        };
        let member = Member { name: plan.name, role: plan.role, address: plan.address, container };
        Ok(Started { member, log, process })
    }

    /// Starts a container's process with its stdio in hand; attached before the start, so that no byte is lost.
    pub(crate) async fn start_attached(
        &self,
        member: &str,
        container: &str,
        log: &Log,
    ) -> Result<ClientProcess, ClusterError> {
        let options = AttachContainerOptionsBuilder::new().stream(true).stdin(true).stdout(true).stderr(true).build();
        let attached = ask(format!("attach to {member}"), self.api.attach_container(container, Some(options))).await?;
        let process = follow(attached, container.to_string(), log.clone());
        let start = self.api.start_container(container, None::<StartContainerOptions>);
        ask(format!("start {member}"), start).await?;
        Ok(process)
    }
}

/// Takes the agent's stdio from among the members and speaks to it.
fn agent_of(started: &mut [Started]) -> Result<Agent, ClusterError> {
    let agent = started.iter_mut().find(|started| started.member.role == Role::Agent);
    let missing = || ClusterError::UnknownMember { member: AGENT.to_string() };
    let mut process = agent.and_then(|agent| agent.process.take()).ok_or_else(missing)?;
    let (sender, lines) = mpsc::channel(64);
    tokio::spawn(async move {
        while let Some(output) = process.output.recv().await {
            match output {
                ClientOutput::Stdout(line) => {
                    if sender.send(line).await.is_err() {
                        return;
                    }
                }
                ClientOutput::Stderr(line) => tracing::info!("agent: {}", String::from_utf8_lossy(&line)),
                ClientOutput::TooLong { .. } => tracing::warn!("the agent's answer is too long"),
                ClientOutput::Closed(_) => return,
            }
        }
    });
    Ok(Agent::connect(AgentStreams { stdin: process.stdin, lines }))
}

fn seat(docker: &Docker, spec: &ClusterSpec, network: Network, started: Vec<Started>, agent: Agent) -> Cluster {
    let seats = started.into_iter().map(|started| {
        Arc::new(Seat { member: started.member, log: started.log, waiting: std::sync::Mutex::new(started.process) })
    });
    Cluster {
        docker: docker.clone(),
        run_id: spec.run_id.clone(),
        description: Description {
            engine: docker.engine.clone(),
            node_image: spec.images.node.image.clone(),
            server: String::new(),
            subnet: network.subnet,
        },
        seats: seats.collect(),
        agent,
    }
}

impl Cluster {
    /// Sees to it that a member that was just started runs, is known to the agent, and answers.
    pub(crate) async fn settle(&self, seat: &Seat) -> Result<(), ClusterError> {
        if seat.member.role == Role::Agent {
            return Ok(());
        }
        self.adopt(seat).await?;
        if seat.member.role.is_server() { self.wait_until_ready(seat).await } else { Ok(()) }
    }

    /// Makes the process of a member's container known to the agent, so that faults can reach it.
    pub(crate) async fn adopt(&self, seat: &Seat) -> Result<(), ClusterError> {
        let name = &seat.member.name;
        let before = self.running_pid(seat).await?;
        if let Err(source) = self.agent.adopt(name, before, Scope::Namespace, seat.member.address).await {
            // Most likely the process ended just now, which the engine is about to note and which explains more.
            for _ in 0..LAST_LOOKS {
                self.running_pid(seat).await?;
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            return Err(ClusterError::Agent { doing: format!("take hold of {name}"), source });
        }
        // Were it another PID now, the agent might hold a stranger that got the first one.
        let after = self.running_pid(seat).await?;
        if before == after { Ok(()) } else { Err(self.died(seat, "its process was replaced".to_string()).await) }
    }

    async fn running_pid(&self, seat: &Seat) -> Result<u32, ClusterError> {
        let member = &seat.member;
        let found = ask(format!("look at {}", member.name), self.docker.api.inspect_container(&member.container, None));
        let state = found.await?.state.unwrap_or_default();
        match state.pid.and_then(|pid| u32::try_from(pid).ok()) {
            Some(pid) if pid > 0 && state.running == Some(true) => Ok(pid),
            _ => {
                let code = state.exit_code.map(|code| format!("exit code {code}"));
                Err(self.died(seat, code.unwrap_or_else(|| "for no known reason".to_string())).await)
            }
        }
    }

    async fn wait_until_ready(&self, seat: &Seat) -> Result<(), ClusterError> {
        let began = Instant::now();
        let url = seat.member.address.map(url).unwrap_or_default();
        loop {
            let reason = match self.agent.redis(&url, RedisCommand::Ping, PROBE_LIMIT).await {
                Ok(RedisReply::Pong) => return Ok(()),
                Ok(other) => format!("{other:?} to PING"),
                Err(error) => error.to_string(),
            };
            if began.elapsed() > READY_LIMIT {
                // A container that ended is the better explanation.
                self.running_pid(seat).await?;
                let (member, log) = (seat.member.name.clone(), self.last_words(seat).await);
                return Err(ClusterError::NotReady { member, seconds: READY_LIMIT.as_secs(), reason, log });
            }
            if began.elapsed() > PROBE_LIMIT {
                self.running_pid(seat).await?;
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    async fn died(&self, seat: &Seat, state: String) -> ClusterError {
        // What a client wrote last may still be on its way here.
        if !seat.member.role.is_server() && seat.log.text().is_empty() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        ClusterError::MemberDied { member: seat.member.name.clone(), state, log: self.last_words(seat).await }
    }

    /// The end of a member's log, for the one line of an error.
    async fn last_words(&self, seat: &Seat) -> String {
        let text = self.log_of(seat, Some(3)).await.unwrap_or_default();
        let text = one_line(&String::from_utf8_lossy(&text));
        let tail: String = text.chars().skip(text.chars().count().saturating_sub(300)).collect();
        if tail.is_empty() { String::new() } else { format!("; its log ends with: {tail}") }
    }

    async fn server_version(&self) -> Result<String, ClusterError> {
        let failed = |source| ClusterError::Agent { doing: "ask for the server's version".to_string(), source };
        match self.agent.redis(&self.store_url(), RedisCommand::Version, PROBE_LIMIT).await.map_err(failed)? {
            RedisReply::Version(version) => Ok(version),
            other => Ok(format!("{other:?}")),
        }
    }
}

/// How a server is reached.
pub(crate) fn url(address: std::net::Ipv4Addr) -> String {
    format!("redis://{address}:{REDIS_PORT}")
}

fn check_run_id(run_id: &str) -> Result<(), ClusterError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let first = run_id.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if first && run_id.len() <= 64 && run_id.chars().all(allowed) {
        return Ok(());
    }
    Err(ClusterError::BadRunId { run_id: run_id.to_string() })
}
