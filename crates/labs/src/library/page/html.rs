//! The results of a library as a page for its maintainer.

use maud::{Markup, html};

use super::defects::{Defect, defects};
use super::remarks::{FaultFree, fault_free, remarks};
use super::{broken, command, facts, headline, is_too_little, meaning, shows_little, shrunk, symptom, withstood};
use crate::library::examined::{Examined, Found, Symptom, Tried};
use base::words::{line, sanitize};
use checker::Validity;
use report::html::{address, facts_section, header, prose, table, table_section, whole_page};

/// If there is room, names of scenarios are not wrapped.
const STYLE: &str = "@media (min-width: 60rem) { td:first-child { white-space: nowrap } }";

/// The page. Its links lead to the reports of the runs.
pub fn html(examined: &Examined) -> String {
    let (symptoms, unexplained) = (examined.symptoms(), examined.unexplained());
    let fault_free = fault_free(examined);
    let own = symptoms.iter().any(|symptom| !symptom.of_its_kind.is_inherent());
    let first = fault_free.first();
    let (word, class) = match (symptoms.is_empty(), own) {
        (_, true) => ("FAILS", "invalid"),
        (false, false) => ("KNOWN LIMITATIONS", "unknown"),
        (true, false) if examined.that(Validity::Valid).is_empty() => ("UNKNOWN", "unknown"),
        (true, false) if first.is_none() && (shows_little(examined) || is_too_little(examined)) => {
            ("TOO FEW RUNS", "unknown")
        }
        (true, false) if first.is_none() && !remarks(examined).is_empty() => ("OTHER DEFECTS", "unknown"),
        (true, false) => first.map_or(("PASSES", "valid"), |remark| (remark.word, "unknown")),
    };
    let held = examined.that(Validity::Valid);
    let sends = examined.sent.iter().map(|sent| {
        html! { td { code { (sanitize(&command(sent), 300)) } } td { (sent.when) } td class="n" { (sent.operations) " operations" } }
    });
    let body = html! {
        main {
            (header(class, &["every scenario tried on one library"], word, &html! { (prose(&headline(examined))) "." }, &html! {}))
            @if !fault_free.is_empty() {
                section id="by-itself" {
                    h2 { "Without any fault" }
                    @for FaultFree { what, run, .. } in &fault_free {
                        p { (what) "." br; code { (run.repeat) } br; a href=(address(&format!("{}/report.html", run.folder))) { "Its report" } }
                    }
                }
            }
            (wrong(examined, "wrong", "Defects", false))
            (wrong(examined, "inherent", "Limitations of every lock with a TTL", true))
            @for alike in unexplained.chunk_by(|one, other| meaning(one, examined) == meaning(other, examined)) {
                section {
                    h2 { (prose(&meaning(&alike[0], examined))) }
                    @for symptom in alike { (broke(symptom, examined)) }
                }
            }
            (table_section("shrunk", "Minimal reproductions", &["from", "script", "fails in"], examined.found.iter().map(found)))
            (table_section("passes", "Scenarios that it passes", &["scenario", "fault, and its effect"], held.into_iter().map(held_row)))
            @for of_one in remarks(examined) {
                (table_section(of_one.id, of_one.title, &["scenario", "reaction of the library"], of_one.of.iter().map(|(tried, what)| html! { (name(tried)) td { (what) } })))
            }
            (table_section("nothing", "Inconclusive scenarios, and those left out", &["scenario", "why"], nothing(examined)))
            section id="sends" { h2 { "Commands of the library" } (table(&["command", "when", "seen in"], sends)) }
            (facts_section("made", "Setup", &facts(examined), &examined.repeat, &html! {}))
        }
    };
    whole_page(&[&examined.name], STYLE, &body)
}

/// Each defect once: what happened, what shows it, and what to change.
fn wrong(examined: &Examined, id: &str, title: &str, inherent: bool) -> Markup {
    let all = defects(examined);
    let all: Vec<&Defect> = all.iter().filter(|defect| defect.diagnosis.inherent == inherent).collect();
    html! {
        @if !all.is_empty() {
            section id=(id) {
                h2 { (title) " " span class="count" { (all.len()) } }
                @for defect in all {
                    article class="case" {
                        h3 { span class="number" { (defect.diagnosis.code) } (defect.diagnosis.title.trim_end_matches('.')) span class="when" { (defect.diagnosis.name) } }
                        p { b { (prose(&sanitize(defect.diagnosis.sentence(), 400))) } }
                        p { (defect.shown_by(examined)) ". " a href=(address(&format!("{}/report.html", defect.run.folder))) { "The report" } }
                        p { (defect.diagnosis.fix) }
                        @for line in &defect.diagnosis.commands { p { code { (line) } } }
                        p class="fine" {
                            code { (defect.run.repeat) }
                            @if let Some(right) = &defect.diagnosis.right { br; "To run a lock without this defect: " code { (right) } }
                        }
                    }
                }
            }
        }
    }
}

/// A symptom: how the lock breaks, and in which runs.
fn broke(group: &Symptom, examined: &Examined) -> Markup {
    let runs = group.tried.iter().map(|tried| {
        html! {
            (name(tried))
            td class="n" { (broken(tried)) }
            td {
                @if let Some(run) = tried.telling() {
                    (sanitize(&run.summary, 400))
                    @for struck in &run.struck { br; span class="fine" { (sanitize(&struck.to_string(), 300)) } }
                    br; code { (run.repeat) }
                }
            }
        }
    });
    html! {
        article class="case" {
            h3 { (prose(&symptom(group, examined))) }
            @if !group.account().is_empty() { p { (prose(&line(group.account(), 2_000))) } }
            (table(&["scenario", "failed in", "what happened"], runs))
        }
    }
}

/// A shrunk scenario that breaks the lock.
fn found(found: &Found) -> Markup {
    html! {
        td { a href=(address(&found.file)) { (found.scenario) } }
        td { (shrunk(found)) }
        td { code { (found.repeat) } }
    }
}

fn held_row(tried: &Tried) -> Markup {
    let struck = withstood(tried);
    html! {
        (name(tried))
        td {
            (tried.description)
            @if !struck.is_empty() { br; span class="fine" { (sanitize(&struck, 400)) } }
        }
    }
}

fn nothing(examined: &Examined) -> Vec<Markup> {
    let row = |name: Markup, why: &str| html! { (name) td { (sanitize(why, 400)) } };
    let nothing = examined.nothing_shown();
    let shown = nothing.iter().flat_map(|(why, all)| all.iter().map(move |tried| row(name(tried), why)));
    shown.chain(examined.not_about.iter().map(|(name, why)| row(html! { td { (name) } }, why))).collect()
}

/// The scenario's name, with a link to its most telling report.
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
