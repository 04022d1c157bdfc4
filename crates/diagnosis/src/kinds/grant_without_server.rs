//! A lock that the library hands out while its only server is down.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ041",
    name: "grant-without-server",
    title: "The lock is handed out while the server is down.",
    rule: "A request without a reply has acquired nothing. A library that lets the work begin then gives the lock to every client.",
    source: REDIS_LOCKS,
    fix: "If the server does not answer, report that the lock was not acquired. Let the caller decide whether to work without it.",
    commands: &[],
    right: Some(("redlock", "majority-down")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

/// True if another fault on this server may have ended its stop before a time. A killed process starts anew, and a heal continues a
/// process whatever stopped it.
fn may_run_again(case: &Case, stop: &FaultWindow, time: u64) -> bool {
    case.history.faults.iter().any(|other| {
        let is_here = stop.nodes().any(|node| other.targets.iter().any(|target| target == node));
        let ends_stops = other.kind.halts() || other.kind.does.restarts;
        let is_over = other.span().1.is_some_and(|healed| healed < stop.inject);
        other.fault != stop.fault && is_here && ends_stops && other.inject <= time && !is_over
    })
}

fn check(case: &Case) -> Vec<Finding> {
    if case.run.nodes > 1 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let locked = case.history.operations.iter().filter(|one| one.process != Process::Controller);
    for operation in locked {
        let (Some(acquiring), Some((start, _))) =
            (operation.phase(Phase::Acquiring), case.history.certain_hold(operation))
        else {
            continue;
        };
        let Ok(acquired) = u64::try_from(start) else { continue };
        // A fault was observed to stop the server before the first request left, and the server started again after the grant.
        let down = case.history.faults.iter().find(|window| {
            matches!(window.kind.does.process, OnProcess::Stops | OnProcess::Ends)
                && window.nodes().next().is_some_and(|node| case.commands.iter().all(|command| command.node == node))
                && window
                    .injected
                    .is_some_and(|(time, observed)| observed && time < acquiring.time().saturating_sub(EDGE))
                && window.heal.is_none_or(|heal| heal > acquired.saturating_add(EDGE))
                && !may_run_again(case, window, acquired)
        });
        let Some(down) = down.filter(|_| acquiring.time() < acquired.saturating_add(EDGE)) else { continue };
        let (client, node) = (case.run.client_name(operation.process), down.nodes().next().unwrap_or_default());
        let sentence = format!(
            "{client} received the lock at {}, though {node} was down from {} {}.",
            moment(acquired),
            moment(down.injected.map_or(down.inject, |(time, _)| time)),
            down.heal.map_or("on".to_string(), |heal| format!("to {}", moment(heal)))
        );
        found.push(Finding {
            time: acquired,
            key: operation.key.to_string(),
            sentence,
            operations: vec![operation.index],
            commands: Vec::new(),
            harm: Harm::Misled(operation.index),
            fault: None,
        });
    }
    found
}
