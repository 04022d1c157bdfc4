//! The events of a run, and the operations, holds and fault windows that follow from them.
//!
//! One event is one line of `history.jsonl` ([`line`]). The controller appends events as they happen ([`Recorder`]). [`load`]
//! reads a file back, refuses malformed lines with their number, and pairs invocations with completions. `redjepsen run` checks
//! the file that it wrote, not its own memory, so `redjepsen check` must come to the same verdict.
//!
//! Times are nanoseconds since the run began, on the controller's monotonic clock, unless a name says otherwise.

mod commands;
mod contradiction;
mod earlier;
mod events;
mod fault_window;
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

use base::members::client_name;

pub use crate::fault_kinds::{CallEffect, Command, CommandFault, FaultKind, ordinal};
pub use commands::RecordedCommand;
pub use contradiction::Contradiction;
pub use events::*;
pub use fault_window::{FaultWindow, STILL_HIT};
pub use header::{Claim, FORMAT, Header, Outlives, Progress, ResourceKind, is_one, one};
pub use linearizability::formats::HistoryError;
pub use linearizability::history::Outcome;
pub use load::load_reader;
pub use locks::lock_table;
pub use operations::operation_table;
pub use phases::{Phases, Stamps};
pub use presence::Presence;
pub use record::{Recorder, SharedRecorder};
pub use servers::{Held, NodeChange, NodeState, Sighting, Sightings, key_behind, locked_key};
pub use source::{CONTROLLER, load, lock_operations, operations, run};
pub use text::Text;
pub use writers::Writers;

/// A loaded history: the input of the checker and the report.
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
    /// When the machine stood still, in order of time.
    pub stalls: Vec<(u64, u64)>,
    /// Indices of the events of these stalls, in the same order.
    pub stall_lines: Vec<u64>,
    /// When the machine stood still for less than half a TTL, in order of time. Such a stall is too short to affect a lock, but
    /// long enough for a deadline of a script to pass.
    pub brief_stalls: Vec<(u64, u64)>,
    /// The operations with stamps that can't come from the clients' common clock and so are not used. By the index of the
    /// `invoke` event, with the first such stamp.
    pub unfit_stamps: BTreeMap<u64, UnfitStamp>,
    /// When single members did not run though the machine did, each with the index of its event, in the order in which the waits
    /// began.
    pub kept_waiting: Vec<(u64, Waited)>,
    /// Contradictions of clients with themselves or others, in order.
    pub contradictions: Vec<Contradiction>,
    /// The operations with a timeout that differs from the header's: from the index of the `invoke` event to the timeout in
    /// milliseconds.
    pub acquire_timeouts: BTreeMap<u64, u64>,
    /// The cancelled operations: from the index of the `invoke` event to the time of the first cancellation.
    pub cancelled: BTreeMap<u64, u64>,
    pub end: Option<End>,
    pub last_time: u64,
    /// The number of the last line, if that line was cut off because the writer was killed.
    pub truncated_at_line: Option<u64>,
}

impl History {
    /// True if the history is so long that a second core is worth a thread.
    pub fn is_long(&self) -> bool {
        self.operations.len() > 20_000
    }

    /// True if servers, network, processes and time were simulated, as far as the history shows.
    pub fn is_simulated(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.simulated)
    }

    /// The nodes on the list of the client that made an operation; None if it had all nodes.
    pub fn list_of(&self, operation: &Operation) -> Option<&[String]> {
        let Process::Client(process) = operation.process else { return None };
        let mut ready = self.clients.iter().filter(|(_, event)| event.step == ClientStep::Ready);
        let (_, event) = ready.find(|(_, event)| event.process == process)?;
        (!event.nodes.is_empty()).then_some(&event.nodes[..])
    }

    /// How many nodes are on the list of the client that made an operation.
    pub fn listed(&self, operation: &Operation) -> usize {
        let all = self.run.as_ref().map_or(0, |run| run.nodes as usize);
        self.list_of(operation).map_or(all, <[String]>::len)
    }

    /// How many clients may hold a lock at once.
    pub fn permits(&self) -> u32 {
        self.run.as_ref().map_or(1, |run| run.permits.max(1))
    }

    /// When the script let a client of this name go on from the breakpoint that it had reached.
    pub fn resumed_at(&self, client: &str, reached: PhaseStamp) -> Option<u64> {
        let opens = |step: &StepEvent| {
            step.opens.iter().any(|opened| client_name(opened.client) == client && opened.from == reached.phase)
        };
        self.steps.iter().find(|(time, step)| *time >= reached.received && opens(step)).map(|(time, _)| *time)
    }

    /// The reports by which an operation's client learned that it has the lock, or has it for longer. A client that stopped at a
    /// breakpoint reports that phase again when it goes on, which grants nothing.
    pub fn grants<'h>(&'h self, operation: &'h Operation) -> impl Iterator<Item = PhaseStamp> + 'h {
        let (mut acquired, mut extended) = (false, None);
        operation.phases.iter().filter(move |stamp| match stamp.phase {
            Phase::Acquired => !std::mem::replace(&mut acquired, true),
            Phase::Extended => {
                let before = extended.replace(*stamp);
                let resumed = before.and_then(|before| {
                    let client = self.run.as_ref()?.client_name(operation.process);
                    self.resumed_at(&client, before).filter(|resumed| *resumed <= stamp.received)
                });
                resumed.is_none()
            }
            _ => false,
        })
    }

    /// The breakpoint at which the script kept an operation at this time. None if the script had let its client go on by then, even
    /// if a fault still kept it there.
    pub fn breakpoint_at(&self, operation: &Operation, time: u64) -> Option<Breakpoint> {
        let client = self.run.as_ref()?.client_name(operation.process);
        let mut acts = operation.acts().peekable();
        while let Some(reached) = acts.next() {
            let Some(repeated) = acts.peek().copied().filter(|next| next.phase == reached.phase) else { continue };
            if reached.phase == Phase::Acquiring || reached.time() > time || repeated.time() <= time {
                continue;
            }
            let resumed = self.resumed_at(&client, reached).unwrap_or(repeated.received);
            return (resumed > time).then_some(Breakpoint { reached, repeated, resumed });
        }
        None
    }

    /// The observed faults that kept the process of an operation stopped at a time, each of which began before the last was over.
    /// Empty if it was not stopped.
    pub fn stops_at(&self, operation: &Operation, time: u64) -> Vec<&FaultWindow> {
        let Some(client) = self.run.as_ref().map(|run| run.client_name(operation.process)) else { return Vec::new() };
        let stops = |window: &&FaultWindow| {
            window.kind.suspends() && window.was_observed() && window.hits_process(operation, &client)
        };
        let mut windows: Vec<&FaultWindow> = self.faults.iter().filter(stops).collect();
        windows.sort_by_key(|window| (window.inject, window.fault));
        let mut chains: Vec<(Vec<&FaultWindow>, Option<u64>)> = Vec::new();
        for window in windows {
            let until = window.span().1;
            match chains.last_mut().filter(|(_, end)| end.is_none_or(|end| window.inject <= end)) {
                Some((chain, end)) => {
                    chain.push(window);
                    *end = end.zip(until).map(|(end, until)| end.max(until));
                }
                None => chains.push((vec![window], until)),
            }
        }
        let holds = |(chain, end): &(Vec<&FaultWindow>, Option<u64>)| {
            chain[0].inject <= time && end.is_none_or(|end| time <= end)
        };
        chains.into_iter().find(holds).map_or(Vec::new(), |(chain, _)| chain)
    }

    /// True if clients acquire locks. In a run without a lock, operations succeed and no client reports `acquired`.
    pub fn takes_locks(&self) -> bool {
        let mut locked = self.operations.iter().filter(|one| one.f.is_locked()).peekable();
        if locked.peek().is_none() {
            return !self.operations.iter().any(|one| one.f.writes());
        }
        let without = |one: &Operation| one.outcome == Outcome::Ok && !one.phases.is_empty();
        locked.clone().any(|one| one.phases.has(Phase::Acquired)) || !locked.any(without)
    }

    /// True if a client acquires the lock for reading, beside other readers.
    pub fn has_readers(&self) -> bool {
        self.operations.iter().any(|operation| operation.f.is_shared())
    }

    /// Until when the value that an operation read could not change, in nanoseconds of run time. A lock for reading keeps writers
    /// out until its holder releases it, or its library reports `lost`. `None` if nothing kept writers out, or that is not known.
    pub fn kept_until(&self, operation: &Operation) -> Option<u64> {
        let (_, end) = operation.certain_hold().filter(|_| operation.f.is_shared())?;
        let error = self.clock.map_or(0, |clock| clock.error_ns);
        let until = u64::try_from(end).unwrap_or(0).saturating_sub(error);
        let kept = operation.outcome == Outcome::Ok && operation.invoked < until;
        kept.then_some(until).filter(|until| operation.completed.is_some_and(|completed| *until <= completed))
    }

    /// [`Operation::certain_hold`], as far as it can do harm. If a resource's holder was stopped, and learnt of its loss before
    /// it acted again, its hold counts only to its last act. No lock that expires can do better. Without a resource, the lock
    /// protects only the holder's belief, so the hold counts to the end of the belief.
    pub fn certain_hold(&self, operation: &Operation) -> Option<(i64, i64)> {
        let Believed { start, acted, over } = operation.believed()?;
        let Some((Phase::Lost, lost)) = over else { return operation.certain_hold() };
        let run = self.run.as_ref().filter(|run| run.resource != ResourceKind::None);
        let stood_still = run.is_some_and(|run| {
            let name = run.client_name(operation.process);
            let stops = self.faults.iter().filter(|fault| fault.kind.suspends() && fault.targets.contains(&name));
            let stops = stops.map(|fault| (fault.inject, fault.healed.map_or(u64::MAX, |(healed, _)| healed)));
            let time = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
            let meanwhile = |(from, until): (u64, u64)| time(from) < lost && acted < time(until);
            stops.chain(self.stalls.iter().copied()).any(meanwhile)
        });
        if stood_still { Some((start, acted)) } else { operation.certain_hold() }
    }

    /// The index in `operations` of the operation with this `invoke` event.
    pub fn place_of(&self, index: u64) -> Option<usize> {
        self.operations.binary_search_by_key(&index, |operation| operation.index).ok()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPromotion {
    pub index: u64,
    /// When it was observed.
    pub time: u64,
    pub promotion: Promotion,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Index of the `invoke` event.
    pub index: u64,
    pub completed_index: Option<u64>,
    pub process: Process,
    pub f: Function,
    pub key: Text,
    pub invoked: u64,
    /// When the completion was read. An `info` operation may still take effect later.
    pub completed: Option<u64>,
    /// [`Outcome::Info`] if no completion was recorded.
    pub outcome: Outcome,
    /// The value that it read, according to the answer of an `ok` operation, or else the `read` phase.
    pub old: Reading,
    pub amount: Option<Amount>,
    /// The value that it wrote or was meant to write; `None` for a read.
    pub new: Option<Text>,
    /// Why it failed or is in doubt, if its client reported that.
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

/// A client's stamp outside of its operation, or after its own report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfitStamp {
    /// The line of the history, counted from 1.
    pub line: u64,
    pub phase: Phase,
    /// Negative: how long before the operation's beginning. Positive: how long after the report's arrival. In nanoseconds.
    pub off_ns: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseStamp {
    pub index: u64,
    pub phase: Phase,
    /// When the controller read the report.
    pub received: u64,
    /// The client's own stamp as run time (give or take the clock bound's error); comparable exactly with other clients' stamps.
    /// `None` if the client sent no stamp, or it contradicts the controller's observations.
    pub stamped: Option<i64>,
    pub token: Option<u64>,
    pub validity_ms: Option<u64>,
}

impl PhaseStamp {
    /// In run time: the client's own stamp, or else the time when the controller read the report.
    pub fn time(self) -> u64 {
        // The error bound of the clock can put a stamp before time 0.
        self.stamped.map_or(self.received, |stamped| u64::try_from(stamped).unwrap_or(0))
    }
}

/// A client that a script stopped at a phase. It reports the phase again when it goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breakpoint {
    pub reached: PhaseStamp,
    pub repeated: PhaseStamp,
    /// When the script let it go on, in nanoseconds of run time.
    pub resumed: u64,
}

/// A hold by its client's stamps, in nanoseconds of run time.
struct Believed {
    start: i64,
    /// The last act as the holder.
    acted: i64,
    /// `releasing` or `lost`, if the client stamped it.
    over: Option<(Phase, i64)>,
}

impl Operation {
    pub fn phase(&self, phase: Phase) -> Option<PhaseStamp> {
        if !self.phases.has(phase) {
            return None;
        }
        self.phases.iter().find(|stamp| stamp.phase == phase)
    }

    /// Its reports without renewals and checks, which come in the background.
    pub fn acts(&self) -> impl Iterator<Item = PhaseStamp> + '_ {
        self.phases.iter().filter(|stamp| !matches!(stamp.phase, Phase::Extended | Phase::Owned))
    }

    /// From the `acquired` stamp to `releasing` or `lost`: a client relies on its lock until its library reports the loss. If the
    /// client fell silent, the hold ends at its last act as the holder. None without a trusted `acquired` stamp.
    pub fn certain_hold(&self) -> Option<(i64, i64)> {
        let Believed { start, acted, over } = self.believed()?;
        Some((start, over.map_or(acted, |(_, at)| at.max(start))))
    }

    /// How long the client relied on its lock. None without a trusted `acquired` stamp.
    fn believed(&self) -> Option<Believed> {
        if !self.f.is_locked() {
            return None;
        }
        let mut stamps = self.phases.iter();
        let start = stamps.find(|stamp| stamp.phase == Phase::Acquired)?.stamped?;
        let mut acted = start;
        for stamp in stamps {
            match (stamp.phase, stamp.stamped) {
                (phase @ (Phase::Releasing | Phase::Lost), Some(over)) => {
                    return Some(Believed { start, acted, over: Some((phase, over)) });
                }
                (Phase::Releasing | Phase::Lost | Phase::Released, None) | (Phase::Released, _) => break,
                (Phase::Read | Phase::BeforeWrite | Phase::Written | Phase::Extended, Some(stamped)) => {
                    acted = acted.max(stamped)
                }
                _ => {}
            }
        }
        Some(Believed { start, acted, over: None })
    }

    /// The protocol's error word, if it failed or is in doubt.
    pub fn error(&self) -> Option<&str> {
        self.failure.as_ref()?.error.as_deref()
    }

    /// The client's explanation of its failure.
    pub fn text(&self) -> Option<&str> {
        self.failure.as_ref()?.text.as_deref()
    }

    pub fn fails(&mut self, error: Option<Text>, text: Option<Text>) {
        self.failure = (error.is_some() || text.is_some()).then(|| Box::new(Failure { error, text }));
    }

    /// Stores its reading, which the client may report twice: as a phase and in the answer.
    fn has_read(&mut self, old: Reading, amount: Option<Amount>) {
        if old != Reading::Unknown {
            self.old = old;
            self.amount = amount.or(self.amount.take());
        }
    }
}

impl Header {
    /// A machine that stands still for longer than this, in nanoseconds, affects the lock as a fault does: half a TTL.
    fn stall_ns(&self) -> u64 {
        self.ttl_ms.saturating_mul(500_000)
    }

    /// The name of the client behind a process number, such as `c3`.
    pub fn client_name(&self, process: Process) -> String {
        match process {
            Process::Client(number) => client_name(number % self.clients.max(1)),
            Process::Controller => process.to_string(),
        }
    }
}
