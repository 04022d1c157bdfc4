//! How long a library's clients took to give their locks back: nothing is promised of that, but whoever calls waits for so long. And
//! whether they can do so a second time.

use serde::Serialize;

use crate::checker::everyone_ran;
use crate::history::{History, Operation, Phase, PhaseStamp, Process, RecordedCommand};

/// A release takes long from so many TTLs on: its lock has run out by itself by then.
const LONG: u64 = 3;
/// Longer than what is left to send of a release that has come to its end, in nanoseconds.
const MOMENT: u64 = 20_000_000;

/// A release that took long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

/// How a client begins what it says of a second release that was refused.
const SAID_AGAIN: &str = "released again: ";

/// Whether a client's second release reached its library, in a run that asked for one: the library refused it, or sent something. What
/// ends a routine that the library runs can be called again, and does nothing.
pub fn reach_again(history: &History, commands: &[RecordedCommand]) -> bool {
    let Some(run) = history.run.as_ref() else { return false };
    history.operations.iter().any(|operation| {
        let said = operation.failure.as_ref().and_then(|failure| failure.text.as_ref());
        if said.is_some_and(|text| text.to_string().starts_with(SAID_AGAIN)) {
            return true;
        }
        let released = operation.phase(Phase::Released).map(PhaseStamp::time);
        let (Some(released), Some(over)) = (released, operation.completed) else { return false };
        let client = run.client_name(operation.process);
        let is_its = |command: &&RecordedCommand| command.from.as_ref() == Some(&client) && !command.in_script;
        // An operation that is over once its lock is given back lasts no longer than that.
        commands.iter().filter(is_its).any(|command| (released + MOMENT..over).contains(&command.time))
    })
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
