//! The messages of the client protocol, versions 1 and 2: one JSON object per line on standard input and output.

use std::io::{self, BufRead, Write};
use std::ops::RangeInclusive;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

pub const PROTOCOLS: RangeInclusive<u32> = 1..=2;

/// Why the client ends.
#[derive(Debug)]
pub enum Stop {
    /// The controller sent `bye`, or is gone.
    Closed,
    /// This client, or the library, cannot do what the workload asks for.
    Unsuitable(String),
    /// The controller sent a message that the protocol does not have.
    Misunderstood(String),
}

#[derive(Debug, Deserialize)]
pub struct Hello {
    pub protocol: u32,
    #[serde(default = "one")]
    pub threads: usize,
    pub lock: Lock,
    pub resource: Resource,
}

fn one() -> usize {
    1
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
    pub permits: Option<u32>,
}

#[derive(Debug, Deserialize)]
pub struct Resource {
    pub kind: String,
    pub url: String,
    pub fencing: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Message {
    Hello(Hello),
    Invoke(Invoke),
    Go { id: u64, phase: String },
    Cancel { id: u64 },
    Bye,
}

#[derive(Debug, Deserialize)]
pub struct Invoke {
    pub id: u64,
    #[serde(default)]
    pub thread: usize,
    f: String,
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    hold_ms: u64,
    #[serde(default)]
    acquire_timeout_ms: u64,
    #[serde(default)]
    check_every_ms: u64,
    #[serde(default)]
    breakpoints: Vec<String>,
}

/// How an operation ends.
pub enum Answer {
    /// The operation took effect. `old` is the text that was read, or None for no text; None if there was no read.
    Ok { old: Option<Option<String>>, new: Option<String> },
    /// The operation certainly had no effect.
    Fail { error: &'static str, text: String },
    /// It is unknown whether the operation took effect.
    Info { error: &'static str, text: String },
}

impl Answer {
    pub fn fail(error: &'static str, text: String) -> Answer {
        Answer::Fail { error, text }
    }

    /// The caller does not need the lock any more, and nothing was written.
    pub fn cancelled(text: &str) -> Answer {
        Answer::fail("cancelled", text.to_string())
    }

    pub fn doubt(error: &io::Error) -> Answer {
        let late = matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock);
        Answer::Info { error: if late { "timeout" } else { "connection-lost" }, text: error.to_string() }
    }
}

/// Reads the next message; one thread reads them all.
pub fn next() -> Result<Message, Stop> {
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
pub fn say(message: &Value) -> Result<(), Stop> {
    let mut out = io::stdout().lock();
    writeln!(out, "{message}").and_then(|()| out.flush()).map_err(|_| Stop::Closed)
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// A requested operation, with its reports to the controller. The thread that reads messages passes it those for it.
pub struct Operation {
    invoke: Invoke,
    told: watch::Sender<Told>,
}

/// The controller's messages about a running operation.
#[derive(Default)]
struct Told {
    /// The phases from which the operation may continue.
    opened: Vec<String>,
    cancelled: bool,
}

impl Operation {
    pub fn new(invoke: Invoke) -> Operation {
        Operation { invoke, told: watch::Sender::default() }
    }

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

    /// How long to try to acquire the lock.
    pub fn within(&self) -> Duration {
        Duration::from_millis(self.invoke.acquire_timeout_ms)
    }

    /// How often a holder asks its library whether it holds the lock; None for never.
    pub fn check_every(&self) -> Option<Duration> {
        (self.invoke.check_every_ms > 0).then(|| Duration::from_millis(self.invoke.check_every_ms))
    }

    pub fn open(&self, phase: String) {
        self.told.send_modify(|told| told.opened.push(phase));
    }

    pub fn cancel(&self) {
        self.told.send_modify(|told| told.cancelled = true);
    }

    pub fn is_cancelled(&self) -> bool {
        self.told.borrow().cancelled
    }

    pub async fn cancelled(&self) {
        // It fails only if the sender is gone, but `self` has the sender.
        let _ = self.told.subscribe().wait_for(|told| told.cancelled).await;
    }

    /// Returns whether the operation has a breakpoint at this phase.
    pub fn stops_at(&self, phase: &str) -> bool {
        self.invoke.breakpoints.iter().any(|breakpoint| breakpoint == phase)
    }

    /// Waits until the operation may continue from this phase, or is cancelled; returns whether it may continue.
    pub async fn opened(&self, phase: &str) -> bool {
        let is_open = |told: &Told| told.opened.iter().any(|opened| opened == phase);
        let mut told = self.told.subscribe();
        told.wait_for(|told| is_open(told) || told.cancelled).await.is_ok_and(|told| is_open(&told))
    }

    /// Reports a phase, stamped now unless the facts have another time.
    pub fn report(&self, phase: &str, facts: &Value) -> Result<(), Stop> {
        let mut message = json!({"type": "phase", "id": self.invoke.id, "phase": phase, "mono_ns": now()});
        if let (Value::Object(message), Value::Object(facts)) = (&mut message, facts) {
            message.extend(facts.clone());
        }
        say(&message)
    }

    pub fn end(&self, answer: Answer) -> Result<(), Stop> {
        let id = self.invoke.id;
        say(&match answer {
            Answer::Ok { old: Some(old), new: Some(new) } => json!({"type": "ok", "id": id, "old": old, "new": new}),
            Answer::Ok { old: Some(old), new: None } => json!({"type": "ok", "id": id, "old": old}),
            Answer::Ok { old: None, .. } => json!({"type": "ok", "id": id}),
            Answer::Fail { error, text } => json!({"type": "fail", "id": id, "error": error, "text": text}),
            Answer::Info { error, text } => json!({"type": "info", "id": id, "error": error, "text": text}),
        })
    }
}
