//! Does everything that docs/client-protocol.md asks of a client, except the lock itself. So an adapter of a lock
//! library takes a few lines: it implements [`Library`] and calls [`serve`].
//!
//! - `control`: the messages, one JSON object per line
//! - `held`: a held lock
//! - `register`: the resource that the lock protects
//!
//! If the run wants threads, `connect` is called once, and all threads acquire their locks from its result. Everything
//! runs on one multi-threaded runtime of tokio, so there is no loop that could be blocked.
//!
//! Deliberately absent: counters, lists and fencing, which the Python package supports.

mod control;
mod held;
mod register;

use std::collections::HashMap;
use std::future::{Future, ready};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use control::{Answer, Hello, Message, Operation, Stop};
use held::Holder;
use register::{Register, Trouble};

/// For how long a new client tries to reach its servers: it may start in the middle of a fault.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a holder waits until its write cannot arrive any more. Longer than a fault lasts.
const DOUBT_LIMIT: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(20);
/// With this argument, a lock is extended, and held for longer.
const EXTEND: &str = "--extend";

/// The lock to acquire.
#[derive(Clone, Debug)]
pub struct Settings {
    pub ttl: Duration,
    /// `redis://` URLs of independent nodes.
    pub nodes: Vec<String>,
    /// The time limit of a request to one node.
    pub node_timeout: Duration,
    /// The longest wait between two attempts.
    pub retry_delay: Duration,
    /// The number of clients that may hold a lock at once: more than one for a semaphore.
    pub permits: u32,
}

impl Settings {
    /// Returns how many attempts take about this long.
    pub fn attempts(&self, within: Duration) -> u32 {
        let each = self.retry_delay.as_secs_f64() / 2.0;
        ((within.as_secs_f64() / each.max(0.001)) as u32).max(1)
    }
}

/// A lock library. Errors are texts for people.
pub trait Library: Send + Sync + 'static {
    type Lock;

    /// True if a call of `acquire` ends early when its future is dropped; false if it blocks.
    const CANCELS: bool = true;

    /// Acquires the lock of this name, and gives up after about this long; None, or an error, if it was not acquired.
    /// Several threads may call it. If the caller does not need the lock any more, the future is dropped.
    fn acquire(&self, name: &str, within: Duration) -> impl Future<Output = Result<Option<Self::Lock>, String>>;

    /// True if the library can also acquire the lock for reading, together with other readers, through
    /// `acquire_shared`.
    const SHARED: bool = false;

    /// As `acquire`, but for reading.
    fn acquire_shared(
        &self,
        _name: &str,
        _within: Duration,
    ) -> impl Future<Output = Result<Option<Self::Lock>, String>> {
        ready(Err("this library has no lock for reading".to_string()))
    }

    /// Releases the lock and consumes it: nothing is left for a second release, so the client lacks the capability
    /// `release-again`.
    fn release(&self, lock: Self::Lock) -> impl Future<Output = ()>;

    /// How long the lock is valid, by the library's answer to the last acquisition or extension; None if it does not
    /// say.
    fn validity(&self, _lock: &Self::Lock) -> Option<Duration> {
        None
    }

    /// Extends the lock to a full TTL from now.
    fn extend(&self, _lock: &mut Self::Lock) -> impl Future<Output = Result<(), String>> {
        ready(Err("this library cannot extend a lock".to_string()))
    }

    /// Returns whether the library says that this client holds the lock. It is called as often as the workload says
    /// (`check_every`), and then before the write too. None if there was no answer.
    fn owned(&self, _lock: &Self::Lock) -> impl Future<Output = Option<bool>> {
        ready(None)
    }
}

/// Runs the client on standard input and output until the controller says `bye`. The library is called `name` in
/// reports. `connect` may contact its servers, and is called again while it fails.
pub fn serve<L: Library>(name: &str, connect: impl AsyncFn(&Settings) -> Result<L, String>) -> ExitCode {
    let Err(stop) = run(name, connect);
    ended(stop)
}

fn ended(stop: Stop) -> ExitCode {
    match stop {
        Stop::Closed => ExitCode::SUCCESS,
        Stop::Unsuitable(text) => match control::say(&json!({"type": "failed", "text": text})) {
            Ok(()) | Err(Stop::Closed) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Stop::Misunderstood(text) => {
            eprintln!("the controller was not understood: {text}");
            ExitCode::FAILURE
        }
    }
}

/// The operations that are not over, by id.
type Operations = Arc<Mutex<HashMap<u64, Arc<Operation>>>>;

/// Runs the client; returns the reason why it stops.
fn run<L: Library>(
    name: &str,
    connect: impl AsyncFn(&Settings) -> Result<L, String>,
) -> Result<std::convert::Infallible, Stop> {
    let hello = match control::next()? {
        Message::Hello(hello) => hello,
        other => return Err(Stop::Misunderstood(format!("{other:?} instead of hello"))),
    };
    let extends = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [only] if only == EXTEND => true,
        other => return Err(Stop::Unsuitable(format!("unknown arguments {other:?}; there is {EXTEND}"))),
    };
    let settings = understood(&hello)?;
    let runtime = Arc::new(Runtime::new().map_err(|error| Stop::Unsuitable(error.to_string()))?);
    let library = Arc::new(runtime.block_on(reached(async || connect(&settings).await))?);
    let mut clients = Vec::new();
    for _ in 0..hello.threads {
        let register = match hello.resource.kind.as_str() {
            "none" => None,
            _ => Some(runtime.block_on(connected(&hello.resource.url))?),
        };
        clients.push(Client { library: library.clone(), register, settings: settings.clone(), extends });
    }
    let operations = Operations::default();
    let threads: Vec<_> = clients.into_iter().map(|client| begun(client, &runtime, &operations)).collect();
    let name = if extends { format!("{name} (extend)") } else { name.to_string() };
    let can = [("threads", true), ("cancel", L::CANCELS), ("shared", L::SHARED)];
    let can = can.into_iter().filter(|(_, is_so)| *is_so && hello.protocol > 1).map(|(what, _)| what);
    let capabilities = json!(can.collect::<Vec<_>>());
    control::say(&json!({"type": "ready", "protocol": hello.protocol, "name": name, "capabilities": capabilities}))?;
    let flight = |id: u64| operations.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
    loop {
        // A late message is for an operation that is over.
        match control::next()? {
            Message::Invoke(invoke) => {
                let (id, thread) = (invoke.id, invoke.thread);
                let operation = Arc::new(Operation::new(invoke));
                operations.lock().unwrap_or_else(PoisonError::into_inner).insert(id, operation.clone());
                let sent = threads.get(thread).map(|thread| thread.send((id, operation)));
                if !matches!(sent, Some(Ok(()))) {
                    return Err(Stop::Misunderstood(format!("there is no thread {thread}")));
                }
            }
            Message::Go { id, phase } => flight(id).into_iter().for_each(|operation| operation.open(phase.clone())),
            Message::Cancel { id } => flight(id).into_iter().for_each(|operation| operation.cancel()),
            other => return Err(Stop::Misunderstood(format!("{other:?} is not understood"))),
        }
    }
}

/// Starts a thread that performs one operation after another.
fn begun<L: Library>(
    mut client: Client<L>,
    runtime: &Arc<Runtime>,
    operations: &Operations,
) -> mpsc::UnboundedSender<(u64, Arc<Operation>)> {
    let (sender, mut asked) = mpsc::unbounded_channel::<(u64, Arc<Operation>)>();
    let (runtime, operations) = (runtime.clone(), operations.clone());
    std::thread::spawn(move || {
        runtime.block_on(async {
            while let Some((id, operation)) = asked.recv().await {
                let answer = client.perform(&operation).await;
                operations.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
                if let Err(stop) = answer.and_then(|answer| operation.end(answer)) {
                    std::process::exit(i32::from(ended(stop) != ExitCode::SUCCESS));
                }
            }
        });
    });
    sender
}

fn understood(hello: &Hello) -> Result<Settings, Stop> {
    let (lock, resource) = (&hello.lock, &hello.resource);
    if !control::PROTOCOLS.contains(&hello.protocol) {
        let (ours, theirs) = (control::PROTOCOLS, hello.protocol);
        return Err(Stop::Unsuitable(format!("this client speaks protocol {ours:?}, not {theirs}")));
    }
    if !matches!((resource.kind.as_str(), resource.fencing.as_str()), ("register" | "none", "none")) {
        let text = format!("this client writes a register without fencing, not {} {}", resource.kind, resource.fencing);
        return Err(Stop::Unsuitable(text));
    }
    if lock.group.is_some() {
        return Err(Stop::Unsuitable("this client takes nodes that are independent of each other".to_string()));
    }
    let (_, longest) = lock.options.retry_delay_ms.unwrap_or((10, 50));
    Ok(Settings {
        ttl: Duration::from_millis(lock.ttl_ms),
        nodes: lock.nodes.clone(),
        node_timeout: Duration::from_millis(lock.options.node_timeout_ms.unwrap_or(lock.ttl_ms)),
        retry_delay: Duration::from_millis(longest.max(1)),
        permits: lock.options.permits.unwrap_or(1),
    })
}

async fn connected(url: &str) -> Result<Register, Stop> {
    let mut register = Register::new(url).map_err(Stop::Unsuitable)?;
    reached(async || register.connect().map_err(|trouble| trouble.to_string())).await?;
    Ok(register)
}

async fn reached<T>(mut attempt: impl AsyncFnMut() -> Result<T, String>) -> Result<T, Stop> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        match attempt().await {
            Ok(reached) => return Ok(reached),
            Err(text) if Instant::now() > deadline => return Err(Stop::Unsuitable(format!("cannot connect: {text}"))),
            Err(_) => sleep(AGAIN).await,
        }
    }
}

/// One thread's part, with a separate connection to the resource that the lock protects.
struct Client<L> {
    library: Arc<L>,
    register: Option<Register>,
    settings: Settings,
    extends: bool,
}

impl<L: Library> Client<L> {
    async fn perform(&mut self, operation: &Operation) -> Result<Answer, Stop> {
        match (operation.f(), &mut self.register) {
            ("read", Some(register)) => Ok(match register.read(operation.key()) {
                Ok(old) => Answer::Ok { old: Some(old), new: None },
                Err(trouble) => Answer::fail("unavailable", trouble.to_string()),
            }),
            ("hold", _) | ("rmw" | "shared", Some(_)) => self.locked(operation).await,
            (other, _) => Ok(Answer::fail("unsupported", other.to_string())),
        }
    }

    async fn locked(&mut self, operation: &Operation) -> Result<Answer, Stop> {
        operation.report("acquiring", &json!({}))?;
        if operation.stops_at("acquiring") && operation.opened("acquiring").await {
            operation.report("acquiring", &json!({}))?;
        }
        let library = self.library.clone();
        let name = format!("lock:{}", operation.key());
        let taking = async {
            match operation.f() {
                "shared" => library.acquire_shared(&name, operation.within()).await,
                _ => library.acquire(&name, operation.within()).await,
            }
        };
        let taken = tokio::select! {
            biased;
            taken = taking => taken,
            () = operation.cancelled() => return Ok(Answer::cancelled("while it waited for the lock")),
        };
        let lock = match taken {
            Ok(Some(lock)) => lock,
            Ok(None) => return Ok(Answer::fail("not-acquired", String::new())),
            Err(text) => return Ok(Answer::fail("not-acquired", text)),
        };
        let mut holder = Holder::new(&*library, operation, lock);
        holder.phase("acquired", &holder.validity()).await?;
        let (answer, may_release) = self.work(operation, &mut holder).await?;
        if may_release {
            holder.release().await?;
        }
        Ok(answer)
    }

    /// Does the work under the lock. Returns the answer, and whether the lock may be released afterwards.
    async fn work(&mut self, operation: &Operation, holder: &mut Holder<'_, L>) -> Result<(Answer, bool), Stop> {
        let cancelled = || Ok((Answer::cancelled("before it wrote"), true));
        if operation.is_cancelled() {
            return cancelled();
        }
        let ttl = self.extends.then_some(self.settings.ttl);
        let Some(register) = self.register.as_mut().filter(|_| operation.f() != "hold") else {
            holder.think(ttl).await?;
            let done = (Answer::Ok { old: None, new: None }, true);
            return if operation.is_cancelled() { cancelled() } else { Ok(done) };
        };
        let key = operation.key().to_string();
        let old = match register.read(&key) {
            Ok(old) => old,
            Err(trouble) => return Ok((Answer::fail("unavailable", trouble.to_string()), true)),
        };
        holder.phase("read", &json!({"value": old})).await?;
        holder.think(ttl).await?;
        if operation.is_cancelled() {
            return cancelled();
        }
        if let Some(why) = holder.look().await? {
            return Ok((Answer::fail("lock-lost", why), true));
        }
        if operation.f() == "shared" {
            return Ok((Answer::Ok { old: Some(old), new: None }, true));
        }
        holder.phase("before-write", &json!({})).await?;
        if operation.is_cancelled() {
            return cancelled();
        }
        let new = operation.value().to_string();
        if let Err(trouble) = register.connect() {
            return Ok((Answer::fail("unavailable", trouble.to_string()), true));
        }
        match register.write(&key, &new) {
            Ok(()) => holder.phase("written", &json!({})).await?,
            Err(Trouble::Refused(text)) => return Ok((Answer::fail("unavailable", text), true)),
            // It is unknown whether the write took effect, or will. The lock is kept until the write cannot arrive any
            // more.
            Err(Trouble::Connection(error)) => {
                let settled = register.cut_off(DOUBT_LIMIT);
                return Ok((Answer::doubt(&error), settled));
            }
        }
        Ok((Answer::Ok { old: Some(old), new: Some(new) }, true))
    }
}
