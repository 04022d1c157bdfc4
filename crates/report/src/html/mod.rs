//! `report.html`: one file without network access. Its only script draws the timeline and copies commands. The verdict with its
//! cause and fix comes first, then the first incident and the time axis, then the evidence. This module also has the common
//! parts of all pages.

mod contents;
mod diagnoses;
mod evidence;
mod incidents;
mod linear;
mod page;
mod remedies;
mod verdict;

pub use linear::linear_html;
use maud::{Markup, html};
pub use page::{Page, Script, command, figure, plot};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::drawing;
use super::{Report, timeline, verdict_word};
use base::words::sanitize;

pub fn html(report: &Report) -> String {
    let summary = &report.summary;
    let names: Vec<String> =
        [&summary.workload, &summary.nemesis].into_iter().flatten().map(|name| sanitize(name, 60)).collect();
    let (word, _) = verdict_word(summary.valid);
    let simulated = if summary.simulated { " (simulated)" } else { "" };
    let held = timeline::HeldKeys::of(report);
    let content = html! {
        (verdict::verdict(summary))
        (diagnoses::diagnoses(report))
        (contents::contents(summary))
        // Without incidents, the claims are the result.
        @if summary.incidents.is_empty() { (verdict::claims(summary)) }
        (incidents::first(report, held.as_ref()))
        (timeline::timeline(report))
        // Not printed.
        div class="evidence" {
            (incidents::others(report, held.as_ref()))
            @if let Some(minimal_counterexample) = report.minimal_counterexample { (incidents::minimal_counterexample(minimal_counterexample)) }
            @if !summary.incidents.is_empty() { (verdict::claims(summary)) }
            (evidence::plots(report.plots()))
            (evidence::gates(summary))
            (evidence::advisories(summary))
            (evidence::terms(summary))
            (evidence::setting(summary))
            (evidence::faults(summary))
            (evidence::repeat(summary))
        }
        p class="printed" { "The page on the screen also has the other incidents, the evidence and the setting." }
    };
    let style = format!("{}{}", drawing::STYLE, timeline::STYLE);
    let title = [&format!("{word}{simulated}")[..], &names.join(" · ")];
    Page { title: &title, style: &style, script: Script::new(timeline::SCRIPT), body: &html! { main { (content) } } }
        .text()
}

/// A page without a script of its own. Its title consists of these words and `redjepsen`. `style` is added to the common one.
pub fn whole_page(title: &[&str], style: &str, body: &Markup) -> String {
    Page { title, style, script: Script::NONE, body }.text()
}

/// A path as an address. A browser cannot read it as another kind of address.
pub fn address(path: &str) -> String {
    const KEPT: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'/');
    utf8_percent_encode(path, &KEPT).to_string()
}

/// The top of a page: its subject, the verdict as a word and as a sentence, and other important facts.
pub fn header(class: &str, about: &[&str], word: &str, headline: &Markup, more: &Markup) -> Markup {
    html! {
        header class={ "verdict " (class) } {
            p class="about" { b { "redjepsen" } @for part in about { span { (part) } } }
            h1 { (word) }
            p class="headline" { (headline) }
            (more)
        }
    }
}

/// A section with a table; empty if there are no rows. Each row consists of its `td`s.
pub fn table_section(id: &str, title: &str, heads: &[&str], rows: impl IntoIterator<Item = Markup>) -> Markup {
    let rows: Vec<Markup> = rows.into_iter().collect();
    html! { @if !rows.is_empty() { section id=(id) { h2 { (title) } (table(heads, rows)) } } }
}

/// A table. Each row consists of its `td`s.
pub fn table(heads: &[&str], rows: impl IntoIterator<Item = Markup>) -> Markup {
    html! {
        table {
            thead { tr { @for head in heads { th { (head) } } } }
            tbody { @for row in rows { tr { (row) } } }
        }
    }
}

/// A table of short texts. On a narrow screen each row is a block, with the head before each text.
pub fn stacked<const COLUMNS: usize>(heads: &[&str; COLUMNS], rows: &[[String; COLUMNS]]) -> Markup {
    html! {
        table class="stack" {
            thead { tr { @for head in heads { th { (head) } } } }
            tbody { @for row in rows { tr { @for (head, cell) in heads.iter().zip(row) { td class="n" data-head=(head) { (cell) } } } } }
        }
    }
}

/// The basis of a page, as names and texts, the command that repeats it, and other remarks.
pub fn facts_section(id: &str, title: &str, facts: &[(&str, String)], again: &str, more: &Markup) -> Markup {
    html! {
        section id=(id) {
            h2 { (title) }
            table class="pairs" { tbody {
                @for (name, text) in facts { tr { th { (name) } td { (prose(text)) } } }
                tr { th { "again" } td { (command(again)) } }
            } }
            (more)
        }
    }
}

pub fn terms<'a>(title: &str, terms: impl IntoIterator<Item = (&'a str, &'a str)>) -> Markup {
    html! {
        section id="terms" {
            h2 { (title) }
            dl class="terms" { @for (term, meaning) in terms { dt { (term) } dd { (meaning) } } }
        }
    }
}

/// Text in which the parts between backticks are values.
pub fn prose(text: &str) -> Markup {
    html! {
        @for (number, part) in text.split('`').enumerate() {
            @if number % 2 == 1 { code { (part) } } @else { (with_units(part)) }
        }
    }
}

/// Keeps numbers and their units on one line.
fn with_units(text: &str) -> String {
    let mut words = text.split(' ').peekable();
    let mut joined = String::new();
    while let Some(word) = words.next() {
        joined.push_str(word);
        if let Some(next) = words.peek() {
            let unit = matches!(
                next.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%'),
                "s" | "ms" | "min" | "%"
            );
            joined.push(if unit && word.ends_with(|c: char| c.is_ascii_digit()) { '\u{a0}' } else { ' ' });
        }
    }
    joined
}
