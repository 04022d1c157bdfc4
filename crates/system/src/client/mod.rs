//! The built-in lock client: speaks the client protocol on a pair of streams, such as its standard input and output.
//!
//! One process is one client, so that a nemesis can stop, kill or isolate each client alone. If the controller wants threads, one
//! process is several clients, which share only the process and its link to the controller. A client knows nothing of the
//! controller, the cluster or the faults. It follows [`protocol`], like any client in any language. Its clocks and network come
//! from its [`Machine`], and all its random choices follow from the seed it is given.

mod clock;
mod connection;
mod control;
mod etcd;
mod groups;
mod locking;
pub mod protocol;
mod redis_mail;
mod redis_node;
mod register;
mod row;
mod zookeeper;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, try_join_all};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep};

use self::clock::ClientClock;
use self::control::{Control, Stdout};
use self::protocol::{CANCELLED, FromClient, Hello, Invoke, NEWEST, PROTOCOL, PhaseMessage, Problem, Ready, ToClient};
use self::redis_node::RedisNode;
use self::register::{Read, Register, Write};
use self::row::RowLock;
use base::machine::{Machine, ThisMachine};
use base::sync::lock;
use model::history::{Function, Phase, ResourceKind};
use model::locks::{Holding, Lock, PhaseHook, Renewal, RequestError, perfect};
use model::resource::ResourceValue;
use model::scenario::Ability;

/// Time limit of a request to the resource. Generous, because the resource is not under test.
const RESOURCE_LIMIT: Duration = Duration::from_secs(2);

/// How long a new client tries to reach the resource: a client that replaces another may start in the middle of a fault.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Pause between two attempts.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// Time limit of a request to nodes that replicate the resource. Short, so that the client soon leaves a dead primary.
const REPLICATED_LIMIT: Duration = Duration::from_millis(500);

/// How long a holder whose write got no answer waits until the write can't arrive any more. The limit is longer than any fault
/// that ends. Without a limit, a client whose controller is gone might wait forever.
const DOUBT_LIMIT: Duration = Duration::from_secs(60);

/// Runs on standard input and output until `bye` or the end of the input.
pub fn run() -> BoxFuture<'static, anyhow::Result<()>> {
    Box::pin(async move {
        match control::piped_stdin() {
            Ok(stdin) => serve(stdin, Stdout, Arc::new(ThisMachine)).await,
            // Standard input is a terminal: a person tries the client by hand.
            Err(_) => serve(tokio::io::stdin(), Stdout, Arc::new(ThisMachine)).await,
        }
    })
}

/// Runs on these streams until `bye` or the end of the input. Returned errors are for the controller's log; after an error, the
/// client can't be used.
pub async fn serve(
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    machine: Arc<dyn Machine>,
) -> anyhow::Result<()> {
    let control = Control::new(input, output);
    let hello = match control.next().await? {
        Some(ToClient::Hello(hello)) => hello,
        Some(other) => anyhow::bail!("the first message must be `hello`, not {other:?}"),
        None => return Ok(()),
    };
    let threads = control.threads(hello.threads.max(1) as usize);
    let mut workers = Vec::new();
    for (number, thread) in (0..).zip(&threads) {
        // Each thread has its own seed, as if it were its own process.
        let hello = Hello { seed: hello.seed.wrapping_add(number), ..hello.clone() };
        match Worker::connect(&hello, thread, &machine).await {
            Ok(worker) => workers.push(worker),
            Err(text) => {
                control.say(&FromClient::Failed { text }).await?;
                return Ok(());
            }
        }
    }
    let mut can = if hello.protocol == NEWEST {
        vec![Ability::Threads, Ability::Cancel, Ability::ReleaseAgain]
    } else {
        Vec::new()
    };
    // The other built-in locks have one mode.
    let has_modes = hello.protocol == NEWEST && hello.lock.name == perfect::ABOUT.name;
    can.extend(has_modes.then_some(Ability::Shared));
    let ready = Ready {
        protocol: hello.protocol,
        name: concat!("redjepsen ", env!("CARGO_PKG_VERSION")).to_string(),
        capabilities: can.into_iter().map(|one| one.word().to_string()).collect(),
    };
    control.say(&FromClient::Ready(ready)).await?;
    let work = threads.iter().zip(&workers).map(|(thread, worker)| work(thread, worker, &*machine, hello.protocol));
    try_join_all(work).await?;
    Ok(())
}

/// Performs one operation after the other until `bye` or the end of the input.
async fn work(control: &Arc<Control>, worker: &Worker, machine: &dyn Machine, protocol: u32) -> anyhow::Result<()> {
    while let Some(message) = control.next().await? {
        match message {
            ToClient::Invoke(invoke) => {
                control.begin(invoke.id);
                let phases = Phases { invoke: &invoke, control, machine, failure: Mutex::new(None) };
                let answer = match protocol {
                    // Version 1 has no messages that come unasked during an operation.
                    PROTOCOL => worker.perform(&invoke, &phases).await?,
                    _ => tokio::select! {
                        biased;
                        answer = worker.perform(&invoke, &phases) => answer?,
                        error = control.listen() => return Err(error),
                    },
                };
                control.say(&answer).await?;
            }
            ToClient::Bye => break,
            // A late `go` is for an operation that is over.
            ToClient::Go { .. } => {}
            other => anyhow::bail!("{other:?} while no operation is in progress"),
        }
    }
    Ok(())
}

/// The key of the built-in locks for a key of the resource.
pub fn lock_key(key: &str) -> String {
    format!("lock:{key}")
}

/// The index of the server that this client asks first if any server can be asked. It differs between clients.
fn first_asked(hello: &Hello) -> usize {
    usize::try_from(hello.seed).unwrap_or(0)
}

/// Performs operations.
enum Worker {
    /// A lock, and a resource that knows nothing about it.
    Apart(Guarded),
    /// A database that is both lock and resource.
    Row(Box<RowLock>),
}

struct Guarded {
    lock: Lock<ClientClock>,
    register: Register,
    /// The format of the register's values.
    kind: ResourceKind,
}

impl Worker {
    async fn connect(hello: &Hello, control: &Arc<Control>, machine: &Arc<dyn Machine>) -> Result<Worker, String> {
        if !(PROTOCOL..=NEWEST).contains(&hello.protocol) {
            return Err(format!(
                "the controller asks for protocol {}, but this client speaks {PROTOCOL} and {NEWEST}",
                hello.protocol
            ));
        }
        match hello.resource.kind {
            ResourceKind::Row => {
                Ok(Worker::Row(Box::new(RowLock::connect(hello, ClientClock::new(hello, machine)).await?)))
            }
            ResourceKind::Register
            | ResourceKind::Counter
            | ResourceKind::List
            | ResourceKind::Replicated
            | ResourceKind::None => Guarded::connect(hello, control, machine).await.map(Worker::Apart),
        }
    }

    /// One operation, from its first phase to the message that answers it.
    async fn perform(&self, invoke: &Invoke, phases: &Phases<'_>) -> anyhow::Result<FromClient> {
        match (invoke.f, &invoke.value) {
            (f, None) if f.writes() => Ok(fail(invoke, "unsupported", "there is no value to write")),
            (Function::Rmw | Function::Shared | Function::Hold | Function::Write | Function::Cas, _) => {
                let answer = match (self, &invoke.value) {
                    (Worker::Apart(guarded), Some(new)) if !invoke.f.is_locked() => {
                        guarded.update(invoke, new, phases).await?
                    }
                    (Worker::Apart(guarded), _) => guarded.locked(invoke, phases).await?,
                    (Worker::Row(row), Some(new)) if invoke.f == Function::Rmw => row.rmw(invoke, new, phases).await?,
                    (Worker::Row(_), _) => fail(invoke, "unsupported", "a row can be locked only for writing"),
                };
                phases.check()?;
                Ok(answer)
            }
            (Function::Read, _) => {
                let (read, kind) = match self {
                    Worker::Apart(guarded) => (guarded.register.read(&invoke.key, None).await, guarded.kind),
                    Worker::Row(row) => (row.read(&invoke.key).await.map(Read::Value), ResourceKind::Row),
                };
                Ok(match read {
                    Ok(Read::Value(text)) => match ResourceValue::read(kind, text) {
                        Ok(read) => ok(invoke, Some(read), None),
                        Err(error) => fail(invoke, "unsupported", error),
                    },
                    Ok(Read::Fenced) => fail(invoke, "fenced", FENCED),
                    Err(error) => fail(invoke, "unavailable", error),
                })
            }
        }
    }
}

impl Guarded {
    async fn connect(hello: &Hello, control: &Arc<Control>, machine: &Arc<dyn Machine>) -> Result<Guarded, String> {
        let node = match hello.resource.kind {
            ResourceKind::Replicated => {
                let group = hello.lock.group.as_ref().ok_or("the nodes form no group that could keep the resource")?;
                RedisNode::of_group(group, &hello.lock.nodes, first_asked(hello), REPLICATED_LIMIT, machine)?
            }
            _ => RedisNode::of_resource(&hello.resource.url, RESOURCE_LIMIT, machine)?,
        };
        let register = Register::new(node, hello.resource.fencing);
        let began = Instant::now();
        while let Err(error) = register.connect().await {
            if began.elapsed() > START_LIMIT {
                return Err(format!("resource {}: {error}", hello.resource.url));
            }
            sleep(TRY_AGAIN).await;
        }
        Ok(Guarded { lock: locking::lock(hello, control, machine)?, register, kind: hello.resource.kind })
    }

    /// Acquires the lock, does the work, and releases the lock.
    async fn locked(&self, invoke: &Invoke, phases: &Phases<'_>) -> anyhow::Result<FromClient> {
        phases.report(Phase::Acquiring, |_| {}).await?;
        let within = Duration::from_millis(invoke.acquire_timeout_ms);
        let lock_key = lock_key(&invoke.key);
        let holding = match self.lock.acquire(&lock_key, within, phases).await {
            Ok(Some(holding)) => holding,
            Ok(None) => return self.work(invoke, None, phases).await,
            Err(error) if phases.is_cancelled() => return Ok(fail(invoke, CANCELLED, error)),
            Err(error) => return Ok(fail(invoke, "not-acquired", error)),
        };
        phases.check()?;
        let held = &holding.held;
        let validity_ms = held.validity.map(|validity| validity.as_millis() as u64);
        let token = held.token.map(|token| token.number);
        let say = |phase: &mut PhaseMessage| (phase.validity_ms, phase.token) = (validity_ms, token);
        phases.report(Phase::Acquired, say).await?;
        let (answer, settled) = tokio::select! {
            // After a pause, the holder first renews or checks its lock.
            biased;
            never = holding.keep(|renewal| phases.report_renewal(renewal)) => match never {},
            ended = self.work_and_settle(invoke, &holding, phases) => ended?,
        };
        if !settled {
            phases.check()?;
            return Ok(answer);
        }
        let was_cancelled = phases.is_cancelled();
        phases.report(Phase::Releasing, |_| {}).await?;
        let ends_early = async {
            match was_cancelled {
                true => std::future::pending().await,
                false => phases.control.cancelled().await,
            }
        };
        let is_cancelled = tokio::select! {
            biased;
            () = holding.release(phases) => false,
            () = ends_early => true,
        };
        let once_more = async {
            if let Some(after) = invoke.release_again_ms {
                sleep(Duration::from_millis(after)).await;
            }
            match is_cancelled {
                true => holding.release(phases).await,
                false => holding.release(&Unreported(phases)).await,
            }
            phases.check()
        };
        if is_cancelled {
            // Like a `finally` block in a program: the lock must be free, whatever happened to the first request.
            once_more.await?;
            phases.report(Phase::Released, |_| {}).await?;
        } else {
            phases.check()?;
            phases.report(Phase::Released, |_| {}).await?;
            if invoke.release_again_ms.is_some() {
                once_more.await?;
            }
        }
        Ok(if is_cancelled { info(invoke, CANCELLED, "while it released the lock") } else { answer })
    }

    /// Does the work under the lock; also returns whether the lock may be released. No lock protects against a write that arrives
    /// after its release. So a holder without the outcome of its write keeps the lock until the write can't arrive any more, if
    /// the lock allows this. If it never learns this, it leaves the lock to expire.
    async fn work_and_settle(
        &self,
        invoke: &Invoke,
        holding: &Holding<'_, ClientClock>,
        phases: &Phases<'_>,
    ) -> anyhow::Result<(FromClient, bool)> {
        let answer = self.work(invoke, Some(holding), phases).await?;
        let settled = !matches!(answer, FromClient::Info(_)) || self.register.settle(DOUBT_LIMIT).await;
        Ok((answer, settled))
    }

    /// The work under the lock; `holding` is `None` if there is no lock.
    async fn work(
        &self,
        invoke: &Invoke,
        holding: Option<&Holding<'_, ClientClock>>,
        phases: &Phases<'_>,
    ) -> anyhow::Result<FromClient> {
        match &invoke.value {
            Some(new) if invoke.f == Function::Rmw => self.read_think_write(invoke, new, holding, phases).await,
            _ if invoke.f == Function::Shared => match self.read_and_think(invoke, holding, phases).await? {
                Ok(stored) => Ok(ok(invoke, Some(stored), None)),
                Err(answer) => Ok(answer),
            },
            _ => {
                hold(invoke, phases).await;
                if phases.is_cancelled() {
                    return Ok(cancelled(invoke));
                }
                Ok(ok(invoke, None, None))
            }
        }
    }

    async fn read_think_write(
        &self,
        invoke: &Invoke,
        new: &str,
        holding: Option<&Holding<'_, ClientClock>>,
        phases: &Phases<'_>,
    ) -> anyhow::Result<FromClient> {
        let token = holding.and_then(|holding| holding.held.token);
        let stored = match self.read_and_think(invoke, holding, phases).await? {
            Ok(stored) => stored,
            Err(answer) => return Ok(answer),
        };
        phases.report(Phase::BeforeWrite, |_| {}).await?;
        if phases.is_cancelled() {
            return Ok(cancelled(invoke));
        }
        let written = self.register.write(&invoke.key, stored.text(), &stored.updated(new), token).await;
        conclude(invoke, Some(stored), new, written, phases).await
    }

    /// The value read under the lock, if the client believes after its think time that it still holds the lock. Otherwise the
    /// operation's answer.
    async fn read_and_think(
        &self,
        invoke: &Invoke,
        holding: Option<&Holding<'_, ClientClock>>,
        phases: &Phases<'_>,
    ) -> anyhow::Result<Result<ResourceValue, FromClient>> {
        let token = holding.and_then(|holding| holding.held.token);
        let text = match self.register.read(&invoke.key, token).await {
            Ok(Read::Value(text)) => text,
            Ok(Read::Fenced) => return Ok(Err(fail(invoke, "fenced", FENCED))),
            // Nothing was written, whatever happened to the read.
            Err(error) => return Ok(Err(fail(invoke, "unavailable", error))),
        };
        let stored = match ResourceValue::read(self.kind, text) {
            Ok(stored) => stored,
            Err(error) => return Ok(Err(fail(invoke, "unsupported", error))),
        };
        think(invoke, &stored, holding, phases).await?;
        let looked = async {
            match holding {
                Some(holding) => holding.look().await,
                None => Ok(()),
            }
        };
        let looked = tokio::select! {
            biased;
            () = phases.control.cancelled() => return Ok(Err(cancelled(invoke))),
            looked = looked => looked,
        };
        if let (Some(holding), Err(reason)) = (holding, looked) {
            if !holding.is_known_lost() {
                phases.report(Phase::Lost, |phase| phase.text = Some(reason.clone())).await?;
            }
            return Ok(Err(fail(invoke, "lock-lost", reason)));
        }
        Ok(Ok(stored))
    }

    /// Performs a write or a compare-and-set without a lock.
    async fn update(&self, invoke: &Invoke, new: &str, phases: &Phases<'_>) -> anyhow::Result<FromClient> {
        let old = match invoke.f {
            Function::Cas => match self.register.read(&invoke.key, None).await {
                Ok(Read::Value(text)) => match ResourceValue::read(self.kind, text) {
                    Ok(old) => {
                        think(invoke, &old, None, phases).await?;
                        Some(old)
                    }
                    Err(error) => return Ok(fail(invoke, "unsupported", error)),
                },
                Ok(Read::Fenced) => return Ok(fail(invoke, "fenced", FENCED)),
                // Nothing was written, whatever happened to the read.
                Err(error) => return Ok(fail(invoke, "unavailable", error)),
            },
            _ => None,
        };
        phases.report(Phase::BeforeWrite, |_| {}).await?;
        let written = match &old {
            Some(old) => self.register.compare_and_set(&invoke.key, old.text(), new).await,
            None => self.register.write(&invoke.key, None, new, None).await,
        };
        conclude(invoke, old, new, written, phases).await
    }
}

/// Reports the value that was read, then thinks.
async fn think(
    invoke: &Invoke,
    old: &ResourceValue,
    holding: Option<&Holding<'_, ClientClock>>,
    phases: &Phases<'_>,
) -> anyhow::Result<()> {
    let say = |phase: &mut PhaseMessage| (phase.value, phase.count) = (Some(old.value.clone()), old.count());
    phases.report(Phase::Read, say).await?;
    match holding.filter(|holding| holding.is_extended_by_its_holder()) {
        Some(holding) => {
            let work = holding.work(Duration::from_millis(invoke.hold_ms), |renewal| phases.report_renewal(renewal));
            tokio::select! {
                biased;
                () = work => {}
                () = phases.control.cancelled() => {}
            }
        }
        None => hold(invoke, phases).await,
    }
    Ok(())
}

/// Waits for the operation's hold time. The check for 0 is needed because the runtime's timers count whole milliseconds: even a
/// wait of zero length would take one.
async fn hold(invoke: &Invoke, phases: &Phases<'_>) {
    if invoke.hold_ms > 0 {
        tokio::select! {
            biased;
            () = sleep(Duration::from_millis(invoke.hold_ms)) => {}
            () = phases.control.cancelled() => {}
        }
    }
}

/// The answer of an operation, from the outcome of its write. `old` is the value that the operation read, if it read one.
async fn conclude(
    invoke: &Invoke,
    old: Option<ResourceValue>,
    new: &str,
    written: Result<Write, RequestError>,
    phases: &Phases<'_>,
) -> anyhow::Result<FromClient> {
    Ok(match written {
        Ok(Write::Done) => {
            phases.report(Phase::Written, |_| {}).await?;
            ok(invoke, old, Some(new))
        }
        Ok(Write::Conflict) => fail(invoke, "conflict", "the value that was read is no longer current"),
        Ok(Write::Fenced) => fail(invoke, "fenced", FENCED),
        Err(RequestError::NotDone(text)) => fail(invoke, "unavailable", text),
        Err(error @ RequestError::Timeout(_)) => info(invoke, "timeout", error),
        Err(error @ RequestError::ConnectionLost(_)) => info(invoke, "connection-lost", error),
        Err(error @ RequestError::InDoubt(_)) => info(invoke, "in-doubt", error),
    })
}

const FENCED: &str = "the resource has seen the token of a later holder";

/// Reports the phases of one operation and waits at those that are breakpoints.
struct Phases<'a> {
    invoke: &'a Invoke,
    control: &'a Control,
    machine: &'a dyn Machine,
    /// The first error while reporting a phase inside the lock, or while waiting at its breakpoint.
    failure: Mutex<Option<anyhow::Error>>,
}

impl Phases<'_> {
    /// Reports a phase. At a breakpoint, reports it again once the client may continue, since only then does the request leave.
    async fn report(&self, phase: Phase, fill: impl Fn(&mut PhaseMessage)) -> anyhow::Result<()> {
        self.say(phase, &fill).await?;
        if !self.invoke.breakpoints.contains(phase) {
            return Ok(());
        }
        loop {
            let told = tokio::select! {
                biased;
                told = self.control.next() => told?,
                // A cancelled operation does not continue from its breakpoint.
                () = self.control.cancelled() => return Ok(()),
            };
            match told {
                Some(ToClient::Go { id, phase: breakpoint }) if (id, breakpoint) == (self.invoke.id, phase) => break,
                Some(ToClient::Go { .. }) => {}
                Some(other) => anyhow::bail!("{other:?} while operation {} waits at {phase:?}", self.invoke.id),
                None => anyhow::bail!("the controller is gone"),
            }
        }
        self.say(phase, &fill).await?;
        Ok(())
    }

    /// Reports a phase from a function that cannot return an error; [`Phases::check`] returns the error later.
    async fn report_inside(&self, phase: Phase) {
        if let Err(error) = self.report(phase, |_| {}).await {
            self.fail(error);
        }
    }

    async fn report_renewal(&self, renewal: Renewal) {
        let (phase, validity, reason) = match renewal {
            Renewal::Extended(validity) => (Phase::Extended, Some(validity), None),
            Renewal::Lost(reason) => (Phase::Lost, None, Some(reason)),
        };
        let fill = |phase: &mut PhaseMessage| {
            phase.validity_ms = validity.map(|validity| validity.as_millis() as u64);
            phase.text = reason.clone();
        };
        if let Err(error) = self.say(phase, &fill).await {
            self.fail(error.into());
        }
    }

    /// True if the operation is cancelled. A cancelled operation starts no further write, and the client releases the lock.
    fn is_cancelled(&self) -> bool {
        self.control.is_cancelled()
    }

    fn fail(&self, error: anyhow::Error) {
        *lock(&self.failure) = Some(error);
    }

    /// Returns the first error that `report_inside` kept.
    fn check(&self) -> anyhow::Result<()> {
        lock(&self.failure).take().map_or(Ok(()), Err)
    }

    async fn say(&self, phase: Phase, fill: &impl Fn(&mut PhaseMessage)) -> std::io::Result<()> {
        let mut message = PhaseMessage {
            id: self.invoke.id,
            phase,
            mono_ns: u64::try_from(self.machine.monotonic().as_nanos()).ok(),
            token: None,
            validity_ms: None,
            value: None,
            count: None,
            text: None,
        };
        fill(&mut message);
        self.control.say(&FromClient::Phase(message)).await
    }
}

#[async_trait]
impl PhaseHook for Phases<'_> {
    async fn half_acquired(&self) {
        self.report_inside(Phase::HalfAcquired).await
    }

    async fn half_released(&self) {
        self.report_inside(Phase::HalfReleased).await
    }

    fn is_cancelled(&self) -> bool {
        Phases::is_cancelled(self)
    }
}

/// The hook of a second release. It reports no phases, because the first release has already reported them.
struct Unreported<'p, 'a>(&'p Phases<'a>);

#[async_trait]
impl PhaseHook for Unreported<'_, '_> {
    async fn half_acquired(&self) {}

    async fn half_released(&self) {}

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// The answer of an operation that read `old` and wrote `new`, as far as it did either.
fn ok(invoke: &Invoke, old: Option<ResourceValue>, new: Option<&str>) -> FromClient {
    let count = old.as_ref().and_then(ResourceValue::count);
    let (old, new) = (old.map(|old| old.value), new.map(str::to_string));
    FromClient::Ok { id: invoke.id, old, new, count, text: None }
}

fn fail(invoke: &Invoke, error: &str, text: impl ToString) -> FromClient {
    FromClient::Fail(Problem { id: invoke.id, error: error.to_string(), text: text.to_string() })
}

fn cancelled(invoke: &Invoke) -> FromClient {
    fail(invoke, CANCELLED, "before it wrote")
}

fn info(invoke: &Invoke, error: &str, text: impl ToString) -> FromClient {
    FromClient::Info(Problem { id: invoke.id, error: error.to_string(), text: text.to_string() })
}
