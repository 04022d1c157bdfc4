//! The page of a check against a model: the verdict, then each key that has no order, in words, drawn and listed.

use maud::{Markup, html};

use super::{figure, header, prose, whole_page};
use crate::counterexample::{Counterexample, OperationText};
use crate::drawing;
use crate::linear::{KeyAnswer, LinearReport};
use crate::verdict_word;
use base::words::{capital, count, line, plural, quoted, sanitize};
use linearizability::Answer;
use linearizability::words::called;

/// At most this many keys are described in full.
const KEYS: usize = 10;
/// At most this many operations of a key are listed.
const ROWS: usize = 50;

pub fn linear_html(report: &LinearReport) -> String {
    let (word, class) = verdict_word(report.valid);
    let file = sanitize(&report.file, 120);
    let troubled = report.troubled();
    let content = html! {
        (header(class, &[&file, &format!("model {}", report.model)], word, &html! { (capital(&report.summary())) "." }, &html! {}))
        (numbers(report))
        @if !troubled.is_empty() {
            section id="counterexamples" {
                h2 { "Why" @if report.answers.len() > 1 { " " span class="count" { (plural(troubled.len() as u64, "key")) " of " (count(report.answers.len() as u64)) } } }
                @for (number, key) in troubled.iter().take(KEYS).enumerate() { (case(report, number, key)) }
                @if troubled.len() > KEYS {
                    p class="fine" { (plural((troubled.len() - KEYS) as u64, "more key")) ", which " code { "--json" } " lists." }
                }
            }
        }
        (terms())
        section id="check" {
            h2 { "What was checked" }
            table class="pairs" { tbody { @for (name, text) in report.facts() { tr { th { (name) } td { (text) } } } } }
        }
    };
    whole_page(&[word, &report.model.to_string(), &file], drawing::STYLE, &html! { main { (content) } })
}

fn numbers(report: &LinearReport) -> Markup {
    let [ok, fail, info] = report.outcomes();
    let broken = report.answers.iter().filter(|key| matches!(key.answer, Answer::NotLinearizable(_))).count();
    html! {
        dl class="numbers" {
            div { dt { "operations" } dd { (count(report.loaded.table.operations.len() as u64)) } }
            div { dt { "operations ok / fail / info" } dd { (count(ok)) small { " / " } (count(fail)) small { " / " } (count(info)) } }
            div { dt { "keys" } dd { (count(report.answers.len() as u64)) } }
            div class=[(broken > 0).then_some("bad")] { dt { "keys without an order" } dd { (count(broken as u64)) } }
        }
    }
}

fn case(report: &LinearReport, number: usize, key: &KeyAnswer) -> Markup {
    let undecided = matches!(key.answer, Answer::Undecided(_));
    html! {
        article class={ "case" @if undecided { " unclaimed" } } {
            @match (&key.answer, &key.counterexample) {
                (Answer::NotLinearizable(_), Some(example)) => {
                    h3 {
                        span class="number" { (number + 1) }
                        (example.title())
                        span class="when" { "of " (plural(key.operations, "operation")) }
                    }
                    (told(example))
                }
                (Answer::NotLinearizable(conflict), None) => p { (line(&conflict.reason, 600)) },
                (Answer::Undecided(reason), _) => {
                    h3 {
                        span class="number" { (number + 1) }
                        "Not decided"
                        @if let Some(name) = report.key(key.key) { span class="when" { (prose(&format!("key {}", quoted(name)))) } }
                    }
                    p { (line(reason, 600)) }
                }
                (Answer::Linearizable, _) => {}
            }
        }
    }
}

/// A counterexample in words, as a drawing, and line by line.
pub fn told(example: &Counterexample) -> Markup {
    html! {
        ul class="reasons" { @for sentence in &example.sentences { li { (line(sentence, 1000)) } } }
        p class="minimal_counterexample" { (example.minimality()) }
        (figure(&example.inline()))
        table {
            thead { tr { th { "line" } th { "process" } th { "outcome" } th { "operation" } th { "" } } }
            tbody { @for op in example.operations.iter().take(ROWS) { (row(op)) } }
        }
        @if example.operations.len() > ROWS {
            p class="fine" { (plural((example.operations.len() - ROWS) as u64, "more operation")) "." }
        }
        @if let Some(sentence) = example.legal.sentence() {
            // Folded, because it is long.
            details class="prefix" {
                summary { b { "Legal part of the history" } }
                p {
                    (capital(&line(&sentence, 400)))
                    @if example.legal.order.is_empty() { "." } @else { ": " (line(&example.legal.order_in_words(usize::MAX), 4000)) "." }
                }
            }
        }
    }
}

fn row(op: &OperationText) -> Markup {
    html! {
        tr {
            td class="n" { (op.line) }
            td { (called(&op.process)) }
            td { (op.outcome) }
            td { code { (op.text) } }
            td { @if op.weakened { "its result does not matter" } }
        }
    }
}

fn terms() -> Markup {
    let terms = [
        (
            "linearizable",
            "Each operation can be assigned a moment between its invocation and its completion, so that in the order of these \
             moments every answer is correct.",
        ),
        (
            "ok, fail, info",
            "How an operation ended: it happened; it certainly did not; or its outcome is unknown, and it may have taken effect at any later time, or never.",
        ),
        ("by time", "One operation had returned when the other was invoked, so it comes first in every order."),
        ("by value", "The values that the operations read and wrote leave only this order."),
    ];
    super::terms("What the terms mean", terms)
}
