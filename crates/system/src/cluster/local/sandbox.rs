//! The controller's end of the sandbox: each order has a number, and its answer goes to the caller that waits for this number.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::cluster::error::ClusterError;
use crate::cluster::lines::{ClientProcess, Log};
use crate::cluster::sandbox::channel::{
    Begin, Channel, MemberStatus, Reply, SandboxAnswer, SandboxOrder, SandboxRequest, Spawn,
};
use base::sync::lock;
use base::units::millis;

/// Time limit of an order. The sandbox does everything within milliseconds; a loaded machine gets more time.
const LIMIT: Duration = Duration::from_secs(10);

pub(super) struct Sandbox {
    channel: Arc<Channel>,
    next_id: AtomicU64,
    waiting: Arc<Mutex<PendingAnswers>>,
    process: tokio::sync::Mutex<Child>,
}

#[derive(Default)]
struct PendingAnswers {
    answers: HashMap<u64, oneshot::Sender<SandboxAnswer>>,
    /// Set when the sandbox is gone: no more answers will come.
    gone: bool,
}

impl Sandbox {
    /// Starts a sandbox. The sandbox is also the agent, and its stdio is the agent's. `program` is redjepsen.
    pub async fn start(program: &Path, begin: Begin, log: &Log) -> Result<(Sandbox, ClientProcess), ClusterError> {
        let fail = |error: std::io::Error| failed("start the sandbox", &error.to_string());
        let (ours, theirs) = Channel::pair().map_err(fail)?;
        let mut command = Command::new(program);
        command.arg("sandbox").stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
        // Members inherit this process's environment, but no client may get the password of a server.
        command.env_remove(remote::PASSWORD);
        // Ctrl-C in a terminal reaches the whole process group, but the sandbox must live until the run has healed its faults.
        command.process_group(0);
        // Ends the sandbox if the start is cancelled before the agent exists.
        command.kill_on_drop(true);
        let mut process = command.spawn().map_err(fail)?;
        // The command still holds the sandbox's end. Dropping it lets the controller see when the sandbox dies.
        drop(command);
        let stderr = process.stderr.take().ok_or_else(|| failed("start the sandbox", "it has no stderr"))?;
        let (stream, theirs) = UnixStream::pair().map_err(fail)?;
        let theirs = OwnedFd::from(theirs.into_std().map_err(fail)?);

        let waiting = Arc::new(Mutex::new(PendingAnswers::default()));
        let channel = Arc::new(ours);
        let (reader, answers) = (Arc::clone(&channel), Arc::clone(&waiting));
        // A plain thread. It ends with the sandbox.
        let reading =
            std::thread::Builder::new().name("sandbox".to_string()).spawn(move || read_answers(&reader, &answers));
        reading.map_err(fail)?;
        let sandbox =
            Sandbox { channel, next_id: AtomicU64::new(0), waiting, process: tokio::sync::Mutex::new(process) };

        let (answers, orders) = stream.into_split();
        let agent = ClientProcess::over(orders, answers, stderr, log.clone());
        match sandbox.order("begin", SandboxOrder::Begin(begin), vec![theirs], LIMIT).await {
            Ok(SandboxAnswer::Failed(reason)) => Err(ClusterError::NoNamespaces { reason }),
            Ok(_) => Ok((sandbox, agent)),
            Err(error) => Err(error),
        }
    }

    /// Starts a member's process.
    pub async fn spawn(&self, spawn: Spawn, stdio: [OwnedFd; 3]) -> Result<(), ClusterError> {
        let doing = format!("start {}", spawn.member);
        match self.order(&doing, SandboxOrder::Spawn(spawn), stdio.into(), LIMIT).await? {
            SandboxAnswer::Failed(reason) => Err(failed(&doing, &reason)),
            _ => Ok(()),
        }
    }

    /// Waits until none of a member's processes run; with `kill`, kills them first. Returns [`ClusterError::Timeout`]
    /// after `limit`.
    pub async fn end(&self, member: &str, kill: bool, limit: Duration) -> Result<(), ClusterError> {
        let doing = format!("wait until {member} has exited");
        let limit_ms = millis(limit);
        let order = SandboxOrder::End { member: member.to_string(), kill, limit_ms };
        match self.order(&doing, order, Vec::new(), limit + LIMIT).await? {
            SandboxAnswer::Failed(reason) => Err(failed(&doing, &reason)),
            SandboxAnswer::StillRuns => Err(ClusterError::Timeout { doing, seconds: limit.as_secs() }),
            _ => Ok(()),
        }
    }

    /// The state of every member that was ever started, by name.
    pub async fn states(&self) -> Result<HashMap<String, MemberStatus>, ClusterError> {
        match self.order("look at its members", SandboxOrder::States, Vec::new(), LIMIT).await? {
            SandboxAnswer::States(states) => Ok(states.into_iter().collect()),
            other => Err(failed("look at its members", &format!("{other:?}"))),
        }
    }

    /// Waits until the sandbox has ended; it ends when the agent's stdin closes. Kills it if it does not end within `limit`.
    pub async fn wait(&self, limit: Duration) -> Result<(), ClusterError> {
        let fail = |error: std::io::Error| failed("end the sandbox", &error.to_string());
        let mut process = self.process.lock().await;
        if tokio::time::timeout(limit, process.wait()).await.is_err() {
            // The sandbox's processes die with it.
            process.kill().await.map_err(fail)?;
        }
        Ok(())
    }

    async fn order(
        &self,
        doing: &str,
        order: SandboxOrder,
        descriptors: Vec<OwnedFd>,
        limit: Duration,
    ) -> Result<SandboxAnswer, ClusterError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = lock(&self.waiting);
            if waiting.gone {
                return Err(failed(doing, "the sandbox is gone"));
            }
            waiting.answers.insert(id, sender);
        }
        let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(std::os::fd::AsFd::as_fd).collect();
        let sent = self.channel.send(&SandboxRequest { id, order }, &borrowed);
        // The sandbox has its own copies by now. A pipe ends only when all its writers have closed it.
        drop(borrowed);
        drop(descriptors);
        let answer = match sent {
            Ok(()) => tokio::time::timeout(limit, answer).await,
            Err(error) => {
                lock(&self.waiting).answers.remove(&id);
                return Err(failed(doing, &error.to_string()));
            }
        };
        lock(&self.waiting).answers.remove(&id);
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(failed(doing, "the sandbox is gone")),
            Err(_) => Err(ClusterError::Timeout { doing: doing.to_string(), seconds: limit.as_secs() }),
        }
    }
}

fn read_answers(channel: &Channel, waiting: &Mutex<PendingAnswers>) {
    loop {
        match channel.receive::<Reply>() {
            Ok(Some((reply, _))) => {
                if let Some(asked) = lock(waiting).answers.remove(&reply.id) {
                    // The caller may have given up.
                    let _ = asked.send(reply.answer);
                }
            }
            Ok(None) => break,
            Err(error) => {
                tracing::warn!("the sandbox sent an unreadable answer: {error}");
                break;
            }
        }
    }
    let mut waiting = lock(waiting);
    waiting.gone = true;
    waiting.answers.clear();
}

fn failed(doing: &str, reason: &str) -> ClusterError {
    ClusterError::Local { doing: doing.to_string(), reason: reason.to_string() }
}
