//! How long a library's clients took to release their locks. No claim limits it, but callers wait for it.

use super::*;
use base::words::{list, moment};

pub static DEF: Advisory = Advisory {
    id: "slow-releases",
    title: "A release ends before its lock would have expired",
    applies: "runs whose clients release their locks",
    check: |run| slowest(run.history),
};

/// A release of this many TTLs or more is slow: its lock has expired by then.
const LONG: u64 = 3;

/// The longest slow release of a run, among clients that no fault hit meanwhile.
fn slowest(history: &History) -> Option<Remark> {
    let run = history.run.as_ref()?;
    let long = run.ttl_ms.saturating_mul(1_000_000 * LONG);
    let of_clients = history.operations.iter().filter(|operation| operation.process != Process::Controller);
    let releases = of_clients.filter_map(|operation| Some((operation, release(operation, history.last_time)?)));
    let slow = releases.filter_map(|(operation, (began, ended, over))| {
        let took = ended.checked_sub(began).filter(|took| *took >= long)?;
        let overlaps = |from: u64, to: Option<u64>| from <= ended && to.is_none_or(|to| to >= began);
        if history.stalls.iter().any(|(from, to)| overlaps(*from, Some(*to)))
            || !everyone_ran(history, (began, ended), took - long)
        {
            return None;
        }
        let client = run.client_name(operation.process);
        let mut meanwhile = Vec::new();
        for window in history.faults.iter().filter(|window| window.was_observed()) {
            let (from, to) = window.span();
            match overlaps(from, to) {
                true if window.targets.contains(&client) => return None,
                true => meanwhile.push(format!("{} of {}", window.kind.says.name, window.targets.join(", "))),
                false => {}
            }
        }
        Some((took, client, began, over, meanwhile))
    });
    let (severity, client, began, over, meanwhile) = slow.max_by_key(|(took, ..)| *took)?;
    let (took, began) = (length(severity), moment(began));
    let what = match over {
        true => format!("{client} took {took} to release it, from {began} on"),
        false => format!("{client} had not released it {took} after it began to, at {began}"),
    };
    let what = sanitize(&what, 120);
    let disturbed = !meanwhile.is_empty();
    let text = if disturbed { format!("{what}; meanwhile: {}", sanitize(&list(&meanwhile), 200)) } else { what };
    Some(Remark { severity, disturbed, ..Remark::new(1, 1, text)? })
}

/// When a release began, when it ended (or `last`), and whether it ended.
fn release(operation: &Operation, last: u64) -> Option<(u64, u64, bool)> {
    // A client that was kept at a breakpoint reports the phase again when it goes on.
    let began = operation.phases.iter().filter(|stamp| stamp.phase == Phase::Releasing).last()?.time();
    let over = operation
        .phases
        .iter()
        .find(|stamp| matches!(stamp.phase, Phase::Released | Phase::Lost) && stamp.time() >= began);
    match over.map(|stamp| stamp.time()).or(operation.completed) {
        Some(ended) => Some((began, ended, true)),
        None => Some((began, last, false)),
    }
}
