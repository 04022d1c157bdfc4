//! The top of the page, and the claims with the numbers behind them.

use std::cmp::Reverse;

use maud::{Markup, html};

use super::{command, header, prose};
use crate::verdict_word;
use base::words::{count, length, line, percent, plural, sanitize};
use checker::{KeyEnd, Validity};
use model::history::Claim;
use summary::{ClaimAccount, ClaimStatus, RunSummary};

pub fn verdict(summary: &RunSummary) -> Markup {
    let (word, class) = verdict_word(summary.valid);
    let more = html! {
        // For an invalid run, the claims say the same in more detail.
        @if summary.valid == Validity::Unknown && !summary.reasons.is_empty() {
            ul class="reasons" {
                @for reason in summary.reasons.iter().take(8) {
                    li {
                        (prose(&line(reason, 600)))
                        @if let Some(advice) = summary.advice_on(reason) {
                            p class="fine" { (prose(&line(&advice.text, 400))) }
                            @if let Some(text) = &advice.command { (command(&line(text, 400))) }
                        }
                    }
                }
                @if summary.reasons.len() > 8 { li { "and " (summary.reasons.len() - 8) " more, in results.json" } }
            }
        }
        @for note in &summary.notes { p class="note" { (note) } }
    };
    let about = about(summary);
    let about: Vec<&str> = about.iter().map(String::as_str).collect();
    html! {
        (header(class, &about, word, &prose(&summary.headline), &more))
    }
}

/// The claims about the lock, with the numbers behind them.
pub fn claims(summary: &RunSummary) -> Markup {
    html! {
        section id="claims" {
            @if !summary.incidents.is_empty() { h2 { "Claims" } }
            div class="claims" { @for of in &summary.claims { (claim(summary, of)) } }
            (numbers(summary))
        }
        (keys(summary))
    }
}

/// The setup of the run, in a few words.
fn about(summary: &RunSummary) -> Vec<String> {
    let simulated = summary.simulated.then(|| "simulated".to_string());
    let names = [&summary.workload, &summary.nemesis].into_iter().flatten().map(|name| sanitize(name, 60));
    let seed = summary.seed.map(|seed| format!("seed {seed}"));
    // A simulated run always begins on the same day.
    let is_dated = !summary.started.is_empty() && !summary.simulated;
    let started = is_dated.then(|| sanitize(&summary.started, 40));
    let made_with =
        |name: &str| summary.made_with.iter().find(|row| row.name == name).map(|row| sanitize(&row.text, 60));
    let cluster = made_with("cluster").filter(|_| !summary.simulated).map(|cluster| format!("cluster {cluster}"));
    let on = cluster.into_iter().chain(made_with("server"));
    simulated.into_iter().chain(names).chain(seed).chain(started).chain(on).collect()
}

fn claim(summary: &RunSummary, of: &ClaimAccount) -> Markup {
    let class = match of.standing {
        ClaimStatus::Broken => "broken",
        ClaimStatus::Unproven | ClaimStatus::NotShown => "unproven",
        ClaimStatus::Held if of.is_spotless() => "held",
        ClaimStatus::Held | ClaimStatus::Unclaimed => "unclaimed",
    };
    html! {
        div class={ "claim " (class) } {
            p class="what" { (of.title) }
            p class="standing" { b { (of.standing_text) } span { (of.found) } }
            @if of.checked.claimed { p class="why" { (prose(&line(&of.why, 600))) "." } }
            @if let Some(end) = summary.resource_text.as_ref().filter(|_| of.checked.claim == Claim::Updates) { p class="why" { (end) } }
            @if let Some(harmless) = &of.harmless { p class="why" { (harmless) } }
        }
    }
}

fn numbers(summary: &RunSummary) -> Markup {
    let faults = &summary.faults;
    let lost = summary.lost_updates;
    let overlaps = summary.contradictions(Claim::MutualExclusion);
    let is_claimed =
        summary.claims.iter().any(|claim| claim.checked.claim == Claim::MutualExclusion && claim.checked.claimed);
    html! {
        dl class="numbers" {
            // Clients of a lock without a resource write nothing.
            @if lost.acknowledged + lost.count > 0 || summary.counts.ok == 0 {
                div { dt { "acknowledged updates" } dd { (count(lost.acknowledged)) } }
                div class=[(lost.count > 0).then_some("bad")] { dt { "of them lost" } dd { (count(lost.count)) } }
                div class=[(lost.count > 0).then_some("bad")] { dt { "share lost" } dd { (percent(lost.fraction)) } }
            }
            @if summary.unlocked {
                div { dt { "acknowledged reads" } dd { (count(summary.acknowledged_reads)) } }
            } @else {
                div class=[(overlaps > 0 && is_claimed).then_some("bad")] {
                    dt { "overlapping holds" } dd { (count(overlaps)) }
                }
            }
            div {
                dt { "faults injected / observed / healed" }
                dd { (count(faults.injected)) small { " / " } (count(faults.observed)) small { " / " } (count(faults.healed)) }
            }
            div {
                dt { "acknowledged per second" }
                dd { @match summary.acknowledged_per_second { Some(rate) => { (format!("{rate:.1}")) }, None => { "–" } } }
            }
            div { dt { "with operations in flight" } dd { (length((summary.busy_s * 1e9) as u64)) } }
            div {
                dt { "operations ok / fail / info" }
                dd { (count(summary.counts.ok)) small { " / " } (count(summary.counts.fail)) small { " / " } (count(summary.counts.info)) }
            }
        }
    }
}

/// More keys than this are counted, not listed.
const KEYS: usize = 12;

/// The final state of each key, those with most lost updates first. Empty if there are fewer than two keys.
fn keys(summary: &RunSummary) -> Markup {
    let mut keys: Vec<&KeyEnd> = summary.keys.iter().collect();
    if keys.len() < 2 {
        return html! {};
    }
    keys.sort_by_key(|key| Reverse(key.lost));
    let amounts = keys.iter().any(|key| key.amount.is_some());
    let rest = keys.len().saturating_sub(KEYS);
    html! {
        section id="keys" {
            h2 { "Keys " span class="count" { (summary.keys_text.as_deref().unwrap_or_default()) } }
            table {
                thead { tr { th { "key" } th { "acknowledged updates" } th { "of them lost" } @if amounts { th { "ends at" } } } }
                tbody {
                    @for key in &keys[..keys.len() - rest] {
                        tr class=[(key.lost > 0).then_some("failed")] {
                            td { (sanitize(&key.key, 40)) } td class="n" { (count(key.acknowledged)) } td class="n" { (count(key.lost)) }
                            @if amounts { td class="n" { (key.amount.map_or("–".to_string(), count)) } }
                        }
                    }
                }
            }
            @if rest > 0 { p class="fine" { (plural(rest as u64, "more key")) ", in results.json." } }
        }
    }
}
