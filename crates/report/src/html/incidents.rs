//! The incidents: the first ones in words and drawn, the others in a table.

use maud::{Markup, html};

use super::diagnoses;
use super::linear;
use super::remedies::remedies;
use super::{figure, prose};
use crate::counterexample::Counterexample;
use crate::{INCIDENTS_IN_FULL, Pictures, Report, incident, incident_file, timeline};
use base::words::{count, list, moment, plural, sanitize};
use summary::{Incident, IncidentAccount, life_of_key};

/// At most this many incidents are in the table. results.json has all of them.
const ROWS: usize = 200;
/// At most this many lines of the history are cited. results.json has all of them.
const CITED: usize = 24;

/// Shows the first incident in full.
pub fn first(report: &Report, held: Option<&timeline::HeldKeys>) -> Markup {
    let summary = &report.summary;
    let total = summary.incidents.len();
    html! {
        section id="incidents" {
            h2 { (summary.incidents_title) @if total > 0 { " " span class="count" { (plural(total as u64, "incident")) } } }
            @if let Some(text) = &summary.no_incident { p class="none" { (text) } }
            @if total > 0 {
                (in_full(report, held, 0))
                p class="fine" {
                    @if total > 1 { a href="#others" { "The other " (plural(total as u64 - 1, "incident")) } ". " }
                    "Seconds since the run began. Time runs to the right; moments close together are drawn further apart. "
                    @if let Some(text) = &summary.times_text { (text) }
                }
            }
        }
    }
}

/// The other incidents: the next ones in full, the rest in a table.
pub fn others(report: &Report, held: Option<&timeline::HeldKeys>) -> Markup {
    let summary = &report.summary;
    let total = summary.incidents.len();
    // Harmless incidents are shown, but only two of them in full.
    let full = if summary.incidents.iter().any(|incident| incident.claimed) { INCIDENTS_IN_FULL } else { 2 };
    html! {
        @if total > 1 {
            section id="others" {
                h2 { "Other incidents" }
                @for number in 1..total.min(full) { (in_full(report, held, number)) }
                @if total > full { (rest(report, full)) }
            }
        }
    }
}

/// One incident, counted from 0: its drawing, what happened, and the lines of the history.
fn in_full(report: &Report, held: Option<&timeline::HeldKeys>, number: usize) -> Markup {
    let account = &report.summary.incidents[number];
    let text = account.text();
    let scene = incident::Scene::new(&report.story, &report.story.incidents[number], account);
    let is_drawn = scene.is_some();
    // The section on the cause comes before the first incident.
    let is_told = |sentence: &str| {
        number == 0 && report.summary.diagnoses.first().is_some_and(|account| account.sentence() == sentence)
    };
    let remedies = if number == 0 && diagnoses::is_unexplained(&report.summary) {
        html! {}
    } else {
        remedies(account)
    };
    html! {
        article id={ "incident-" (number + 1) } class={ "case" @if !account.claimed { " unclaimed" } } {
            h3 {
                span class="number" { (number + 1) }
                (account.what)
                span class="when" { "key " (sanitize(&account.key, 40)) ", from " (moment(account.time)) }
            }
            @for told in account.told().filter(|told| !is_told(&told.sentence)) {
                p { a href={ "#" (told.code) } { (told.code) } " " b { (prose(&sanitize(&told.sentence, 400))) } }
            }
            @if let Some(scene) = scene { (figure(&incident::draw(&scene, &text.replace('`', ""), false))) }
            p { (prose(&text)) }
            @if let Some(place) = timeline::place_of(report, number) { a class="jump" href={ "#" (place) } { "Show on the time axis" } }
            @if is_drawn { (picture(report.pictures, number)) }
            // If the page already names a fix, the remedies are only details.
            @let is_folded = account.diagnosis.is_some() && !account.remedies.is_empty();
            @if !is_folded { (remedies) }
            div class="folds" {
                @if is_folded { details { summary { "What would have prevented it" } (remedies) } }
                details {
                    summary { "Evidence" }
                    (cited(account))
                    @let (events, left_out) = life_of_key(&report.story, &report.story.incidents[number]);
                    (diagnoses::biography(&events, left_out))
                    @if let Some(held) = held { (of_nodes(held, &report.story.incidents[number])) }
                }
            }
        }
    }
}

/// A link to the drawing's file.
fn picture(pictures: Pictures, number: usize) -> Markup {
    let (kind, title) = match pictures {
        Pictures::Painted => ("png", "Picture (PNG)"),
        Pictures::OnPageOnly => ("svg", "Picture (SVG)"),
    };
    html! { a class="jump" href=(incident_file(number, kind)) { (title) } }
}

fn of_nodes(held: &timeline::HeldKeys, incident: &Incident) -> Markup {
    html! {
        h4 { "What the nodes held" }
        dl class="nodes" {
            @for same in held.during(incident) { dt { (same.nodes) } dd { (prose(&same.text)) } }
        }
        p class="fine" { "The nodes reported this; the verdict does not depend on it. " (held.how()) }
    }
}

fn rest(report: &Report, full: usize) -> Markup {
    let incidents = &report.summary.incidents;
    let rest = incidents.len() - full;
    html! {
        details {
            summary { "The other " (plural(rest as u64, "incident")) }
            table {
                thead { tr { th { "#" } th { "time" } th { "key" } th { "what" } th { "clients" } th { "fault" } } }
                tbody {
                    @for (number, incident) in incidents.iter().enumerate().skip(full).take(ROWS) {
                        tr {
                            td class="n" { (number + 1) }
                            td class="n" {
                                @match timeline::place_of(report, number) {
                                    Some(place) => a href={ "#" (place) } { (moment(incident.time)) },
                                    None => (moment(incident.time)),
                                }
                            }
                            td { (sanitize(&incident.key, 24)) }
                            td { (incident.what) @if let Some(aside) = incident.aside() { " (" (aside) ")" } }
                            td { (incident.clients) }
                            td { (incident.fault.as_ref().map_or("–", |fault| &fault.text)) }
                        }
                    }
                }
            }
            @if rest > ROWS { p class="fine" { (count((rest - ROWS) as u64)) " more in results.json." } }
        }
    }
}

/// The smallest proof of the verdict. Readers can follow it without clocks or locks.
pub fn minimal_counterexample(example: &Counterexample) -> Markup {
    html! {
        section id="minimal_counterexample" {
            h2 { "The smallest set of operations that no order explains" }
            p class="note" {
                "The shortest proof. It needs no lock, clock or fault: these operations alone show that the answers "
                "to the clients cannot all be true, whatever else happened in the run."
            }
            article class="case" { (linear::told(example)) }
        }
    }
}

/// The lines of the history that the text is based on.
fn cited(account: &IncidentAccount) -> Markup {
    let lines = account.lines();
    let shown: Vec<String> = lines.iter().take(CITED).map(u64::to_string).collect();
    html! {
        @if !lines.is_empty() {
            p class="fine" {
                "This follows from the lines of history.jsonl with index " (list(&shown))
                @if lines.len() > CITED { ", …" }
                @if let Some(fault) = &account.fault { "; fault " (fault.fault) }
                "."
            }
        }
    }
}
