//! What happened in a run, as typed events and as the operations, holds and fault windows that follow from them.
//!
//! One event is one line of `history.jsonl` ([`line`]). The controller appends events as they happen ([`Recorder`]);
//! [`load`] reads a file back, refuses what is malformed with the number of the line, and pairs invocations with
//! completions. `redjepsen run` checks the file that it wrote, not what it remembers, so `redjepsen check` must come to
//! the same verdict.
//!
//! Times are nanoseconds since the run began, on the controller's monotonic clock, unless a name says otherwise.

mod commands;
mod contradiction;
mod earlier;
mod header;
mod json;
mod line;
mod lines;
mod load;
mod locks;
mod operations;
mod phases;
mod presence;
mod record;
mod servers;
mod source;
mod text;
mod writers;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::members::{Role, client_name};

pub use crate::fault_kinds::{CallEffect, Command, CommandFault, FaultKind, ordinal};
pub use commands::RecordedCommand;
pub use contradiction::Contradiction;
pub use header::{Claim, FORMAT, Header, Outlives, Progress, ResourceKind};
pub use linearizability::formats::HistoryError;
pub use linearizability::history::Outcome;
pub use load::load_reader;
pub use locks::lock_table;
pub use operations::operation_table;
pub use phases::{Phases, Stamps};
pub use presence::Presence;
pub use record::{Recorder, SharedRecorder};
pub use servers::{Held, Look, Sight, Sighting, Sightings, locked_key};
pub use source::{CONTROLLER, load, lock_operations, operations, run};
pub use text::Text;
pub use writers::Writers;

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
    /// On `healed`: see [`FaultWindow::aftermath_ns`].
    pub aftermath_ns: Option<u64>,
    /// On `healed`: see [`FaultWindow::clock_off_ns`].
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
    /// What a client must reach by the end of the step if the lock is live; `None` if the step does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<Expects>,
    /// Breakpoints that it opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opens: Vec<Opened>,
}

/// A client goes on from a breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    pub client: u32,
    pub from: Phase,
    /// Whether the script meant it to stand there for as long as a lock lives, as before a renewal that is to come.
    #[serde(default, skip_serializing_if = "is_false")]
    pub meant: bool,
}

fn is_false(yes: &bool) -> bool {
    !*yes
}

/// What a client must reach if the lock is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expects {
    pub client: u32,
    /// The phase that its operation must reach; `None` if the operation must end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
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

/// A history as loaded: what the checker and the report work on.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// `None` in histories from elsewhere.
    pub run: Option<Header>,
    pub clock: Option<ClockBound>,
    pub facts: Vec<Fact>,
    /// Indices of the events of these facts, in the same order.
    pub fact_lines: Vec<u64>,
    /// `(time, event)` in order.
    pub clients: Vec<(u64, ClientEvent)>,
    /// In order of invocation.
    pub operations: Vec<Operation>,
    /// In order of their numbers, including skipped ones.
    pub faults: Vec<FaultWindow>,
    /// `(time, event)` in order.
    pub steps: Vec<(u64, StepEvent)>,
    /// In order.
    pub promotions: Vec<SeenPromotion>,
    /// From when to when the machine stood still, in order.
    pub stalls: Vec<(u64, u64)>,
    /// Indices of the events that say so, in the same order.
    pub stall_lines: Vec<u64>,
    /// Where clients contradict themselves or others, in order.
    pub contradictions: Vec<Contradiction>,
    /// The operations whose limit for waiting differs from the header's, as indices of their `invoke` events, with that
    /// limit in milliseconds.
    pub acquire_timeouts: BTreeMap<u64, u64>,
    /// The operations that were cancelled, as indices of their `invoke` events, with the time of the first cancellation.
    pub cancelled: BTreeMap<u64, u64>,
    pub end: Option<End>,
    /// Time of the last event.
    pub last_time: u64,
    /// The number of the last line, if that line was cut off in the middle (the writer was killed).
    pub truncated_at_line: Option<u64>,
}

impl History {
    /// Whether there is so much to do for it that a second core is worth a thread.
    pub fn is_long(&self) -> bool {
        self.operations.len() > 20_000
    }

    /// Whether servers, network, processes and time were simulated, as far as the history says.
    pub fn is_simulated(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.simulated)
    }

    /// How many clients may hold a lock at once.
    pub fn permits(&self) -> u32 {
        self.run.as_ref().map_or(1, |run| run.permits.max(1))
    }

    /// When the script let a client of this name go on from the breakpoint that it had reached.
    pub fn let_go(&self, client: &str, reached: PhaseStamp) -> Option<u64> {
        let opens = |step: &StepEvent| {
            step.opens.iter().any(|opened| client_name(opened.client) == client && opened.from == reached.phase)
        };
        self.steps.iter().find(|(time, step)| *time >= reached.received && opens(step)).map(|(time, _)| *time)
    }

    /// Whether somebody takes the lock for reading, beside others who do.
    pub fn has_readers(&self) -> bool {
        self.operations.iter().any(|operation| operation.f.is_shared())
    }

    /// Until when what an operation has read certainly was to stay as it was, in nanoseconds of run time: a lock for reading keeps
    /// writers out until its holder gives it back, or is told that it is lost. `None` if nothing kept them out, or that is not known.
    pub fn kept_until(&self, operation: &Operation) -> Option<u64> {
        let (_, end) = operation.certain_hold().filter(|_| operation.f.is_shared())?;
        let error = self.clock.map_or(0, |clock| clock.error_ns);
        let until = u64::try_from(end).unwrap_or(0).saturating_sub(error);
        let kept = operation.outcome == Outcome::Ok && operation.invoked < until;
        kept.then_some(until).filter(|until| operation.completed.is_some_and(|completed| *until <= completed))
    }

    /// The place of an operation, by the index of its `invoke` event.
    pub fn place_of(&self, index: u64) -> Option<usize> {
        self.operations.binary_search_by_key(&index, |operation| operation.index).ok()
    }
}

/// A promotion with its place in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPromotion {
    /// Index of its event.
    pub index: u64,
    /// When it was seen.
    pub time: u64,
    pub promotion: Promotion,
}

/// One operation from its invocation to its completion.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Index of the `invoke` event.
    pub index: u64,
    /// Index of the completing event, if there is one.
    pub completed_index: Option<u64>,
    pub process: Process,
    pub f: Function,
    pub key: Text,
    pub invoked: u64,
    /// When the completion was read. An `info` operation may still take effect later.
    pub completed: Option<u64>,
    /// [`Outcome::Info`] if no completion was recorded.
    pub outcome: Outcome,
    /// What it read, according to the answer of an `ok` operation, or else to the `read` phase.
    pub old: Reading,
    /// How much it read, if it said so.
    pub amount: Option<Amount>,
    /// What it wrote or was to write; `None` for a read.
    pub new: Option<Text>,
    /// Why it failed or is in doubt, if its client said so.
    pub failure: Option<Box<Failure>>,
    pub phases: Phases,
}

/// Why an operation failed or is in doubt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failure {
    /// The protocol's error word.
    pub error: Option<Text>,
    /// The client's own words.
    pub text: Option<Text>,
}

/// A phase of an operation, with its place in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseStamp {
    /// Index of its event.
    pub index: u64,
    pub phase: Phase,
    /// When the controller read the report.
    pub received: u64,
    /// The client's own stamp as run time (give or take the clock bound's error); comparable exactly with other
    /// clients' stamps. `None` if the client gave none or the stamp contradicts what the controller saw.
    pub stamped: Option<i64>,
    pub token: Option<u64>,
    pub validity_ms: Option<u64>,
}

impl PhaseStamp {
    /// In run time: by the client's own stamp, or else when the controller read the report.
    pub fn time(self) -> u64 {
        // The error bound of the clock can put a stamp before time 0.
        self.stamped.map_or(self.received, |stamped| u64::try_from(stamped).unwrap_or(0))
    }
}

/// One fault from order to heal.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultWindow {
    pub fault: u32,
    pub kind: FaultKind,
    /// What was ordered, in the words of the nemesis file, with its targets drawn; empty if not known.
    pub what: String,
    pub targets: Vec<String>,
    /// When the order was sent; for a fault at a command, when it struck, as it does nothing before that.
    pub inject: u64,
    /// When the order was answered, and whether its effect was observed.
    pub injected: Option<(u64, bool)>,
    pub heal: Option<u64>,
    pub healed: Option<(u64, bool)>,
    /// For how long after its heal it may still keep a lock, such as a key on a node whose clock was ahead, in
    /// nanoseconds; `None` if that is not known.
    pub aftermath_ns: Option<u64>,
    /// By how much the clocks that it hit were wrong at most, ahead or behind, in nanoseconds; `None` if it is not on
    /// clocks, or that is not known.
    pub clock_off_ns: Option<u64>,
    /// From whom to whom packets are affected, as pairs of sender and receiver; `None` if that is not known, or it is not
    /// on links.
    pub links: Option<Vec<(String, String)>>,
    /// What it does at its command, if it is at one and that is known.
    pub on_call: Option<CallEffect>,
    /// Why nothing was injected.
    pub skipped: Option<String>,
    /// What was seen at injection and at heal.
    pub texts: Vec<String>,
    /// Indices of the events that say all this.
    pub lines: Vec<u64>,
}

impl Operation {
    /// The first stamp of `phase`, if the client reported it.
    pub fn phase(&self, phase: Phase) -> Option<PhaseStamp> {
        if !self.phases.has(phase) {
            return None;
        }
        self.phases.iter().find(|stamp| stamp.phase == phase)
    }

    /// From the `acquired` stamp to the last stamp at which the client still acted as the holder: `releasing`, or the
    /// latest one before it fell silent or was told that the lock is lost. None without a trusted `acquired` stamp.
    pub fn certain_hold(&self) -> Option<(i64, i64)> {
        if !self.f.is_locked() {
            return None;
        }
        let mut stamps = self.phases.iter();
        let start = stamps.find(|stamp| stamp.phase == Phase::Acquired)?.stamped?;
        let mut end = start;
        for stamp in stamps {
            match (stamp.phase, stamp.stamped) {
                (Phase::Lost | Phase::Released, _) => break,
                (Phase::Releasing, Some(releasing)) => return Some((start, releasing.max(start))),
                (Phase::Releasing, None) => break,
                (Phase::Read | Phase::BeforeWrite | Phase::Written | Phase::Extended, Some(stamped)) => {
                    end = end.max(stamped)
                }
                _ => {}
            }
        }
        Some((start, end))
    }

    /// The protocol's error word, if it failed or is in doubt.
    pub fn error(&self) -> Option<&str> {
        self.failure.as_ref()?.error.as_deref()
    }

    /// What its client said about its failure.
    pub fn text(&self) -> Option<&str> {
        self.failure.as_ref()?.text.as_deref()
    }

    /// Says why it failed or is in doubt.
    pub fn fails(&mut self, error: Option<Text>, text: Option<Text>) {
        self.failure = (error.is_some() || text.is_some()).then(|| Box::new(Failure { error, text }));
    }

    /// Takes what is said about its reading, which may come twice: as a phase and in the answer.
    fn has_read(&mut self, old: Reading, amount: Option<Amount>) {
        if old != Reading::Unknown {
            self.old = old;
            self.amount = amount.or(self.amount.take());
        }
    }
}

impl FaultWindow {
    /// A fault that was ordered, of which nothing more is known.
    pub fn new(fault: u32, kind: FaultKind) -> FaultWindow {
        FaultWindow {
            fault,
            kind,
            what: String::new(),
            targets: Vec::new(),
            inject: 0,
            injected: None,
            heal: None,
            healed: None,
            aftermath_ns: None,
            clock_off_ns: None,
            links: None,
            on_call: None,
            skipped: None,
            texts: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Whether it hits a member of this role.
    pub fn hits(&self, role: Role) -> bool {
        self.targets.iter().any(|target| Role::of(target) == Some(role))
    }

    /// Whether the fault happened and was seen to happen.
    pub fn was_observed(&self) -> bool {
        matches!(self.injected, Some((_, true)))
    }

    /// Whether the fault was undone and seen to be undone.
    pub fn was_healed(&self) -> bool {
        matches!(self.healed, Some((_, true)))
    }

    /// From when to when it was certainly in effect, if it was observed: up to the order to heal it, or for ever.
    pub fn certain_span(&self) -> Option<(u64, u64)> {
        let (since, _) = self.injected.filter(|(_, observed)| *observed)?;
        Some((since, self.ordered_span().1.unwrap_or(u64::MAX).max(since)))
    }

    /// From its order to the order to heal it, or until that was seen: what it struck may go on before its heal is seen.
    pub fn ordered_span(&self) -> (u64, Option<u64>) {
        (self.inject, self.heal.or(self.healed.map(|(time, _)| time)))
    }

    /// From when to when the fault may have been in effect; open-ended if no heal was recorded.
    pub fn span(&self) -> (u64, Option<u64>) {
        (self.inject, self.healed.map(|(time, _)| time))
    }
}

impl Header {
    /// The name of the client behind a process number, such as `c3`.
    pub fn client_name(&self, process: Process) -> String {
        match process {
            Process::Client(number) => client_name(number % self.clients.max(1)),
            Process::Controller => process.to_string(),
        }
    }
}
