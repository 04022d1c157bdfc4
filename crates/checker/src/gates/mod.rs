//! Gates: conditions that a run must meet to prove anything. So a run in which nothing happened is never valid.
//!
//! Each gate looks for its evidence in the history; a fact that the history does not report counts as false. Only two doubts
//! undermine violations too. If the resource may not have been empty, old values would look like values from nowhere. If a script
//! kept a holder beyond its lock's expiry, the script's effects would look like the lock's.

mod breakpoints;
mod faults;
mod refuted;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use self::breakpoints::nobody_kept;
use self::faults::{faults_healed, faults_met_holds, faults_met_work, faults_observed, progress};
use super::AnomalyKind;
use super::starved::a_server_was_missing;
use super::verdict::{Anomaly, Gate, GateName};
use super::words::{Words, count, list, seconds};
use base::words::article;
use model::history::{
    ClientEvent, ClientStep, FactName, FaultWindow, Function, History, Operation, Outcome, Phase, Process, StepOutcome,
};

/// With fewer acknowledged updates than this, a run proves nothing about a lock.
pub const LEAST_ACKNOWLEDGED: u64 = 10;

/// Checks every gate that applies to the history, in a fixed order: first gates on failures of the run, then gates on missing
/// evidence. Takes linear time, except that it sorts the operations of each key.
pub(super) fn check(history: &History, anomalies: &[Anomaly]) -> Vec<Gate> {
    let faults: Vec<&FaultWindow> = history.faults.iter().filter(|window| window.skipped.is_none()).collect();
    let has_faults = history.run.as_ref().is_some_and(|run| run.faults_expected) || !faults.is_empty();
    let script_steps = history.run.as_ref().map_or(0, |run| run.script_steps);
    let mut gates = vec![
        completed(history),
        Gate { undermines_violations: true, ..fact(history, FactName::ResourceEmpty, GateName::ResourceEmpty) },
        fact(history, FactName::ClientsReady, GateName::ClientsReady),
        fact(history, FactName::NodesReady, GateName::NodesReady),
        clients_steady(history),
        clients_consistent(history),
        clients_careful(anomalies),
    ];
    if script_steps > 0 {
        gates.push(script_played(history, script_steps));
    }
    gates.extend(cancellations_taken(history));
    if has_faults {
        gates.push(faults_observed(history, &faults));
        gates.push(faults_healed(&faults));
    }
    gates.push(fact(history, FactName::NodesHealthy, GateName::NodesHealthy));
    gates.push(final_reads(history));
    gates.extend([enough_acknowledged(history), every_client(history), contention(history)]);
    if has_faults {
        // A script decides when its faults hit and which members, so it has its own gate.
        match script_steps {
            0 => gates.push(faults_met_holds(history, &faults)),
            _ => gates.extend(faults_met_work(history, &faults)),
        }
        gates.extend(progress(history, &faults));
    }
    gates
}

/// The rank of a failed gate among the reasons. A missing server comes first, since the rest may follow from it. Then come gates
/// without which nothing is believable, then failures of the run, then missing evidence. Without updates most scripts and faults
/// come to nothing, and a script that broke off has few updates.
pub(super) fn rank(history: &History, gate: &Gate) -> u32 {
    use GateName::*;
    let broke_off = history.steps.iter().any(|(_, step)| step.outcome == StepOutcome::Failed);
    match gate.which() {
        Some(NodesHealthy) if a_server_was_missing(history) => 0,
        Some(
            Completed | ResourceEmpty | ClientsReady | NodesReady | ClientsSteady | ClientsConsistent | ClientsCareful
            | BreakpointsBrief,
        ) => 1,
        Some(EnoughAcknowledged) if !broke_off => 2,
        Some(ScriptPlayed | CancellationsTaken | FaultsObserved | FaultsHealed) => 3,
        _ => 4,
    }
}

fn gate(name: GateName, passed: bool, text: String) -> Gate {
    Gate { name: name.word().to_string(), passed, text, undermines_violations: false }
}

fn completed(history: &History) -> Gate {
    let (passed, text) = match (&history.end, history.truncated_at_line) {
        (_, Some(line)) => (false, format!("the history was cut off in the middle of line {line}")),
        (None, None) => (false, "the history ends before the run does".to_string()),
        (Some(end), None) if end.completed => (true, "the run reached its planned end".to_string()),
        (Some(end), None) => (false, format!("the run did not reach its planned end: {}", or_silence(&end.text))),
    };
    gate(GateName::Completed, passed, text)
}

/// A gate on a fact that the controller verified. If the controller reported the fact several times, it must hold each time.
fn fact(history: &History, name: FactName, gate_name: GateName) -> Gate {
    let said: Vec<_> = history.facts.iter().filter(|fact| fact.name == name).collect();
    let (what, not) = match name {
        FactName::ResourceEmpty => ("the resource was empty at the start", "the resource was not empty at the start"),
        FactName::ClientsReady => ("every client was ready at the start", "a client was not ready at the start"),
        FactName::NodesReady => ("every node answered at the start", "a node did not answer at the start"),
        FactName::NodesHealthy => ("every node answered at the end", "a node did not answer at the end"),
        FactName::FinalReads => ("every key was read at the end", "a key was not read at the end"),
        FactName::NothingEndless => ("no lock was left that outlasts its TTL", "a lock was left that outlasts its TTL"),
        FactName::NothingTooLong => {
            ("no node kept a lock that outlasts its TTL", "a node kept a lock that outlasts its TTL")
        }
    };
    let detail = |text: &str| if text.is_empty() { String::new() } else { format!(": {text}") };
    match (said.iter().find(|fact| !fact.holds), said.last()) {
        (Some(fact), _) => gate(gate_name, false, format!("{not}{}", detail(&fact.text))),
        (None, Some(fact)) => gate(gate_name, true, format!("{what}{}", detail(&fact.text))),
        (None, None) => gate(gate_name, false, format!("the history does not say whether {what}")),
    }
}

/// No client failed by itself. A client that dies, hangs or sends invalid messages is replaced, but the run was not meant to test
/// that. A fault that kills a process excuses one end of a client, and a fault that restarts it excuses one end at each restart.
fn clients_steady(history: &History) -> Gate {
    let words = Words::new(history);
    let broken = failed_by_themselves(history);
    let Some((time, first)) = broken.first() else {
        return gate(GateName::ClientsSteady, true, "no client failed by itself".to_string());
    };
    let more = broken.len() as u64 - 1;
    let others = if more == 0 { String::new() } else { format!(", and {more} more like this") };
    let client = words.process(Process::Client(first.process));
    let what = match ended_by_itself(&first.text) {
        true => what_ended(&client, *time),
        false => format!("{client} failed and was replaced at {}", seconds(*time)),
    };
    gate(GateName::ClientsSteady, false, format!("{what}{others}: {}", or_silence(&first.text)))
}

/// No fault killed the client, so its program, or its library, ended by itself.
fn what_ended(client: &str, time: u64) -> String {
    format!("{client} exited unexpectedly at {}, without a fault that kills it", seconds(time))
}

/// The clients whose programs ended by themselves. No claim says that programs keep running, so none is violated, and the run's
/// evidence about the lock is not believed. But users of the library want to know.
pub(super) fn ended_by_themselves(history: &History) -> Vec<Anomaly> {
    let words = Words::new(history);
    let ended = failed_by_themselves(history).into_iter().filter(|(_, event)| ended_by_itself(&event.text));
    let anomalies = ended.filter_map(|(time, event)| {
        let process = Process::Client(event.process);
        // The operation in progress at that time, or the last one before.
        let mut before = history.operations.iter().filter(|one| one.process == process && one.invoked <= *time);
        let doing = before.next_back()?;
        let summary = format!("{}: {}", what_ended(&words.process(process), *time), or_silence(&event.text));
        Some(Anomaly::new(AnomalyKind::EndedByItself, &doing.key, *time, vec![doing.index], summary))
    });
    anomalies.collect()
}

/// The ends of clients that no fault explains, in order of time.
fn failed_by_themselves(history: &History) -> Vec<&(u64, ClientEvent)> {
    let words = Words::new(history);
    let mut kills: Vec<((u64, u64), &String)> = (history.faults.iter())
        // An ordered kill may have ended the process although the run was over before the kill was observed.
        .filter(|window| window.skipped.is_none())
        .flat_map(|window| ends(window).into_iter().map(move |span| (span, window)))
        .flat_map(|(span, window)| window.targets.iter().map(move |target| (span, target)))
        .collect();
    kills.sort_by_key(|((_, until), _)| *until);
    let mut killed = |time: u64, process: u32| {
        let client = words.process(Process::Client(process));
        let kill =
            kills.iter().position(|((from, until), target)| **target == client && (*from..=*until).contains(&time));
        kill.map(|kill| kills.remove(kill)).is_some()
    };
    let ended = history.clients.iter().filter(|(_, event)| event.step == ClientStep::Ended);
    ended.filter(|(time, event)| !killed(*time, event.process)).collect()
}

/// When a fault may have ended a process of its target. After the end of such a time the client was running again, so the fault
/// does not explain a later end.
fn ends(window: &FaultWindow) -> Vec<(u64, u64)> {
    let until = |end: Option<(u64, bool)>| end.map_or(u64::MAX, |(time, _)| time);
    match window.kind.does.restarts {
        true => {
            let at_the_heal = window.heal.map(|heal| (heal, until(window.healed)));
            [(window.inject, until(window.injected))].into_iter().chain(at_the_heal).collect()
        }
        false if window.kind.ends_processes() => vec![(window.inject, until(window.healed))],
        false => Vec::new(),
    }
}

/// True if a client was replaced because its process ended, not because the controller ended it for a wrong or missing message.
fn ended_by_itself(text: &str) -> bool {
    text.starts_with("it ended")
}

/// No client makes two statements that can't both be true.
fn clients_consistent(history: &History) -> Gate {
    let words = Words::new(history);
    let text = match &history.contradictions[..] {
        [] => "no client contradicted itself".to_string(),
        [first, more @ ..] => {
            let client = words.process(first.process);
            let others =
                base::words::unless_none(more.len() as u64, |more| format!(", and {} more", count(more, "operation")));
            format!("{client} contradicts itself in line {}{others}: {}", first.line, first.text)
        }
    };
    gate(GateName::ClientsConsistent, history.contradictions.is_empty(), text)
}

/// No client lost an update by releasing the lock while its own write was still in flight.
fn clients_careful(anomalies: &[Anomaly]) -> Gate {
    let careless = anomalies.iter().find(|anomaly| anomaly.kind == AnomalyKind::WriteInFlight);
    let text = match careless {
        None => "no update was lost to a write still in flight when its client released the lock".to_string(),
        Some(first) => first.summary.clone(),
    };
    gate(GateName::ClientsCareful, careless.is_none(), text)
}

/// Every step of a script had its effect. Otherwise the situation that the script sets up never arose.
fn script_played(history: &History, steps: u32) -> Gate {
    let name = GateName::ScriptPlayed;
    match history.steps.iter().find(|(_, step)| step.outcome == StepOutcome::Failed) {
        Some((_, step)) => {
            let text = format!("step {}, `{}`: {}", step.number, step.step, or_silence(&step.text));
            gate(name, false, text)
        }
        None if history.steps.len() as u64 == u64::from(steps) => {
            gate(name, true, format!("all {} were carried out", count(u64::from(steps), "step")))
        }
        None => {
            let why = match history.end.as_ref().is_some_and(|end| end.completed) {
                true => "the time limit ended",
                false => "the run ended",
            };
            let text = match history.steps.len() {
                0 => format!("the script never began: {why} before each client had shown that the lock works"),
                made => format!("the script stopped after step {made} of {steps}: {why}"),
            };
            gate(name, false, text)
        }
    }
}

/// Each cancelled operation ended because it was cancelled. Otherwise the run shows nothing about what a cancelled operation
/// leaves behind. None if no operation was cancelled.
fn cancellations_taken(history: &History) -> Option<Gate> {
    let cancelled = history
        .cancelled
        .iter()
        .filter_map(|(index, time)| Some((*time, history.operations.get(history.place_of(*index)?)?)));
    let all = history.cancelled.len() as u64;
    if all == 0 {
        return None;
    }
    let name = GateName::CancellationsTaken;
    let words = Words::new(history);
    let mut in_spite = cancelled.filter(|(_, operation)| operation.error() != Some(CANCELLED));
    Some(match in_spite.next() {
        None => gate(name, true, format!("each of {} ended as cancelled", count(all, "cancelled operation"))),
        Some((time, operation)) => {
            let client = words.process(operation.process);
            let how = match (operation.completed, operation.error()) {
                (None, _) => "it never ended".to_string(),
                (Some(_), Some(error)) => format!("it ended with: {error}"),
                (Some(_), None) => "it still completed".to_string(),
            };
            gate(name, false, format!("{client}'s operation was cancelled at {}, and {how}", seconds(time)))
        }
    })
}

/// The client's error for an operation that ended because it was cancelled.
const CANCELLED: &str = "cancelled";

/// The acknowledged updates, or the holds if nothing is written, each with the time of its acknowledgement in nanoseconds of run
/// time. A write that the resource acknowledged counts, whatever its client reported later, unless the client never reports
/// success.
pub(super) fn acknowledged(history: &History) -> impl Iterator<Item = (&Operation, u64)> + Clone {
    let is_update = |operation: &&Operation| operation.f.writes() || operation.f == Function::Hold;
    let clients = history.run.as_ref().map_or(u32::MAX, |run| run.clients.max(1));
    let client = move |operation: &Operation| match operation.process {
        Process::Client(number) => Some(number % clients),
        Process::Controller => None,
    };
    let updates = history.operations.iter().filter(is_update);
    let sure: BTreeSet<Option<u32>> = updates.clone().filter(|one| one.outcome == Outcome::Ok).map(client).collect();
    updates.filter_map(move |operation| {
        let written = || operation.phase(Phase::Written).map(|stamp| stamp.received);
        let time = match operation.outcome {
            Outcome::Ok => written().or(operation.completed),
            Outcome::Info if operation.f.writes() && sure.contains(&client(operation)) => written(),
            Outcome::Info | Outcome::Fail => None,
        };
        Some((operation, time?))
    })
}

/// A noun for the operations that [`acknowledged`] counts: holds for a lock without a resource, else updates.
pub(super) fn unit(history: &History) -> &'static str {
    if history.operations.iter().any(|operation| operation.f == Function::Hold) { "hold" } else { "update" }
}

/// True if the operation writes the resource or acquires the lock.
fn is_work(operation: &Operation) -> bool {
    operation.f.is_locked() || operation.f.writes()
}

/// The most frequent error message of those of the operations that did not succeed, and its number.
pub(super) fn most_often_said<'h>(operations: impl IntoIterator<Item = &'h Operation>) -> Option<(String, u64)> {
    let mut said: BTreeMap<String, u64> = BTreeMap::new();
    for operation in operations.into_iter().filter(|operation| operation.outcome != Outcome::Ok) {
        let error = operation.error().filter(|error| !error.is_empty());
        let text = operation.text().filter(|text| !text.is_empty());
        let told: Vec<&str> = error.into_iter().chain(text).collect();
        if !told.is_empty() {
            *said.entry(told.join(", ")).or_default() += 1;
        }
    }
    said.into_iter().max_by_key(|(_, times)| *times)
}

fn enough_acknowledged(history: &History) -> Gate {
    let found = acknowledged(history).count() as u64;
    let of = format!("{} acknowledged, of at least {LEAST_ACKNOWLEDGED}", count(found, unit(history)));
    let text = match most_often_said(&history.operations).filter(|_| found < LEAST_ACKNOWLEDGED) {
        Some((said, times)) => format!("{} ended with: {said}; {of}", count(times, "attempt")),
        None => of,
    };
    gate(GateName::EnoughAcknowledged, found >= LEAST_ACKNOWLEDGED, text)
}

/// Every started client had an update acknowledged. A client without one contributes nothing to the result.
fn every_client(history: &History) -> Gate {
    let name = GateName::EveryClient;
    let words = Words::new(history);
    let got: BTreeSet<String> = acknowledged(history).map(|(operation, _)| words.process(operation.process)).collect();
    let without: Vec<String> = started(history).into_iter().filter(|client| !got.contains(client)).collect();
    let unit = unit(history);
    match &without[..] {
        [] => gate(name, true, format!("each of {} had {unit}s acknowledged", count(got.len() as u64, "client"))),
        _ => gate(name, false, format!("{} never had {} {unit} acknowledged", list(&without), article(unit))),
    }
}

/// The names of a run's clients.
fn started(history: &History) -> Vec<String> {
    let clients = history.run.as_ref().map_or(0, |run| run.clients);
    (0..clients).map(|client| Words::new(history).process(Process::Client(client))).collect()
}

/// True if the operation acquired the lock, or succeeded without it.
fn held(operation: &Operation) -> bool {
    operation.phases.has(Phase::Acquired) || operation.outcome == Outcome::Ok
}

/// At least two clients had updates acknowledged, and two clients wanted the same lock at the same time and both acquired it.
fn contention(history: &History) -> Gate {
    let words = Words::new(history);
    let clients: BTreeSet<String> =
        acknowledged(history).map(|(operation, _)| words.process(operation.process)).collect();
    let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history.operations.iter().filter(|operation| is_work(operation) && held(operation)) {
        keys.entry(&operation.key).or_default().push(operation);
    }
    let contended = keys.values_mut().any(|operations| {
        operations.sort_by_key(|operation| operation.invoked);
        let mut in_flight: BTreeSet<(u64, String, bool)> = BTreeSet::new();
        operations.iter().any(|operation| {
            while in_flight.first().is_some_and(|(end, ..)| *end <= operation.invoked) {
                in_flight.pop_first();
            }
            let client = words.process(operation.process);
            let shared = operation.f.is_shared();
            // Two readers do not exclude each other.
            let contended = in_flight.iter().any(|(_, other, reads)| *other != client && !(shared && *reads));
            // An operation without a completion counts as over at once: a dead client no longer contends.
            in_flight.insert((operation.completed.unwrap_or(operation.invoked), client, shared));
            contended
        })
    });
    let got = format!("{} had updates acknowledged", count(clients.len() as u64, "client"));
    let (passed, text) = match (clients.len(), contended) {
        (0 | 1, _) => (false, format!("{got}; without a second client there is no contention")),
        (_, false) => (false, format!("{got}, but no two clients contended for a key that both of them then updated")),
        (_, true) => (true, format!("{got}, and clients contended for a key")),
    };
    gate(GateName::Contention, passed, text)
}

/// The controller reported that it read every key, and the reads are in the history.
fn final_reads(history: &History) -> Gate {
    let said = fact(history, FactName::FinalReads, GateName::FinalReads);
    if !said.passed {
        return said;
    }
    let mut over: BTreeMap<&str, u64> = BTreeMap::new();
    for (operation, acknowledged) in acknowledged(history) {
        let over = over.entry(&operation.key).or_default();
        *over = (*over).max(acknowledged);
    }
    for read in &history.operations {
        let is_final = (read.process, read.f, read.outcome) == (Process::Controller, Function::Read, Outcome::Ok)
            && over.get(read.key.as_str()).is_some_and(|&over| over <= read.invoked);
        if is_final {
            over.remove(read.key.as_str());
        }
    }
    match over.keys().next() {
        None => said,
        Some(key) => {
            let missing = count(over.len() as u64, "key");
            gate(GateName::FinalReads, false, format!("{missing} not read after the last update, for example {key}"))
        }
    }
}

fn or_silence(text: &str) -> &str {
    if text.is_empty() { "no reason given" } else { text }
}
