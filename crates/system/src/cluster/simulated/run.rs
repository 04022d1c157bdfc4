//! Starts and ends the members of a simulated cluster, and its agent.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ipnet::Ipv4Net;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::super::backend::Backend;
use super::super::error::ClusterError;
use super::super::lines::{ClientOutput, ClientProcess, Log};
use super::super::spec::{ClusterSpec, Member, MemberState};
use super::Simulated;
use super::bug_injector::BugInjector;
use super::host::SimulatedHost;
use super::machine::{Inside, Stoppable};
use super::servers::{Program, version};
use super::world::{Machine, What, World};
use crate::client;
use crate::faults::{Agent, AgentStreams, Request, SeenCommand, Sighting, serve_orders};
use base::members::Role;
use model::topology::NamedServer;

/// The capacity of a pipe in bytes.
const PIPE: usize = 64 << 10;
/// At most this many answers of the agent may wait.
const ANSWERS: usize = 1024;
/// How long a process takes to start, in milliseconds: the shortest and the longest time measured with real processes.
const STARTS_IN: (f64, f64) = (20.0, 100.0);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

pub struct SimulatedRun {
    world: Arc<World>,
    /// The agent's address.
    gateway: Ipv4Addr,
    /// The task that carries out the world's events.
    engine: JoinHandle<()>,
    /// The server that nodes behave as unless they are upgraded.
    server: Option<NamedServer>,
}

impl SimulatedRun {
    pub(super) fn new(
        Simulated { seed, distance }: Simulated,
        bugs: Option<Arc<dyn BugInjector>>,
        spec: &ClusterSpec,
        members: &[Member],
        subnet: Ipv4Net,
    ) -> SimulatedRun {
        let (world, layout) = (World::new(seed, distance, bugs), spec.layout(members));
        world.change(|state| {
            let mut numbers = BTreeMap::new();
            for (place, member) in (0..).zip(members) {
                let Some(address) = member.address else { continue };
                let number = numbers.entry(member.role.word()).or_insert(0);
                let program = Program::of(spec, &layout, member, *number, seed.wrapping_add(place));
                *number += 1;
                state.machines.insert(address, Machine::new(&member.name, program));
            }
        });
        let engine = tokio::spawn(Arc::clone(&world).go_on());
        let gateway = subnet.hosts().next().unwrap_or(subnet.network());
        SimulatedRun { world, gateway, engine, server: spec.server.clone() }
    }

    /// Starts the agent as a task, which ends when its orders end.
    pub(super) fn start_agent(&self) -> Agent {
        let (ours, theirs) = duplex(PIPE);
        let (answers, lines) = mpsc::channel(ANSWERS);
        let (orders, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(theirs).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str::<Request>(&line) {
                    Ok(request) => _ = orders.send(request),
                    Err(error) => tracing::warn!("not an order: {error}: {line}"),
                }
            }
        });
        let host = SimulatedHost { world: Arc::clone(&self.world), address: self.gateway };
        let answer = move |response: &_| {
            if let Ok(line) = serde_json::to_vec(response)
                && answers.try_send(line).is_err()
            {
                tracing::warn!("an answer of the agent was not read");
            }
        };
        tokio::spawn(async move {
            if let Err(error) = serve_orders(host, requests, answer, std::future::pending()).await {
                tracing::warn!("{error}");
            }
        });
        Agent::connect(AgentStreams { stdin: Box::pin(ours), lines })
    }

    /// Waits for the time that a process takes to start.
    async fn start_up(&self) {
        let (shortest, longest) = STARTS_IN;
        let takes = shortest + (longest - shortest) * self.world.change(|state| state.draw());
        sleep(Duration::from_millis(takes as u64)).await;
    }

    pub fn running_pid(&self, member: &Member) -> Result<Result<u32, String>, ClusterError> {
        let address = address_of(member)?;
        Ok(self.world.change(|state| match state.machines.get(&address) {
            Some(Machine { running: Some(running), .. }) => Ok(running.pid),
            Some(Machine { ended: Some(code), .. }) => Err(format!("exit code {code}")),
            _ => Err("it was never started".to_string()),
        }))
    }

    pub fn states(&self, members: Vec<&Member>) -> Result<Vec<MemberState>, ClusterError> {
        let state_of = |member: &Member| {
            let state = match member.role {
                Role::Agent => Ok(0),
                _ => self.running_pid(member)?,
            };
            let (name, role, running) = (member.name.clone(), member.role, state.is_ok());
            Ok(MemberState { name, role, running, text: state.map_or_else(|text| text, |_| "Up".to_string()) })
        };
        members.into_iter().map(state_of).collect()
    }

    pub fn remove(&self) {
        self.engine.abort();
    }
}

#[async_trait]
impl Backend for SimulatedRun {
    async fn start_attached(&self, member: &Member, log: &Log) -> Result<ClientProcess, ClusterError> {
        let address = address_of(member)?;
        self.start_up().await;
        let started = |what| self.world.change(|state| state.start(address, what));
        let pid = started(What::Client { task: None, waiting: Vec::new() });
        let inside = Inside { world: Arc::clone(&self.world), address, pid };
        let (stdin, input) = duplex(PIPE);
        let (stdout, output) = duplex(PIPE);
        let (mut stderr, errors) = duplex(PIPE);
        let ended = inside.clone();
        let work = client::serve(input, output, Arc::new(inside.clone()));
        let task = tokio::spawn(async move {
            let outcome = Stoppable { inside, work: Box::pin(work) }.await;
            if let Err(error) = &outcome {
                let _ = stderr.write_all(format!("Error: {error}\n").as_bytes()).await;
            }
            ended.world.change(|state| state.client_ended(address, ended.pid, i32::from(outcome.is_err())));
        });
        self.world.change(|state| {
            if let Some(running) = state.running(address)
                && let What::Client { task: its, .. } = &mut running.what
            {
                *its = Some(task.abort_handle());
            }
        });
        let process = ClientProcess::over(stdin, stdout, errors, log.clone());
        Ok(match self.world.change(|state| state.bugs.clone()) {
            Some(bugs) => overheard(process, bugs, member.name.clone()),
            None => process,
        })
    }

    async fn start_server(&self, member: &Member, program: Option<&NamedServer>) -> Result<(), ClusterError> {
        let address = address_of(member)?;
        self.start_up().await;
        let version = version(program.or(self.server.as_ref()))?;
        self.world.change(|state| {
            if let Some(Program::Redis(config)) =
                state.machines.get_mut(&address).and_then(|machine| machine.program.as_mut())
            {
                config.version = version;
            }
        });
        let unknown = || ClusterError::NoServer { member: member.name.clone() };
        self.world.change(|state| state.start_server(address)).map(|_| ()).ok_or_else(unknown)
    }

    async fn kill(&self, member: &Member) -> Result<(), ClusterError> {
        let address = address_of(member)?;
        self.world.change(|state| state.kill(address, false));
        Ok(())
    }

    async fn wait_for_end(&self, member: &Member, limit: Duration) -> Result<(), ClusterError> {
        let (address, began) = (address_of(member)?, Instant::now());
        while self.world.change(|state| state.running(address).is_some()) {
            if began.elapsed() >= limit {
                return Err(ClusterError::Timeout { doing: format!("end {}", member.name), seconds: limit.as_secs() });
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    async fn running_pid(&self, member: &Member) -> Result<Result<u32, String>, ClusterError> {
        self.running_pid(member)
    }

    async fn states(&self, _: &str, members: Vec<&Member>) -> Result<Vec<MemberState>, ClusterError> {
        self.states(members)
    }

    /// Simulated servers write no log.
    async fn server_log(&self, _: &Member, _: Option<u32>) -> Result<Vec<u8>, ClusterError> {
        Ok(Vec::new())
    }

    fn observe(&self) -> bool {
        self.world.change(|state| state.begin_to_look());
        true
    }

    async fn record_commands(&self, _: bool) -> Option<Result<(), String>> {
        self.world.change(|state| state.begin_to_record());
        Some(Ok(()))
    }

    fn recorded_commands(&self) -> Option<Vec<(String, SeenCommand)>> {
        Some(self.world.change(|state| state.executed.take()).unwrap_or_default())
    }

    fn observed(&self) -> Option<Vec<Sighting>> {
        Some(self.world.change(|state| state.sightings.take()).map(|mut seen| seen.take()).unwrap_or_default())
    }

    async fn remove(&self, _: &str) -> Result<(), ClusterError> {
        self.remove();
        Ok(())
    }
}

impl Drop for SimulatedRun {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A client whose lines pass through `bugs` before the controller gets them.
fn overheard(process: ClientProcess, bugs: Arc<dyn BugInjector>, name: String) -> ClientProcess {
    let ClientProcess { stdin, output: mut said } = process;
    let (sender, output) = mpsc::channel(ANSWERS);
    tokio::spawn(async move {
        while let Some(said) = said.recv().await {
            let heard = match said {
                ClientOutput::Stdout(line) => bugs.says(&name, line).into_iter().map(ClientOutput::Stdout).collect(),
                other => vec![other],
            };
            for line in heard {
                let _ = sender.send(line).await;
            }
        }
    });
    ClientProcess { stdin, output }
}

fn address_of(member: &Member) -> Result<Ipv4Addr, ClusterError> {
    member.address.ok_or_else(|| ClusterError::UnknownMember { member: member.name.clone() })
}
