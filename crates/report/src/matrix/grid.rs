//! The matrix: the result of each lock under each nemesis. If many locks share the same nemeses, it is a table. The other cells
//! are a list, so that few fields stay empty. On a narrow screen everything is a list. Unexpected results come first, in rows
//! and in columns.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::cells::{class, links, shown_class};
use base::words::{plural, sanitize};
use suite::outcome::CellStatus;
use summary::table::{CellAccount, SuiteSummary, distinct};

/// A larger table would not fit on a page. The table of numbers has every cell anyway.
const MOST_FIELDS: usize = 100_000;
/// This many locks fit beside each other on a screen.
const MOST_COLUMNS: usize = 10;
/// A lock with fewer cells would leave most fields empty, so it goes into the list.
const LEAST_CELLS: usize = 4;
/// At most this many links are in a cell of the matrix. The table of numbers has all of them.
const MOST_LINKS: usize = 5;

type Placed<'m> = (usize, &'m CellAccount);

/// Workloads as columns and nemeses as rows: one table for random faults and one for scripted scenarios.
pub fn grid(table: &SuiteSummary) -> Markup {
    let all = distinct(table.cells.iter().map(|cell| cell.nemesis.as_str())).len();
    if table.workloads.len().saturating_mul(all) > MOST_FIELDS {
        return html! {
            section id="matrix" {
                h2 { "What breaks which lock" }
                p class="note" {
                    "A table of " (table.workloads.len()) " workloads and " (all) " nemeses is too large for a page. Each cell is in "
                    a href="#numbers" { "the numbers" } "."
                }
            }
        };
    }
    html! {
        section id="matrix" {
            h2 { "What breaks which lock" }
            ul class="fine key" {
                li { b class="held" { "passed" } " no violation in these runs" }
                li { b class="broken" { "failed" } " number of runs with a violation" }
                li { b class="unproven" { "unknown" } " too little evidence" }
                li { span class="badge" { "UNEXPECTED" } "not the expected result" }
                li { i { "italics" } " no expectation" }
                li { u { "1" } " the report of run 1" }
            }
            @for (scripted, title) in [(false, "Without faults, and with random faults"), (true, "Scenarios, step by step")] {
                (part(table, scripted, title))
            }
        }
    }
}

fn part(table: &SuiteSummary, scripted: bool, title: &str) -> Markup {
    let cells: Vec<Placed> = table.cells.iter().enumerate().filter(|(_, cell)| cell.scripted == scripted).collect();
    if cells.is_empty() {
        return html! {};
    }
    let workloads = ordered(&cells, |cell| &cell.workload);
    let beside = beside_each_other(&cells, &workloads);
    let listed = workloads.iter().filter(|workload| !beside.contains(workload)).count();
    html! {
        h3 class="part" { (title) " " span class="count" { (plural(cells.len() as u64, "cell")) } }
        @if !beside.is_empty() { (fields(&cells, &beside)) }
        @if listed > 0 && !beside.is_empty() {
            p class="note wide-only" { "And " (plural(listed as u64, "workload")) " with few of these nemeses:" }
        }
        dl class="list" {
            @for workload in &workloads {
                @let of_it: Vec<&Placed> = cells.iter().filter(|(_, cell)| cell.workload == *workload).collect();
                div class=(if beside.contains(workload) { "lock narrow-only" } else { "lock" }) {
                    dt { (sanitize(workload, 60)) }
                    @for (number, cell) in first_those_that_differ(of_it) { dd { (slot(*number, cell, true)) } }
                }
            }
        }
    }
}

/// The names of the rows or columns: first those with unexpected cells, then the others in their original order.
fn ordered<'m>(cells: &[Placed<'m>], name: impl Fn(&'m CellAccount) -> &'m str) -> Vec<String> {
    let mut names = distinct(cells.iter().map(|(_, cell)| name(cell)));
    let differs = |wanted: &String| !cells.iter().any(|(_, cell)| name(cell) == wanted && is_alarming(cell));
    names.sort_by_key(differs);
    names
}

fn is_alarming(cell: &CellAccount) -> bool {
    matches!(cell.standing, CellStatus::Surprise | CellStatus::Unknown)
}

fn first_those_that_differ<'c, 'm>(mut cells: Vec<&'c Placed<'m>>) -> Vec<&'c Placed<'m>> {
    cells.sort_by_key(|(_, cell)| !is_alarming(cell));
    cells
}

/// The workloads that are columns of a table: all if they are few, otherwise those with the most cells. Keeps the given order.
fn beside_each_other(cells: &[Placed], workloads: &[String]) -> Vec<String> {
    if workloads.len() <= MOST_COLUMNS / 2 {
        return workloads.to_vec();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    cells.iter().for_each(|(_, cell)| *counts.entry(&cell.workload).or_default() += 1);
    let mut most: Vec<&String> = workloads.iter().filter(|workload| counts[workload.as_str()] >= LEAST_CELLS).collect();
    most.sort_by_key(|workload| std::cmp::Reverse(counts[workload.as_str()]));
    most.truncate(MOST_COLUMNS);
    workloads.iter().filter(|workload| most.contains(workload)).cloned().collect()
}

fn fields(cells: &[Placed], workloads: &[String]) -> Markup {
    let mut fields: BTreeMap<(&str, &str), Vec<&Placed>> = BTreeMap::new();
    let shown: Vec<Placed> = cells.iter().filter(|(_, cell)| workloads.contains(&cell.workload)).copied().collect();
    for placed in &shown {
        fields.entry((&placed.1.workload, &placed.1.nemesis)).or_default().push(placed);
    }
    html! {
        div class="wide wide-only" tabindex="0" role="region" aria-label="The matrix" {
            table class="grid" {
                thead { tr { td {} @for workload in workloads { th scope="col" { (sanitize(workload, 60)) } } } }
                tbody {
                    @for nemesis in ordered(&shown, |cell| &cell.nemesis) {
                        tr {
                            th scope="row" { (sanitize(&nemesis, 60)) }
                            @for workload in workloads {
                                @let here = fields.get(&(workload.as_str(), nemesis.as_str())).map_or(&[][..], Vec::as_slice);
                                td class=[here.is_empty().then_some("empty")] {
                                    @for (number, cell) in here { (slot(*number, cell, false)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// One cell. `named` adds its nemesis, for lists.
fn slot(number: usize, cell: &CellAccount, named: bool) -> Markup {
    let result = shown_class(cell.shown);
    html! {
        div class={ "slot " (class(cell)) " of-" (result) } data-name=(sanitize(&cell.name, 200))
            title={ "expected: " (cell.expected) "; seen: " (cell.seen) } {
            @if named { span class="under" { (sanitize(&cell.nemesis, 60)) } " " }
            @if cell.standing == CellStatus::Surprise { span class="badge" { "UNEXPECTED" } }
            a class={ "shown " (result) } href={ "#cell-" (number + 1) } {
                (cell.shown.word())
                @if let Some(part) = &cell.part { small { " " (part) } }
            }
            @if !cell.with.is_empty() { span class="with" { (sanitize(&cell.with, 80)) } }
            span class="runs" {
                // An expected result needs no note, and italics already mark an observed one.
                @if !cell.note.is_empty() && !matches!(cell.standing, CellStatus::AsExpected | CellStatus::Observed) { (cell.note) " · " }
                (links(cell, MOST_LINKS))
            }
        }
    }
}
