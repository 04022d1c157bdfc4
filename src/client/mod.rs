//! The built-in lock client: a process that speaks the client protocol on its standard input and output.
//!
//! One process is one client, so that a nemesis can stop, kill or cut off each one alone. It knows nothing of the
//! controller, the cluster or the faults; what it holds to is [`protocol`], like any client in any language.

pub mod protocol;
mod redis_node;
mod register;

use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use self::protocol::{FromClient, Hello, Invoke, PROTOCOL, PhaseMessage, Problem, Ready, ToClient};
use self::redis_node::RedisNode;
use self::register::{Register, Write};
use crate::history::{Function, Phase};
use crate::locks::{Clock, Held, Lock, RequestError};

/// How long a request to the resource may take. Generous: the resource is not what is under test.
const RESOURCE_LIMIT: Duration = Duration::from_secs(2);

/// Runs until `bye` or the end of standard input. Errors are for the controller's log; the process then exits.
pub async fn run() -> anyhow::Result<()> {
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let hello = match next(&mut input).await? {
        Some(ToClient::Hello(hello)) => hello,
        Some(other) => anyhow::bail!("the first message must be `hello`, not {other:?}"),
        None => return Ok(()),
    };
    let mut worker = match Worker::connect(&hello).await {
        Ok(worker) => worker,
        Err(text) => {
            say(&FromClient::Failed { text })?;
            return Ok(());
        }
    };
    say(&FromClient::Ready(Ready {
        protocol: PROTOCOL,
        name: concat!("redjepsen ", env!("CARGO_PKG_VERSION")).to_string(),
        capabilities: Vec::new(),
    }))?;
    while let Some(message) = next(&mut input).await? {
        match message {
            ToClient::Invoke(invoke) => {
                let answer = worker.perform(&invoke, &mut input).await?;
                say(&answer)?;
            }
            ToClient::Bye => break,
            // A `go` that comes late is for an operation that is over.
            ToClient::Go { .. } => {}
            ToClient::Hello(_) => anyhow::bail!("a second `hello`"),
        }
    }
    Ok(())
}

async fn next(input: &mut Lines<BufReader<Stdin>>) -> anyhow::Result<Option<ToClient>> {
    match input.next_line().await? {
        None => Ok(None),
        Some(line) => Ok(Some(serde_json::from_str(&line).map_err(|error| anyhow::anyhow!("{error}: {line}"))?)),
    }
}

/// Writes at once: a phase that is reported late would move the moment at which the nemesis acts.
fn say(message: &FromClient) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(protocol::to_line(message).as_bytes())?;
    output.flush()
}

/// CLOCK_MONOTONIC of this kernel, in nanoseconds.
pub fn mono_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The key that the built-in locks of a resource's key live under.
pub fn lock_key(key: &str) -> String {
    format!("lock:{key}")
}

struct Worker {
    lock: Lock<RedisNode, SystemClock>,
    register: Register,
}

impl Worker {
    async fn connect(hello: &Hello) -> Result<Worker, String> {
        if hello.protocol != PROTOCOL {
            return Err(format!("protocol {} is asked for, this client speaks {PROTOCOL}", hello.protocol));
        }
        let limit = Duration::from_millis(hello.lock.options.node_timeout_ms.unwrap_or(hello.lock.ttl_ms));
        let nodes = hello.lock.nodes.iter().map(|url| RedisNode::new(url, limit)).collect::<Result<Vec<_>, _>>()?;
        let register = Register::new(RedisNode::new(&hello.resource.url, RESOURCE_LIMIT)?, hello.resource.fencing);
        register.connect().await.map_err(|error| format!("resource {}: {error}", hello.resource.url))?;
        let lock = Lock::from_settings(&hello.lock, nodes, SystemClock::new(hello))?;
        Ok(Worker { lock, register })
    }

    /// One operation, from its first phase to the message that answers it.
    async fn perform(&mut self, invoke: &Invoke, input: &mut Lines<BufReader<Stdin>>) -> anyhow::Result<FromClient> {
        match (invoke.f, &invoke.value) {
            (Function::Rmw, Some(new)) => self.rmw(invoke, new, input).await,
            (Function::Rmw, None) => Ok(fail(invoke, "unsupported", "an rmw needs a value")),
            (Function::Read, _) => Ok(match self.register.read(&invoke.key).await {
                Ok(old) => FromClient::Ok { id: invoke.id, old, new: None },
                Err(error) => fail(invoke, "unavailable", error),
            }),
        }
    }

    async fn rmw(
        &mut self,
        invoke: &Invoke,
        new: &str,
        input: &mut Lines<BufReader<Stdin>>,
    ) -> anyhow::Result<FromClient> {
        let mut phases = Phases { invoke, input };
        phases.report(Phase::Acquiring, |_| {}).await?;
        let within = Duration::from_millis(invoke.acquire_timeout_ms);
        let lock_key = lock_key(&invoke.key);
        let held = match self.lock.acquire(&lock_key, within).await {
            Ok(held) => held,
            Err(error) => return Ok(fail(invoke, "not-acquired", error)),
        };
        if let Some(held) = &held {
            let validity_ms = held.validity.as_millis() as u64;
            phases.report(Phase::Acquired, |phase| phase.validity_ms = Some(validity_ms)).await?;
        }
        let answer = self.read_think_write(invoke, new, &mut phases).await?;
        if let Some(held) = held {
            self.release(&lock_key, &held, &mut phases).await?;
        }
        Ok(answer)
    }

    async fn read_think_write(
        &mut self,
        invoke: &Invoke,
        new: &str,
        phases: &mut Phases<'_>,
    ) -> anyhow::Result<FromClient> {
        let old = match self.register.read(&invoke.key).await {
            Ok(old) => old,
            // Whatever became of the read, nothing was written.
            Err(error) => return Ok(fail(invoke, "unavailable", error)),
        };
        phases.report(Phase::Read, |phase| phase.value = Some(old.clone())).await?;
        tokio::time::sleep(Duration::from_millis(invoke.hold_ms)).await;
        phases.report(Phase::BeforeWrite, |_| {}).await?;
        Ok(match self.register.write(&invoke.key, old.as_deref(), new).await {
            Ok(Write::Done) => {
                phases.report(Phase::Written, |_| {}).await?;
                FromClient::Ok { id: invoke.id, old, new: Some(new.to_string()) }
            }
            Ok(Write::Conflict) => fail(invoke, "conflict", "what was read is no longer current"),
            Err(RequestError::NotDone(text)) => fail(invoke, "unavailable", text),
            Err(error @ RequestError::Timeout(_)) => info(invoke, "timeout", error),
            Err(error @ RequestError::ConnectionLost(_)) => info(invoke, "connection-lost", error),
        })
    }

    async fn release(&mut self, lock_key: &str, held: &Held, phases: &mut Phases<'_>) -> anyhow::Result<()> {
        phases.report(Phase::Releasing, |_| {}).await?;
        self.lock.release(lock_key, held).await;
        phases.report(Phase::Released, |_| {}).await
    }
}

/// Reports the phases of one operation and waits at those that are gates.
struct Phases<'a> {
    invoke: &'a Invoke,
    input: &'a mut Lines<BufReader<Stdin>>,
}

impl Phases<'_> {
    /// Reports a phase; at a gate, reports it again once it may go on, since a request that is about to leave leaves then.
    async fn report(&mut self, phase: Phase, fill: impl Fn(&mut PhaseMessage)) -> anyhow::Result<()> {
        self.say(phase, &fill)?;
        if !self.invoke.gates.contains(&phase) {
            return Ok(());
        }
        loop {
            match next(self.input).await? {
                Some(ToClient::Go { id, phase: gate }) if (id, gate) == (self.invoke.id, phase) => break,
                Some(ToClient::Go { .. }) => {}
                Some(other) => anyhow::bail!("{other:?} while operation {} waits at {phase:?}", self.invoke.id),
                None => anyhow::bail!("the controller is gone"),
            }
        }
        self.say(phase, &fill)?;
        Ok(())
    }

    fn say(&self, phase: Phase, fill: &impl Fn(&mut PhaseMessage)) -> std::io::Result<()> {
        let mut message = PhaseMessage {
            id: self.invoke.id,
            phase,
            mono_ns: Some(mono_ns()),
            token: None,
            validity_ms: None,
            value: None,
            text: None,
        };
        fill(&mut message);
        say(&FromClient::Phase(message))
    }
}

fn fail(invoke: &Invoke, error: &str, text: impl ToString) -> FromClient {
    FromClient::Fail(Problem { id: invoke.id, error: error.to_string(), text: text.to_string() })
}

fn info(invoke: &Invoke, error: &str, text: impl ToString) -> FromClient {
    FromClient::Info(Problem { id: invoke.id, error: error.to_string(), text: text.to_string() })
}

/// The clock of the machine that the lock is to read, and random waits from the seed that the controller gave.
struct SystemClock {
    start: Instant,
    wall: bool,
    rng: Mutex<ChaCha8Rng>,
}

impl SystemClock {
    fn new(hello: &Hello) -> SystemClock {
        let wall = hello.lock.options.wall_clock.unwrap_or(false);
        SystemClock { start: Instant::now(), wall, rng: Mutex::new(ChaCha8Rng::seed_from_u64(hello.seed)) }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        if self.wall {
            return SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        }
        self.start.elapsed()
    }

    async fn sleep(&self, length: Duration) {
        tokio::time::sleep(length).await;
    }

    fn draw(&self, (low, high): (Duration, Duration)) -> Duration {
        let (low, high) = (low.as_micros() as u64, high.as_micros() as u64);
        let mut rng = self.rng.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Duration::from_micros(rng.random_range(low..=high.max(low)))
    }
}
