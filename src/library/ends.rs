//! Programs of clients that ended by themselves: no lock claims that they do not, but whoever uses the library wants to know.

use serde::Serialize;

use crate::checker::{AnomalyKind, Verdict};
use crate::history::{ClientStep, History};
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
    let was_faulty = history.faults.iter().any(|window| window.skipped.is_none() && window.inject <= time);
    let was_cancelled = history.steps.iter().any(|(at, step)| *at <= time && step.step.starts_with("cancel "));
    let stood_still = history.stalls.iter().any(|(from, _)| *from <= time);
    let is_it = |at: u64, step| at == time && step == ClientStep::Ended;
    let (_, event) = history.clients.iter().find(|(at, event)| is_it(*at, event.step))?;
    if stood_still || FROM_OTHERS.iter().any(|signal| event.text.contains(&format!("({signal})"))) {
        return None;
    }
    Some(Ended { how: sanitize(without_log(&event.text), 400), faulty: was_faulty || was_cancelled })
}

/// What is said of an end, without the log's path in the run's folder.
fn without_log(text: &str) -> &str {
    let before = text.split_once("/client.log)").and_then(|(before, _)| before.rsplit_once(" ("));
    before.map_or(text, |(said, _)| said)
}
