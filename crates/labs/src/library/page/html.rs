//! What was tried of a library, as a page to show to its maintainer.

use maud::{Markup, html};

use super::remarks::{FaultFree, fault_free, remarks};
use super::{broken, command, facts, headline, is_too_little, meaning, shows_little, shrunk, symptom, withstood};
use crate::library::examined::{Examined, ScenarioOutcome, Symptom, Tried};
use base::words::{line, sanitize};
use report::html::{address, header, prose, whole_page};

/// Names of scenarios stay whole where there is room.
const STYLE: &str = "@media (min-width: 60rem) { td:first-child { white-space: nowrap } }";

/// The page; its links lead to the reports of the runs.
pub fn html(examined: &Examined) -> String {
    let symptoms = examined.symptoms();
    let fault_free = fault_free(examined);
    let own = symptoms.iter().any(|symptom| !symptom.of_its_kind.is_inherent());
    let first = fault_free.first();
    let (word, class) = match (symptoms.is_empty(), own) {
        (_, true) => ("FALLS", "invalid"),
        (false, false) => ("AS ITS KIND", "unknown"),
        (true, false) if examined.that(ScenarioOutcome::Withstood).is_empty() => ("UNKNOWN", "unknown"),
        (true, false) if first.is_none() && (shows_little(examined) || is_too_little(examined)) => {
            ("HARDLY TRIED", "unknown")
        }
        (true, false) if first.is_none() && !remarks(examined).is_empty() => ("OTHER DEFECTS", "unknown"),
        (true, false) => first.map_or(("WITHSTANDS", "valid"), |remark| (remark.word, "unknown")),
    };
    let body = html! {
        main {
            (header(class, &["everything that was tried of one library"], word, &html! { (prose(&headline(examined))) "." }, &html! {}))
            @if !fault_free.is_empty() {
                section id="by-itself" {
                    h2 { "What it does by itself" }
                    @for FaultFree { what, run, .. } in &fault_free {
                        p { (what) "." br; code { (run.repeat) } br; a href=(address(&format!("{}/report.html", run.folder))) { "Its report" } }
                    }
                }
            }
            @for alike in symptoms.chunk_by(|one, other| meaning(one, examined) == meaning(other, examined)) {
                section {
                    h2 { (prose(&meaning(&alike[0], examined))) }
                    @for symptom in alike { (broke(symptom, examined)) }
                }
            }
            (found(examined))
            (held(examined))
            (remarked(examined))
            (nothing(examined))
            section id="sends" {
                h2 { "What it sends" }
                table {
                    thead { tr { th { "command" } th { "when" } th { "seen in" } } }
                    tbody { @for sent in &examined.sent { tr {
                        td { code { (sanitize(&command(sent), 300)) } }
                        td { (sent.when) }
                        td class="n" { (sent.operations) " operations" }
                    } } }
                }
            }
            section id="made" {
                h2 { "How it was made" }
                table class="pairs" { tbody {
                    @for (name, text) in facts(examined) { tr { th { (name) } td { (prose(&text)) } } }
                    tr { th { "again" } td { code { "redjepsen library " (examined.workload) } } }
                } }
            }
        }
    };
    whole_page(&[&examined.name], STYLE, &body)
}

/// What breaks it in one way.
fn broke(group: &Symptom, examined: &Examined) -> Markup {
    html! {
        article class="case" {
            h3 { (prose(&symptom(group, examined))) }
            @if !group.account().is_empty() { p { (prose(&line(group.account(), 2_000))) } }
            table {
                thead { tr { th { "scenario" } th { "broken in" } th { "what happened" } } }
                tbody { @for tried in &group.tried { tr {
                    (name(tried))
                    td class="n" { (broken(tried)) }
                    td {
                        @if let Some(run) = tried.telling() {
                            (sanitize(&run.summary, 400))
                            @for struck in &run.struck { br; span class="fine" { (sanitize(&struck.to_string(), 300)) } }
                            br; code { (run.repeat) }
                        }
                    }
                } } }
            }
        }
    }
}

/// What is left of the scenarios that break it.
fn found(examined: &Examined) -> Markup {
    html! {
        @if !examined.found.is_empty() {
            section id="shrunk" {
                h2 { "As small as it could be made" }
                table {
                    thead { tr { th { "from" } th { "what is left" } th { "again" } } }
                    tbody { @for found in &examined.found { tr {
                        td { a href=(address(&found.file)) { (found.scenario) } }
                        td { (shrunk(found)) }
                        td { code { (found.repeat) } }
                    } } }
                }
            }
        }
    }
}

fn held(examined: &Examined) -> Markup {
    let held = examined.that(ScenarioOutcome::Withstood);
    html! {
        @if !held.is_empty() {
            section id="withstands" {
                h2 { "What it withstands" }
                table {
                    thead { tr { th { "scenario" } th { "what struck, and what it did" } } }
                    tbody { @for tried in held { tr {
                        (name(tried))
                        td {
                            (tried.description)
                            @let struck = withstood(tried);
                            @if !struck.is_empty() { br; span class="fine" { (sanitize(&struck, 400)) } }
                        }
                    } } }
                }
            }
        }
    }
}

/// What no claim is about.
fn remarked(examined: &Examined) -> Markup {
    html! {
        @for remarks in remarks(examined) {
            section id=(remarks.id) {
                h2 { (remarks.title) }
                table {
                    thead { tr { th { "scenario" } th { "what it did" } } }
                    tbody { @for (tried, what) in remarks.of { tr { (name(tried)) td { (what) } } } }
                }
            }
        }
    }
}

fn nothing(examined: &Examined) -> Markup {
    let nothing = examined.nothing_shown();
    html! {
        @if !nothing.is_empty() || !examined.not_about.is_empty() {
            section id="nothing" {
                h2 { "What shows nothing of it" }
                table {
                    thead { tr { th { "scenario" } th { "why" } } }
                    tbody {
                        @for (why, tried) in nothing { @for tried in tried { tr { (name(tried)) td { (sanitize(&why, 400)) } } } }
                        @for (name, why) in &examined.not_about { tr { td { (name) } td { (sanitize(why, 400)) } } }
                    }
                }
            }
        }
    }
}

/// The scenario, with a link to the report that shows it best.
fn name(tried: &Tried) -> Markup {
    html! {
        td {
            @match tried.telling() {
                Some(run) if !run.folder.is_empty() => a href=(address(&format!("{}/report.html", run.folder))) { (tried.scenario) },
                _ => (tried.scenario),
            }
        }
    }
}
