//! The parts of a started cluster: members with their processes, an agent, and their [`Backend`].

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;

use super::backend::Backend;
use super::lines::{ClientOutput, ClientProcess, Log};
use super::spec::Member;
use crate::faults::{Agent, AgentStreams};
use base::sync::lock;

/// A cluster whose members have been started, and may not be ready yet.
pub struct Parts {
    pub description: Description,
    pub handles: Vec<Arc<MemberHandle>>,
    pub agent: Agent,
    pub backend: Box<dyn Backend>,
    /// At most this many members may be awaited at the same time.
    pub at_once: usize,
}

/// A member, and the controller's data about it.
pub struct MemberHandle {
    pub member: Member,
    pub log: Log,
    /// The process of a client that was started with the cluster, until a caller takes it.
    waiting: Mutex<Option<ClientProcess>>,
    /// How many bytes of the member's log are already in the folders of earlier runs.
    pub collected: AtomicUsize,
}

/// The system that a cluster runs on, for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The kind of cluster, such as `docker`.
    pub cluster: &'static str,
    /// The nodes' program: an image, or the path of a program.
    pub nodes: String,
    /// The servers' own name and version, such as `redis 7.0.15`.
    pub server: String,
    /// The kernel that all members share; empty if they are simulated.
    pub kernel: String,
    /// The engine's version, if there is an engine.
    pub engine: Option<String>,
    pub subnet: ipnet::Ipv4Net,
}

impl MemberHandle {
    pub fn new(member: Member) -> MemberHandle {
        MemberHandle { member, log: Log::default(), waiting: Mutex::new(None), collected: AtomicUsize::new(0) }
    }

    /// Keeps a process until `take` takes it.
    pub fn keep(&self, process: ClientProcess) {
        *lock(&self.waiting) = Some(process);
    }

    pub fn take(&self) -> Option<ClientProcess> {
        lock(&self.waiting).take()
    }
}

/// Connects to the agent behind this process's stdio.
pub fn agent_on(mut process: ClientProcess) -> Agent {
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
    Agent::connect(AgentStreams { stdin: process.stdin, lines })
}
