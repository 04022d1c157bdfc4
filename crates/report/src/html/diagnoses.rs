//! The diagnoses: the lock's defects, the rules that they break, and the fixes.

use maud::{Markup, html};

use super::{command, prose};
use base::words::{capital, moment, plural, sanitize};
use checker::Validity;
use summary::{Diagnosis, DiagnosisAccount, KeyEvent, RunSummary};

/// At most this many incidents of a diagnosis are linked.
const LINKED: usize = 8;

pub fn diagnoses(summary: &RunSummary) -> Markup {
    let is_valid = summary.valid == Validity::Valid;
    // A write that the resource refuses in a valid run does no harm.
    let outcome = (is_valid, summary.refusal.as_deref().filter(|_| is_valid));
    let (harmful, latent): (Vec<&DiagnosisAccount>, Vec<&DiagnosisAccount>) =
        summary.diagnoses.iter().partition(|account| account.diagnosis.is_harmful());
    html! {
        @if !summary.diagnoses.is_empty() {
            section id="diagnoses" {
                h2 { (if is_valid { "Seen, but harmless here" } else { "Cause" }) @if summary.diagnoses.len() > 1 { " " span class="count" { (plural(summary.diagnoses.len() as u64, "defect")) } } }
                @for (place, account) in harmful.iter().chain(&latent).enumerate() {
                    @if place == 0 { (in_full(account, outcome)) } @else { (folded(account, outcome)) }
                }
            }
        }
    }
}

/// A diagnosis with its rule and its fix. If the resource of a valid run refuses late writes, there is nothing to change.
fn in_full(account: &DiagnosisAccount, (is_valid, refusal): (bool, Option<&str>)) -> Markup {
    let Diagnosis { code, name, title, rule, source, fix, commands, right, inherent, .. } = &account.diagnosis;
    html! {
        article id=(code) class={ "case" @if !account.diagnosis.is_harmful() { " unclaimed" } } {
            h3 { span class="number" { (code) } (title.trim_end_matches('.')) span class="when" { (name) } }
            p { b { (prose(&sanitize(account.sentence(), 400))) } }
            @if let Some(known) = &account.known { p { (prose(&sanitize(known, 600))) } }
            @if *inherent { p class="note" { (summary::INHERENT) } }
            @if let Some(refusal) = refusal.filter(|_| *inherent) {
                h4 { "Nothing to change here" }
                p { (capital(refusal)) "." }
            } @else {
                h4 {
                    @if !inherent { "What to change in the lock" }
                    @else if is_valid { "How this stays harmless" }
                    @else { "What to change at the resource" }
                }
                p { (fix) }
                @for line in commands { (command(line)) }
            }
            @if let Some(right) = right.as_ref().filter(|_| refusal.is_none() || !inherent) { p class="fine" { @if *inherent { "A built-in lock and resource that prevent the harm:" } @else { "A built-in lock without this defect:" } } (command(right)) }
            details {
                summary { "The rule, and the commands that break it" }
                p { (rule) " " span class="fine" { (source) } }
                p class="fine" { "This follows with certainty from the commands that the nodes executed (commands.jsonl). The \
                    verdict does not depend on it." }
                (where_seen(account))
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
