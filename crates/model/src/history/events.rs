//! What the lines of a history say.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CONTROLLER, CallEffect, Command, FaultKind, Header, Outcome, Text, line};

/// One line of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Index in the history, from 0, without gaps.
    pub index: u64,
    /// Nanoseconds since the run began, never decreasing from line to line.
    pub time: u64,
    pub body: Body,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// What was run; the first line.
    Run(Box<Header>),
    /// How the clients' monotonic clock relates to the controller's.
    Clock(ClockBound),
    /// Something verified about the run itself, for the gates.
    Fact(Fact),
    /// A client process became ready, ended, or was replaced.
    Client(ClientEvent),
    /// An operation was about to be sent to a client.
    Invoke(Invocation),
    /// A client was about to be told that its operation in flight is cancelled.
    Cancel { process: u32 },
    /// A client's answer to its operation was read, or the controller gave up on it.
    Complete(Completion),
    /// A client reported how far its operation had come.
    Phase(PhaseReport),
    /// A fault was ordered, observed, or healed.
    Nemesis(NemesisEvent),
    /// A step of a scripted nemesis is over.
    Step(StepEvent),
    /// The machine has just stood still.
    Stall(Stall),
    /// Another node was seen to be the primary of a key.
    Promotion(Promotion),
    /// A member did not run for a while, and no fault of the run stopped it.
    Waited(Waited),
    /// The run ended; nothing follows. A history without it was cut short.
    End(End),
}

/// A time in which the machine did nothing for the run: a timer of the controller fired that much later than it was meant
/// to. It is noted when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// How long, in nanoseconds.
    pub lasted_ns: u64,
}

/// A time in which a member did not run, though the machine did and no fault of the run stopped it. The kernel says so of its
/// processes, or a server did not answer the agent. It is recorded when clients have done their work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// The clients that are threads of one process, or a server, or `agent`.
    pub members: Vec<String>,
    pub why: WhyWaited,
    /// Nanoseconds of run time.
    pub from_ns: u64,
    /// The same; a process that is gone is so for good.
    pub to_ns: u64,
    /// For how much of that it did not run, in nanoseconds.
    pub waited_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhyWaited {
    /// It was ready to run, and others had the processors.
    Processor,
    /// Another process had stopped it by a signal.
    Stopped,
    /// Its process had ended.
    Gone,
    /// It did not answer.
    Silent,
    /// It was late by its own timer, and did not wait for a processor: it was stopped, or its machine was.
    Late,
}

/// Another node has become the primary of a key, by most of those who decide that: it was not yet at `after_ns`, and was
/// when the event was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promotion {
    pub key: String,
    pub node: String,
    pub instead_of: String,
    pub after_ns: u64,
}

/// The clients' monotonic clock at the run's time 0, measured by round trips to a process on the clients' kernel.
///
/// A stamp `mono_ns` happened at run time `mono_ns - mono_at_start_ns`, give or take `error_ns`. Stamps of two clients
/// come from one clock and compare exactly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockBound {
    pub mono_at_start_ns: i64,
    pub error_ns: u64,
}

/// Something verified about the run itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    pub name: FactName,
    pub holds: bool,
    /// What was seen, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactName {
    /// The protected resource was empty before the first operation.
    ResourceEmpty,
    /// Every client said `ready` before the first operation.
    ClientsReady,
    /// Every node of the lock and the resource answered before the first operation.
    NodesReady,
    /// After the last operation and the last heal, every node answered again.
    NodesHealthy,
    /// Every key was read after the last operation, when nothing in flight could still write.
    FinalReads,
    /// After the last operation, no node kept a lock that never ends, or that has far more than its TTL left.
    NothingEndless,
    /// Whenever it was looked at while clients worked, no node kept a lock that had far more than its TTL left.
    NothingTooLong,
}

/// A client process came or went. `process` is the logical process that it ran as.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientEvent {
    pub process: u32,
    pub step: ClientStep,
    /// The client's name and version, or why it ended.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientStep {
    Ready,
    /// It died, was killed, hung, or talked nonsense; whatever it was doing is indeterminate. It is restarted under the
    /// next process number.
    Ended,
}

/// Who performed an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Process {
    /// A logical process of a client. Client `c` runs as process `c`, and after each crash as the last number plus the
    /// number of clients, as in Jepsen: a process that crashed never acts again.
    Client(u32),
    /// The controller itself, which makes the final reads.
    Controller,
}

impl Process {
    /// Its number in a table of operations.
    pub fn number(self) -> u32 {
        match self {
            Process::Client(number) => number,
            Process::Controller => CONTROLLER,
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Process::Client(number) => number.fmt(out),
            Process::Controller => out.write_str("controller"),
        }
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Function {
    /// Acquire the lock, read the resource, think, write a new value, release.
    Rmw,
    /// Acquire the lock, think, release: the lock alone.
    Hold,
    /// Acquire the lock for reading, beside others who do, read the resource, think, release.
    Shared,
    /// Read the resource without the lock.
    Read,
    /// Write a new value without the lock, whatever was there.
    Write,
    /// Read the resource without the lock, think, and write a new value if the old one is still there.
    Cas,
}

impl Function {
    /// Whether it takes the lock.
    pub fn is_locked(self) -> bool {
        matches!(self, Function::Rmw | Function::Hold | Function::Shared)
    }

    /// Whether it takes the lock for reading, beside others who do.
    pub fn is_shared(self) -> bool {
        self == Function::Shared
    }

    /// Whether it is meant to write a new value.
    pub fn writes(self) -> bool {
        matches!(self, Function::Rmw | Function::Write | Function::Cas)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    pub process: Process,
    pub f: Function,
    pub key: Text,
    /// The value to write, unique in the run; `None` for a read or a hold.
    pub new: Option<Text>,
    /// How it was to be performed, as far as that is not the same for all.
    pub orders: Orders,
}

/// How a client was told to perform one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// How long it may wait for the lock, in milliseconds, if that is not what the header says.
    pub acquire_timeout_ms: Option<u64>,
    /// How long after it has given the lock back it is to do so once more, in milliseconds, if it is.
    pub release_again_ms: Option<u64>,
    /// The phases at which it is to wait for `go`, and to report them again when it goes on.
    pub breakpoints: Vec<Phase>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    pub process: Process,
    pub f: Function,
    pub key: Text,
    pub outcome: Outcome,
    /// What an `ok` operation read; [`Reading::Unknown`] otherwise.
    pub old: Reading,
    /// How much an `ok` operation read, if the resource is a counter or a list.
    pub amount: Option<Amount>,
    /// What it wrote or was to write.
    pub new: Option<Text>,
    /// The protocol's error word, on `fail` and `info`.
    pub error: Option<Text>,
    /// The client's own words.
    pub text: Option<Text>,
}

/// What a read of the register returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reading {
    /// What was read, if anything, is not known.
    #[default]
    Unknown,
    /// The key was empty, as at the start.
    Empty,
    Value(Text),
}

/// How much a read of a counter or list found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Amount {
    /// The number of a counter, or how long a list was.
    Count(u64),
    /// Everything in a list, first to last.
    Elements(Vec<String>),
}

impl Amount {
    pub fn count(&self) -> u64 {
        match self {
            Amount::Count(count) => *count,
            Amount::Elements(elements) => elements.len() as u64,
        }
    }
}

/// How far an operation has come; the order is the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The first request for the lock is about to leave.
    Acquiring,
    /// The lock has been taken, and another request that belongs to its acquisition is about to leave.
    HalfAcquired,
    /// The client believes that it holds the lock; stamped after the last reply was in hand.
    Acquired,
    /// The library extended the lock.
    Extended,
    /// The library was asked whether the client has the lock, and said yes; stamped before it was asked.
    Owned,
    /// The resource's value is in hand.
    Read,
    /// The write is about to leave.
    BeforeWrite,
    /// The resource acknowledged the write.
    Written,
    /// The library told its user that the lock is gone.
    Lost,
    /// The release is about to leave.
    Releasing,
    /// The release has checked whose the lock is, and is about to free it in another request.
    HalfReleased,
    /// The release is over.
    Released,
}

impl Phase {
    /// As clients and scripts write it.
    pub fn word(self) -> String {
        line::word(&self)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct PhaseReport {
    pub process: u32,
    pub phase: Phase,
    /// The client's CLOCK_MONOTONIC, in nanoseconds, taken on the safe side of the phase.
    pub mono_ns: Option<u64>,
    /// Fencing token, if the lock has one.
    pub token: Option<u64>,
    /// How much longer the client believed its lock to be valid, on `acquired` and `extended`.
    pub validity_ms: Option<u64>,
    /// What was read, on `read`.
    pub value: Reading,
    /// How much was read, on `read` of a counter or list.
    pub amount: Option<Amount>,
    /// The client's own words.
    pub text: Option<Text>,
}

/// One step in the life of one fault.
#[derive(Clone, Debug, PartialEq)]
pub struct NemesisEvent {
    /// The fault's number in the run, from 0.
    pub fault: u32,
    pub kind: FaultKind,
    pub step: FaultStep,
    /// Names of the members it hits, such as `c3` or `n2`.
    pub targets: Vec<String>,
    /// On `injected` and `healed`: whether the effect was observed, not only ordered.
    pub observed: bool,
    /// On `inject`, of a fault on links: from whom to whom packets are affected, as pairs of sender and receiver.
    pub links: Option<Vec<(String, String)>>,
    /// On `inject`, of a fault at a command: what it does.
    pub on_call: Option<CallEffect>,
    /// On `inject`, of a fault at each command that fits, whichever its key: which commands these are.
    pub on_each: Option<Command>,
    /// On `inject`, of a delay: by how much each packet is late at least, in nanoseconds.
    pub delay_ns: Option<u64>,
    /// On `healed`: see [`FaultWindow::aftermath_ns`](super::FaultWindow::aftermath_ns).
    pub aftermath_ns: Option<u64>,
    /// On `healed`: see [`FaultWindow::clock_off_ns`](super::FaultWindow::clock_off_ns).
    pub clock_off_ns: Option<u64>,
    /// What was seen, in words.
    pub text: String,
}

/// A step of a script is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepEvent {
    /// Its number, from 1.
    pub number: u32,
    /// As written in the script.
    pub step: String,
    pub outcome: StepOutcome,
    /// What happened instead.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What kind of thing did not happen, if the script was broken off for it; `None` in histories of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// What a client must reach by the end of the step if the lock is live; `None` if the step does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<Expects>,
    /// Breakpoints that it opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opens: Vec<Opened>,
}

/// What a step waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missed {
    /// The client's operation ended before it came so far.
    Ended,
    /// The client did not come so far in time.
    Late,
    /// The fault at a command did not strike in time.
    NotStruck,
    /// The agent could not arm the fault at a command.
    NotArmed,
    /// The primary stayed the same.
    SamePrimary,
    /// The client had no operation to cancel.
    NothingToCancel,
}

/// A client goes on from a breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    pub client: u32,
    pub from: Phase,
    /// Whether the script meant it to stand there for as long as a lock lives, as before a renewal that is to come.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub meant: bool,
}

/// What a client must reach if the lock is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expects {
    pub client: u32,
    /// The phase that its operation must reach; `None` if the operation must end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// How long it had for that, in nanoseconds; `None` in histories of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepOutcome {
    /// What it was meant to bring about happened.
    Happened,
    /// It did not, and did not have to.
    WentOn,
    /// It timed out: liveness is violated.
    NotLive,
    /// It did not, and the script was broken off.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultStep {
    /// The order to inject was sent.
    Inject,
    /// The order to inject was answered, observed or not. For a fault at a command: it struck, or was healed before it
    /// did, which is not observed.
    Injected,
    /// The order to heal was sent.
    Heal,
    /// The order to heal was answered, observed or not.
    Healed,
    /// Its time came, but nothing was injected, or nothing came of it, for the reason in the text.
    Skipped,
}

#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// Whether the run reached its planned end.
    pub completed: bool,
    /// Why it ended, in words.
    pub text: String,
}
