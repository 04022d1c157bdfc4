//! Gates on faults: each fault really happened, was undone, hit its target, and left time before and after it.

use super::super::verdict::{Gate, GateName};
use super::super::words::{Words, count, list, seconds};
use super::refuted::refuted;
use super::{acknowledged, gate, held, is_work, or_silence, started, unit};
use base::members::Role;
use base::mutants::planted;
use model::history::{FaultWindow, History, Operation, Outlives, Phase, Progress, ResourceKind};

/// Every fault was observed, and nothing in the history contradicts it.
pub(super) fn faults_observed(history: &History, faults: &[&FaultWindow]) -> Gate {
    let name = GateName::FaultsObserved;
    let unseen: Vec<&&FaultWindow> = faults.iter().filter(|window| !window.was_observed()).collect();
    let observed = faults.len() - unseen.len();
    let text = match unseen.first() {
        _ if faults.is_empty() => match history.faults.iter().find_map(|window| window.skipped.as_ref()) {
            Some(why) => format!("no fault was injected: {why}"),
            None => "no fault was injected".to_string(),
        },
        None => match refuted(history, faults) {
            Some(against) => return gate(name, false, against),
            None => format!("{} observed", count(observed as u64, "fault")),
        },
        Some(first) => format!(
            "{observed} of {} observed; fault {} on {} was not: {}",
            count(faults.len() as u64, "fault"),
            first.fault,
            list(&first.targets),
            or_silence(&first.texts.join("; ")),
        ),
    };
    gate(name, observed > 0 && unseen.is_empty(), text)
}

pub(super) fn faults_healed(faults: &[&FaultWindow]) -> Gate {
    let observed: Vec<&&FaultWindow> = faults.iter().filter(|window| window.was_observed()).collect();
    let unhealed: Vec<&&&FaultWindow> = observed.iter().filter(|window| !window.was_healed()).collect();
    let text = match unhealed.first() {
        _ if observed.is_empty() => "no fault was observed, so there was none to heal".to_string(),
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
    gate(GateName::FaultsHealed, !observed.is_empty() && unhealed.is_empty(), text)
}

/// At least one fault hit while a client that it affects held the lock, and lasted long enough.
pub(super) fn faults_met_holds(history: &History, faults: &[&FaultWindow]) -> Gate {
    let words = Words::new(history);
    let ttl_ns = history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
    let locks = history.takes_locks();
    let holds: Vec<(String, u64, u64)> = history
        .operations
        .iter()
        .filter(|operation| is_work(operation) && (held(operation) || !locks))
        .map(|operation| {
            let taken = operation.phase(Phase::Acquired).or(operation.phase(Phase::HalfAcquired));
            let since = taken.map_or(operation.invoked, |stamp| stamp.received);
            (words.process(operation.process), since, operation.completed.unwrap_or(history.last_time))
        })
        .collect();
    let clients = started(history);
    let (mut met, mut outlived) = (0, 0);
    let with_effect = faults.iter().filter(|window| !window.did_nothing());
    for (window, (since, until)) in with_effect.filter_map(|window| Some((window, window.certain_span()?))) {
        let is_affected = affected(history, window, &clients);
        let mut covered = holds
            .iter()
            .filter(|(client, ..)| is_affected(client))
            .filter(|(_, from, to)| *from + u64::from(planted("faults.end-one-early")) <= until && since <= *to)
            .peekable();
        met += u64::from(covered.peek().is_some());
        outlived += u64::from(covered.any(|(_, from, _)| from.saturating_add(ttl_ns) <= until));
    }
    let all = count(faults.len() as u64, "fault");
    let outlives = history.run.as_ref().and_then(|run| run.outlives);
    let (found, what) = match outlives {
        None if locks => (met, "hit while an affected client held the lock"),
        None => (met, "hit while an affected client was at an update"),
        Some(Outlives::Ttl) if history.run.as_ref().is_none_or(|run| run.expires) => {
            (outlived, "outlasted the TTL of a held lock")
        }
        Some(Outlives::Ttl) if locks => (outlived, "lasted long enough during a hold"),
        Some(Outlives::Ttl) => (outlived, "lasted long enough during an update"),
    };
    gate(GateName::FaultsMetHolds, found > 0, format!("{found} of {all} {what}"))
}

/// A fault on a server, or on a link to one, affects every client; a fault on clients affects only them. A fault on servers that no
/// client asks affects no client.
fn affected(history: &History, window: &FaultWindow, clients: &[String]) -> impl Fn(&String) -> bool {
    let resource = history.run.as_ref().map(|run| run.resource);
    let on_nodes = matches!(resource, Some(ResourceKind::Replicated | ResourceKind::Row));
    let is_asked = |server: &String| match Role::of(server) {
        Some(Role::Node) => history.takes_locks() || on_nodes,
        Some(Role::Resource) => !on_nodes && resource != Some(ResourceKind::None),
        _ => true,
    };
    let mut servers = window.targets.iter().filter(|target| !clients.contains(target)).peekable();
    let is_on_clients = servers.peek().is_none();
    let is_on_asked = servers.any(is_asked);
    move |client| is_on_asked || is_on_clients && window.targets.contains(client)
}

/// At least one fault of a script hit while an affected client was at work. None if a fault has an effect after its heal: it
/// changed data or a clock or ended a process. A fault at a command has its own evidence.
pub(super) fn faults_met_work(history: &History, faults: &[&FaultWindow]) -> Option<Gate> {
    let is_over_with_its_heal = |window: &&&FaultWindow| window.kind.is_an_outage() && !window.kind.ends_processes();
    let observed: Vec<&&FaultWindow> = faults.iter().filter(|window| window.was_observed()).collect();
    if observed.is_empty() || !observed.iter().all(is_over_with_its_heal) {
        return None;
    }
    let words = Words::new(history);
    let clients = started(history);
    let met = |window: &&&&FaultWindow| {
        if window.did_nothing() {
            return false;
        }
        let (since, until) = window.ordered_span();
        let is_affected = affected(history, window, &clients);
        history.operations.iter().filter(|operation| is_work(operation)).any(|operation| {
            until.is_none_or(|until| operation.invoked < until)
                && operation.completed.is_none_or(|completed| since < completed)
                && is_affected(&words.process(operation.process))
        })
    };
    let (found, all) = (observed.iter().filter(met).count(), count(observed.len() as u64, "fault"));
    let text = format!("{found} of {all} hit while an affected client was at work");
    Some(gate(GateName::FaultsMetHolds, found > 0, text))
}

/// Updates were acknowledged before the first fault, while faults were in effect, and after the last heal.
pub(super) fn progress(history: &History, faults: &[&FaultWindow]) -> Vec<Gate> {
    let observed = || faults.iter().filter(|window| window.was_observed());
    let first = observed().map(|window| window.inject).min();
    // A fault without a heal lasts forever, so nothing comes after it.
    let last = observed().map(|window| window.healed.map_or(u64::MAX, |(time, _)| time)).max();
    let (Some(first), Some(last)) = (first, last) else {
        let names = [GateName::ProgressBefore, GateName::ProgressDuring, GateName::ProgressAfter];
        return names.map(|name| gate(name, false, "no fault was observed".to_string())).into();
    };
    let times = || acknowledged(history).map(|(_, time)| time);
    let before = times().filter(|&time| time < first).count() as u64;
    let after = times().filter(|&time| time > last).count() as u64;
    let after_text = if last == u64::MAX {
        "a fault was never healed, so nothing came after it".to_string()
    } else {
        format!("{} acknowledged after the last heal at {}", count(after, unit(history)), seconds(last))
    };
    vec![
        gate(
            GateName::ProgressBefore,
            before > 0,
            format!("{} acknowledged before the first fault at {}", count(before, unit(history)), seconds(first)),
        ),
        during_faults(history, faults),
        gate(GateName::ProgressAfter, after > 0, after_text),
    ]
}

/// Enough updates were acknowledged during faults, given what the nemesis leaves possible.
fn during_faults(history: &History, faults: &[&FaultWindow]) -> Gate {
    let name = GateName::ProgressDuring;
    let windows: Vec<(u64, u64)> = faults.iter().filter_map(|window| window.certain_span()).collect();
    let within = |from: u64, to: u64| windows.iter().any(|&(since, until)| since <= from && to <= until);
    let ended_within = |(_, time): &(&Operation, u64)| within(*time, *time);
    let text = |found| format!("{} acknowledged while a fault was in effect", count(found, unit(history)));
    match history.run.as_ref().map(|run| run.progress).unwrap_or_default() {
        Progress::Some => match acknowledged(history).filter(ended_within).count() as u64 {
            0 if faults.iter().all(|window| leaves_nothing(history, window)) => {
                let none = format!("no {} was acknowledged while a fault was in effect", unit(history));
                let able = if history.takes_locks() { "acquire the lock" } else { "write" };
                gate(name, true, format!("{none}, since during the faults no client could {able}"))
            }
            found => gate(name, found > 0, text(found)),
        },
        Progress::Any => gate(name, true, text(acknowledged(history).filter(ended_within).count() as u64)),
        Progress::None => {
            // An operation that began before the fault was in effect may have held the lock already.
            let found =
                acknowledged(history).filter(|(operation, time)| within(operation.invoked, *time)).count() as u64;
            match found {
                0 => gate(
                    name,
                    true,
                    format!("no {} began and was acknowledged while a fault was in effect, as expected", unit(history)),
                ),
                _ => gate(
                    name,
                    false,
                    format!("{} acknowledged, although none was expected", count(found, unit(history))),
                ),
            }
        }
    }
}

/// True if no client could make progress under a fault. It stopped a majority of the nodes or the resource, or one client held
/// the lock throughout.
fn leaves_nothing(history: &History, window: &FaultWindow) -> bool {
    let nodes = history.run.as_ref().map_or(0, |run| run.nodes);
    let hit = window.targets.iter().filter(|target| Role::of(target) == Some(Role::Node)).count() as u32;
    let of_all = hit * 2 > nodes + u32::from(planted("progress.one-node-more")) || window.hits(Role::Resource);
    (window.kind.halts() && of_all) || window.certain_span().is_none_or(|span| kept_throughout(history, span))
}

/// True if one client held a valid lock from the start to the end of a fault, so that no other client could acquire it.
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
