//! Gates: conditions that a run must meet to prove anything, so that a run in which nothing happened is never valid.
//!
//! Each gate looks for its evidence in the history; whatever the history does not say counts as false. Only doubt that
//! the resource was empty undermines violations too: old values would look like values from nowhere.

use std::collections::{BTreeMap, BTreeSet};

use super::verdict::{Anomaly, AnomalyKind, Gate};
use super::words::{Words, count, list, seconds};
use crate::history::{
    ClientStep, FactName, FaultKind, FaultWindow, Function, History, Operation, Outcome, Outlives, Phase, Process,
    Progress, StepOutcome,
};
use crate::members::Role;

/// Fewer acknowledged updates than this say nothing about a lock.
pub const LEAST_ACKNOWLEDGED: u64 = 10;

/// Checks every gate that applies to the history, in a fixed order: first what went wrong with the run, then what there
/// was too little of. Sorts the operations of each key; otherwise linear.
pub(super) fn check(history: &History, anomalies: &[Anomaly]) -> Vec<Gate> {
    let faults: Vec<&FaultWindow> = history.faults.iter().filter(|window| window.skipped.is_none()).collect();
    let has_faults = history.run.as_ref().is_some_and(|run| run.faults_expected) || !faults.is_empty();
    let script_steps = history.run.as_ref().map_or(0, |run| run.script_steps);
    let mut gates = vec![
        completed(history),
        Gate { undermines_violations: true, ..fact(history, FactName::ResourceEmpty, "resource-empty") },
        fact(history, FactName::ClientsReady, "clients-ready"),
        fact(history, FactName::NodesReady, "nodes-ready"),
        clients_steady(history),
        clients_consistent(history),
        clients_careful(anomalies),
    ];
    if script_steps > 0 {
        gates.push(script_played(history, script_steps));
    }
    if has_faults {
        gates.push(faults_observed(history, &faults));
        gates.push(faults_healed(&faults));
    }
    gates.push(fact(history, FactName::NodesHealthy, "nodes-healthy"));
    gates.push(final_reads(history));
    gates.extend([enough_acknowledged(history), every_client(history), contention(history)]);
    if has_faults {
        // A script decides whom its faults hit and when, and has a gate of its own.
        if script_steps == 0 {
            gates.push(faults_met_holds(history, &faults));
        }
        gates.extend(progress(history, &faults));
    }
    gates
}

fn gate(name: &str, passed: bool, text: String) -> Gate {
    Gate { name: name.to_string(), passed, text, undermines_violations: false }
}

fn completed(history: &History) -> Gate {
    let (passed, text) = match (&history.end, history.truncated_at_line) {
        (_, Some(line)) => (false, format!("the history was cut off in the middle of line {line}")),
        (None, None) => (false, "the history stops without saying that the run ended".to_string()),
        (Some(end), None) if end.completed => (true, "the run went to its planned end".to_string()),
        (Some(end), None) => (false, format!("the run did not go to its planned end: {}", or_silence(&end.text))),
    };
    gate("completed", passed, text)
}

/// A gate on a fact that the controller verified. If the fact was reported more than once, it must hold each time.
fn fact(history: &History, name: FactName, gate_name: &str) -> Gate {
    let said: Vec<_> = history.facts.iter().filter(|fact| fact.name == name).collect();
    let what = match name {
        FactName::ResourceEmpty => "the resource was empty at the start",
        FactName::ClientsReady => "every client was ready at the start",
        FactName::NodesReady => "every node answered at the start",
        FactName::NodesHealthy => "every node answered at the end",
        FactName::FinalReads => "every key was read at the end",
        FactName::NothingEndless => "no lock was left that outlasts its TTL",
    };
    let detail = |text: &str| if text.is_empty() { String::new() } else { format!(": {text}") };
    match (said.iter().find(|fact| !fact.holds), said.last()) {
        (Some(fact), _) => gate(gate_name, false, format!("this does not hold: {what}{}", detail(&fact.text))),
        (None, Some(fact)) => gate(gate_name, true, format!("{what}{}", detail(&fact.text))),
        (None, None) => gate(gate_name, false, format!("the history does not say whether {what}")),
    }
}

/// No client failed by itself. A client that dies, hangs or talks nonsense is replaced, but is not what the run was
/// meant to test. A client killed by a fault does not count, once for each fault: the fault kills one process.
fn clients_steady(history: &History) -> Gate {
    let words = Words::new(history);
    let mut kills: Vec<(&FaultWindow, &String)> = (history.faults.iter())
        .filter(|window| window.kind == FaultKind::Kill && window.was_observed())
        .flat_map(|window| window.targets.iter().map(move |target| (window, target)))
        .collect();
    // After the heal the client was running again, so an end later than that is its own.
    let healed = |window: &FaultWindow| window.healed.map_or(u64::MAX, |(healed, _)| healed);
    kills.sort_by_key(|(window, _)| healed(window));
    let mut killed = |time: u64, process: u32| {
        let client = words.process(Process::Client(process));
        let kill = kills
            .iter()
            .position(|(window, target)| **target == client && window.inject <= time && time <= healed(window));
        kill.map(|kill| kills.remove(kill)).is_some()
    };
    let ended = history.clients.iter().filter(|(_, event)| event.step == ClientStep::Ended);
    let mut broken = ended.filter(|(time, event)| !killed(*time, event.process));
    match broken.next() {
        None => gate("clients-steady", true, "no client failed by itself".to_string()),
        Some((time, first)) => {
            let more = broken.count() as u64;
            let others = if more == 0 { String::new() } else { format!(", and {more} more like it") };
            let client = words.process(Process::Client(first.process));
            let text =
                format!("{client} failed and was replaced at {}{others}: {}", seconds(*time), or_silence(&first.text));
            gate("clients-steady", false, text)
        }
    }
}

/// No client makes two statements that can't both be true.
fn clients_consistent(history: &History) -> Gate {
    let words = Words::new(history);
    let text = match &history.contradictions[..] {
        [] => "no client contradicted itself".to_string(),
        [first, more @ ..] => {
            let client = words.process(first.process);
            let others = match more.len() as u64 {
                0 => String::new(),
                more => format!(", and {} more", count(more, "operation")),
            };
            format!("{client} contradicts itself in line {}{others}: {}", first.line, first.text)
        }
    };
    gate("clients-consistent", history.contradictions.is_empty(), text)
}

/// No client lost an update by releasing the lock while its own write was still in flight.
fn clients_careful(anomalies: &[Anomaly]) -> Gate {
    let careless = anomalies.iter().find(|anomaly| anomaly.kind == AnomalyKind::WriteInFlight);
    let text = match careless {
        None => "no update was lost to a write still in flight when its client released the lock".to_string(),
        Some(first) => first.summary.clone(),
    };
    gate("clients-careful", careless.is_none(), text)
}

/// Every step of a script had its effect; otherwise the situation that the script is about never arose.
fn script_played(history: &History, steps: u32) -> Gate {
    let name = "script-played";
    match history.steps.iter().find(|(_, step)| step.outcome == StepOutcome::Failed) {
        Some((_, step)) => {
            let text = format!("step {}, `{}`: {}", step.number, step.step, or_silence(&step.text));
            gate(name, false, text)
        }
        None if history.steps.len() as u64 == u64::from(steps) => {
            gate(name, true, format!("all {} were carried out", count(u64::from(steps), "step")))
        }
        None => gate(name, false, format!("{} of {} steps are recorded", history.steps.len(), steps)),
    }
}

/// The acknowledged updates, or the holds if nothing is written.
pub(super) fn acknowledged(history: &History) -> impl Iterator<Item = &Operation> + Clone {
    history.operations.iter().filter(|operation| is_update(operation) && operation.outcome == Outcome::Ok)
}

/// Whether the operation is what a run is about: it writes the resource or takes the lock.
fn is_update(operation: &Operation) -> bool {
    operation.f.is_locked() || operation.f.writes()
}

/// What clients said most often about operations that did not succeed, and how often.
fn most_often_said(history: &History) -> Option<(String, u64)> {
    let mut said: BTreeMap<String, u64> = BTreeMap::new();
    for operation in history.operations.iter().filter(|operation| operation.outcome != Outcome::Ok) {
        let error = operation.error.as_deref().filter(|error| !error.is_empty());
        let text = operation.text.as_deref().filter(|text| !text.is_empty());
        let told: Vec<&str> = error.into_iter().chain(text).collect();
        if !told.is_empty() {
            *said.entry(told.join(", ")).or_default() += 1;
        }
    }
    said.into_iter().max_by_key(|(_, times)| *times)
}

fn enough_acknowledged(history: &History) -> Gate {
    let found = acknowledged(history).count() as u64;
    let mut text = format!("{} acknowledged, of at least {LEAST_ACKNOWLEDGED}", super::words::count(found, "update"));
    if found < LEAST_ACKNOWLEDGED
        && let Some((said, times)) = most_often_said(history)
    {
        text.push_str(&format!("; {} ended with: {said}", super::words::count(times, "other")));
    }
    gate("enough-acknowledged", found >= LEAST_ACKNOWLEDGED, text)
}

/// Every client that was started had an update acknowledged; one that had none contributes nothing to the result.
fn every_client(history: &History) -> Gate {
    let name = "every-client";
    let words = Words::new(history);
    let got: BTreeSet<String> = acknowledged(history).map(|operation| words.process(operation.process)).collect();
    let without: Vec<String> = started(history).into_iter().filter(|client| !got.contains(client)).collect();
    match &without[..] {
        [] => gate(name, true, format!("each of {} had updates acknowledged", count(got.len() as u64, "client"))),
        _ => gate(name, false, format!("{} never had an update acknowledged", list(&without))),
    }
}

/// The names of a run's clients.
fn started(history: &History) -> Vec<String> {
    let clients = history.run.as_ref().map_or(0, |run| run.clients);
    (0..clients).map(|client| Words::new(history).process(Process::Client(client))).collect()
}

/// Whether the operation acquired the lock, or succeeded without one.
fn held(operation: &Operation) -> bool {
    operation.phase(Phase::Acquired).is_some() || operation.outcome == Outcome::Ok
}

/// At least two clients had updates acknowledged, and two wanted the same lock at the same time and both got it.
fn contention(history: &History) -> Gate {
    let words = Words::new(history);
    let clients: BTreeSet<String> = acknowledged(history).map(|operation| words.process(operation.process)).collect();
    let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history.operations.iter().filter(|operation| is_update(operation) && held(operation)) {
        keys.entry(&operation.key).or_default().push(operation);
    }
    let contended = keys.values_mut().any(|operations| {
        operations.sort_by_key(|operation| operation.invoked);
        let mut in_flight: BTreeSet<(u64, String)> = BTreeSet::new();
        operations.iter().any(|operation| {
            while in_flight.first().is_some_and(|(end, _)| *end <= operation.invoked) {
                in_flight.pop_first();
            }
            let client = words.process(operation.process);
            let contended = in_flight.iter().any(|(_, other)| *other != client);
            // Without a completion it counts as over at once: a dead client no longer contends.
            in_flight.insert((operation.completed.unwrap_or(operation.invoked), client));
            contended
        })
    });
    let got = format!("{} had updates acknowledged", count(clients.len() as u64, "client"));
    let (passed, text) = match (clients.len(), contended) {
        (0 | 1, _) => (false, format!("{got}; without a second one there is no contention")),
        (_, false) => (false, format!("{got}, but no two clients ever contended for a key that both of them then had")),
        (_, true) => (true, format!("{got}, and clients contended for one key")),
    };
    gate("contention", passed, text)
}

/// At least one fault hit while a client that it affects held the lock, and lasted as long as it had to.
fn faults_met_holds(history: &History, faults: &[&FaultWindow]) -> Gate {
    let words = Words::new(history);
    let ttl_ns = history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
    let holds: Vec<(String, u64, u64)> = history
        .operations
        .iter()
        .filter(|operation| is_update(operation) && held(operation))
        .map(|operation| {
            let taken = operation.phase(Phase::HalfAcquired).or(operation.phase(Phase::Acquired));
            let since = taken.map_or(operation.invoked, |stamp| stamp.received);
            (words.process(operation.process), since, operation.completed.unwrap_or(history.last_time))
        })
        .collect();
    let clients = started(history);
    let (mut met, mut outlived) = (0, 0);
    for (window, (since, until)) in faults.iter().filter_map(|window| Some((window, in_effect(window)?))) {
        // A fault on a server, or on a link to one, affects every holder; a fault on clients affects only them.
        let of_clients = window.targets.iter().all(|target| clients.contains(target));
        let mut covered = holds
            .iter()
            .filter(|(client, ..)| !of_clients || window.targets.contains(client))
            .filter(|(_, from, to)| *from <= until && since <= *to)
            .peekable();
        met += u64::from(covered.peek().is_some());
        outlived += u64::from(covered.any(|(_, from, _)| from.saturating_add(ttl_ns) <= until));
    }
    let all = count(faults.len() as u64, "fault");
    let outlives = history.run.as_ref().and_then(|run| run.outlives);
    let (passed, text) = match outlives {
        None => (met > 0, format!("{met} of {all} hit while an affected client held the lock")),
        Some(Outlives::Ttl) => {
            let expires = history.run.as_ref().is_none_or(|run| run.expires);
            let what = if expires { "outlasted the TTL of a held lock" } else { "lasted long enough during a hold" };
            (outlived > 0, format!("{outlived} of {all} {what}"))
        }
    };
    gate("faults-met-holds", passed, text)
}

/// When an observed fault was certainly in effect, as start and end.
fn in_effect(window: &FaultWindow) -> Option<(u64, u64)> {
    let (since, _) = window.injected.filter(|(_, observed)| *observed)?;
    Some((since, window.heal.or(window.healed.map(|(time, _)| time)).unwrap_or(u64::MAX).max(since)))
}

fn faults_observed(history: &History, faults: &[&FaultWindow]) -> Gate {
    let unseen: Vec<&&FaultWindow> = faults.iter().filter(|window| !window.was_observed()).collect();
    let observed = faults.len() - unseen.len();
    let text = match unseen.first() {
        _ if faults.is_empty() => match history.faults.iter().find_map(|window| window.skipped.as_ref()) {
            Some(why) => format!("no fault was injected: {why}"),
            None => "no fault was injected".to_string(),
        },
        None => format!("{} observed", count(observed as u64, "fault")),
        Some(first) => format!(
            "{observed} of {} observed; fault {} on {} was not: {}",
            count(faults.len() as u64, "fault"),
            first.fault,
            list(&first.targets),
            or_silence(&first.texts.join("; ")),
        ),
    };
    gate("faults-observed", observed > 0 && unseen.is_empty(), text)
}

fn faults_healed(faults: &[&FaultWindow]) -> Gate {
    let observed: Vec<&&FaultWindow> = faults.iter().filter(|window| window.was_observed()).collect();
    let unhealed: Vec<&&&FaultWindow> = observed.iter().filter(|window| !window.was_healed()).collect();
    let text = match unhealed.first() {
        _ if observed.is_empty() => "no fault was observed, so none to heal".to_string(),
        None => format!("{} healed", count(observed.len() as u64, "fault")),
        Some(first) => format!(
            "{} of {} healed; fault {} on {} was not: {}",
            observed.len() - unhealed.len(),
            count(observed.len() as u64, "fault"),
            first.fault,
            list(&first.targets),
            or_silence(&first.texts.join("; ")),
        ),
    };
    gate("faults-healed", !observed.is_empty() && unhealed.is_empty(), text)
}

/// Updates were acknowledged before the first fault, while faults were in effect, and after the last heal.
fn progress(history: &History, faults: &[&FaultWindow]) -> Vec<Gate> {
    let observed = || faults.iter().filter(|window| window.was_observed());
    let first = observed().map(|window| window.inject).min();
    // A fault without a heal lasts forever, so nothing comes after it.
    let last = observed().map(|window| window.healed.map_or(u64::MAX, |(time, _)| time)).max();
    let (Some(first), Some(last)) = (first, last) else {
        let names = ["progress-before", "progress-during", "progress-after"];
        return names.map(|name| gate(name, false, "no fault was observed".to_string())).into();
    };
    let times = || acknowledged(history).filter_map(|operation| operation.completed);
    let before = times().filter(|&time| time < first).count() as u64;
    let after = times().filter(|&time| time > last).count() as u64;
    let after_text = if last == u64::MAX {
        "a fault was never healed, so nothing came after it".to_string()
    } else {
        format!("{} acknowledged after the last heal at {}", count(after, "update"), seconds(last))
    };
    vec![
        gate(
            "progress-before",
            before > 0,
            format!("{} acknowledged before the first fault at {}", count(before, "update"), seconds(first)),
        ),
        during_faults(history, faults),
        gate("progress-after", after > 0, after_text),
    ]
}

/// Whether as many updates were acknowledged during faults as the nemesis leaves possible.
fn during_faults(history: &History, faults: &[&FaultWindow]) -> Gate {
    let name = "progress-during";
    let windows: Vec<(u64, u64)> = faults.iter().filter_map(|window| in_effect(window)).collect();
    let within = |from: u64, to: u64| windows.iter().any(|&(since, until)| since <= from && to <= until);
    let ended_within =
        |operation: &&Operation| operation.completed.is_some_and(|completed| within(completed, completed));
    let text = |found| format!("{} acknowledged while a fault was in effect", count(found, "update"));
    match history.run.as_ref().map(|run| run.progress).unwrap_or_default() {
        Progress::Some => match acknowledged(history).filter(ended_within).count() as u64 {
            0 if faults.iter().all(|window| leaves_nothing(history, window)) => {
                let text = "no update was acknowledged while a fault was in effect, since no fault left anyone able to get the lock";
                gate(name, true, text.into())
            }
            found => gate(name, found > 0, text(found)),
        },
        Progress::Any => gate(name, true, text(acknowledged(history).filter(ended_within).count() as u64)),
        Progress::None => {
            // An operation that began before the fault was in effect may have held the lock already.
            let found = acknowledged(history)
                .filter(|operation| within(operation.invoked, operation.completed.unwrap_or(u64::MAX)))
                .count() as u64;
            match found {
                0 => gate(name, true, "no update was acknowledged while a fault was in effect, as expected".into()),
                _ => gate(name, false, format!("{} acknowledged where none was expected", count(found, "update"))),
            }
        }
    }
}

/// Whether nobody could make progress under a fault: it stopped a majority of the nodes or the resource, or one client
/// held the lock throughout.
fn leaves_nothing(history: &History, window: &FaultWindow) -> bool {
    let nodes = history.run.as_ref().map_or(0, |run| run.nodes);
    let hit = window.targets.iter().filter(|target| Role::of(target) == Some(Role::Node)).count() as u32;
    let stands_still = matches!(window.kind, FaultKind::Pause | FaultKind::Kill | FaultKind::PowerLoss);
    let of_all = hit * 2 > nodes || window.hits(Role::Resource);
    (stands_still && of_all) || in_effect(window).is_none_or(|span| kept_throughout(history, span))
}

/// Whether one client held a lock that was valid from the start to the end of a fault, so that nobody else could have
/// acquired it.
fn kept_throughout(history: &History, (since, until): (u64, u64)) -> bool {
    history.operations.iter().any(|operation| {
        operation.phase(Phase::Acquired).is_some_and(|acquired| {
            let good = |left: u64| acquired.received.saturating_add(left.saturating_mul(1_000_000));
            acquired.received <= since
                && operation.completed >= Some(until)
                && acquired.validity_ms.is_none_or(|left| good(left) >= until)
        })
    })
}

/// The controller reported that it read every key, and the reads are in the history.
fn final_reads(history: &History) -> Gate {
    let said = fact(history, FactName::FinalReads, "final-reads");
    if !said.passed {
        return said;
    }
    let mut over: BTreeMap<&str, u64> = BTreeMap::new();
    for operation in acknowledged(history) {
        let over = over.entry(&operation.key).or_default();
        *over = (*over).max(operation.completed.unwrap_or(u64::MAX));
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
            gate("final-reads", false, format!("{missing} not read after the last update, for example {key}"))
        }
    }
}

fn or_silence(text: &str) -> &str {
    if text.is_empty() { "no reason was given" } else { text }
}
