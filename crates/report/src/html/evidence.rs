//! The lower part of the page: plots, gates, a glossary, the setup and the command to repeat the run.

use base64::Engine as _;
use maud::{Markup, PreEscaped, html};

use super::{command, prose};
use crate::plots::{self, Plot};
use crate::terminal::in_folder;
use base::words::{length, line, list, moment, sanitize};
use summary::{FaultAccount, Row, RunSummary};

/// The table shows at most this many faults.
const ROWS: usize = 300;
/// A table with more faults than this is collapsed.
const ROWS_UNFOLDED: usize = 12;

/// The files of the run's folder that readers open.
const FILES: [&str; 4] = ["history.jsonl", "results.json", "redjepsen.log", "scenario.toml"];

pub fn plots(plots: &[Plot]) -> Markup {
    html! {
        section id="plots" {
            h2 { "The run in pictures" }
            @for plot in plots { (plot_of(plot)) }
        }
    }
}

/// The advisories: remarks that no claim covers but users want to know. Empty if there are none.
pub fn advisories(summary: &RunSummary) -> Markup {
    if summary.advisories.is_empty() {
        return html! {};
    }
    html! {
        section id="advisories" {
            h2 { "Advisories " span class="count" { "they do not decide the verdict" } }
            dl class="terms" {
                @for remark in &summary.advisories { dt { (remark.title) } dd { (sanitize(&remark.text, 400)) } }
            }
        }
    }
}

/// The plot as vectors if it has few shapes, else as pixels.
fn plot_of(plot: &Plot) -> Markup {
    let drawn = if plot.picture.is_large() {
        plots::fine_png(&plot.picture).map(|png| {
            let data = base64::engine::general_purpose::STANDARD.encode(png);
            html! { img width="900" height="400" alt=(plot.caption) src={ "data:image/png;base64," (data) }; }
        })
    } else {
        // The drawing library escapes texts itself.
        plots::svg(&plot.picture).map(|svg| html! { (PreEscaped(svg)) })
    };
    html! {
        @match drawn {
            Ok(drawn) => (super::plot(&drawn, &html! { (plot.caption) })),
            Err(error) => p class="note" { "This plot could not be drawn: " (error) },
        }
    }
}

pub fn gates(summary: &RunSummary) -> Markup {
    let gates = &summary.gates;
    html! {
        section id="gates" {
            h2 { "Does the run prove anything?" }
            p { "A run that fails one of these is unknown, never valid." }
            @if gates.is_empty() { p class="none" { "No gate was checked." } }
            @else {
                table class="gates" {
                    thead { tr { th { "gate" } th { "" } th { "what was found" } } }
                    tbody {
                        @for gate in gates {
                            tr class=[(!gate.passed).then_some("failed")] {
                                td { code { (sanitize(&gate.name, 60)) } }
                                td class="mark" { @if gate.passed { "passed" } @else { "FAILED" } }
                                td {
                                    (prose(&line(&gate.text, 600)))
                                    @if !gate.passed && gate.undermines_violations { " Violations in this run can't be trusted either." }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The meaning of a lost update if the next write hides it.
const ROLLED_BACK: &str = "An acknowledged update that was undone: a later read found an earlier value, and no later read saw the update again. An update that is merely overwritten is not lost, and an update that no client read before the next write is not counted.";

/// True if a term is only about locks.
fn of_locks(term: &str) -> bool {
    matches!(term, "overlap" | "TTL, validity" | "token")
}

pub fn terms(summary: &RunSummary) -> Markup {
    let unlocked = summary.unlocked;
    let terms = [
        ("c0, n0, k0", "The first client, the first node and the first key. Numbers begin at 0."),
        ("c0:4", "A value that c0 wrote. Each value is unique in the run, so each lost update has a name."),
        (
            "acknowledged update",
            match unlocked {
                true => "A write or compare-and-set that was confirmed to the client.",
                false => "A read-modify-write under the lock whose write the resource confirmed to the client.",
            },
        ),
        (
            "lost update",
            if unlocked {
                ROLLED_BACK
            } else {
                "An acknowledged update that no later value builds on: another client overwrote it without reading it. It counts \
                 only if it is certainly lost, whatever the operations without an answer did."
            },
        ),
        (
            "overlap",
            "Two clients believed at once that they held the lock of one key. Each did so from its acquisition until it began to \
             release the lock.",
        ),
        (
            "ok, fail, info",
            "How an operation ended: it happened; it certainly did not; or its outcome is unknown, and it may still take effect later, or never.",
        ),
        (
            "TTL, validity",
            "How long the lock lives on its nodes, and how much of this time was left, by the client's own clock, when the \
             client acquired the lock.",
        ),
        (
            "token",
            "The value that a client writes into the lock's key to recognise its own key. A fencing token is a number that rises \
             with each acquisition.",
        ),
        ("workload, nemesis", "The lock with its resource and clients, and the faults that the run injects."),
        ("script", "A nemesis in steps, which happen in this order. A Lua script is a program that a node runs."),
        ("claim", "A promise in the workload's file. A broken claim makes the run invalid; other observations do not."),
        ("gate", "A condition without which a run proves nothing, such as that each fault was observed."),
        (
            "observed",
            "The fault's effect was observed, not only ordered. A fault without an observed effect proves nothing.",
        ),
    ];
    super::terms("What the terms mean", terms.into_iter().filter(|(term, _)| !unlocked || !of_locks(term)))
}

pub fn setting(summary: &RunSummary) -> Markup {
    html! {
        section id="scenario" {
            h2 { "What was run" }
            @if summary.setting.is_empty() { p class="none" { "The history does not say." } }
            @else { (pairs(&summary.setting)) }
        }
    }
}

fn pairs(rows: &[Row]) -> Markup {
    html! {
        table class="pairs" { tbody { @for row in rows { tr { th { (sanitize(&row.name, 60)) } td { (sanitize(&row.text, 800)) } } } } }
    }
}

pub fn faults(summary: &RunSummary) -> Markup {
    let faults = &summary.faults.all;
    let table = html! {
        // On a narrow screen its columns would be one letter wide.
        div class="roll" tabindex="0" role="region" aria-label="Table of faults" {
            table {
                thead { tr { th { "#" } th { "fault" } th { "target" } th { "ordered" } th { "lasted" } th { "observed" } th { "healed" } th { "effect \
                    that was observed" } } }
                tbody { @for fault in faults.iter().take(ROWS) { (fault_row(fault)) } }
            }
        }
        @if faults.len() > ROWS { p class="fine" { (faults.len() - ROWS) " more in history.jsonl." } }
    };
    html! {
        section id="faults" {
            h2 { "Faults " span class="count" { (summary.faults.text) } }
            @if faults.is_empty() { p class="none" { "No faults were planned." } }
            @else if faults.len() <= ROWS_UNFOLDED { (table) }
            @else { details { summary { "All " (faults.len()) " faults" } (table) } }
        }
    }
}

fn fault_row(fault: &FaultAccount) -> Markup {
    let targets: Vec<String> = fault.targets.iter().take(6).map(|target| sanitize(target, 24)).collect();
    let seen = |step: Option<bool>| match step {
        Some(true) => "yes",
        Some(false) => "NOT SEEN",
        None => "–",
    };
    html! {
        tr class=[fault.fell_short().then_some("failed")] {
            td class="n" { (fault.fault) }
            td { (fault.name) }
            td { (if targets.is_empty() { "–".to_string() } else { list(&targets) }) }
            td class="n" { (moment(fault.from)) }
            @if let Some(why) = &fault.skipped {
                td colspan="3" { "skipped" }
                td { (sanitize(why, 200)) }
            } @else {
                td class="n" { (fault.lasted.map_or("never healed".to_string(), length)) }
                td { (seen(fault.observed)) }
                td { (seen(fault.healed)) }
                td { (sanitize(&fault.seen, 200)) }
            }
        }
    }
}

pub fn repeat(summary: &RunSummary) -> Markup {
    html! {
        section id="repeat" {
            h2 { "Run it again" }
            @if !summary.repeat.is_empty() {
                p { (summary.repeat_text) }
                (command(&summary.repeat))
            }
            p { "Check this history again, without running anything:" }
            (command(&summary.check))
            p class="fine" {
                "Every event is a line of " code { (in_folder(&sanitize(&summary.folder, 300), "history.jsonl")) }
                ". Beside it:" @for file in FILES { " " a href=(file) { (file) } }
            }
            @if !summary.made_with.is_empty() { (pairs(&summary.made_with)) }
        }
    }
}
