//! `matrix.html`: one file without network access, with the verdict, the changes, unexpected cells, the matrix and the numbers.
//! redjepsen's script sorts, filters and copies. Without the script the page has the same content.

use maud::{Markup, html};

use super::cells::{class, link, links, runs, shown_class};
use super::grid::grid;
use super::verdict_class;
use crate::html::{Page, Script, command, header, prose, terms};
use base::words::{line, plural, sanitize};
use summary::table::{BrokenAccount, CellAccount, LibraryAccount, ServersAccount, SuiteSummary};

const GRID_STYLE: &str = include_str!("style.css");
/// The script never runs text of the page as code, and needs no network.
pub(crate) const SCRIPT: Script = Script::new(concat!(include_str!("../html/copy.js"), include_str!("sort.js")));

/// The page. Its links lead to the reports of the runs, in folders below its own.
pub fn html(table: &SuiteSummary) -> String {
    let about: Vec<String> = table.about.iter().map(|part| sanitize(part, 200)).collect();
    let about: Vec<&str> = about.iter().map(String::as_str).collect();
    let note = html! { p class="note" { (line(&table.description, 400)) } };
    let body = html! {
        main class="suite" {
            (header(verdict_class(table.verdict), &about, &table.word, &html! { (table.headline) }, &note))
            (contents(table))
            (told("changes", "Changed since the last suite run", &table.changes))
            (alarms(table))
            (super::servers::servers(table))
            (super::sweep::sweeps(table))
            (grid(table))
            (told("not-run", "Not run", &table.not_run))
            (told("advisories", "Advisories", &table.advisories))
            (libraries(table))
            (numbers(table))
            (mistimed(table))
            (terms("How to read this page", TERMS))
            (repeat(table))
        }
    };
    let title = [&format!("{}{}", table.word, table.mark())[..], &sanitize(&table.suite, 60)];
    Page { title: &title, style: GRID_STYLE, script: SCRIPT, body: &body }.text()
}

/// The files in the page's folder that programs and readers open.
const FILES: [&str; 4] = ["matrix.json", "matrix.csv", "matrix.md", "junit.xml"];

/// Links to the parts of the page, and to the files in its folder.
fn contents(table: &SuiteSummary) -> Markup {
    let parts = [
        ("changes", "Changes", !table.changes.is_empty()),
        ("alarms", "Not as expected", !table.alarms.is_empty()),
        ("servers", ServersAccount::TITLE, table.servers.is_some()),
        ("sweeps", "Side by side", !table.sweeps.is_empty()),
        ("matrix", "What breaks which lock", true),
        ("not-run", "Not run", !table.not_run.is_empty()),
        ("advisories", "Advisories", !table.advisories.is_empty()),
        ("libraries", "Libraries", !table.libraries.is_empty()),
        ("numbers", "Numbers", true),
        ("timing", "Late", !table.mistimed.is_empty()),
        ("terms", "Words", true),
        ("repeat", "Repeat", true),
    ];
    html! {
        nav class="contents" aria-label="Contents" {
            @for (id, title, _) in parts.iter().filter(|(_, _, is_there)| *is_there) { a href={ "#" (id) } { (title) } }
            @for file in FILES { a class="file" href=(file) { (file) } }
        }
    }
}

/// A list of lines, if there are any.
fn told(id: &str, title: &str, lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            section id=(id) {
                h2 { (title) " " span class="count" { (lines.len()) } }
                ul class="reasons" { @for text in lines { li { (prose(&line(text, 600))) } } }
            }
        }
    }
}

fn alarms(table: &SuiteSummary) -> Markup {
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
                                    @if !run.repeat.is_empty() { (command(&line(&run.repeat, 600))) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// At most this many links follow each cell's sentence in a list.
const FEW_LINKS: usize = 3;

/// The result of each library: what it passed, what broke it and why. Empty if no library is under test.
fn libraries(table: &SuiteSummary) -> Markup {
    html! {
        @if !table.libraries.is_empty() {
            section id="libraries" {
                h2 { "The libraries" }
                @for of in &table.libraries { (library(table, of)) }
            }
        }
    }
}

fn library(table: &SuiteSummary, of: &LibraryAccount) -> Markup {
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
            @if !of.held.is_empty() {
                p { b class="held" { "passed" } }
                ul class="reasons" { @for held in &of.held { li { (sanitize(held, 400)) } } }
            }
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
            " Reports of " (runs(cell, FEW_LINKS))
            (command(&sanitize(&one.command, 400)))
        }
    }
}

/// The columns of the table of numbers.
const COLUMNS: [&str; 10] = [
    "workload and nemesis",
    "expected",
    "seen",
    "updates lost",
    "share (95\u{a0}%)",
    "overlaps",
    "first violation",
    "without the lock",
    "updates per second",
    "runs",
];

fn numbers(table: &SuiteSummary) -> Markup {
    html! {
        section id="numbers" {
            h2 { "Numbers to compare" }
            // Folded on a phone.
            details class="all" open {
                summary { (plural(table.cells.len() as u64, "cell")) }
                div class="wide" tabindex="0" role="region" aria-label="Numbers of each cell" { (compared(table)) }
            }
        }
    }
}

fn compared(table: &SuiteSummary) -> Markup {
    html! {
        table class="compare" {
            thead { tr { @for name in COLUMNS { th scope="col" { (name) } } } }
            tbody {
                @for (number, cell) in table.cells.iter().enumerate() {
                    tr id={ "cell-" (number + 1) } class={ (class(cell)) " " (shown_class(cell.shown)) } data-name=(sanitize(&cell.name, 200)) {
                        td { b { (sanitize(&cell.workload, 60)) } br; (sanitize(&cell.nemesis_with(), 120)) }
                        td { (cell.expected) }
                        td class="seen" { (cell.seen) br; b class="standing" { (cell.standing_text) } }
                        td class="n" { (cell.lost) }
                        td { (cell.share) }
                        td class="n" { (cell.overlaps) }
                        td { (cell.first_violation) }
                        td { (cell.without_lock) }
                        td { (cell.rate) }
                        td class="links" { (links(cell, usize::MAX)) }
                    }
                }
            }
        }
    }
}

fn mistimed(table: &SuiteSummary) -> Markup {
    html! {
        @if !table.mistimed.is_empty() {
            section id="timing" {
                h2 { "Late, or rerun " span class="count" { (table.mistimed.len()) } }
                ul class="reasons" {
                    @for (cell, run, what) in table.mistimed() {
                        li { (sanitize(&cell.name, 200)) ", " (link(run, &format!("seed {}", run.seed))) ": " (what) }
                    }
                }
            }
        }
    }
}

const TERMS: [(&str, &str); 8] = [
    (
        "expected",
        "The expectation in the file of the workload, of the nemesis, or of the suite. A lock with a known violation must fail: \
         if it does not, suspect the test.",
    ),
    (
        "as expected",
        "If no violation is expected, every run must be valid. If a violation is expected, every run, or some runs, must show \
         one. A run without enough evidence never counts.",
    ),
    (
        "unexpected",
        "At least one run contradicts the expectation with certainty. An unexpected cell ranks above unknown cells.",
    ),
    (
        "runs",
        "Each run has its own seed, and its cluster is new or was reset. Runs are repeated to measure how often they show a \
         violation, never until the result looks right.",
    ),
    (
        "rerun alone",
        "With parallel runs, a run may be disturbed: its timers were late by more than a twentieth of the TTL, and it is unknown \
         or lacks an expected violation. Such a run counts as unknown. redjepsen reruns it once, alone, with the same seed, \
         unless its cell is as expected anyway. A violation always counts.",
    ),
    (
        "share (95%)",
        "The lost share of the acknowledged updates of all runs. The interval follows from the variation between runs, since \
         updates of one run depend on each other. There is no interval if fewer than three runs lost updates, or if all lost the \
         same share.",
    ),
    (
        "first violation",
        "From the first operation to the first contradiction of a claim: the median, minimum and maximum of the runs.",
    ),
    ("without the lock", "From the last heal to the next acquisition."),
];

fn repeat(table: &SuiteSummary) -> Markup {
    html! {
        section id="repeat" {
            h2 { "Run it again" }
            (command(&line(&table.repeat, 400)))
            @if !table.versions.is_empty() {
                table class="pairs" { tbody { @for (name, text) in &table.versions { tr { th { (sanitize(name, 60)) } td { (sanitize(text, 300)) } } } } }
            }
        }
    }
}
