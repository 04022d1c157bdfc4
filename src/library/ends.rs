//! Programs of clients that ended by themselves: no lock claims that they do not, but whoever uses the library wants to know.

use serde::Serialize;

use crate::checker::{AnomalyKind, Verdict};
use crate::history::{ClientStep, History, Operation, Phase, Process};
use crate::words::sanitize;

/// How signals are named that others send: who sent them is not known.
const FROM_OTHERS: [&str; 4] = ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"];

/// How a program ended that no fault ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// Its exit code and its last words.
    pub how: String,
    /// Whether anything had been done to anybody in its run by then.
    pub faulty: bool,
}

/// How the first program of a run ended that ended by itself. None if all went on, and where the machine had stood still by then.
pub fn by_itself(history: &History, verdict: &Verdict) -> Option<Ended> {
    let ended = verdict.anomalies.iter().find(|anomaly| anomaly.kind == AnomalyKind::EndedByItself)?;
    let time = ended.time;
    let stood_still = history.stalls.iter().any(|(from, _)| *from <= time);
    let is_it = |at: u64, step| at == time && step == ClientStep::Ended;
    let (_, event) = history.clients.iter().find(|(at, event)| is_it(*at, event.step))?;
    if stood_still || FROM_OTHERS.iter().any(|signal| event.text.contains(&format!("({signal})"))) {
        return None;
    }
    let how = sanitize(without_log(&event.text), 400);
    let how = if had_the_lock(history, event.process, time) { how } else { format!("{how}; it had no lock then") };
    Some(Ended { how, faulty: was_disturbed(history, time) })
}

/// Whether anything had been done to anybody by then.
pub(super) fn was_disturbed(history: &History, time: u64) -> bool {
    history.faults.iter().any(|window| window.skipped.is_none() && window.inject <= time)
        || history.steps.iter().any(|(at, step)| *at <= time && step.step.starts_with("cancel "))
}

/// Whether a client's process may have had a lock at that time, by what it had said.
fn had_the_lock(history: &History, process: u32, time: u64) -> bool {
    let Some(header) = history.run.as_ref().filter(|header| header.threads == 1) else { return true };
    let is_its = |one: &&Operation| header.client_name(one.process) == header.client_name(Process::Client(process));
    history.operations.iter().filter(is_its).any(|one| {
        let said = |phase| one.phase(phase).is_some_and(|stamp| stamp.time() <= time);
        one.invoked <= time
            && said(Phase::Acquiring)
            && !said(Phase::Released)
            && one.completed.is_none_or(|end| end >= time)
    })
}

/// What is said of an end, without the log's path in the run's folder.
fn without_log(text: &str) -> &str {
    let before = text.split_once("/client.log)").and_then(|(before, _)| before.rsplit_once(" ("));
    before.map_or(text, |(said, _)| said)
}
