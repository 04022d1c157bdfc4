//! What docs/client-protocol.md asks of a client, apart from the lock itself, so that an adapter of a lock library takes
//! a few lines: it implements [`Library`] and calls [`serve`].
//!
//! - `control`: the messages, one JSON object per line
//! - `register`: what the lock protects
//!
//! Deliberately absent: counters, lists and fencing, which the package in Python has.

mod control;
mod register;

use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use control::{Answer, Control, Hello, Operation, Stop};
use register::{Register, Trouble};

/// For how long a new client tries to reach its servers: it may start in the middle of a fault.
const START_LIMIT: Duration = Duration::from_secs(20);
/// For how long a holder tries to make sure that its write cannot arrive any more. Longer than a fault lasts.
const DOUBT_LIMIT: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(20);
/// With this argument a lock is extended when this part of its TTL is over, and held until shortly after.
const EXTEND: &str = "--extend";
const EXTEND_AFTER: f64 = 0.6;
const HELD_AFTERWARDS: f64 = 0.05;

/// The lock that is to be taken.
#[derive(Clone, Debug)]
pub struct Settings {
    pub ttl: Duration,
    /// `redis://` URLs of independent nodes.
    pub nodes: Vec<String>,
    /// How long a request to one node may take.
    pub node_timeout: Duration,
    /// The longest wait between two attempts.
    pub retry_delay: Duration,
}

impl Settings {
    /// How many attempts take about this long.
    pub fn attempts(&self, within: Duration) -> u32 {
        let each = self.retry_delay.as_secs_f64() / 2.0;
        ((within.as_secs_f64() / each.max(0.001)) as u32).max(1)
    }
}

/// A lock library. Errors are texts for people.
pub trait Library {
    type Lock;

    /// Takes the lock of this name, and gives up after about this long; None, or an error, if it did not get it.
    fn acquire(&mut self, name: &str, within: Duration) -> Result<Option<Self::Lock>, String>;

    fn release(&mut self, lock: Self::Lock);

    /// How long the library said, when it gave the lock or extended it, that it is valid.
    fn validity(&self, _lock: &Self::Lock) -> Option<Duration> {
        None
    }

    /// Extends the lock to a whole TTL from now.
    fn extend(&mut self, _lock: &mut Self::Lock) -> Result<(), String> {
        Err("this library cannot extend a lock".to_string())
    }
}

/// Is the client, on standard input and output, until the controller says `bye`. The library is called `name` in
/// reports; `connect` may try its servers, and is called again while it fails.
pub fn serve<L: Library>(name: &str, connect: impl Fn(&Settings) -> Result<L, String>) -> ExitCode {
    let mut control = Control;
    match run(&mut control, name, connect) {
        Err(Stop::Closed) => ExitCode::SUCCESS,
        Err(Stop::Unsuitable(text)) => match control.fail(&text) {
            Ok(()) | Err(Stop::Closed) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(Stop::Misunderstood(text)) => {
            eprintln!("the controller was not understood: {text}");
            ExitCode::FAILURE
        }
        Ok(never) => match never {},
    }
}

/// The whole life of the client; it ends with the reason why it stops.
fn run<L: Library>(
    control: &mut Control,
    name: &str,
    connect: impl Fn(&Settings) -> Result<L, String>,
) -> Result<std::convert::Infallible, Stop> {
    let hello = control.hello()?;
    let extends = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [only] if only == EXTEND => true,
        other => return Err(Stop::Unsuitable(format!("unknown arguments {other:?}; there is {EXTEND}"))),
    };
    let settings = understood(&hello)?;
    let mut register = Register::new(&hello.resource.url).map_err(Stop::Unsuitable)?;
    reached(|| register.connect().map_err(|trouble| trouble.to_string()))?;
    let library = reached(|| connect(&settings))?;
    control.ready(&if extends { format!("{name} (extend)") } else { name.to_string() })?;
    let mut client = Client { library, register, settings, extends };
    loop {
        let mut operation = control.invoked()?;
        let answer = client.perform(&mut operation)?;
        operation.end(answer)?;
    }
}

fn understood(hello: &Hello) -> Result<Settings, Stop> {
    let (lock, resource) = (&hello.lock, &hello.resource);
    if hello.protocol != control::PROTOCOL {
        let (ours, theirs) = (control::PROTOCOL, hello.protocol);
        return Err(Stop::Unsuitable(format!("this client speaks protocol {ours}, not {theirs}")));
    }
    if (resource.kind.as_str(), resource.fencing.as_str()) != ("register", "none") {
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
    })
}

fn reached<T>(mut attempt: impl FnMut() -> Result<T, String>) -> Result<T, Stop> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        match attempt() {
            Ok(reached) => return Ok(reached),
            Err(text) if Instant::now() > deadline => return Err(Stop::Unsuitable(format!("cannot connect: {text}"))),
            Err(_) => sleep(AGAIN),
        }
    }
}

struct Client<L> {
    library: L,
    register: Register,
    settings: Settings,
    extends: bool,
}

impl<L: Library> Client<L> {
    fn perform(&mut self, operation: &mut Operation) -> Result<Answer, Stop> {
        match operation.f() {
            "read" => Ok(match self.register.read(operation.key()) {
                Ok(old) => Answer::Ok { old: Some(old), new: None },
                Err(trouble) => Answer::fail("unavailable", trouble.to_string()),
            }),
            "hold" | "rmw" => self.locked(operation),
            other => Ok(Answer::fail("unsupported", other.to_string())),
        }
    }

    fn locked(&mut self, operation: &mut Operation) -> Result<Answer, Stop> {
        operation.phase("acquiring")?;
        let name = format!("lock:{}", operation.key());
        let mut lock = match self.library.acquire(&name, operation.within()) {
            Ok(Some(lock)) => lock,
            Ok(None) => return Ok(Answer::fail("not-acquired", String::new())),
            Err(text) => return Ok(Answer::fail("not-acquired", text)),
        };
        let valid_until = self.library.validity(&lock).and_then(|validity| Instant::now().checked_add(validity));
        operation.phase_valid("acquired", self.library.validity(&lock))?;
        let (answer, may_release) = self.work(operation, &mut lock, valid_until)?;
        if may_release {
            operation.phase("releasing")?;
            self.library.release(lock);
            operation.phase("released")?;
        }
        Ok(answer)
    }

    /// The work under the lock, and whether the lock may be given back afterwards.
    fn work(
        &mut self,
        operation: &mut Operation,
        lock: &mut L::Lock,
        valid_until: Option<Instant>,
    ) -> Result<(Answer, bool), Stop> {
        if operation.f() == "hold" {
            self.think(operation, lock, valid_until)?;
            return Ok((Answer::Ok { old: None, new: None }, true));
        }
        let key = operation.key().to_string();
        let old = match self.register.read(&key) {
            Ok(old) => old,
            Err(trouble) => return Ok((Answer::fail("unavailable", trouble.to_string()), true)),
        };
        operation.phase_read(&old)?;
        if let Some(why) = self.think(operation, lock, valid_until)? {
            operation.lost(&why)?;
            return Ok((Answer::fail("lock-lost", why), true));
        }
        operation.phase("before-write")?;
        let new = operation.value().to_string();
        if let Err(trouble) = self.register.connect() {
            return Ok((Answer::fail("unavailable", trouble.to_string()), true));
        }
        match self.register.write(&key, &new) {
            Ok(()) => operation.phase("written")?,
            Err(Trouble::Refused(text)) => return Ok((Answer::fail("unavailable", text), true)),
            // Nobody knows whether it was written, or will be. Until it cannot be any more the lock is kept.
            Err(Trouble::Connection(error)) => {
                let settled = self.register.cut_off(DOUBT_LIMIT);
                return Ok((Answer::doubt(&error), settled));
            }
        }
        Ok((Answer::Ok { old: Some(old), new: Some(new) }, true))
    }

    /// Takes the operation's time. Returns why the lock must not be relied on any more, if it must not. An extension
    /// that failed takes nothing from the time that the lock was valid for before.
    fn think(
        &mut self,
        operation: &mut Operation,
        lock: &mut L::Lock,
        mut valid_until: Option<Instant>,
    ) -> Result<Option<String>, Stop> {
        if !self.extends {
            sleep(operation.hold());
            return Ok(None);
        }
        sleep(self.settings.ttl.mul_f64(EXTEND_AFTER));
        let failed = match self.library.extend(lock) {
            Ok(()) => {
                let validity = self.library.validity(lock);
                valid_until = validity.and_then(|validity| Instant::now().checked_add(validity));
                operation.phase_valid("extended", validity)?;
                None
            }
            Err(text) => {
                eprintln!("the extension failed: {text}");
                Some(text)
            }
        };
        sleep(self.settings.ttl.mul_f64(HELD_AFTERWARDS));
        let over = valid_until.is_some_and(|until| Instant::now() > until);
        Ok(failed.filter(|_| over || valid_until.is_none()))
    }
}
