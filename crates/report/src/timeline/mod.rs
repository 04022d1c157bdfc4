//! The run as one timeline: clients, lock nodes and resource on a linear time axis that can be zoomed and moved. A searchable
//! table lists all operations.
//!
//! The page stays one file that needs nothing else. It contains the data, compressed, and a script of some hundred lines draws
//! it on a canvas. A charting library would be many times the size of script and data together. No known library shows a
//! client's belief beside the state of a server. The script inserts texts as plain text only, and the page's policy lets no
//! other script run.

mod data;
mod held;
mod lanes;
mod servers;

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use maud::{Markup, PreEscaped, html};

use self::data::Data;
pub(super) use self::held::HeldKeys;
pub(super) use self::lanes::Lanes;
use self::servers::{Owners, Servers};
use super::Report;
use base::words::{count, list, plural};

/// Includes the script that copies commands, which does not wait for the data.
pub(super) const SCRIPT: &str = concat!(include_str!("../html/copy.js"), include_str!("timeline.js"));
pub(super) const STYLE: &str = include_str!("timeline.css");

/// The time range of an incident, counted from 0, as the part of an address after `#`.
pub(super) fn place_of(report: &Report, incident: usize) -> Option<String> {
    let last = report.story.subject.history.last_time;
    let (from, to) = data::span(report.story.incidents.get(incident)?, last);
    Some(format!("t={:.3}-{:.3}", from as f64 / 1e9, to as f64 / 1e9))
}

/// The keys of the nodes, life by life. None if they were not recorded.
pub(super) fn servers(report: &Report, lanes: &Lanes) -> Option<Servers> {
    let artifacts = report.artifacts.filter(|artifacts| !artifacts.servers.is_empty())?;
    let run_ended = report.story.subject.history.last_time;
    Some(Servers::new(&artifacts.servers, &Owners::of(&report.story), lanes, run_ended))
}

/// The timeline with its table, which the script fills. Empty for a history without operations.
pub(super) fn timeline(report: &Report) -> Markup {
    let Some(data) = Data::new(report) else { return html! {} };
    let counted = data.counted_only() as u64;
    html! {
        section id="timeline" {
            h2 { "The run on a time axis" }
            p class="note" { (shown(report)) }
            @if report.story.has_nodes() && !data.has_servers() && !report.story.subject.history.operations.is_empty() {
                p class="fine" { (no_servers(report)) }
            }
            @if counted > 0 {
                p class="fine" {
                    "Reduced: the run has " (plural(data.total() as u64, "operation")) ", more than a page can show. \
                     Operations near "
                    "incidents and faults are drawn one by one; " (count(counted)) " others are only counted, per client and "
                    "stretch of time. history.jsonl has them all."
                }
            }
            noscript { p class="note" { "The timeline needs the script of this page, but your browser does not run it." } }
            div class="tl" hidden {
                div class="tl-bar" {
                    button type="button" data-do="all" title="Home" { "Whole run" }
                    button type="button" data-do="in" title="+" aria-label="Zoom in" { "+" }
                    button type="button" data-do="out" title="-" aria-label="Zoom out" { "−" }
                    button type="button" data-do="left" title="Arrow left" aria-label="Earlier" { "←" }
                    button type="button" data-do="right" title="Arrow right" aria-label="Later" { "→" }
                    button type="button" data-do="incident" { "Next incident" }
                    a class="tl-link" href="#timeline" { "Link to this view" }
                    button type="button" data-do="png" { "Save as PNG" }
                    span class="tl-range" role="status" {}
                }
                div class="tl-view" role="application" tabindex="0" aria-label="Timeline of the run" aria-describedby="tl-keys" {
                    canvas class="tl-map" aria-hidden="true" {}
                    canvas class="tl-main" aria-hidden="true" {}
                }
                p class="fine" id="tl-keys" {
                    "Drag to move, scroll with Ctrl (or click first) or pinch to zoom. Keys: arrows left and right move, + and - zoom, "
                    "Home shows all, arrows up and down choose a lane, n and p the next and previous item in it, i the next \
                     incident."
                }
                div class="tl-detail" aria-live="polite" { p class="none" { "Point at an item, or choose it with the keys, to \
                    see its lines of the history." } }
                ul class="tl-legend" {}
            }
        }
        section id="operations" {
            h2 { "Every operation " span class="count" { (plural(data.total() as u64, "operation")) } }
            div class="ops" hidden {
                div class="ops-bar" {
                    label { "Search " input type="search" class="ops-search" placeholder="value, key, error, index"; }
                    label { "Client " select class="ops-client" { option value="" { "all" } } }
                    label { "Outcome " select class="ops-outcome" { option value="" { "all" } option value="0" { "ok" } option value="1" { "fail" } option value="2" { "info" } } }
                    label { input type="checkbox" class="ops-lost"; " lost only" }
                    label { input type="checkbox" class="ops-view"; " in the timeline's view" }
                    button type="button" class="ops-csv" { "Download as CSV" }
                }
                p class="fine ops-count" role="status" {}
                div class="ops-scroll" tabindex="0" role="region" aria-label="Table of operations" {
                    table {
                        thead { tr {
                            th scope="col" { "index" } th scope="col" { "time" } th scope="col" { "client" } th scope="col" { "operation" }
                            th scope="col" { "key" } th scope="col" { "outcome" } th scope="col" { "read" } th scope="col" { "wrote" }
                            th scope="col" { "token" } th scope="col" { "held for" }
                        } }
                        tbody class="ops-rows" {}
                    }
                }
                div class="ops-pages" {
                    button type="button" class="ops-before" { "Earlier" }
                    button type="button" class="ops-after" { "Later" }
                }
            }
            noscript { p class="note" { "The script of this page fills the table. history.jsonl has every operation." } }
        }
        script type="application/json" id="timeline-data" { (PreEscaped(format!("\"{}\"", packed(&data)))) }
    }
}

/// The content of the timeline, as far as the run has it.
fn shown(report: &Report) -> String {
    let parts = [
        (true, "when each client believed that it held the lock"),
        (report.story.has_nodes(), "each node's reported keys"),
        (report.story.has_resource(), "the resource's reads and writes"),
    ];
    let parts: Vec<String> = parts.iter().filter(|(is_there, _)| *is_there).map(|(_, text)| text.to_string()).collect();
    format!("Shown: {}. Each client has a colour.", list(&parts))
}

/// Why the keys of the servers are not shown.
fn no_servers(report: &Report) -> String {
    match report.artifacts.and_then(|artifacts| artifacts.unread.as_ref()) {
        Some(why) => format!("The keys that the nodes held are not shown: {why}."),
        None => {
            "The keys that the nodes held were not recorded in this run, so their lanes show only roles and faults."
                .to_string()
        }
    }
}

/// The data as JSON, compressed, in base64. So it contains no markup.
fn packed(data: &Data) -> String {
    let json = serde_json::to_vec(data).unwrap_or_default();
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail.
    let packed = packed.write_all(&json).and_then(|()| packed.finish()).unwrap_or_default();
    STANDARD.encode(packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_ends_where_its_element_does_and_makes_no_markup() {
        for forbidden in
            ["</script", "<!--", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch("]
        {
            assert!(!SCRIPT.contains(forbidden), "{forbidden}");
        }
        assert!(SCRIPT.len() < 40_000, "kept small");
    }
}
