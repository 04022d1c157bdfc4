//! `results.json`: the verdict for programs, with the explanations that people get.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Report;
use super::explain::told;
use super::headline::headline;
use super::story::{Incident, Story};
use crate::checker::{
    AnomalyKind, ClaimVerdict, Counts, Gate, KeyEnd, LockProperties, LostUpdates, MutualExclusion, Sentence, Validity,
    wilson_95,
};
use crate::history::Process;
use crate::words;

/// The content of the file; fields are written in this order.
#[derive(Serialize)]
struct Results<'a> {
    /// Whether the run was simulated; left out of a real one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    simulated: bool,
    /// `true`, `false` or `"unknown"`.
    valid: Validity,
    summary: String,
    reasons: &'a [String],
    /// Each claim with the evidence for it.
    claims: &'a [ClaimVerdict],
    lost_updates: LostUpdates,
    /// The final state of each key.
    keys: &'a [KeyEnd],
    /// The 95 % confidence interval of the share of lost updates; `null` if nothing was acknowledged.
    lost_95: Option<(f64, f64)>,
    mutual_exclusion: MutualExclusion,
    lock: &'a LockProperties,
    /// From the first operation to the first violation of what the workload claims; `null` if there was none.
    first_violation_s: Option<f64>,
    /// `null` if clients were never busy.
    acknowledged_per_second: Option<f64>,
    counts: Counts,
    faults: Faults,
    workload: Option<&'a str>,
    nemesis: Option<&'a str>,
    seed: Option<u64>,
    started: &'a str,
    /// How late a timer of the controller was at worst while clients worked: if it is a good part of the TTL, the machine
    /// was too busy for the plan's times.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated_at_line: Option<u64>,
    gates: &'a [Gate],
    anomalies: Vec<Told<'a>>,
    image: &'a str,
    client: &'a str,
    versions: &'a BTreeMap<String, String>,
    repeat: &'a str,
}

/// How many faults reached each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    pub planned: u64,
    pub injected: u64,
    pub observed: u64,
    pub healed: u64,
    pub skipped: u64,
}

#[derive(Serialize)]
struct Told<'a> {
    kind: AnomalyKind,
    key: &'a str,
    time_s: f64,
    /// The report tells the anomalies of one incident together; counted from 1, as there.
    incident: usize,
    /// Indices of the `invoke` events in `history.jsonl`.
    operations: &'a [u64],
    clients: Vec<String>,
    fault: Option<u32>,
    lost: &'a [u64],
    /// Whether it contradicts what the workload claims.
    claimed: bool,
    text: &'a str,
    /// Indices of the events in `history.jsonl` that the text follows from.
    lines: &'a [u64],
}

/// The content of `results.json`.
pub fn results_json(report: &Report) -> String {
    let story = Story::new(report);
    let verdict = report.verdict;
    let texts: Vec<(String, Vec<u64>)> =
        story.incidents.iter().map(|incident| text_and_lines(&story, incident)).collect();
    let mut anomalies: Vec<Told> = Vec::new();
    for (number, (incident, (text, lines))) in story.incidents.iter().zip(&texts).enumerate() {
        for anomaly in &incident.anomalies {
            let processes = anomaly.operations.iter().filter_map(|index| story.operation(*index));
            anomalies.push(Told {
                kind: anomaly.kind,
                key: &anomaly.key,
                time_s: (anomaly.time as f64 / 1e3).round() / 1e6,
                incident: number + 1,
                operations: &anomaly.operations,
                clients: processes.map(|operation| story.name(operation.process)).collect(),
                fault: anomaly.fault,
                lost: &anomaly.lost,
                claimed: story.breaks(anomaly.kind),
                text,
                lines,
            });
        }
    }
    anomalies.sort_by(|one, other| one.time_s.total_cmp(&other.time_s));
    let results = Results {
        simulated: story.is_simulated(),
        valid: verdict.valid,
        summary: headline(report),
        reasons: &verdict.reasons,
        claims: &verdict.claims,
        lost_updates: verdict.lost_updates,
        keys: &verdict.keys,
        lost_95: wilson_95(verdict.lost_updates.count, verdict.lost_updates.acknowledged),
        mutual_exclusion: verdict.mutual_exclusion,
        lock: &verdict.lock,
        first_violation_s: first_violation_s(&story),
        acknowledged_per_second: per_second(&story),
        counts: verdict.counts,
        faults: faults(&story),
        workload: story.workload(),
        nemesis: story.nemesis(),
        seed: story.seed(),
        started: story.started(),
        late_ms: report.facts.late_ms,
        truncated_at_line: report.history.truncated_at_line,
        gates: &verdict.gates,
        anomalies,
        image: &report.facts.image,
        client: story.client(),
        versions: &report.facts.versions,
        repeat: &report.facts.repeat,
    };
    let mut text = serde_json::to_string_pretty(&results).expect("results have string keys only");
    text.push('\n');
    text
}

/// What an incident's text is, and which lines it follows from.
fn text_and_lines(story: &Story, incident: &Incident) -> (String, Vec<u64>) {
    let sentences = told(story, incident);
    let mut lines: Vec<u64> = sentences.iter().flat_map(Sentence::lines).copied().collect();
    lines.sort_unstable();
    lines.dedup();
    (sentences.iter().map(Sentence::text).collect::<Vec<&str>>().join(" "), lines)
}

/// How many of the run's faults reached each stage.
pub fn faults(story: &Story) -> Faults {
    let faults = &story.report.history.faults;
    let count = |matches: &dyn Fn(&crate::history::FaultWindow) -> bool| {
        faults.iter().filter(|fault| matches(fault)).count() as u64
    };
    Faults {
        planned: faults.len() as u64,
        injected: count(&|fault| fault.injected.is_some()),
        observed: count(&|fault| fault.was_observed()),
        healed: count(&|fault| fault.was_healed()),
        skipped: count(&|fault| fault.skipped.is_some()),
    }
}

/// `5 pauses: 5 observed, 5 healed`, and whatever fell short.
pub fn faults_in_words(story: &Story) -> String {
    let faults = faults(story);
    if faults.planned == 0 {
        return "none".to_string();
    }
    let mut text = format!(
        "{} injected, {} observed, {} healed",
        words::count(faults.injected),
        words::count(faults.observed),
        words::count(faults.healed)
    );
    if faults.skipped > 0 {
        text.push_str(&format!(", {} skipped", words::count(faults.skipped)));
    }
    text
}

/// Acknowledged client operations per second of the time in which clients were busy.
pub fn per_second(story: &Story) -> Option<f64> {
    let acknowledged = (story.client_operations())
        .filter(|operation| operation.process != Process::Controller)
        .filter(|operation| operation.outcome == crate::history::Outcome::Ok)
        .count();
    let seconds = story.busy_seconds();
    (seconds > 0.0).then(|| acknowledged as f64 / seconds)
}

/// From the first operation of a client to the first anomaly that contradicts what the workload claims, in seconds.
fn first_violation_s(story: &Story) -> Option<f64> {
    let anomalies = &story.report.verdict.anomalies;
    let claimed = anomalies.iter().filter(|anomaly| story.breaks(anomaly.kind));
    let first = claimed.map(|anomaly| anomaly.time).min()?;
    let began = story.client_operations().map(|operation| operation.invoked).min().unwrap_or(0);
    Some(first.saturating_sub(began) as f64 / 1e9)
}
