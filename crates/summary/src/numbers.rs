//! The counts behind a verdict: faults, gates, rates.

use serde::{Deserialize, Serialize};

use super::story::Story;
use base::words::{count, sanitize, unless_none};
use checker::Gate;
use model::history::{FaultWindow, Function, History, Operation, Outcome};

/// The latency of acknowledged operations, from invocation to reply, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub median_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub most_ms: f64,
}

/// None if no operation was acknowledged.
pub(super) fn latency(story: &Story) -> Option<Latency> {
    let acknowledged = story.client_operations().filter(|operation| operation.outcome == Outcome::Ok);
    let took = acknowledged.filter_map(|operation| Some(operation.completed?.saturating_sub(operation.invoked)));
    let mut took: Vec<u64> = took.collect();
    took.sort_unstable();
    // The smallest value that at least this share of the values do not exceed (a percentile).
    let at = |share: f64| {
        let place = (took.len() as f64 * share).ceil() as usize;
        took.get(place.max(1) - 1).map(|ns| *ns as f64 / 1e6)
    };
    Some(Latency { median_ms: at(0.5)?, p95_ms: at(0.95)?, p99_ms: at(0.99)?, most_ms: at(1.0)? })
}

/// The number of faults that reached each stage, and all faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    pub planned: u64,
    pub injected: u64,
    pub observed: u64,
    pub healed: u64,
    pub skipped: u64,
    /// `5 injected, 5 observed, 5 healed`, and the number of skipped ones.
    pub text: String,
    pub all: Vec<FaultAccount>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultAccount {
    pub fault: u32,
    /// The kind of the fault, in a word.
    pub name: String,
    pub targets: Vec<String>,
    /// The time of the order, in nanoseconds of run time.
    pub from: u64,
    /// The duration in nanoseconds. None if it was never healed.
    pub lasted: Option<u64>,
    /// True if its effect was observed. None if it was not injected.
    pub observed: Option<bool>,
    /// True if its end was observed. None if it was not healed.
    pub healed: Option<bool>,
    /// Why it was skipped.
    pub skipped: Option<String>,
    /// The observations of it.
    pub seen: String,
    /// The command that it hit, with its reply. None if the fault is not at a command, or hit none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub struck: Option<String>,
}

impl Faults {
    pub(super) fn new(history: &History) -> Faults {
        let faults = &history.faults;
        let number = |is: fn(&FaultWindow) -> bool| faults.iter().filter(|fault| is(fault)).count() as u64;
        let mut found = Faults {
            planned: faults.len() as u64,
            injected: number(|fault| fault.injected.is_some()),
            observed: number(FaultWindow::was_observed),
            healed: number(FaultWindow::was_healed),
            skipped: number(|fault| fault.skipped.is_some()),
            text: String::new(),
            all: faults.iter().map(FaultAccount::new).collect(),
        };
        found.text = found.in_words();
        found
    }

    fn in_words(&self) -> String {
        if self.planned == 0 {
            return "none".to_string();
        }
        let skipped = unless_none(self.skipped, |some| format!(", {} skipped", count(some)));
        let (injected, observed, healed) = (count(self.injected), count(self.observed), count(self.healed));
        format!("{injected} injected, {observed} observed, {healed} healed{skipped}")
    }
}

impl FaultAccount {
    fn new(window: &FaultWindow) -> FaultAccount {
        let (from, to) = window.span();
        FaultAccount {
            fault: window.fault,
            name: window.kind.says.name.to_string(),
            targets: window.targets.clone(),
            from,
            lasted: to.map(|to| to.saturating_sub(from)),
            observed: window.injected.map(|(_, seen)| seen),
            healed: window.healed.map(|(_, seen)| seen),
            skipped: window.skipped.clone(),
            seen: window.texts.join("; "),
            struck: window.texts.first().filter(|_| window.kind.is_at_command() && window.was_observed()).cloned(),
        }
    }

    /// True if the fault was not skipped, and its effect or its end was not observed.
    pub fn fell_short(&self) -> bool {
        self.skipped.is_none() && (self.observed != Some(true) || self.healed != Some(true))
    }
}

/// `17 of 18 passed; failed: contention`.
pub(super) fn gates(gates: &[Gate]) -> String {
    let failed: Vec<String> = gates.iter().filter(|gate| !gate.passed).map(|gate| sanitize(&gate.name, 40)).collect();
    let names = if failed.is_empty() { String::new() } else { format!("; failed: {}", failed.join(", ")) };
    format!("{} of {} passed{names}", gates.len() - failed.len(), gates.len())
}

/// Acknowledged updates, or holds if nothing is written, per second in which clients were busy.
pub(super) fn per_second(story: &Story) -> Option<f64> {
    let is_update = |operation: &&Operation| operation.f.writes() || operation.f == Function::Hold;
    let acknowledged =
        story.client_operations().filter(|operation| operation.outcome == Outcome::Ok).filter(is_update).count();
    let seconds = story.busy_seconds();
    (seconds > 0.0).then(|| acknowledged as f64 / seconds)
}

/// The time from the first operation of a client to the first anomaly that contradicts a claim of the workload, in seconds.
pub(super) fn first_violation_s(story: &Story) -> Option<f64> {
    let anomalies = &story.subject.verdict.anomalies;
    let claimed = anomalies.iter().filter(|anomaly| story.breaks(anomaly.kind));
    let first = claimed.map(|anomaly| anomaly.time).min()?;
    let began = story.client_operations().map(|operation| operation.invoked).min().unwrap_or(0);
    Some(first.saturating_sub(began) as f64 / 1e9)
}
