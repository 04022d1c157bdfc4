//! How long a library's clients took to give their locks back: nothing is promised of that, but whoever calls waits for so long.

use super::super::starved::everyone_ran;
use super::{Advisory, Remark};
use base::words::{length, list, moment, sanitize};
use model::history::{History, Operation, Phase, Process};

pub static DEF: Advisory = Advisory {
    id: "slow-releases",
    title: "A release ends before its lock would have expired",
    applies: "runs whose clients release their locks",
    check: |run| {
        let found = slowest(run.history)?;
        let disturbed = !found.meanwhile.is_empty();
        Some(Remark { severity: found.took, disturbed, ..Remark::new(1, 1, found.words())? })
    },
};

/// A release takes long from so many TTLs on: its lock has run out by itself by then.
const LONG: u64 = 3;
/// A release that took long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRelease {
    pub client: String,
    /// When it began, and how long it took, in nanoseconds of run time.
    pub began: u64,
    pub took: u64,
    /// Whether it was over then, or only the run.
    pub ended: bool,
    /// What was in effect meanwhile, none of it at this client: `kill of n1`.
    pub meanwhile: Vec<String>,
}

impl SlowRelease {
    /// `c0 took 11.2 s to give it back, from 3.100 s on; meanwhile: kill of n1`
    pub fn words(&self) -> String {
        let SlowRelease { client, began, took, ended, meanwhile } = self;
        let (took, began) = (length(*took), moment(*began));
        let what = match ended {
            true => format!("{client} took {took} to give it back, from {began} on"),
            false => format!("{client} had not given it back {took} after it began to, at {began}"),
        };
        let what = sanitize(&what, 120);
        if meanwhile.is_empty() { what } else { format!("{what}; meanwhile: {}", sanitize(&list(meanwhile), 200)) }
    }
}

/// The longest release of a run that took long, of those whose clients no fault hit meanwhile.
pub fn slowest(history: &History) -> Option<SlowRelease> {
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
        Some(SlowRelease { client, began, took, ended: over, meanwhile })
    });
    slow.max_by_key(|slow| slow.took)
}

/// When a release began, when it was over, and whether it was.
fn release(operation: &Operation, last: u64) -> Option<(u64, u64, bool)> {
    // A client that was kept at a breakpoint says so again when it goes on.
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
