//! The contents of the lines of a history.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CONTROLLER, CallEffect, Command, FaultKind, Header, Outcome, Text, line};

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Index in the history, from 0, without gaps.
    pub index: u64,
    /// Nanoseconds since the run began, never decreasing from line to line.
    pub time: u64,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// The configuration of the run; the first line.
    Run(Box<Header>),
    /// The relation of the clients' monotonic clock to the controller's.
    Clock(ClockBound),
    /// A verified fact about the run itself, for the gates.
    Fact(Fact),
    /// A client process became ready, ended, or was replaced.
    Client(ClientEvent),
    /// An operation was about to be sent to a client.
    Invoke(Invocation),
    /// The controller was about to cancel a client's operation in flight.
    Cancel { process: u32 },
    /// The controller read a client's answer to its operation, or gave up on it.
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
    /// A member did not run for a while, and no fault of the run had stopped it.
    Waited(Waited),
    /// The run ended; nothing follows. A history without this event was cut short.
    End(End),
}

/// A time in which the machine did nothing for the run: a timer of the controller fired this much too late. The controller
/// records it when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    pub lasted_ns: u64,
}

/// A time in which a member did not run, though the machine did and no fault of the run stopped it. Either the kernel reports it
/// for its processes, or a server did not answer the agent. The controller records it after clients have done their work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// A server, or `agent`, or the clients that are threads of one process.
    pub members: Vec<String>,
    pub why: WhyWaited,
    /// Nanoseconds of run time.
    pub from_ns: u64,
    /// In nanoseconds of run time; a process that is gone stays gone after it.
    pub to_ns: u64,
    /// How much of that time it did not run, in nanoseconds.
    pub waited_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhyWaited {
    /// It was ready to run, but other processes had the processors.
    Processor,
    /// Another process had stopped it by a signal.
    Stopped,
    /// Its process had ended.
    Gone,
    /// It did not answer.
    Silent,
    /// It was late by its own timer, and did not wait for a processor: a signal had stopped it, or its machine.
    Late,
}

/// Another node has become the primary of a key, according to most nodes that decide it. It was not yet at `after_ns`, and was
/// when the event was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promotion {
    pub key: String,
    pub node: String,
    pub instead_of: String,
    pub after_ns: u64,
}

/// The value of the clients' monotonic clock at the run's time 0, measured by round trips to a process on the clients' kernel.
///
/// A stamp `mono_ns` was taken at run time `mono_ns - mono_at_start_ns`, give or take `error_ns`. Stamps of two clients come from
/// one clock and compare exactly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockBound {
    pub mono_at_start_ns: i64,
    pub error_ns: u64,
}

/// A verified fact about the run itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    pub name: FactName,
    pub holds: bool,
    /// The observation, in words.
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
    /// After the last operation, no node kept a lock that never expires, or that has far more than its TTL left.
    NothingEndless,
    /// At each check while clients worked, no node kept a lock that had far more than its TTL left.
    NothingTooLong,
}

/// A client process came or went. `process` is the logical process that it ran as.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientEvent {
    pub process: u32,
    pub step: ClientStep,
    /// The client's name and version, or why it ended.
    pub text: String,
    /// When it became ready: the nodes on its list; empty if it got all nodes.
    pub nodes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientStep {
    Ready,
    /// The client died, was killed, hung, or sent invalid messages. Its operation is indeterminate, and it is restarted under the
    /// next process number.
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Process {
    /// A logical process of a client. Client `c` runs as process `c`, and after each crash as the last number plus the number of
    /// clients, as in Jepsen. A crashed process never acts again.
    Client(u32),
    /// The controller itself, which makes the final reads.
    Controller,
}

impl Process {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Function {
    /// Acquire the lock, read the resource, think, write a new value, release.
    Rmw,
    /// Acquire the lock, think, release: the lock alone.
    Hold,
    /// Acquire the lock for reading, beside other readers, read the resource, think, release.
    Shared,
    Read,
    /// Write a new value without the lock, whatever the old value.
    Write,
    /// Read the resource without the lock, think, and write a new value if the old one is still there.
    Cas,
}

impl Function {
    pub fn is_locked(self) -> bool {
        matches!(self, Function::Rmw | Function::Hold | Function::Shared)
    }

    /// True if it acquires the lock for reading, beside other readers.
    pub fn is_shared(self) -> bool {
        self == Function::Shared
    }

    /// True if it is meant to write a new value.
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
    /// Settings that differ from operation to operation.
    pub orders: Orders,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// The timeout for acquiring the lock, in milliseconds; None for the timeout in the header.
    pub acquire_timeout_ms: Option<u64>,
    /// How long after its release the client must release again, in milliseconds; None if it must not.
    pub release_again_ms: Option<u64>,
    /// The phases at which the client must wait for `go`. It reports the phase again when it goes on.
    pub breakpoints: Vec<Phase>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    pub process: Process,
    pub f: Function,
    pub key: Text,
    pub outcome: Outcome,
    /// The value that an `ok` operation read; [`Reading::Unknown`] otherwise.
    pub old: Reading,
    /// The amount that an `ok` operation read, if the resource is a counter or a list.
    pub amount: Option<Amount>,
    /// The value that it wrote or was meant to write.
    pub new: Option<Text>,
    /// The protocol's error word, on `fail` and `info`.
    pub error: Option<Text>,
    /// The client's own words.
    pub text: Option<Text>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reading {
    /// It is not known what was read, or if anything was.
    #[default]
    Unknown,
    /// The key was empty, as at the start.
    Empty,
    Value(Text),
}

/// The result of reading the amount of a counter or list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Amount {
    /// The number of a counter, or the length of a list.
    Count(u64),
    /// All elements of a list, first to last.
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

/// Phases of an operation, in the order of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The first request for the lock is about to leave.
    Acquiring,
    /// The client has acquired the lock, and a further request of the acquisition is about to leave.
    HalfAcquired,
    /// The client believes that it holds the lock; stamped after it received the last reply.
    Acquired,
    Extended,
    /// The client asked the library if it has the lock, and the answer was yes; stamped before the question.
    Owned,
    /// The client has read the resource's value.
    Read,
    /// The write is about to leave.
    BeforeWrite,
    Written,
    /// The library reported to its user that the lock is gone.
    Lost,
    /// The release is about to leave.
    Releasing,
    /// The release has checked the owner of the lock, and is about to free it in another request.
    HalfReleased,
    Released,
}

impl Phase {
    pub fn word(self) -> String {
        line::word(&self)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct PhaseReport {
    pub process: u32,
    pub phase: Phase,
    /// The client's CLOCK_MONOTONIC, in nanoseconds, read on the safe side of the phase.
    pub mono_ns: Option<u64>,
    pub token: Option<u64>,
    /// The remaining validity of the lock that the client believed in, in milliseconds, on `acquired` and `extended`.
    pub validity_ms: Option<u64>,
    /// The value that was read, on `read`.
    pub value: Reading,
    /// The amount that was read, on `read` of a counter or list.
    pub amount: Option<Amount>,
    /// The client's own words.
    pub text: Option<Text>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NemesisEvent {
    /// The fault's number in the run, from 0.
    pub fault: u32,
    pub kind: FaultKind,
    pub step: FaultStep,
    /// Names of the members it hits, such as `c3` or `n2`.
    pub targets: Vec<String>,
    /// On `injected` and `healed`: true if the effect was observed, not only ordered.
    pub observed: bool,
    /// On `inject`, for a fault on links: the affected links, as pairs of sender and receiver.
    pub links: Option<Vec<(String, String)>>,
    /// On `inject`, for a fault at a command: its effect.
    pub on_call: Option<CallEffect>,
    /// On `inject`, for a fault at every matching command with any key: these commands.
    pub on_each: Option<Command>,
    /// On `inject`, for a delay: the minimum delay of each packet, in nanoseconds.
    pub delay_ns: Option<u64>,
    /// On `healed`: see [`FaultWindow::aftermath_ns`](super::FaultWindow::aftermath_ns).
    pub aftermath_ns: Option<u64>,
    /// On `healed`: see [`FaultWindow::clock_off_ns`](super::FaultWindow::clock_off_ns).
    pub clock_off_ns: Option<u64>,
    /// The observation, in words.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepEvent {
    /// Its number, from 1.
    pub number: u32,
    /// As written in the script.
    pub step: String,
    pub outcome: StepOutcome,
    /// The actual event, in place of the step's effect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The missing event for which the script was broken off; `None` in histories of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// The phase that a client must reach by the end of the step if the lock is live; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<Expects>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opens: Vec<Opened>,
}

/// The event that a step waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missed {
    /// The client's operation ended before it reached the phase.
    Ended,
    /// The client did not reach the phase in time.
    Late,
    /// The fault at a command did not fire in time.
    NotStruck,
    /// The agent could not arm the fault at a command.
    NotArmed,
    SamePrimary,
    /// The client had no operation to cancel.
    NothingToCancel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    pub client: u32,
    pub from: Phase,
    /// True if the script deliberately held the client there as long as a lock lives, for example before a renewal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub meant: bool,
}

/// A phase that a client must reach if the lock is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expects {
    pub client: u32,
    /// The phase that its operation must reach; `None` if the operation must end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The time allowed for it, in nanoseconds; `None` in histories of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepOutcome {
    /// The intended effect happened.
    Happened,
    /// It did not happen, and did not have to.
    WentOn,
    /// The step timed out: liveness is violated.
    NotLive,
    /// It did not happen, and the script was broken off.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultStep {
    /// The order to inject was sent.
    Inject,
    /// The order to inject was answered, observed or not. A fault at a command fired, or was healed before that, which is not
    /// observed.
    Injected,
    /// The order to heal was sent.
    Heal,
    /// The order to heal was answered, observed or not.
    Healed,
    /// Its time came, but the fault was not injected or had no effect; the text has the reason.
    Skipped,
}

#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// True if the run reached its planned end.
    pub completed: bool,
    /// Why it ended, in words.
    pub text: String,
}
