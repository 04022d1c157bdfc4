//! The controller's end of the agent: orders go out with a number, answers go to whoever waits for that number.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::injection::Injection;
use super::wire::{Answer, Observation, Order, RedisCommand, RedisReply, Request, Response, Scope};
use crate::history::ClockBound;

/// Why an order was not carried out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AgentError {
    /// The agent tried and says why not.
    #[error("{0}")]
    Refused(String),
    #[error("the agent is gone ({0})")]
    Gone(String),
    #[error("no answer from the agent within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("the agent's answer does not fit the question")]
    Confused,
}

/// An agent's stdin and the lines of its stdout.
pub struct AgentStreams {
    pub stdin: Pin<Box<dyn AsyncWrite + Send>>,
    pub lines: mpsc::Receiver<Vec<u8>>,
}

/// A running agent. Clones talk to the same one; when the last is dropped, it heals everything and ends.
#[derive(Clone)]
pub struct Agent(Arc<Shared>);

struct Shared {
    stdin: tokio::sync::Mutex<Pin<Box<dyn AsyncWrite + Send>>>,
    next_id: AtomicU64,
    waiting: Arc<Waiting>,
}

type Waiting = Mutex<Pending>;

#[derive(Default)]
struct Pending {
    answers: BTreeMap<u64, oneshot::Sender<Answer>>,
    /// Set when the agent's output ended: nobody will answer any more.
    gone: bool,
}

/// Longer than any fault takes to be observed, but short enough to wait for.
const ORDER_LIMIT: Duration = Duration::from_secs(5);
/// Round trips for one bound on the clock.
const CLOCK_ROUND_TRIPS: usize = 20;

impl Agent {
    /// Connects to an agent over its streams.
    pub fn connect(streams: AgentStreams) -> Agent {
        let waiting = Arc::new(Waiting::default());
        let mut lines = streams.lines;
        let answers = Arc::clone(&waiting);
        tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                match serde_json::from_slice::<Response>(&line) {
                    Ok(response) => {
                        if let Some(asked) = lock(&answers).answers.remove(&response.id) {
                            // The caller may have given up.
                            let _ = asked.send(response.answer);
                        }
                    }
                    Err(error) => tracing::warn!("the agent sent an answer that can't be read: {error}"),
                }
            }
            let mut pending = lock(&answers);
            pending.gone = true;
            pending.answers.clear();
        });
        let stdin = tokio::sync::Mutex::new(streams.stdin);
        Agent(Arc::new(Shared { stdin, next_id: AtomicU64::new(0), waiting }))
    }

    /// Tells the agent which bridge joins the members, and the name of the table for its packet rules. An error names
    /// what network faults lack here.
    pub async fn network(&self, bridge: &str, table: &str) -> Result<(), AgentError> {
        self.done(Order::Network { bridge: bridge.to_string(), table: table.to_string() }).await
    }

    /// Makes a process and what belongs to it a member that faults can be injected into. A name that is already known
    /// stands for the new process from now on.
    pub async fn adopt(
        &self,
        member: &str,
        pid: u32,
        scope: Scope,
        address: Option<Ipv4Addr>,
    ) -> Result<(), AgentError> {
        self.done(Order::Adopt { member: member.to_string(), pid, scope, address }).await
    }

    /// Injects a fault under this number. Returns once its effect was observed, or was not observed in time. Heal it
    /// even if the agent could not carry it out in full.
    pub async fn inject(&self, fault: u32, injection: &Injection) -> Result<Observation, AgentError> {
        self.observed(Order::Inject { fault, injection: injection.clone() }).await
    }

    /// Undoes a fault. Returns once that was observed, or was not in time. Harmless if there is nothing to undo.
    pub async fn heal(&self, fault: u32) -> Result<Observation, AgentError> {
        self.observed(Order::Heal { fault }).await
    }

    /// Undoes every fault still in effect, and returns what was seen of each.
    pub async fn heal_all(&self) -> Result<Vec<Observation>, AgentError> {
        match self.order(Order::HealAll, ORDER_LIMIT).await? {
            Answer::ObservedAll(observations) => Ok(observations),
            _ => Err(AgentError::Confused),
        }
    }

    /// Makes sure that no fault is in effect and no packet rule is left, and makes the agent forget every member.
    pub async fn start_anew(&self) -> Result<(), AgentError> {
        self.done(Order::StartAnew).await
    }

    /// Removes everything that clients left on a Redis and checks that it is gone, within `limit`.
    pub async fn clear(&self, url: &str, limit: Duration) -> Result<(), AgentError> {
        let order = Order::Clear { url: url.to_string(), limit_ms: millis(limit) };
        match self.order(order, limit + ORDER_LIMIT).await? {
            Answer::Done => Ok(()),
            _ => Err(AgentError::Confused),
        }
    }

    /// Asks a server, within `limit`.
    pub async fn redis(&self, url: &str, command: RedisCommand, limit: Duration) -> Result<RedisReply, AgentError> {
        let order = Order::Redis { url: url.to_string(), command, limit_ms: millis(limit) };
        match self.order(order, limit + ORDER_LIMIT).await? {
            Answer::Redis(reply) => Ok(reply),
            _ => Err(AgentError::Confused),
        }
    }

    /// How the members' monotonic clock relates to the time since `start`.
    ///
    /// Each round trip bounds the difference from both sides; all of them together give the tightest bound.
    pub async fn clock_bound(&self, start: Instant) -> Result<ClockBound, AgentError> {
        let mut lowest = i64::MIN;
        let mut highest = i64::MAX;
        let mut tightest: Option<(i64, i64)> = None;
        for _ in 0..CLOCK_ROUND_TRIPS {
            let sent = nanos_since(start);
            let Answer::Clock { mono_ns } = self.order(Order::Clock, ORDER_LIMIT).await? else {
                return Err(AgentError::Confused);
            };
            let received = nanos_since(start);
            // The clock was read at some moment between the two.
            let (low, high) = (mono_ns - received, mono_ns - sent);
            lowest = lowest.max(low);
            highest = highest.min(high);
            if tightest.is_none_or(|(low, high)| received - sent < high - low) {
                tightest = Some((low, high));
            }
        }
        // Clocks that drift apart leave no common interval; then the shortest round trip counts.
        let (low, high) = if lowest <= highest { (lowest, highest) } else { tightest.ok_or(AgentError::Confused)? };
        let width = high.abs_diff(low);
        Ok(ClockBound { mono_at_start_ns: low + i64::try_from(width / 2).unwrap_or(0), error_ns: width.div_ceil(2) })
    }

    /// Asks the agent to end by closing its stdin. It heals everything first. Later orders fail.
    pub async fn close(&self) {
        let mut stdin = self.0.stdin.lock().await;
        let _ = timeout(ORDER_LIMIT, stdin.shutdown()).await;
    }

    async fn done(&self, order: Order) -> Result<(), AgentError> {
        match self.order(order, ORDER_LIMIT).await? {
            Answer::Done => Ok(()),
            _ => Err(AgentError::Confused),
        }
    }

    async fn observed(&self, order: Order) -> Result<Observation, AgentError> {
        match self.order(order, ORDER_LIMIT).await? {
            Answer::Observed(observation) => Ok(observation),
            _ => Err(AgentError::Confused),
        }
    }

    async fn order(&self, order: Order, limit: Duration) -> Result<Answer, AgentError> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let mut line = serde_json::to_vec(&Request { id, order }).map_err(|error| gone(&error))?;
        line.push(b'\n');
        let (sender, answer) = oneshot::channel();
        {
            let mut pending = lock(&self.0.waiting);
            if pending.gone {
                return Err(AgentError::Gone("its output has ended".to_string()));
            }
            pending.answers.insert(id, sender);
        }
        let asked = async {
            {
                let mut stdin = self.0.stdin.lock().await;
                stdin.write_all(&line).await.map_err(|error| gone(&error))?;
                stdin.flush().await.map_err(|error| gone(&error))?;
            }
            answer.await.map_err(|_| AgentError::Gone("its output has ended".to_string()))
        };
        let answer = timeout(limit, asked).await;
        lock(&self.0.waiting).answers.remove(&id);
        match answer {
            Err(_) => Err(AgentError::Timeout(limit)),
            Ok(Err(error)) => Err(error),
            Ok(Ok(Answer::Failed(reason))) => Err(AgentError::Refused(reason)),
            Ok(Ok(answer)) => Ok(answer),
        }
    }
}

fn gone(error: &dyn std::error::Error) -> AgentError {
    AgentError::Gone(error.to_string())
}

fn millis(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
}

fn nanos_since(start: Instant) -> i64 {
    i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX)
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, Pending> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
