//! `report.html`: one file without network access, whose only script draws the timeline. First the verdict, then the
//! incidents, then the evidence.

mod contents;
mod evidence;
mod incidents;
mod linear;
mod verdict;

pub use linear::linear_html;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::drawing::{self, COLOURS};
use super::{Report, timeline, verdict_word};
use crate::words::sanitize;

const STYLE: &str = include_str!("style.css");

/// The page.
pub fn html(report: &Report) -> String {
    let telling = &report.telling;
    let names: Vec<String> =
        [&telling.workload, &telling.nemesis].into_iter().flatten().map(|name| sanitize(name, 60)).collect();
    let (word, _) = verdict_word(telling.valid);
    let simulated = if telling.simulated { " (simulated)" } else { "" };
    let content = html! {
        (verdict::verdict(telling))
        (incidents::incidents(report))
        @if let Some(minimal_counterexample) = report.minimal_counterexample { (incidents::minimal_counterexample(minimal_counterexample)) }
        (timeline::timeline(report))
        (evidence::plots(&report.story))
        (evidence::gates(telling))
        (evidence::terms(telling))
        (evidence::setting(telling))
        (evidence::faults(telling))
        (evidence::repeat(telling))
    };
    let style = format!("{}{}", drawing::STYLE, timeline::STYLE);
    // Whatever a client has called itself: nothing runs but our script, and nothing is asked for.
    let policy = html! { meta http-equiv="Content-Security-Policy" content=(timeline::policy()); };
    let title = [&format!("{word}{simulated}")[..], &names.join(" · ")];
    page_with(&policy, &title, &style, &html! { main { (content) } })
}

/// The page of one history.
fn page(title: &[&str], content: &Markup) -> String {
    whole_page(title, drawing::STYLE, &html! { main { (content) } })
}

/// A whole, self-contained page. Its title consists of these words and our name; this style is added to the common one.
pub(super) fn whole_page(title: &[&str], style: &str, body: &Markup) -> String {
    page_with(&html! {}, title, style, body)
}

/// The same, with something in its head.
fn page_with(head: &Markup, title: &[&str], style: &str, body: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                (head)
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title.join(" · ")) " · redjepsen" }
                style { (PreEscaped(COLOURS)) (PreEscaped(STYLE)) (PreEscaped(style)) }
            }
            body { (body) }
        }
    }
    .into_string()
}

/// A path as an address. It is never taken for another kind of address, nor for anything but a path.
pub(super) fn address(path: &str) -> String {
    let mut address = String::new();
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => address.push(char::from(byte)),
            byte => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

/// The top of a page: what it is about, the verdict in a word and in a sentence, and what else must be known at once.
pub(super) fn header(class: &str, about: &[&str], word: &str, headline: &Markup, more: &Markup) -> Markup {
    html! {
        header class={ "verdict " (class) } {
            p class="about" { b { "redjepsen" } @for part in about { span { (part) } } }
            h1 { (word) }
            p class="headline" { (headline) }
            (more)
        }
    }
}

/// What words mean.
pub(super) fn terms<'a>(title: &str, terms: impl IntoIterator<Item = (&'a str, &'a str)>) -> Markup {
    html! {
        section id="terms" {
            h2 { (title) }
            dl class="terms" { @for (term, meaning) in terms { dt { (term) } dd { (meaning) } } }
        }
    }
}

/// Text in which the parts between backticks are values.
pub(super) fn prose(text: &str) -> Markup {
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
