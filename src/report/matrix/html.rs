//! `matrix.html`: one file without scripts or network access. Verdict, matrix, alarming cells, numbers.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::verdict_class;
use crate::checker::Validity;
use crate::report::html::{header, terms, whole_page};
use crate::suite::outcome::CellStatus;
use crate::telling::table::{BrokenAccount, CellAccount, LibraryAccount, RunAccount, Shown, Table, distinct};
use crate::words::{line, plural, sanitize};

const GRID_STYLE: &str = include_str!("style.css");

/// The page. Its links lead to the reports of the runs, in folders below its own.
pub fn html(table: &Table) -> String {
    let about: Vec<String> = table.about.iter().map(|part| sanitize(part, 200)).collect();
    let about: Vec<&str> = about.iter().map(String::as_str).collect();
    let note = html! { p class="note" { (line(&table.description, 400)) } };
    // Where there are too many workloads for full cells, these show only the result and link to the details.
    let dense = table.workloads.len() > 8;
    let body = html! {
        main class=(if dense { "suite dense" } else { "suite" }) {
            (header(verdict_class(table.verdict), &about, &table.word, &html! { (table.headline) }, &note))
            (told("changes", "Otherwise than the last time", &table.changes))
            (alarms(table))
            (told("not-run", "Not run", &table.not_run))
            (grid(table))
            (libraries(table))
            (numbers(table))
            (mistimed(table))
            (terms("How to read this", TERMS))
            (repeat(table))
        }
    };
    whole_page(&[&format!("{}{}", table.word, table.mark()), &sanitize(&table.suite, 60)], GRID_STYLE, &body)
}

/// A list of lines, if there are any.
fn told(id: &str, title: &str, lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            section id=(id) {
                h2 { (title) " " span class="count" { (lines.len()) } }
                ul class="reasons" { @for text in lines { li { (line(text, 600)) } } }
            }
        }
    }
}

fn alarms(table: &Table) -> Markup {
    html! {
        @if !table.alarms.is_empty() {
            section id="alarms" {
                h2 { "Not as expected, or unknown " span class="count" { (table.alarms.len()) } }
                @for cell in table.alarming() {
                    div class={ "alarm " (class(cell)) } {
                        h3 { b class="badge" { (cell.standing_text) } " " (sanitize(&cell.name, 200)) }
                        p { "Expected " b { (cell.expected) } "; seen: " b { (cell.seen) } "." }
                        ul class="reasons" {
                            @for run in cell.alarming_runs().take(8) {
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

/// More fields than this no page can show; the table of numbers has every cell anyway.
const MOST_FIELDS: usize = 100_000;

/// The cells of a workload and a nemesis, with their places in the table of numbers.
type Fields<'m> = BTreeMap<(&'m str, &'m str), Vec<(usize, &'m CellAccount)>>;

/// Workloads across, nemeses down: random ones first, then the scripted scenarios.
fn grid(table: &Table) -> Markup {
    let workloads = &table.workloads;
    let all = distinct(table.cells.iter().map(|cell| cell.nemesis.as_str())).len();
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
    for (number, cell) in table.cells.iter().enumerate() {
        fields.entry((&cell.workload, &cell.nemesis)).or_default().push((number, cell));
    }
    html! {
        section id="matrix" {
            h2 { "What breaks which lock" }
            div class="wide" {
                table class="grid" {
                    thead { tr { th {} @for workload in workloads { th { span { (sanitize(workload, 60)) } } } } }
                    @for (scripted, title) in [(false, "Nothing, and faults at random"), (true, "Scenarios, step by step")] {
                        @let nemeses = distinct(table.cells.iter().filter(|cell| cell.scripted == scripted).map(|cell| cell.nemesis.as_str()));
                        @if !nemeses.is_empty() {
                            tbody {
                                tr class="group" { th colspan=(workloads.len() + 1) { (title) } }
                                @for nemesis in nemeses {
                                    tr {
                                        th { (sanitize(&nemesis, 60)) }
                                        @for workload in workloads {
                                            (slot(fields.get(&(workload.as_str(), nemesis.as_str())).map_or(&[], Vec::as_slice)))
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

fn slot(cells: &[(usize, &CellAccount)]) -> Markup {
    html! {
        td class=[cells.is_empty().then_some("empty")] {
            @for (number, cell) in cells {
                div class={ "slot " (class(cell)) } title={ "expected: " (cell.expected) "; seen: " (cell.seen) } {
                    @if cell.standing == CellStatus::Surprise { span class="badge" { "SURPRISE" } }
                    a class={ "shown " (shown_class(cell.shown)) } href={ "#cell-" (number + 1) } {
                        (cell.shown.word())
                        @if let Some(part) = &cell.part { small { " " (part) } }
                    }
                    @if !cell.with.is_empty() { span class="with" { (sanitize(&cell.with, 80)) } }
                    span class="runs" {
                        span class="said" {
                            @if !cell.note.is_empty() { (cell.note) " · " }
                            @if !cell.runs.is_empty() { "run " }
                        }
                        (runs(cell, MOST_LINKS))
                    }
                }
            }
        }
    }
}

fn shown_class(shown: Shown) -> &'static str {
    match shown {
        Shown::Held => "held",
        Shown::Broken => "broken",
        Shown::Unknown => "unproven",
        Shown::NotRun => "open",
    }
}

/// At most this many links in a cell of the matrix; the table of numbers has them all.
const MOST_LINKS: usize = 5;

/// In a list with a sentence for each cell.
const FEW_LINKS: usize = 3;

fn runs(cell: &CellAccount, most: usize) -> Markup {
    html! {
        @for run in cell.runs.iter().take(most) { (link(run, &run.run.to_string())) " " }
        @if cell.runs.len() > most { "…" }
    }
}

/// A link to a run's report, worded by what the run showed.
fn link(run: &RunAccount, text: &str) -> Markup {
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

/// What each library stood, what broke it and why; nothing where no library is under test.
fn libraries(table: &Table) -> Markup {
    html! {
        @if !table.libraries.is_empty() {
            section id="libraries" {
                h2 { "The libraries" }
                @for of in &table.libraries { (library(table, of)) }
            }
        }
    }
}

fn library(table: &Table, of: &LibraryAccount) -> Markup {
    html! {
        div class="library" {
            h3 { (sanitize(&of.name, 60)) " " (sanitize(&of.version, 40)) ": " (of.summary) }
            p class="fine" {
                code { (sanitize(&of.workload, 60)) }
                @if let Some(home) = &of.home { " · " (sanitize(home, 200)) }
                " · " (sanitize(&of.users, 100))
            }
            @if !of.broken.is_empty() {
                ul class="reasons" { @for one in &of.broken { (broken(one, &table.cells[one.cell])) } }
            }
            @if !of.held.is_empty() { p { b class="held" { "held" } " " (sanitize(&of.held, 2000)) } }
            @if !of.open.is_empty() { p { b class="unproven" { "not shown" } " " (sanitize(&of.open.join("; "), 2000)) } }
        }
    }
}

fn broken(one: &BrokenAccount, cell: &CellAccount) -> Markup {
    html! {
        li {
            b class="broken" { (sanitize(&cell.nemesis, 60)) }
            " " (one.invalid) " of " (plural(u64::from(one.done), "run")) ", " (one.whose) ". "
            @if let Some(what) = &one.what { (sanitize(what, 600)) " " }
            @if let Some(source) = &one.source { code { (sanitize(source, 200)) } " " }
            @if let Some(issue) = &one.issue { (sanitize(issue, 200)) }
            " Report " (runs(cell, FEW_LINKS))
            br; code { (sanitize(&one.command, 400)) }
        }
    }
}

fn numbers(table: &Table) -> Markup {
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
                        @for (number, cell) in table.cells.iter().enumerate() {
                            tr id={ "cell-" (number + 1) } class=(class(cell)) {
                                td { b { (sanitize(&cell.workload, 60)) } br; (sanitize(&cell.nemesis_with(), 120)) }
                                td { (cell.expected) }
                                td class="seen" { (cell.seen) br; b class="standing" { (cell.standing_text) } }
                                td class="n" { (cell.lost) }
                                td { (cell.share) }
                                td class="n" { (cell.overlaps) }
                                td { (cell.first_violation) }
                                td { (cell.without_lock) }
                                td { (cell.rate) }
                                td class="links" { (runs(cell, usize::MAX)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn mistimed(table: &Table) -> Markup {
    html! {
        @if !table.mistimed.is_empty() {
            section id="timing" {
                h2 { "Late, or made again " span class="count" { (table.mistimed.len()) } }
                ul class="reasons" {
                    @for (cell, run, what) in table.mistimed() {
                        li { (sanitize(&cell.name, 200)) ", " (link(run, &format!("seed {}", run.seed))) ": " (what) }
                    }
                }
            }
        }
    }
}

/// How to read the page.
const TERMS: [(&str, &str); 8] = [
    (
        "expected",
        "What the files of the workload and the nemesis say, or the suite. A lock that is known to break must break: if it does not, suspect the test.",
    ),
    (
        "as expected",
        "Where no violation is expected, every run is valid; where one is, every run, or some run, shows it. A run that proves too little never counts.",
    ),
    (
        "surprise",
        "At least one run certainly contradicts what is expected. A surprise ranks above everything that is unknown.",
    ),
    (
        "runs",
        "Each with a seed of its own, on a cluster that is new or was reset. They are repeated to see how often something is found, never until it looks right.",
    ),
    (
        "made again alone",
        "Where several runs are made at the same time, one whose timers were late by more than a twentieth of the TTL, and that is unknown or lacks an expected violation, counts as unknown and is made again, once, alone, with the same seed, unless its cell is as expected anyway. A violation stays one.",
    ),
    (
        "share (95 %)",
        "Of the acknowledged updates of all runs, with Wilson's score interval. It treats each update as lost independently. One late write may wipe out several, so the real uncertainty is larger.",
    ),
    (
        "first violation",
        "From the first operation to the first thing that contradicts what the workload claims: the median of the runs, and the least and the most.",
    ),
    ("without the lock", "From the last heal to the next acquisition."),
];

fn repeat(table: &Table) -> Markup {
    html! {
        section id="repeat" {
            h2 { "Run it again" }
            pre { (line(&table.repeat, 400)) }
            @if !table.versions.is_empty() {
                table class="pairs" { tbody { @for (name, text) in &table.versions { tr { th { (sanitize(name, 60)) } td { (sanitize(text, 300)) } } } } }
            }
        }
    }
}

fn class(cell: &CellAccount) -> &'static str {
    match cell.standing {
        CellStatus::AsExpected => "met",
        CellStatus::Surprise => "surprise",
        CellStatus::Unknown => "unproven",
        CellStatus::NotRun => "open",
        CellStatus::Observed => "observed",
    }
}
