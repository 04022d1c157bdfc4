//! The comparison as a page.

use maud::{Markup, html};

use super::{TERMS, broken, class, headline, lost, more, ms, rate, reason};
use crate::html::{header, prose, terms, whole_page};
use base::words::{count, line, plural, sanitize};
use suite::compare::{Cell, Change, Comparison, Numbers};

/// Added to the style of all pages.
const STYLE: &str = ".wide{overflow-x:auto}.sides td{overflow-wrap:break-word}\
    @media (min-width:721px){.sides td:first-child{white-space:nowrap}}.held{color:var(--good)}.broken{color:var(--bad)}\
    .unproven{color:var(--warn)}.open{color:var(--muted)}td.n{white-space:nowrap}.cells td{min-width:88px}.cells td:first-child{min-width:170px}";

pub fn html(of: &Comparison) -> String {
    whole_page(
        &[&of.verdict.word().to_uppercase(), "comparison"],
        STYLE,
        &html! { main class="suite" style="max-width:1280px" { (content(of)) } },
    )
}

/// The content of the page, for a page that adds its own frame.
pub fn content(of: &Comparison) -> Markup {
    let reasons = html! {
        @if !of.reasons.is_empty() { ul class="reasons" { @for reason in of.reasons.iter().take(20) { li { (line(reason, 300)) } } } }
    };
    html! {
        (header(class(of.verdict), &["comparison"], &of.verdict.word().to_uppercase(), &html! { (prose(&line(&headline(of), 600))) }, &reasons))
        section id="sides" {
            h2 { "What was compared" }
            div class="wide" tabindex="0" role="group" aria-label="Table" { table class="sides" {
                thead { tr { th {} th { "A" } th { "B" } } }
                tbody {
                    tr { td { "what" } td { (line(&of.a.what, 300)) } td { (line(&of.b.what, 300)) } }
                    tr { td { "folder" } td { code { (line(&of.a.name, 300)) } } td { code { (line(&of.b.name, 300)) } } }
                    @if !(of.a.started.is_empty() && of.b.started.is_empty()) { tr { td { "started" } td { (sanitize(&of.a.started, 40)) } td { (sanitize(&of.b.started, 40)) } } }
                    @for difference in &of.differences {
                        tr { td { (sanitize(&difference.name, 60)) } td { (line(&difference.a, 300)) } td { (line(&difference.b, 300)) } }
                    }
                }
            } }
            @if of.differences.is_empty() { p class="note" { "Both have the same versions and settings." } }
        }
        section id="cells" {
            h2 { "Cells " span class="count" { (of.cells.len()) } }
            @let (telling, others) = sorted(of);
            @if !telling.is_empty() { (table(&telling)) }
            @if !others.is_empty() && telling.is_empty() && others.len() <= SHORT { (table(&others)) }
            @else if !others.is_empty() {
                details { summary { (plural(others.len() as u64, "cell")) " without a difference" } (table(&others)) }
            }
        }
        @if !of.advisories.is_empty() {
            section id="advisories" {
                h2 { "Advisories " span class="count" { "they do not decide the verdict" } }
                div class="wide" tabindex="0" role="group" aria-label="Table" { table class="sides" {
                    thead { tr { th { "runs with a remark on" } th { "A" } th { "B" } } }
                    tbody {
                        @for advisory in &of.advisories {
                            tr { td { (line(&advisory.title, 160)) } td { (count(advisory.a)) } td { (count(advisory.b)) } }
                        }
                    }
                } }
            }
        }
        (terms("How to read this page", TERMS))
    }
}

/// At most this many cells are shown if none of them tells anything.
const SHORT: usize = 12;

/// The cells that tell something, and the others.
fn sorted(of: &Comparison) -> (Vec<&Cell>, Vec<&Cell>) {
    let rank = |cell: &Cell| match cell.change {
        Change::Worse => 0,
        Change::NotComparable => 1,
        Change::Better => 2,
        _ if cell.a.broken * cell.b.judged != cell.b.broken * cell.a.judged => 3,
        _ => 4,
    };
    let mut cells: Vec<&Cell> = of.cells.iter().collect();
    cells.sort_by_key(|cell| rank(cell));
    cells.into_iter().partition(|cell| rank(cell) < 4)
}

const HEADS: [&str; 10] = [
    "cell",
    "",
    "p",
    "failed, A",
    "failed, B",
    "failures, B - A",
    "lost, A",
    "lost, B",
    "latency, median and p99",
    "updates per second",
];

fn table(cells: &[&Cell]) -> Markup {
    html! {
        div class="wide" tabindex="0" role="group" aria-label="Table" { table class="cells stack" {
            thead { tr { @for head in HEADS { th { (head) } } } }
            tbody { @for cell in cells { (row(cell)) } }
        } }
    }
}

/// The median and the 99th percentile of both sides.
fn latency(cell: &Cell) -> String {
    let side = |of: &Numbers| match of.median_ms {
        None => "–".to_string(),
        Some(_) => format!("{}, {}", ms(of.median_ms), ms(of.p99_ms)),
    };
    if cell.a.median_ms.or(cell.b.median_ms).is_none() {
        "–".to_string()
    } else {
        format!("{} → {}", side(&cell.a), side(&cell.b))
    }
}

fn row(cell: &Cell) -> Markup {
    let class = match cell.change {
        Change::Worse => "broken",
        Change::Better => "held",
        Change::NotComparable => "unproven",
        _ => "open",
    };
    html! {
        tr {
            td { (sanitize(&cell.name, 200)) }
            td class="n" { b class=(class) { (cell.change.word()) } }
            td class="n" data-head=(HEADS[2]) { (reason(cell).trim_start_matches("p = ").trim_start_matches("p ")) }
            td data-head=(HEADS[3]) { (broken(&cell.a)) }
            td data-head=(HEADS[4]) { (broken(&cell.b)) }
            td data-head=(HEADS[5]) { (more(cell)) }
            td data-head=(HEADS[6]) { (lost(&cell.a)) }
            td data-head=(HEADS[7]) { (lost(&cell.b)) }
            td data-head=(HEADS[8]) { (latency(cell)) }
            td class="n" data-head=(HEADS[9]) { (rate(cell.a.per_second)) " → " (rate(cell.b.per_second)) }
        }
    }
}
