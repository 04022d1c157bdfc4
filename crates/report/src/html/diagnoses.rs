//! The diagnoses: the lock's defects, the rules that they break, and the fixes.

use maud::{Markup, html};

use super::{command, prose};
use crate::Report;
use base::words::{capital, list, moment, plural, sanitize};
use checker::Validity;
use summary::{Diagnosis, DiagnosisAccount, KeyEvent, RunSummary};

/// At most this many incidents of a diagnosis are linked.
const LINKED: usize = 8;

/// The heading of the diagnoses.
pub fn title(summary: &RunSummary) -> &'static str {
    let is_prevented = |account: &DiagnosisAccount| account.diagnosis.inherent && account.diagnosis.is_harmful();
    match summary.valid {
        Validity::Invalid | Validity::Unknown => "Cause",
        Validity::Valid if summary.refusal.is_some() && summary.diagnoses.iter().any(is_prevented) => {
            "What the resource prevented"
        }
        Validity::Valid => "Defects that did no harm here",
    }
}

/// True if the page has a section on causes.
pub fn is_shown(summary: &RunSummary) -> bool {
    !summary.diagnoses.is_empty() || is_unexplained(summary)
}

/// True if the run has a violation that no diagnosis explains.
pub fn is_unexplained(summary: &RunSummary) -> bool {
    summary.valid == Validity::Invalid && summary.diagnoses.is_empty()
}

pub fn diagnoses(report: &Report) -> Markup {
    let summary = &report.summary;
    let is_valid = summary.valid == Validity::Valid;
    // A write that the resource refuses in a valid run does no harm.
    let outcome = (is_valid, summary.refusal.as_deref().filter(|_| is_valid));
    let (harmful, latent): (Vec<&DiagnosisAccount>, Vec<&DiagnosisAccount>) =
        summary.diagnoses.iter().partition(|account| account.diagnosis.is_harmful());
    let limits = summary.diagnoses.iter().filter(|account| account.diagnosis.inherent).count();
    let defects = summary.diagnoses.len() - limits;
    let counted = [(defects, "defect"), (limits, "limitation of every lock with a TTL")];
    let counted = counted.into_iter().filter(|(number, _)| *number > 0);
    let counted: Vec<String> = counted.map(|(number, what)| format!("{number} {what}")).collect();
    html! {
        @if is_shown(summary) {
            section id="diagnoses" {
                h2 { (title(summary)) @if summary.diagnoses.len() > 1 { " " span class="count" { (list(&counted)) } } }
                @for (place, account) in harmful.iter().chain(&latent).enumerate() {
                    @if place == 0 { (in_full(account, outcome)) } @else { (folded(account, outcome)) }
                }
                @if is_unexplained(summary) { (unexplained(report)) }
            }
        }
    }
}

/// A violation without a diagnosis: why there is none, and what would have prevented its first incident.
fn unexplained(report: &Report) -> Markup {
    let summary = &report.summary;
    let why = match () {
        () if summary.unlocked => "This run has no lock whose defect could be named.",
        () if report.story.permits() > 1 => "redjepsen names no defects of locks with more than one holder.",
        () if !report.story.has_commands() => {
            "redjepsen names a defect only if the nodes' commands prove it; this run has none recorded."
        }
        () => "The nodes' commands prove none of the defects that redjepsen knows.",
    };
    let first = summary.incidents.first();
    let is_explained = first.is_some_and(|first| first.how.is_some() || first.fault.is_some());
    let with_remedies = first.filter(|first| !first.remedies.is_empty() || !first.no_remedies.is_empty());
    html! {
        article class="case" {
            h3 { @if is_explained { "No defect of the lock is known" } @else { "No cause is known" } }
            p { (why) }
            @match with_remedies {
                Some(first) => (super::remedies::remedies(first)),
                None => p { "redjepsen has no remedy. Compare the first incident below, step by step, with the lock's code." },
            }
        }
    }
}

/// A diagnosis with its rule and its fix. If the resource of a valid run refuses late writes, there is nothing to change.
fn in_full(account: &DiagnosisAccount, (is_valid, refusal): (bool, Option<&str>)) -> Markup {
    let Diagnosis { code, name, title, rule, source, fix, commands, right, inherent, .. } = &account.diagnosis;
    let is_prevented = refusal.is_some() && *inherent;
    let commands = html! { @if !commands.is_empty() { (command(&commands.join("\n"))) } };
    html! {
        article id=(code) class={ "case" @if is_valid || !account.diagnosis.is_harmful() { " unclaimed" } } {
            h3 { span class="number" { (code) } (title.trim_end_matches('.')) }
            p { b { (prose(&sanitize(account.sentence(), 400))) } }
            // The catalogue's entry already says that it is a limitation.
            @if let Some(known) = &account.known { p { (prose(&sanitize(known, 600))) } }
            @else if *inherent { p class="note" { (summary::INHERENT) } }
            @if let Some(refusal) = refusal.filter(|_| *inherent) {
                h4 { "Nothing to change here" }
                p { (capital(refusal)) "." }
            } @else {
                h4 {
                    @if !inherent { "What to change in the lock" }
                    @else if is_valid { "How this stays harmless" }
                    @else { "What to change" }
                }
                p { (fix) }
                @if !inherent { (commands) }
            }
            @if let Some(right) = right.as_ref().filter(|_| !is_prevented) {
                div class="try" {
                    span class="fine" { @if *inherent { "This lock and resource prevent the harm:" } @else { "This lock is without the defect:" } }
                    (command(right))
                }
            }
            div class="folds" {
                @if *inherent && !is_prevented {
                    details {
                        summary { "How to change it" }
                        (commands)
                        p class="fine" { "docs/which-lock.md says where fencing tokens come from, and which resource needs none." }
                    }
                }
                details {
                    summary { "The rule, and the commands that break it" }
                    p { (rule) " " span class="fine" { (source) } }
                    p class="fine" { "This follows with certainty from the commands that the nodes executed (commands.jsonl). The \
                        verdict does not depend on it. Name: " code { (name) } "." }
                    (where_seen(account))
                }
            }
        }
    }
}

/// A further diagnosis: its sentence, and details to unfold.
fn folded(account: &DiagnosisAccount, outcome: (bool, Option<&str>)) -> Markup {
    let Diagnosis { code, title, .. } = &account.diagnosis;
    html! {
        details {
            summary { b { (code) } " " (title) " " span class="fine" { (prose(&sanitize(account.sentence(), 300))) } }
            (in_full(account, outcome))
        }
    }
}

/// The number of places, the incidents, and the lines of commands.jsonl.
fn where_seen(account: &DiagnosisAccount) -> Markup {
    let lines = account.diagnosis.findings.first().map(|finding| &finding.commands[..]).unwrap_or_default();
    let lines: Vec<String> = lines.iter().map(u64::to_string).collect();
    html! {
        p class="fine" {
            (base::words::capital(&account.seen())) ". "
            @if account.diagnosis.left_out > 0 { "results.json lists the first " (account.diagnosis.findings.len()) " places. " }
            @if !account.incidents.is_empty() {
                "Explained in " @for (place, number) in account.incidents.iter().take(LINKED).enumerate() {
                    @if place > 0 { ", " } a href={ "#incident-" (number) } { "incident " (number) }
                }
                @if account.incidents.len() > LINKED { " and others" } ". "
            }
            @if !lines.is_empty() { "Lines of commands.jsonl: " (lines.join(", ")) "." }
        }
    }
}

/// The history of an incident's key.
pub fn biography(events: &[KeyEvent], left_out: usize) -> Markup {
    html! {
        @if !events.is_empty() {
            details {
                summary { "History of the key: " (plural(events.len() as u64, "command")) }
                table {
                    thead { tr { th { "time" } th { "node" } th { "what happened" } } }
                    tbody {
                        @for event in events {
                            tr { td class="n" { (moment(event.time)) } td { (event.node) } td { (prose(&sanitize(&event.text, 200))) } }
                        }
                    }
                }
                @if left_out > 0 { p class="fine" { (plural(left_out as u64, "more command")) " in commands.jsonl." } }
            }
        }
    }
}
