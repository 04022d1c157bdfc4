//! The incidents: the first ones told and drawn, the rest in a table.

use maud::{Markup, html};

use super::linear;
use super::prose;
use crate::checker::{AnomalyKind, Sentence, Validity};
use crate::report::counterexample::Counterexample;
use crate::report::explain::told;
use crate::report::results::faults;
use crate::report::story::{Incident, Story, fault_words};
use crate::report::{INCIDENTS_IN_FULL, incident};
use crate::words::{count, list, moment, plural, tame};

/// Longer tables are for programs, which have results.json.
const ROWS: usize = 200;
/// More lines than this nobody looks up; results.json has them all.
const CITED: usize = 24;

pub fn incidents(story: &Story) -> Markup {
    let total = story.incidents.len();
    // Harmless incidents are shown, but only two of them in full.
    let full = if story.incidents.iter().any(|incident| incident.claimed) { INCIDENTS_IN_FULL } else { 2 };
    let rest = total.saturating_sub(full);
    html! {
        section id="incidents" {
            h2 { (title(story)) @if total > 0 { " " span class="count" { (plural(total as u64, "incident")) } } }
            @if total == 0 { p class="none" { (nothing_wrong(story)) } }
            @for (number, incident) in story.incidents.iter().take(full).enumerate() {
                @let sentences = told(story, incident);
                @let told = sentences.iter().map(Sentence::text).collect::<Vec<_>>().join(" ");
                article class={ "case" @if !incident.claimed { " unclaimed" } } {
                    h3 {
                        span class="number" { (number + 1) }
                        (what(incident))
                        span class="when" { "key " (tame(incident.key, 40)) ", " (moment(incident.time)) }
                    }
                    p { (prose(&told)) }
                    @if let Some(drawing) = incident::inline(story, incident, &told.replace('`', "")) {
                        figure { (drawing) }
                    }
                    (cited(incident, &sentences))
                }
            }
            @if total > 0 {
                p class="fine" {
                    "Seconds since the run began. In the drawings time flows to the right, but moments close together are drawn apart. "
                    @if story.report.history.clock.is_none() {
                        "Without a measured bound on the clients' clock, times are those at which the controller read the clients' reports."
                    }
                }
            }
            @if rest > 0 {
                details {
                    summary { "The other " (plural(rest as u64, "incident")) }
                    table {
                        thead { tr { th { "#" } th { "time" } th { "key" } th { "what" } th { "clients" } th { "fault" } } }
                        tbody {
                            @for (number, incident) in story.incidents.iter().enumerate().skip(full).take(ROWS) {
                                tr {
                                    td class="n" { (number + 1) }
                                    td class="n" { (moment(incident.time)) }
                                    td { (tame(incident.key, 24)) }
                                    td { (what(incident)) @if !incident.claimed { " (not claimed)" } }
                                    td { (clients(story, incident)) }
                                    td { (fault(incident)) }
                                }
                            }
                        }
                    }
                    @if rest > ROWS { p class="fine" { (count((rest - ROWS) as u64)) " more in results.json." } }
                }
            }
        }
    }
}

/// The smallest argument for the verdict, which can be followed without clocks or locks.
pub fn minimal_counterexample(example: &Counterexample) -> Markup {
    html! {
        section id="minimal_counterexample" {
            h2 { "The smallest set of operations that no order explains" }
            p class="note" {
                "The shortest proof, which needs neither lock nor clock nor fault: these operations alone show that what the "
                "clients were told cannot all be true, whatever else happened in the run."
            }
            article class="case" { (linear::told(example)) }
        }
    }
}

fn title(story: &Story) -> &'static str {
    match story.incidents.iter().any(|incident| incident.claimed) || story.incidents.is_empty() {
        true => "What went wrong",
        false if story.resource_refuses() => "Seen, but harmless here",
        false => "Seen, but not claimed",
    }
}

fn nothing_wrong(story: &Story) -> String {
    let faults = faults(story);
    if story.report.verdict.valid == Validity::Unknown {
        return "No violation was seen, but this run proves nothing.".to_string();
    }
    match (story.report.verdict.lost_updates.acknowledged, faults.observed) {
        (0, _) => "Nothing to tell: no update was acknowledged.".to_string(),
        (all, 0) => {
            format!("Nothing: all {} are accounted for. No fault was in effect.", plural(all, "acknowledged update"))
        }
        (all, faults) => format!(
            "Nothing: all {} are accounted for, through {}.",
            plural(all, "acknowledged update"),
            plural(faults, "observed fault")
        ),
    }
}

/// The incident in a few words.
fn what(incident: &Incident) -> String {
    let others = incident
        .anomalies
        .iter()
        .map(|anomaly| anomaly.kind)
        .find(|kind| !matches!(kind, AnomalyKind::LostUpdate | AnomalyKind::OverlappingHolders));
    match (incident.lost.len() as u64, others) {
        (lost @ 1.., _) => format!("{} lost", plural(lost, "acknowledged update")),
        (0, _) if incident.has(AnomalyKind::LostUpdate) => "An update overwritten".to_string(),
        (0, Some(AnomalyKind::TokenRegress)) => "A token that does not rise".to_string(),
        (0, Some(AnomalyKind::NotObtained)) => "A free lock that nobody got".to_string(),
        (0, Some(AnomalyKind::WrongAmount)) => "A wrong amount".to_string(),
        (0, Some(AnomalyKind::WriteInFlight)) => "A lock released with a write still in flight".to_string(),
        (0, Some(AnomalyKind::AcquiredLate)) => "A lock acquired too late".to_string(),
        (0, Some(AnomalyKind::StaleRead)) => "A stale read".to_string(),
        (0, Some(AnomalyKind::ImpossibleRead)) => "An impossible read".to_string(),
        (0, Some(AnomalyKind::OrderViolation)) => "An order that contradicts real time".to_string(),
        _ => "Two holders at once".to_string(),
    }
}

fn clients(story: &Story, incident: &Incident) -> String {
    let mut names: Vec<String> =
        incident.operations.iter().map(|operation| tame(&story.name(operation.process), 20)).collect();
    names.dedup();
    if names.len() > 4 {
        let more = names.len() - 3;
        names.truncate(3);
        names.push(format!("{more} more"));
    }
    list(&names)
}

fn fault(incident: &Incident) -> String {
    let targets = |targets: &[String]| list(&targets.iter().take(5).map(|target| tame(target, 20)).collect::<Vec<_>>());
    incident
        .fault
        .map_or("–".to_string(), |fault| format!("{} of {}", fault_words(fault.kind).0, targets(&fault.targets)))
}

/// Where to find in the history what was told.
fn cited(incident: &Incident, sentences: &[Sentence]) -> Markup {
    let mut lines: Vec<u64> = sentences.iter().flat_map(Sentence::lines).copied().collect();
    lines.sort_unstable();
    lines.dedup();
    let shown: Vec<String> = lines.iter().take(CITED).map(u64::to_string).collect();
    html! {
        @if !lines.is_empty() {
            p class="fine" {
                "history.jsonl: what is told here follows from the lines with index " (list(&shown))
                @if lines.len() > CITED { ", …" }
                @if let Some(fault) = incident.fault { "; fault " (fault.fault) }
                "."
            }
        }
    }
}
