//! The top of the page: the result, the claims it is about, and the numbers behind it.

use std::cmp::Reverse;

use maud::{Markup, html};

use super::{prose, verdict_word};
use crate::checker::{ClaimVerdict, KeyEnd, Validity};
use crate::history::Claim;
use crate::nemesis::Expectation;
use crate::report::claims;
use crate::report::ends::{self, end_of_all};
use crate::report::headline::headline_of;
use crate::report::results::{faults, per_second};
use crate::report::story::{PropertyOutcome, Story};
use crate::words::{count, length, line, percent, plural, tame};

pub fn verdict(story: &Story) -> Markup {
    let report = story.report;
    let verdict = report.verdict;
    let (word, class) = verdict_word(verdict.valid);
    let mut about: Vec<String> =
        [story.workload(), story.nemesis()].into_iter().flatten().map(|name| tame(name, 60)).collect();
    if story.is_simulated() {
        about.insert(0, "simulated".to_string());
    }
    about.extend(story.seed().map(|seed| format!("seed {seed}")));
    // A simulated run begins on the same day always.
    about.extend((!story.started().is_empty() && !story.is_simulated()).then(|| tame(story.started(), 40)));
    html! {
        header class={ "verdict " (class) } {
            p class="about" { b { "redjepsen" } @for part in &about { span { (part) } } }
            h1 { (word) }
            p class="headline" { (prose(&headline_of(story))) }
            @if verdict.valid != Validity::Valid && !verdict.reasons.is_empty() {
                ul class="reasons" {
                    @for reason in verdict.reasons.iter().take(8) { li { (prose(&line(reason, 600))) } }
                    @if verdict.reasons.len() > 8 { li { "and " (verdict.reasons.len() - 8) " more, in results.json" } }
                }
            }
            @for note in notes(story) { p class="note" { (note) } }
        }
        section class="claims" {
            @for of in &verdict.claims { (claim(story, of)) }
        }
        (numbers(story))
        (keys(story))
    }
}

/// What the reader must know before believing the rest.
fn notes(story: &Story) -> Vec<String> {
    let history = story.report.history;
    let mut notes = Vec::new();
    if story.is_simulated() {
        notes.push(SIMULATED.to_string());
    }
    if let Some(line) = history.truncated_at_line {
        notes.push(format!("The history is cut off in line {line}: the run's end is missing."));
    }
    match &history.end {
        Some(end) if !end.completed => {
            let why = if end.text.is_empty() { String::new() } else { format!(": {}", tame(&end.text, 300)) };
            notes.push(format!("The run did not go to its planned end{why}."));
        }
        _ => {}
    }
    let seen = match story.report.verdict.valid {
        Validity::Valid => Some(Expectation::Valid),
        Validity::Invalid => Some(Expectation::Violation),
        Validity::Unknown => None,
    };
    if let (Some(expected), Some(seen)) = (story.expectation(), seen) {
        let what = match expected {
            Expectation::Valid => "no violation",
            Expectation::Violation => "a violation",
        };
        notes.push(if expected == seen {
            format!("As expected: this workload should show {what} under this nemesis.")
        } else {
            format!("Not as expected: this workload should show {what} under this nemesis.")
        });
    }
    notes
}

/// What a simulated run is, and how to get a real one.
const SIMULATED: &str = "This run was simulated: its servers, network, processes and time. The lock's code, the scenario and the checker are those of \
    a real run. For real servers, use --cluster local or --cluster docker.";

fn claim(story: &Story, of: &ClaimVerdict) -> Markup {
    let claim = of.claim;
    let unclaimed = story.standing(claim) == PropertyOutcome::Unclaimed;
    let harmless = unclaimed && claim == Claim::MutualExclusion && story.resource_refuses();
    let (class, word) = claims::standing(story, of);
    html! {
        div class={ "claim " (class) } {
            p class="what" { (claims::title(claim)) }
            p class="standing" { b { (word) } span { (claims::found(story, claim)) } }
            @if of.claimed { p class="why" { (prose(&line(&claims::evidence(of), 600))) "." } }
            @if let Some(end) = (claim == Claim::Updates).then(|| end_of_all(story)).flatten() { p class="why" { (end) } }
            @if harmless {
                p class="why" { "A holder that comes too late changes nothing: " (story.refusal().unwrap_or_default()) "." }
            }
        }
    }
}

fn numbers(story: &Story) -> Markup {
    let verdict = story.report.verdict;
    let faults = faults(story);
    let lost = verdict.lost_updates;
    let overlaps = story.contradictions(Claim::MutualExclusion);
    html! {
        dl class="numbers" {
            div { dt { "acknowledged updates" } dd { (count(lost.acknowledged)) } }
            div class=[(lost.count > 0).then_some("bad")] { dt { "of them lost" } dd { (count(lost.count)) } }
            div class=[(lost.count > 0).then_some("bad")] { dt { "share lost" } dd { (percent(lost.fraction)) } }
            @if story.is_unlocked() {
                div { dt { "acknowledged reads" } dd { (count(story.acknowledged_reads())) } }
            } @else {
                div class=[(overlaps > 0 && story.claims(Claim::MutualExclusion)).then_some("bad")] {
                    dt { "overlapping holders" } dd { (count(overlaps)) }
                }
            }
            div {
                dt { "faults injected / observed / healed" }
                dd { (count(faults.injected)) small { " / " } (count(faults.observed)) small { " / " } (count(faults.healed)) }
            }
            div {
                dt { "acknowledged a second" }
                dd { @match per_second(story) { Some(rate) => { (format!("{rate:.1}")) }, None => { "–" } } }
            }
            div { dt { "clients were busy for" } dd { (length((story.busy_seconds() * 1e9) as u64)) } }
            div {
                dt { "operations ok / fail / info" }
                dd { (count(verdict.counts.ok)) small { " / " } (count(verdict.counts.fail)) small { " / " } (count(verdict.counts.info)) }
            }
        }
    }
}

/// More keys than this are counted, not listed.
const KEYS: usize = 12;

/// The final state of each of several keys, those that lost most first.
fn keys(story: &Story) -> Markup {
    let mut keys: Vec<&KeyEnd> = story.report.verdict.keys.iter().collect();
    if keys.len() < 2 {
        return html! {};
    }
    keys.sort_by_key(|key| Reverse(key.lost));
    let amounts = keys.iter().any(|key| key.amount.is_some());
    let rest = keys.len().saturating_sub(KEYS);
    html! {
        section id="keys" {
            h2 { "Keys " span class="count" { (ends::keys(story).unwrap_or_default()) } }
            table {
                thead { tr { th { "key" } th { "acknowledged updates" } th { "of them lost" } @if amounts { th { "ends at" } } } }
                tbody {
                    @for key in &keys[..keys.len() - rest] {
                        tr class=[(key.lost > 0).then_some("failed")] {
                            td { (tame(&key.key, 40)) } td class="n" { (count(key.acknowledged)) } td class="n" { (count(key.lost)) }
                            @if amounts { td class="n" { (key.amount.map_or("–".to_string(), count)) } }
                        }
                    }
                }
            }
            @if rest > 0 { p class="fine" { (plural(rest as u64, "more key")) ", in results.json." } }
        }
    }
}
