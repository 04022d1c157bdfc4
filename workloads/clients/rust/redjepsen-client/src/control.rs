//! The messages of the client protocol, version 1: one JSON object per line on standard input and output.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};

pub const PROTOCOL: u32 = 1;

/// Why the client ends.
#[derive(Debug)]
pub enum Stop {
    /// The controller said `bye`, or is gone.
    Closed,
    /// This client, or the library, cannot do what the workload asks for.
    Unsuitable(String),
    /// The controller sent what the protocol does not have.
    Misunderstood(String),
}

#[derive(Debug, Deserialize)]
pub struct Hello {
    pub protocol: u32,
    pub lock: Lock,
    pub resource: Resource,
}

#[derive(Debug, Deserialize)]
pub struct Lock {
    pub ttl_ms: u64,
    pub nodes: Vec<String>,
    #[serde(default)]
    pub options: Options,
    #[serde(default)]
    pub group: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub struct Options {
    pub node_timeout_ms: Option<u64>,
    pub retry_delay_ms: Option<(u64, u64)>,
}

#[derive(Debug, Deserialize)]
pub struct Resource {
    pub kind: String,
    pub url: String,
    pub fencing: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Message {
    Hello(Hello),
    Invoke(Invoke),
    Go { id: u64, phase: String },
    Bye,
}

#[derive(Debug, Deserialize)]
struct Invoke {
    id: u64,
    f: String,
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    hold_ms: u64,
    #[serde(default)]
    acquire_timeout_ms: u64,
    #[serde(default)]
    breakpoints: Vec<String>,
}

/// How an operation ends.
pub enum Answer {
    /// It happened. `old` is what was read, which may be nothing; None if nothing was asked for.
    Ok { old: Option<Option<String>>, new: Option<String> },
    /// It certainly did not.
    Fail { error: &'static str, text: String },
    /// Nobody knows.
    Info { error: &'static str, text: String },
}

impl Answer {
    pub fn fail(error: &'static str, text: String) -> Answer {
        Answer::Fail { error, text }
    }

    pub fn doubt(error: &io::Error) -> Answer {
        let late = matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock);
        Answer::Info { error: if late { "timeout" } else { "connection-lost" }, text: error.to_string() }
    }
}

/// The link to the controller.
#[derive(Default)]
pub struct Control;

impl Control {
    pub fn hello(&mut self) -> Result<Hello, Stop> {
        match self.next()? {
            Message::Hello(hello) => Ok(hello),
            other => Err(Stop::Misunderstood(format!("{other:?} instead of hello"))),
        }
    }

    pub fn ready(&mut self, name: &str) -> Result<(), Stop> {
        self.say(json!({"type": "ready", "protocol": PROTOCOL, "name": name, "capabilities": []}))
    }

    pub fn fail(&mut self, text: &str) -> Result<(), Stop> {
        self.say(json!({"type": "failed", "text": text}))
    }

    /// The next operation.
    pub fn invoked(&mut self) -> Result<Operation<'_>, Stop> {
        loop {
            match self.next()? {
                Message::Invoke(invoke) => return Ok(Operation { invoke, control: self }),
                // A late one is for an operation that is over.
                Message::Go { .. } => {}
                other => return Err(Stop::Misunderstood(format!("{other:?} while no operation is in progress"))),
            }
        }
    }

    fn next(&mut self) -> Result<Message, Stop> {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        if read.map_err(|error| Stop::Misunderstood(error.to_string()))? == 0 {
            return Err(Stop::Closed);
        }
        match serde_json::from_str(&line) {
            Ok(Message::Bye) => Err(Stop::Closed),
            Ok(message) => Ok(message),
            Err(error) => Err(Stop::Misunderstood(format!("{error}: {}", line.trim_end()))),
        }
    }

    /// Writes at once: a phase that is reported late moves the moment at which the nemesis acts.
    fn say(&mut self, message: Value) -> Result<(), Stop> {
        let mut out = io::stdout().lock();
        writeln!(out, "{message}").and_then(|()| out.flush()).map_err(|_| Stop::Closed)
    }
}

/// One operation: what is asked for, and how the controller hears of it.
pub struct Operation<'c> {
    invoke: Invoke,
    control: &'c mut Control,
}

impl Operation<'_> {
    pub fn f(&self) -> &str {
        &self.invoke.f
    }

    /// The key of the resource.
    pub fn key(&self) -> &str {
        &self.invoke.key
    }

    pub fn value(&self) -> &str {
        &self.invoke.value
    }

    /// How long to think between read and write.
    pub fn hold(&self) -> Duration {
        Duration::from_millis(self.invoke.hold_ms)
    }

    /// How long to try to get the lock.
    pub fn within(&self) -> Duration {
        Duration::from_millis(self.invoke.acquire_timeout_ms)
    }

    pub fn phase(&mut self, name: &str) -> Result<(), Stop> {
        self.phase_with(name, json!({}))
    }

    pub fn phase_valid(&mut self, name: &str, validity: Option<Duration>) -> Result<(), Stop> {
        let whole = validity.map(|validity| u64::try_from(validity.as_millis()).unwrap_or(u64::MAX));
        self.phase_with(name, whole.map_or(json!({}), |whole| json!({"validity_ms": whole})))
    }

    pub fn phase_read(&mut self, value: &Option<String>) -> Result<(), Stop> {
        self.phase_with("read", json!({"value": value}))
    }

    pub fn lost(&mut self, why: &str) -> Result<(), Stop> {
        self.phase_with("lost", json!({"text": why}))
    }

    pub fn end(self, answer: Answer) -> Result<(), Stop> {
        let id = self.invoke.id;
        self.control.say(match answer {
            Answer::Ok { old: Some(old), new: Some(new) } => json!({"type": "ok", "id": id, "old": old, "new": new}),
            Answer::Ok { old: Some(old), new: None } => json!({"type": "ok", "id": id, "old": old}),
            Answer::Ok { old: None, .. } => json!({"type": "ok", "id": id}),
            Answer::Fail { error, text } => json!({"type": "fail", "id": id, "error": error, "text": text}),
            Answer::Info { error, text } => json!({"type": "info", "id": id, "error": error, "text": text}),
        })
    }

    /// Reports a phase, stamped now. At a breakpoint it waits, and reports it again: only then does what comes next
    /// happen.
    fn phase_with(&mut self, name: &str, facts: Value) -> Result<(), Stop> {
        self.report(name, &facts)?;
        if !self.invoke.breakpoints.iter().any(|breakpoint| breakpoint == name) {
            return Ok(());
        }
        loop {
            match self.control.next()? {
                Message::Go { id, phase } if id == self.invoke.id && phase == name => break,
                Message::Go { .. } => {}
                other => return Err(Stop::Misunderstood(format!("{other:?} while an operation waits at {name}"))),
            }
        }
        self.report(name, &facts)
    }

    fn report(&mut self, name: &str, facts: &Value) -> Result<(), Stop> {
        let now = clock_gettime(ClockId::Monotonic);
        let mono_ns = now.tv_sec * 1_000_000_000 + now.tv_nsec;
        let mut message = json!({"type": "phase", "id": self.invoke.id, "phase": name, "mono_ns": mono_ns});
        if let (Value::Object(message), Value::Object(facts)) = (&mut message, facts) {
            message.extend(facts.clone());
        }
        self.control.say(message)
    }
}
