//! The controller's end of the agent: each order has a number, and its answer goes to the caller that waits for this number.
//!
//! One task writes all orders, so each order is written whole even if its caller no longer waits. The controller notices a dead
//! agent by the end of its output, and a stopped agent by its silence ([`Agent::lost`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::injection::Injection;
use super::monitor::SeenCommand;
use super::wire::{Answer, Observation, Order, RedisCommand, RedisReply, Request, Response, Scope, Struck};
use base::sync::lock;
use base::units::{millis, nanos};
use model::history::{ClockBound, Sighting, Waited};

/// Why an order was not carried out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AgentError {
    /// The agent tried and says why it failed.
    #[error("{0}")]
    Refused(String),
    #[error("the connection to redjepsen's fault agent is lost ({0})")]
    Gone(String),
    #[error("no answer from redjepsen's fault agent within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error(
        "redjepsen's fault agent has been silent for {} ms: its process was stopped, or its machine is overloaded",
        .0.as_millis()
    )]
    Silent(Duration),
    #[error("unexpected reply from the agent")]
    Confused,
}

/// An agent's stdin and the lines of its stdout.
pub struct AgentStreams {
    pub stdin: Pin<Box<dyn AsyncWrite + Send>>,
    pub lines: mpsc::Receiver<Vec<u8>>,
}

/// A running agent. All clones talk to the same agent; when the last clone is dropped, the agent heals everything and ends.
#[derive(Clone)]
pub struct Agent(Arc<Shared>);

struct Shared {
    /// Lines for the agent; None once `close` was called.
    orders: Mutex<Option<UnboundedSender<Vec<u8>>>>,
    /// Writes the lines, and closes the agent's stdin after the last one.
    writer: Mutex<Option<JoinHandle<()>>>,
    next_id: AtomicU64,
    waiting: Arc<PendingOrders>,
}

type PendingOrders = Mutex<Pending>;

#[derive(Default)]
struct Pending {
    answers: BTreeMap<u64, oneshot::Sender<Answer>>,
    /// Why no more answers will come; None while the agent answers.
    lost: Option<AgentError>,
}

impl Pending {
    fn lose(&mut self, why: AgentError) {
        self.lost.get_or_insert(why);
        self.answers.clear();
    }
}

/// Time limit of an order. Longer than any fault takes to be observed, but short enough to wait for.
const ORDER_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for the recorded commands: transferring many commands takes a while.
const MONITORED_LIMIT: Duration = Duration::from_secs(20);
/// Pause between an answered heartbeat and the next one.
const HEARTBEAT_PAUSE: Duration = Duration::from_millis(400);
/// An agent that leaves a heartbeat unanswered for this many steps of this length counts as lost. In Docker its answers come
/// through the engine. A busy disk can delay the engine for longer than a second while this process keeps running.
const HEARTBEAT_STEP: Duration = Duration::from_millis(100);
const HEARTBEAT_STEPS: u32 = 30;
/// How long a closed agent may take to read its last orders.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// How many round trips are used for one bound on the clock.
const CLOCK_ROUND_TRIPS: usize = 20;

impl Agent {
    /// Connects to an agent over its streams.
    pub fn connect(streams: AgentStreams) -> Agent {
        let waiting = Arc::new(PendingOrders::default());
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
                    Err(error) => tracing::warn!("the agent sent an unreadable answer: {error}"),
                }
            }
            lock(&answers).lose(output_ended());
        });
        let (orders, lines) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write_lines(streams.stdin, lines, Arc::clone(&waiting)));
        Agent(Arc::new(Shared {
            orders: Mutex::new(Some(orders)),
            writer: Mutex::new(Some(writer)),
            next_id: AtomicU64::new(0),
            waiting,
        }))
    }

    /// Resolves once the agent is lost: it is gone, or it has not answered for three seconds. From then on, every order fails at
    /// once, and only removing the cluster can heal the faults.
    pub async fn lost(&self) -> AgentError {
        loop {
            if let Err(why) = self.heartbeat().await {
                return why;
            }
            sleep(HEARTBEAT_PAUSE).await;
        }
    }

    /// True if the agent is lost.
    pub fn is_lost(&self) -> bool {
        lock(&self.0.waiting).lost.is_some()
    }

    /// Waits for an answer of the agent; an error says why none came. Asks for the agent's clock, which the agent answers even
    /// while it carries out other orders.
    pub async fn heartbeat(&self) -> Result<(), AgentError> {
        let limit = HEARTBEAT_STEP * HEARTBEAT_STEPS;
        let began = Instant::now();
        let asked = self.order::<i64>(Order::Clock, Duration::MAX);
        tokio::pin!(asked);
        for _ in 0..HEARTBEAT_STEPS {
            // The wait consists of steps, and each counts with its nominal length. If this process has to wait for a processor,
            // so does the agent, and its silence proves nothing.
            match timeout(HEARTBEAT_STEP, &mut asked).await {
                Ok(answer) => return answer.map(|_| ()),
                Err(_) => tracing::debug!(elapsed = ?began.elapsed(), "no answer to a heartbeat yet"),
            }
        }
        lock(&self.0.waiting).lose(AgentError::Silent(limit));
        Err(AgentError::Silent(limit))
    }

    /// Until the agent ends, only root on the agent's machine can reach the members' bridge, and members cannot reach the
    /// machine. An error names the missing requirement.
    pub async fn guard(&self, bridge: &str, table: &str) -> Result<(), AgentError> {
        self.order(Order::Guard { bridge: bridge.to_string(), table: table.to_string() }, ORDER_LIMIT).await
    }

    /// Tells the agent the bridge that joins the members, and the name of the table for its packet rules. An error names the
    /// missing requirement of network faults.
    pub async fn network(&self, bridge: &str, table: &str) -> Result<(), AgentError> {
        self.order(Order::Network { bridge: bridge.to_string(), table: table.to_string() }, ORDER_LIMIT).await
    }

    /// Makes a process a member, so that faults can be injected into it. A known name stands for the new process from now on.
    pub async fn adopt(
        &self,
        member: &str,
        pid: u32,
        scope: Scope,
        address: Option<Ipv4Addr>,
    ) -> Result<(), AgentError> {
        self.order(Order::Adopt { member: member.to_string(), pid, scope, address }, ORDER_LIMIT).await
    }

    /// Injects a fault under this number. Returns once its effect was observed, or after the time limit for this. A fault at a
    /// command is only armed by then: see [`Agent::strike`]. The caller must heal the fault even if the agent could not inject it
    /// fully.
    pub async fn inject(&self, fault: u32, injection: &Injection) -> Result<Observation, AgentError> {
        self.order(Order::Inject { fault, injection: injection.clone() }, ORDER_LIMIT).await
    }

    /// Says whether a fault at a command has fired. If `disarm`, the fault fires no more, whatever the answer.
    pub async fn strike(&self, fault: u32, disarm: bool) -> Result<Struck, AgentError> {
        self.order(Order::Strike { fault, disarm }, ORDER_LIMIT).await
    }

    /// Undoes a fault. Returns once this was observed, or after the time limit. Does no harm if there is nothing to undo.
    pub async fn heal(&self, fault: u32) -> Result<Observation, AgentError> {
        self.order(Order::Heal { fault }, ORDER_LIMIT).await
    }

    /// Undoes every fault still in effect, and returns an observation for each.
    pub async fn heal_all(&self) -> Result<Vec<Observation>, AgentError> {
        self.order(Order::HealAll, ORDER_LIMIT).await
    }

    /// Makes sure that no fault is in effect and no packet rule is left, and makes the agent forget every member.
    pub async fn reset(&self) -> Result<(), AgentError> {
        self.order(Order::StartAnew, ORDER_LIMIT).await
    }

    /// Removes everything that clients left on a Redis and checks that it is gone, within `limit`.
    pub async fn clear(&self, url: &str, limit: Duration) -> Result<(), AgentError> {
        let order = Order::Clear { url: url.to_string(), limit_ms: millis(limit) };
        self.order(order, limit + ORDER_LIMIT).await
    }

    /// Asks a server, within `limit`.
    pub async fn redis(&self, url: &str, command: RedisCommand, limit: Duration) -> Result<RedisReply, AgentError> {
        let order = Order::Redis { url: url.to_string(), command, limit_ms: millis(limit) };
        self.order(order, limit + ORDER_LIMIT).await
    }

    /// Notes every command that a Redis gets from now on.
    pub async fn monitor(&self, url: &str, limit: Duration) -> Result<(), AgentError> {
        let order = Order::Monitor { url: url.to_string(), limit_ms: millis(limit) };
        self.order(order, limit + ORDER_LIMIT).await
    }

    /// The commands that a Redis carried out for clients at these addresses since [`Agent::monitor`]. Ends the monitoring.
    pub async fn monitored(&self, url: &str, of: &BTreeSet<Ipv4Addr>) -> Result<Vec<SeenCommand>, AgentError> {
        self.in_parts(Order::Monitored { url: url.to_string(), of: of.clone() }, MONITORED_LIMIT).await
    }

    /// Watches these servers, by name and URL, from now on.
    pub async fn observe(&self, nodes: Vec<(String, String)>) -> Result<(), AgentError> {
        self.order(Order::Observe { nodes }, ORDER_LIMIT).await
    }

    /// The observations since [`Agent::observe`]. Ends the watch.
    pub async fn sightings(&self) -> Result<Vec<Sighting>, AgentError> {
        self.in_parts(Order::Observed, ORDER_LIMIT).await
    }

    /// Notes from now on when a member does not run for `least` or longer, although no fault stops it. Also notes when one of
    /// these servers, by name and URL, does not answer.
    pub async fn watch(&self, servers: Vec<(String, String)>, least: Duration) -> Result<(), AgentError> {
        self.order(Order::Watch { servers, least_ns: nanos(least) }, ORDER_LIMIT).await
    }

    /// The notes since [`Agent::watch`]. Ends the watch. Times are those of the members' monotonic clock.
    pub async fn waits(&self) -> Result<Vec<Waited>, AgentError> {
        self.in_parts(Order::Watched, ORDER_LIMIT).await
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
            let mono_ns: i64 = self.order(Order::Clock, ORDER_LIMIT).await?;
            let received = nanos_since(start);
            // The agent read its clock between the two times.
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

    /// Closes the agent's stdin, so that the agent heals everything and ends. Later orders fail.
    pub async fn close(&self) {
        drop(lock(&self.0.orders).take());
        let writer = lock(&self.0.writer).take();
        if let Some(mut writer) = writer
            && (self.is_lost() || timeout(CLOSE_LIMIT, &mut writer).await.is_err())
        {
            // A stopped agent does not read, and the writer would wait for it forever.
            writer.abort();
        }
    }

    /// An answer that comes in parts, the last of which is empty.
    async fn in_parts<T: DeserializeOwned>(&self, order: Order, limit: Duration) -> Result<Vec<T>, AgentError> {
        let mut all = Vec::new();
        loop {
            let part: Vec<T> = self.order(order.clone(), limit).await?;
            if part.is_empty() {
                return Ok(all);
            }
            all.extend(part);
        }
    }

    async fn order<T: DeserializeOwned>(&self, order: Order, limit: Duration) -> Result<T, AgentError> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let mut line = serde_json::to_vec(&Request { id, order }).map_err(|error| gone(&error))?;
        line.push(b'\n');
        let (sender, answer) = oneshot::channel();
        {
            let mut pending = lock(&self.0.waiting);
            if let Some(why) = &pending.lost {
                return Err(why.clone());
            }
            pending.answers.insert(id, sender);
        }
        let sent = lock(&self.0.orders).as_ref().is_some_and(|orders| orders.send(line).is_ok());
        let answer = match sent {
            true => Some(timeout(limit, answer).await),
            false => None,
        };
        let mut pending = lock(&self.0.waiting);
        pending.answers.remove(&id);
        let Some(answer) = answer else {
            return Err(pending.lost.clone().unwrap_or_else(|| AgentError::Gone("it was ordered to end".to_string())));
        };
        match answer {
            Err(_) => Err(AgentError::Timeout(limit)),
            Ok(Err(_)) => Err(pending.lost.clone().unwrap_or_else(output_ended)),
            Ok(Ok(Err(reason))) => Err(AgentError::Refused(reason)),
            Ok(Ok(Ok(answer))) => serde_json::from_value(answer).map_err(|_| AgentError::Confused),
        }
    }
}

/// Writes whole lines until there are no more, then closes the stream.
async fn write_lines(
    mut stdin: Pin<Box<dyn AsyncWrite + Send>>,
    mut lines: mpsc::UnboundedReceiver<Vec<u8>>,
    waiting: Arc<PendingOrders>,
) {
    while let Some(line) = lines.recv().await {
        let written = async {
            stdin.write_all(&line).await?;
            stdin.flush().await
        };
        if let Err(error) = written.await {
            return lock(&waiting).lose(gone(&error));
        }
    }
    // If the stream is closed already, nothing is left to do.
    let _ = stdin.shutdown().await;
}

fn output_ended() -> AgentError {
    AgentError::Gone("its output has ended".to_string())
}

fn gone(error: &dyn std::error::Error) -> AgentError {
    AgentError::Gone(error.to_string())
}

fn nanos_since(start: Instant) -> i64 {
    i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, DuplexStream, duplex, split};

    use super::*;

    /// An agent at the other end of a stream that holds this many bytes.
    fn agent(capacity: usize) -> (Agent, DuplexStream) {
        let (ours, theirs) = duplex(capacity);
        let (answers, stdin) = split(ours);
        (Agent::connect(AgentStreams { stdin: Box::pin(stdin), lines: lines_of(answers) }), theirs)
    }

    fn lines_of(stream: impl AsyncRead + Send + Unpin + 'static) -> mpsc::Receiver<Vec<u8>> {
        let (sender, lines) = mpsc::channel(64);
        tokio::spawn(async move {
            let mut stream = BufReader::new(stream).lines();
            while let Ok(Some(line)) = stream.next_line().await {
                if sender.send(line.into_bytes()).await.is_err() {
                    return;
                }
            }
        });
        lines
    }

    /// Answers up to `answers` orders as if each asked for the clock, `late` after the order came.
    async fn answer(stream: DuplexStream, late: Duration, answers: usize) {
        let (orders, mut stdout) = split(stream);
        let mut orders = BufReader::new(orders).lines();
        for _ in 0..answers {
            let Ok(Some(line)) = orders.next_line().await else { return };
            let Request { id, .. } = serde_json::from_str(&line).unwrap();
            sleep(late).await;
            let answer = serde_json::to_string(&Response { id, answer: Ok(0.into()) }).unwrap();
            stdout.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
        std::future::pending::<()>().await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_that_was_given_up_in_the_middle_of_its_line_goes_out_whole() {
        let (agent, theirs) = agent(8);
        for fault in 0..3 {
            assert!(timeout(Duration::from_millis(10), agent.heal(fault)).await.is_err(), "nobody reads");
        }
        let close = tokio::spawn(async move { agent.close().await });
        let mut orders = BufReader::new(theirs).lines();
        for fault in 0..3 {
            let line = orders.next_line().await.unwrap().unwrap();
            let request: Request = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert!(matches!(request.order, Order::Heal { fault: found } if found == fault), "{line}");
        }
        assert_eq!(orders.next_line().await.unwrap(), None, "closed after the last one");
        close.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_falls_silent_is_lost_within_four_seconds() {
        for answers in [0, 1, 7] {
            let (agent, theirs) = agent(1 << 10);
            tokio::spawn(answer(theirs, Duration::ZERO, answers));
            // The time of the last heartbeat that the agent answers.
            let silent_from = Instant::now() + HEARTBEAT_PAUSE * u32::try_from(answers).unwrap().saturating_sub(1);
            let why = agent.lost().await;
            assert!(matches!(why, AgentError::Silent(_)), "{why}");
            assert!(silent_from.elapsed() <= Duration::from_secs(4), "{:?}", silent_from.elapsed());
            // From then on, no caller waits for the agent.
            let asked = Instant::now();
            assert!(agent.is_lost() && matches!(agent.heal_all().await, Err(AgentError::Silent(_))));
            agent.close().await;
            assert_eq!(asked.elapsed(), Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_ends_is_lost_and_a_slow_one_is_not() {
        let (agent, theirs) = agent(1 << 10);
        drop(theirs);
        assert!(matches!(agent.lost().await, AgentError::Gone(_)));

        let (agent, theirs) = self::agent(1 << 10);
        tokio::spawn(answer(theirs, Duration::from_millis(2900), usize::MAX));
        assert!(timeout(Duration::from_secs(600), agent.lost()).await.is_err());
        assert!(!agent.is_lost());
    }
}
