//! The incidents as reports show them: each with its sentences, a short text for tables, and its anomalies.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::explain::narrate;
use super::numbers::Faults;
use super::remedies::{RemediesSoFar, Remedy, remedies};
use super::story::{Incident, Story};
use super::told::Told;
use base::members::Role;
use base::words::{list, plural, sanitize};
use checker::{Anomaly, AnomalyKind, HowKind, Sentence, Validity};

/// The note if clients' stamps could not be converted to run time.
pub(super) const WITHOUT_CLOCK: &str = "The clocks of clients and controller could not be compared. So each time is when the \
    controller read a client's report.";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncidentAccount {
    /// The event in a few words.
    pub what: String,
    pub key: String,
    /// When it became visible, in nanoseconds of run time.
    pub time: u64,
    /// True if it contradicts a claim of the workload.
    pub claimed: bool,
    /// True if two clients held the lock at once, and the resource prevented harm.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub harmless: bool,
    /// The defect of the lock, if the nodes' commands prove it for this incident.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Told>,
    /// Defects that ended other locks of this incident.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Told>,
    /// The course of events. Values are in backticks.
    pub sentences: Vec<Sentence>,
    /// The clients involved: `c1, c3 and 2 more`.
    pub clients: String,
    /// The mechanism, if it is certain.
    pub how: Option<HowKind>,
    pub fault: Option<Explanation>,
    /// Acknowledged updates that were lost, as indices of their `invoke` events.
    pub lost: Vec<u64>,
    /// Changes that would have prevented it, as far as the catalogue has tried them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
    /// Plausible changes that would not have prevented it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_remedies: Vec<String>,
}

/// A fault that explains an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    pub fault: u32,
    /// `pause of c1`.
    pub text: String,
}

/// At most this many targets of a fault are named; others are counted.
const MOST_TARGETS: usize = 5;

impl IncidentAccount {
    pub(super) fn new(story: &Story, incident: &Incident, known: &RemediesSoFar) -> IncidentAccount {
        let (remedies, no_remedies) = remedies(story, incident, known);
        IncidentAccount {
            what: what(incident),
            key: incident.key.to_string(),
            time: incident.time,
            claimed: incident.claimed,
            harmless: story.harmless(incident).is_some(),
            diagnosis: None,
            also: Vec::new(),
            sentences: narrate(story, incident, Vec::new()),
            clients: clients(story, incident),
            how: incident.how().map(|how| how.kind),
            fault: incident.fault.map(|fault| {
                // A fault at a call may list several servers, but it interrupts only one call. So only its clients are named.
                let of_clients = || fault.targets.iter().filter(|target| Role::of(target) == Some(Role::Client));
                let names_clients = fault.kind.is_at_command() && of_clients().next().is_some();
                let whom: Vec<&String> =
                    if names_clients { of_clients().collect() } else { fault.targets.iter().collect() };
                let mut targets: Vec<String> = whom.into_iter().map(|target| sanitize(target, 20)).collect();
                let more = targets.len().saturating_sub(MOST_TARGETS);
                targets.truncate(MOST_TARGETS);
                targets.extend((more > 0).then(|| format!("{more} more")));
                let text = format!("{} of {}", fault.kind.says.name, list(&targets));
                Explanation { fault: fault.fault, text }
            }),
            lost: incident.lost.clone(),
            remedies,
            no_remedies,
        }
    }

    /// The diagnoses of the incident.
    pub fn told(&self) -> impl Iterator<Item = &Told> {
        self.diagnosis.iter().chain(&self.also)
    }

    /// Why it does not decide the verdict, in two words. None if it does.
    pub fn aside(&self) -> Option<&'static str> {
        match (self.claimed, self.harmless) {
            (true, _) => None,
            (false, true) => Some("harmless here"),
            (false, false) => Some("not claimed"),
        }
    }

    /// All sentences in one line.
    pub fn text(&self) -> String {
        self.sentences.iter().map(Sentence::text).collect::<Vec<&str>>().join(" ")
    }

    /// The lines of the history that the sentences follow from, in order.
    pub fn lines(&self) -> Vec<u64> {
        let mut lines: Vec<u64> = self.sentences.iter().flat_map(Sentence::lines).copied().collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }
}

/// An anomaly, and the incident that describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnomalyAccount {
    pub kind: AnomalyKind,
    pub key: String,
    pub time_s: f64,
    /// The number of its incident, counted from 1, as on the page.
    pub incident: usize,
    /// Indices of the `invoke` events in `history.jsonl`.
    pub operations: Vec<u64>,
    pub clients: Vec<String>,
    pub fault: Option<u32>,
    pub lost: Vec<u64>,
    /// True if it contradicts a claim of the workload.
    pub claimed: bool,
    /// Its incident's sentences.
    pub text: String,
    /// Indices of the events in `history.jsonl` that the text follows from. If there are more than a thousand, only those of
    /// the operations above.
    pub lines: Vec<u64>,
}

/// Limits the repeated lines: an incident may have an anomaly for each operation of the run.
const MOST_LINES: usize = 1000;

/// All anomalies, ordered by time.
pub(super) fn anomalies(story: &Story, accounts: &[IncidentAccount]) -> Vec<AnomalyAccount> {
    let mut anomalies = Vec::new();
    for (number, (incident, account)) in story.incidents.iter().zip(accounts).enumerate() {
        let (text, lines) = (account.text(), account.lines());
        let lines_of = |anomaly: &Anomaly| {
            if lines.len() <= MOST_LINES {
                return lines.clone();
            }
            let operations = anomaly.operations.iter().filter_map(|index| story.operation(*index));
            let mut own: Vec<u64> = operations
                .flat_map(|one| {
                    let phases = one.phases.iter().map(|stamp| stamp.index);
                    [one.index].into_iter().chain(phases).chain(one.completed_index)
                })
                .collect();
            own.retain(|line| lines.binary_search(line).is_ok());
            own.sort_unstable();
            own.dedup();
            own
        };
        anomalies.extend(incident.anomalies.iter().map(|anomaly| AnomalyAccount {
            kind: anomaly.kind,
            key: anomaly.key.clone(),
            time_s: (anomaly.time as f64 / 1e3).round() / 1e6,
            incident: number + 1,
            operations: anomaly.operations.clone(),
            clients: story.names(&anomaly.operations),
            fault: anomaly.fault,
            lost: anomaly.lost.clone(),
            claimed: story.breaks(anomaly.kind),
            text: text.clone(),
            lines: lines_of(anomaly),
        }));
    }
    anomalies.sort_by(|one, other| one.time_s.total_cmp(&other.time_s));
    anomalies
}

pub(super) fn title(story: &Story) -> &'static str {
    match story.incidents.iter().any(|incident| incident.claimed) || story.incidents.is_empty() {
        true => "What happened",
        false if story.refusal().is_some() => "Seen, but harmless here",
        false => "Violated, but not claimed",
    }
}

/// The text for a run without an incident.
pub(super) fn nothing_wrong(story: &Story) -> String {
    if story.subject.verdict.valid == Validity::Unknown {
        return "No violation was seen, but this run proves nothing.".to_string();
    }
    let observed = Faults::new(story.subject.history).observed;
    let all = plural(story.subject.verdict.lost_updates.acknowledged, "acknowledged update");
    match (story.subject.verdict.lost_updates.acknowledged, observed) {
        (0, 0) => "Nothing: no claim was violated. No fault was in effect.".to_string(),
        (0, faults) => format!("Nothing: no claim was violated, during {}.", plural(faults, "observed fault")),
        (_, 0) => format!("Nothing: all {all} are accounted for. No fault was in effect."),
        (_, faults) => format!("Nothing: all {all} are accounted for, during {}.", plural(faults, "observed fault")),
    }
}

/// The incident in a few words: its cost, or else what was observed.
fn what(incident: &Incident) -> String {
    let lost = incident.lost.len() as u64;
    // If a client's own write in flight erased its update, the update does not count as lost.
    if lost > 0 && (incident.has(AnomalyKind::LostUpdate) || !incident.has(AnomalyKind::WriteInFlight)) {
        return format!("{} lost", plural(lost, "acknowledged update"));
    }
    let is_common = |kind: &AnomalyKind| matches!(kind, AnomalyKind::LostUpdate | AnomalyKind::OverlappingHolders);
    let kinds = || incident.anomalies.iter().map(|anomaly| anomaly.kind);
    let special = kinds().find(|kind| !is_common(kind) && !incident.has(AnomalyKind::LostUpdate));
    match special.or(kinds().min()).unwrap_or(AnomalyKind::OverlappingHolders) {
        AnomalyKind::OverlappingHolders if incident.overlaps().iter().any(|holders| holders.len() > 2) => {
            "One holder too many".to_string()
        }
        kind => kind.def().incident.to_string(),
    }
}

fn clients(story: &Story, incident: &Incident) -> String {
    let mut seen = HashSet::new();
    let clients = incident.operations.iter().map(|operation| story.name(operation.process));
    let mut names: Vec<String> =
        clients.filter(|name| seen.insert(name.clone())).map(|name| sanitize(&name, 20)).collect();
    if names.len() > 4 {
        let more = names.len() - 3;
        names.truncate(3);
        names.push(format!("{more} more"));
    }
    list(&names)
}
