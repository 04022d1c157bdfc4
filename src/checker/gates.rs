//! Conditions without which a run proves nothing, so that a run in which nothing happened is never called valid.
//!
//! Each gate finds its own evidence in the history, and what the history does not say counts as not so. Only the
//! doubt whether the resource was empty touches violations too: old values would look like values from nowhere.

use std::collections::{BTreeMap, BTreeSet};

use super::verdict::Gate;
use super::words::{Words, count, list, seconds};
use crate::history::{
    Claim, ClientStep, FactName, FaultKind, FaultWindow, Function, History, Operation, Outcome, Phase, Process,
    StepOutcome,
};
use crate::nemesis::Progress;

/// Fewer acknowledged updates than this say nothing about a lock.
pub const LEAST_ACKNOWLEDGED: u64 = 10;

/// Where fewer than one in this many reported holds has a trusted stamp, exclusion was not really checked.
pub const COMPARABLE_ONE_IN: u64 = 2;

/// Examines every gate that applies to the history, always in the same order. Sorts the operations of a key; linear
/// otherwise.
pub(super) fn check(history: &History) -> Vec<Gate> {
    let mut gates = vec![
        completed(history),
        Gate { undermines_violations: true, ..fact(history, FactName::ResourceEmpty, "resource-empty") },
        fact(history, FactName::ClientsReady, "clients-ready"),
        fact(history, FactName::NodesReady, "nodes-ready"),
        clients_steady(history),
        enough_acknowledged(history),
        contention(history),
    ];
    let claims_exclusion = super::claims(history).contains(&Claim::MutualExclusion);
    if claims_exclusion {
        gates.push(stamps_usable(history));
    }
    let faults: Vec<&FaultWindow> = history.faults.iter().filter(|window| window.skipped.is_none()).collect();
    if history.run.as_ref().is_some_and(|run| run.faults_expected) || !faults.is_empty() {
        gates.push(faults_observed(&faults));
        gates.push(faults_healed(&faults));
        gates.extend(progress(history, &faults));
    }
    if let Some(steps) = history.run.as_ref().map(|run| run.script_steps).filter(|steps| *steps > 0) {
        gates.push(script_played(history, steps));
    }
    gates.push(fact(history, FactName::NodesHealthy, "nodes-healthy"));
    gates.push(final_reads(history));
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

/// A gate that rests on something the controller verified. Said twice, it must hold both times.
fn fact(history: &History, name: FactName, gate_name: &str) -> Gate {
    let said: Vec<_> = history.facts.iter().filter(|fact| fact.name == name).collect();
    let what = match name {
        FactName::ResourceEmpty => "the resource was empty at the start",
        FactName::ClientsReady => "every client was ready at the start",
        FactName::NodesReady => "every node answered at the start",
        FactName::NodesHealthy => "every node answered at the end",
        FactName::FinalReads => "every key was read at the end",
    };
    let detail = |text: &str| if text.is_empty() { String::new() } else { format!(": {text}") };
    match (said.iter().find(|fact| !fact.holds), said.last()) {
        (Some(fact), _) => gate(gate_name, false, format!("it is not so that {what}{}", detail(&fact.text))),
        (None, Some(fact)) => gate(gate_name, true, format!("{what}{}", detail(&fact.text))),
        (None, None) => gate(gate_name, false, format!("the history does not say whether {what}")),
    }
}

/// No client broke of itself. One that did was replaced, but a client that dies, hangs or speaks nonsense is not what the
/// run was to test. One that a fault killed was to die.
fn clients_steady(history: &History) -> Gate {
    let words = Words::new(history);
    let killed = |time: u64, process: u32| {
        let client = words.process(Process::Client(process));
        let hits = |window: &&FaultWindow| {
            window.kind == FaultKind::Kill && window.was_observed() && window.targets.contains(&client)
        };
        // Later than the heal, when it ran again, it ended by itself.
        let meanwhile =
            |window: &FaultWindow| window.inject <= time && window.healed.is_none_or(|(healed, _)| time <= healed);
        history.faults.iter().filter(hits).any(meanwhile)
    };
    let ended = history.clients.iter().filter(|(_, event)| event.step == ClientStep::Ended);
    let mut broken = ended.filter(|(time, event)| !killed(*time, event.process));
    match broken.next() {
        None => gate("clients-steady", true, "no client had to be replaced for reasons of its own".to_string()),
        Some((time, first)) => {
            let more = broken.count() as u64;
            let others = if more == 0 { String::new() } else { format!(", and {more} more such") };
            let client = words.process(Process::Client(first.process));
            let text =
                format!("{client} had to be replaced at {}{others}: {}", seconds(*time), or_silence(&first.text));
            gate("clients-steady", false, text)
        }
    }
}

/// Every step of a script came to what it was to bring about; otherwise the moment that it is about did not come.
fn script_played(history: &History, steps: u32) -> Gate {
    let name = "script-played";
    match history.steps.iter().find(|(_, step)| step.outcome == StepOutcome::Failed) {
        Some((_, step)) => {
            let text = format!("step {}, `{}`: {}", step.number, step.step, or_silence(&step.text));
            gate(name, false, text)
        }
        None if history.steps.len() as u64 == u64::from(steps) => {
            gate(name, true, format!("all {} went as they should", count(u64::from(steps), "step")))
        }
        None => gate(name, false, format!("{} of {} steps are recorded", history.steps.len(), steps)),
    }
}

fn acknowledged(history: &History) -> impl Iterator<Item = &Operation> + Clone {
    history.operations.iter().filter(|operation| is_update(operation) && operation.outcome == Outcome::Ok)
}

/// What a run is about: the resource is written, or the lock is taken.
fn is_update(operation: &Operation) -> bool {
    operation.f.is_locked() || operation.f.writes()
}

fn enough_acknowledged(history: &History) -> Gate {
    let found = acknowledged(history).count() as u64;
    let text = format!("{} acknowledged, of at least {LEAST_ACKNOWLEDGED}", super::words::count(found, "update"));
    gate("enough-acknowledged", found >= LEAST_ACKNOWLEDGED, text)
}

/// Two clients at least got through, and two at least were after one lock at one time.
fn contention(history: &History) -> Gate {
    let words = Words::new(history);
    let clients: BTreeSet<String> = acknowledged(history).map(|operation| words.process(operation.process)).collect();
    let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history.operations.iter().filter(|operation| is_update(operation)) {
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
            // An operation without an end counts as over at once: a dead client contends no more.
            in_flight.insert((operation.completed.unwrap_or(operation.invoked), client));
            contended
        })
    });
    let got = format!("{} had updates acknowledged", count(clients.len() as u64, "client"));
    let (passed, text) = match (clients.len(), contended) {
        (0 | 1, _) => (false, format!("{got}; without a second one there is no contention")),
        (_, false) => (false, format!("{got}, but no two clients ever worked on one key at once")),
        (_, true) => (true, format!("{got}, and clients worked on one key at once")),
    };
    gate("contention", passed, text)
}

fn stamps_usable(history: &History) -> Gate {
    let reports = acknowledged(history).filter_map(|operation| operation.phase(Phase::Acquired));
    let reported = reports.clone().count() as u64;
    let usable = reports.filter(|stamp| stamp.stamped.is_some()).count() as u64;
    let (passed, text) = if reported == 0 {
        (acknowledged(history).next().is_none(), "no client reported when it acquired the lock".to_string())
    } else if usable * COMPARABLE_ONE_IN < reported {
        let text = format!(
            "{usable} of {reported} reports of an acquired lock bear a usable stamp: mono_ns is missing or is not \
             CLOCK_MONOTONIC of the client's kernel"
        );
        (false, text)
    } else {
        (true, format!("{usable} of {reported} reports of an acquired lock bear a usable stamp"))
    };
    gate("stamps-usable", passed, text)
}

fn faults_observed(faults: &[&FaultWindow]) -> Gate {
    let unseen: Vec<&&FaultWindow> = faults.iter().filter(|window| !window.was_observed()).collect();
    let observed = faults.len() - unseen.len();
    let text = match unseen.first() {
        _ if faults.is_empty() => "no fault was injected".to_string(),
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

/// Updates were acknowledged before the first fault, between it and the last heal, and after that.
fn progress(history: &History, faults: &[&FaultWindow]) -> Vec<Gate> {
    let observed = || faults.iter().filter(|window| window.was_observed());
    let first = observed().map(|window| window.inject).min();
    // A fault without a heal lasts for ever, and nothing comes after it.
    let last = observed().map(|window| window.healed.map_or(u64::MAX, |(time, _)| time)).max();
    let (Some(first), Some(last)) = (first, last) else {
        let names = ["progress-before", "progress-during", "progress-after"];
        return names.map(|name| gate(name, false, "no fault was observed".to_string())).into();
    };
    let (mut before, mut during, mut after) = (0, 0, 0);
    for time in acknowledged(history).filter_map(|operation| operation.completed) {
        match time {
            time if time < first => before += 1,
            time if time <= last => during += 1,
            _ => after += 1,
        }
    }
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
        during_faults(history, faults, during),
        gate("progress-after", after > 0, after_text),
    ]
}

/// Whether as much was acknowledged while faults were in effect as the nemesis leaves. `during` counts what was between
/// the first fault and the last heal.
fn during_faults(history: &History, faults: &[&FaultWindow], during: u64) -> Gate {
    let name = "progress-during";
    let text = format!("{} acknowledged between the first fault and the last heal", count(during, "update"));
    match history.run.as_ref().map(|run| run.progress).unwrap_or_default() {
        Progress::Some => gate(name, during > 0, text),
        Progress::Any => gate(name, true, text),
        Progress::None => {
            // What was begun before all was in effect may have had the lock already.
            let within = |operation: &&Operation| {
                let end = operation.completed.unwrap_or(u64::MAX);
                faults.iter().any(|window| {
                    let since = window.injected.filter(|(_, observed)| *observed);
                    since.is_some_and(|(since, _)| since <= operation.invoked)
                        && window.heal.is_some_and(|heal| end <= heal)
                })
            };
            let found = acknowledged(history).filter(within).count() as u64;
            match found {
                0 => gate(name, true, "no update was acknowledged while a fault was in effect, as was to be".into()),
                _ => gate(name, false, format!("{} acknowledged where none was to be", count(found, "update"))),
            }
        }
    }
}

/// The controller says that it read every key, and the reads are there.
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
            gate("final-reads", false, format!("{missing} not read after the last update, {key} for one"))
        }
    }
}

fn or_silence(text: &str) -> &str {
    if text.is_empty() { "no reason was given" } else { text }
}
