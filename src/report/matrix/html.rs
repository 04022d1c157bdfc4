//! `matrix.html`: one file without scripts or network access. Verdict, matrix, alarming cells, numbers.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::{phrases, scoreboard};
use crate::nemesis::Expectation;
use crate::report::html::whole_page;
use crate::suite::matrix::{Cell, Matrix};
use crate::suite::outcome::{CellStatus, RunOutcome};
use crate::words::{line, tame};

const GRID_STYLE: &str = include_str!("style.css");

/// The page. Its links lead to the reports of the runs, in folders below its own.
pub fn html(matrix: &Matrix) -> String {
    let (word, class) = phrases::verdict(matrix.verdict);
    let body = html! {
        main class=(if is_dense(matrix) { "suite dense" } else { "suite" }) {
            header class={ "verdict " (class) } {
                p class="about" { b { "redjepsen" } @for part in phrases::about(matrix) { span { (tame(&part, 200)) } } }
                h1 { (word) }
                p class="headline" { (matrix.headline()) }
                p class="note" { (line(&matrix.description, 400)) }
            }
            (alarms(matrix))
            (grid(matrix))
            (scoreboard::html(matrix))
            (numbers(matrix))
            (mistimed(matrix))
            (terms())
            (repeat(matrix))
        }
    };
    let simulated = if matrix.simulated > 0 { " (simulated)" } else { "" };
    whole_page(&[&format!("{word}{simulated}"), &tame(&matrix.suite, 60)], &[GRID_STYLE], &body)
}

fn alarms(matrix: &Matrix) -> Markup {
    let alarming = phrases::alarming(matrix);
    html! {
        @if !alarming.is_empty() {
            section id="alarms" {
                h2 { "Not as expected, or unknown " span class="count" { (alarming.len()) } }
                @for cell in alarming {
                    div class={ "alarm " (class(cell)) } {
                        h3 { b class="badge" { (phrases::standing(cell.standing)) } " " (tame(&cell.name, 200)) }
                        p { "Expected " b { (phrases::expected(cell.expected, cell.found)) } "; seen: " b { (phrases::seen(cell)) } "." }
                        ul class="reasons" {
                            @for run in cell.runs.iter().filter(|run| phrases::alarms(cell, run)).take(8) {
                                li {
                                    (link(run, &format!("seed {}", run.seed))) ": " (line(&run.summary, 400))
                                    @if !run.repeat.is_empty() { br; code { (line(&run.repeat, 600)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Whether there are too many workloads for full cells; then cells show only the result and link to the details.
fn is_dense(matrix: &Matrix) -> bool {
    phrases::distinct(matrix.cells.iter().map(|cell| cell.workload.as_str())).len() > 8
}

/// More fields than this no page can show; the table of numbers has every cell anyway.
const MOST_FIELDS: usize = 100_000;

/// The cells of a workload and a nemesis, with their places in the table of numbers.
type Fields<'m> = BTreeMap<(&'m str, &'m str), Vec<(usize, &'m Cell)>>;

/// Workloads across, nemeses down: random ones first, then the scripted scenarios.
fn grid(matrix: &Matrix) -> Markup {
    let workloads = phrases::distinct(matrix.cells.iter().map(|cell| cell.workload.as_str()));
    let all = phrases::distinct(matrix.cells.iter().map(|cell| cell.nemesis.as_str())).len();
    if workloads.len().saturating_mul(all) > MOST_FIELDS {
        return html! {
            section id="matrix" {
                h2 { "What breaks which lock" }
                p class="note" {
                    "A table of " (workloads.len()) " workloads and " (all) " nemeses is too large for a page. Each cell is in "
                    a href="#numbers" { "the numbers" } "."
                }
            }
        };
    }
    let mut fields = Fields::new();
    for (number, cell) in matrix.cells.iter().enumerate() {
        fields.entry((&cell.workload, &cell.nemesis)).or_default().push((number, cell));
    }
    html! {
        section id="matrix" {
            h2 { "What breaks which lock" }
            div class="wide" {
                table class="grid" {
                    thead { tr { th {} @for workload in &workloads { th { span { (tame(workload, 60)) } } } } }
                    @for (scripted, title) in [(false, "Nothing, and faults at random"), (true, "Scenarios, step by step")] {
                        @let nemeses = phrases::distinct(matrix.cells.iter().filter(|cell| cell.scripted == scripted).map(|cell| cell.nemesis.as_str()));
                        @if !nemeses.is_empty() {
                            tbody {
                                tr class="group" { th colspan=(workloads.len() + 1) { (title) } }
                                @for nemesis in nemeses {
                                    tr {
                                        th { (tame(nemesis, 60)) }
                                        @for workload in &workloads {
                                            (slot(fields.get(&(workload, nemesis)).map_or(&[], Vec::as_slice)))
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            p class="fine key" {
                b class="held" { "held" } " no violation in these runs"
                b class="broken" { "broken" } " in so many of the runs"
                b class="unproven" { "unknown" } " the runs prove too little"
                span class="badge" { "SURPRISE" } " not what is expected"
                span class="note" { "italics: observed, nothing is expected · numbers: the reports of the runs" }
            }
        }
    }
}

fn slot(cells: &[(usize, &Cell)]) -> Markup {
    html! {
        td class=[cells.is_empty().then_some("empty")] {
            @for (number, cell) in cells {
                div class={ "slot " (class(cell)) } title={ "expected: " (phrases::expected(cell.expected, cell.found)) "; seen: " (phrases::seen(cell)) } {
                    @let (word, shown) = phrases::shown(cell);
                    @if cell.standing == CellStatus::Surprise { span class="badge" { "SURPRISE" } }
                    a class={ "shown " (shown) } href={ "#cell-" (number + 1) } {
                        (word)
                        @if shown == "broken" { small { " " (cell.tally.invalid) "/" (cell.tally.done()) } }
                        @if shown == "held" { small { " " (cell.tally.valid) "/" (cell.tally.done()) } }
                    }
                    @if !cell.with.is_empty() { span class="with" { (tame(&cell.with, 80)) } }
                    span class="runs" {
                        span class="said" { (verdict_note(cell)) @if !cell.runs.is_empty() { "run " } }
                        (runs(cell, MOST_LINKS))
                    }
                }
            }
        }
    }
}

/// At most this many links in a cell of the matrix; the table of numbers has them all.
const MOST_LINKS: usize = 5;

/// In a list with a sentence for each cell.
pub(super) const FEW_LINKS: usize = 3;

fn verdict_note(cell: &Cell) -> &'static str {
    match cell.standing {
        CellStatus::AsExpected => "as expected · ",
        CellStatus::Observed => "observed · ",
        CellStatus::Surprise | CellStatus::Unknown if cell.expected == Some(Expectation::Valid) => "expected: held · ",
        CellStatus::Surprise | CellStatus::Unknown => "expected: broken · ",
        CellStatus::NotRun if cell.tally.done() > 0 => "not all run · ",
        CellStatus::NotRun => "",
    }
}

pub(super) fn runs(cell: &Cell, most: usize) -> Markup {
    html! {
        @for run in cell.runs.iter().take(most) { (link(run, &run.run.to_string())) " " }
        @if cell.runs.len() > most { "…" }
    }
}

/// A link to a run's report, worded by what the run showed.
fn link(run: &RunOutcome, text: &str) -> Markup {
    use crate::checker::Validity;
    let (class, word) = match run.valid {
        Some(Validity::Valid) => ("held", "valid"),
        Some(Validity::Invalid) => ("broken", "violation"),
        Some(Validity::Unknown) => ("unproven", "unknown"),
        None => ("unproven", "could not run"),
    };
    let title = format!("run {}, seed {}: {word}", run.run, run.seed);
    html! {
        @if run.folder.is_empty() || run.valid.is_none() { span class={ "run " (class) } title=(title) { (text) } }
        @else { a class={ "run " (class) } title=(title) href=(reference(&run.folder)) { (text) } }
    }
}

/// The address of a run's report, relative to this page. A folder name is never taken for another kind of address.
fn reference(folder: &str) -> String {
    let mut address = String::new();
    for byte in format!("{folder}/report.html").bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => address.push(char::from(byte)),
            byte => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

fn numbers(matrix: &Matrix) -> Markup {
    html! {
        section id="numbers" {
            h2 { "Numbers to compare" }
            div class="wide" {
                table class="compare" {
                    thead { tr {
                        th { "workload and nemesis" } th { "expected" } th { "seen" } th { "updates lost" } th { "share (95 %)" }
                        th { "overlaps" } th { "first violation" } th { "without the lock" } th { "updates a second" } th { "runs" }
                    } }
                    tbody {
                        @for (number, cell) in matrix.cells.iter().enumerate() {
                            @let numbers = &cell.numbers;
                            tr id={ "cell-" (number + 1) } class=(class(cell)) {
                                td { b { (tame(&cell.workload, 60)) } br; (tame(&phrases::nemesis(cell), 120)) }
                                td { (phrases::expected(cell.expected, cell.found)) }
                                td class="seen" { (phrases::seen(cell)) br; b class="standing" { (phrases::standing(cell.standing)) } }
                                td class="n" { (phrases::lost(numbers)) }
                                td { (phrases::share(cell)) }
                                td class="n" { (phrases::overlaps(numbers)) }
                                td { (phrases::seconds(numbers.first_violation_s)) }
                                td { (phrases::seconds(numbers.without_lock_s)) }
                                td { (phrases::rate(numbers.per_second)) }
                                td class="links" { (runs(cell, usize::MAX)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn mistimed(matrix: &Matrix) -> Markup {
    let mistimed = phrases::mistimed(matrix);
    html! {
        @if !mistimed.is_empty() {
            section id="timing" {
                h2 { "Late, or made again " span class="count" { (mistimed.len()) } }
                ul class="reasons" {
                    @for (cell, run, what) in mistimed {
                        li { (tame(&cell.name, 200)) ", " (link(run, &format!("seed {}", run.seed))) ": " (what) }
                    }
                }
            }
        }
    }
}

fn terms() -> Markup {
    html! {
        section id="terms" {
            h2 { "How to read this" }
            dl class="terms" {
                dt { "expected" } dd { "What the files of the workload and the nemesis say, or the suite. A lock that is known to break has to break: where it does not, the test or the knowledge is wrong." }
                dt { "as expected" } dd { "Where no violation is expected, every run is valid; where one is, every run, or some run, shows it. A run that proves too little never counts." }
                dt { "surprise" } dd { "One run at least certainly contradicts what is expected. It ranks above everything that is unknown." }
                dt { "runs" } dd { "Each with a seed of its own, on a cluster that is new or was reset. They are repeated to see how often something is found, never until it looks right." }
                dt { "made again alone" } dd { "Where several runs are made at the same time, one whose timers were late by more than a twentieth of the TTL, and that is unknown or lacks an expected violation, counts as unknown and is made again, once, alone, with the same seed, unless its cell is as expected anyway. A violation stays one." }
                dt { "share (95 %)" } dd { "Of the acknowledged updates of all runs, with Wilson's score interval. It treats each update as lost independently. One late write may wipe out several, so the real uncertainty is larger." }
                dt { "first violation" } dd { "From the first operation to the first thing that contradicts what the workload claims: the median of the runs, and the least and the most." }
                dt { "without the lock" } dd { "From the last heal to the next acquisition." }
            }
        }
    }
}

fn repeat(matrix: &Matrix) -> Markup {
    html! {
        section id="repeat" {
            h2 { "Run it again" }
            pre { (line(&matrix.repeat, 400)) }
            @if !matrix.versions.is_empty() {
                table class="pairs" { tbody { @for (name, text) in &matrix.versions { tr { th { (tame(name, 60)) } td { (tame(text, 300)) } } } } }
            }
        }
    }
}

fn class(cell: &Cell) -> &'static str {
    match cell.standing {
        CellStatus::AsExpected => "met",
        CellStatus::Surprise => "surprise",
        CellStatus::Unknown => "unproven",
        CellStatus::NotRun => "open",
        CellStatus::Observed => "observed",
    }
}
