//! The same cells on several servers: a column for each.

use maud::{Markup, html};

use super::cells::{class, links, shown_class};
use base::words::sanitize;
use suite::outcome::CellStatus;
use summary::table::{CellAccount, ServersAccount, SuiteSummary};

const MOST_LINKS: usize = 5;

/// The table, with the cells that differ first. Empty if no servers are compared.
pub fn servers(table: &SuiteSummary) -> Markup {
    html! {
        @if let Some(of) = &table.servers {
            section id="servers" {
                h2 { (ServersAccount::TITLE) }
                ul class="reasons" { @for line in &of.lines { li { (sanitize(line, 600)) } } }
                div class="wide" tabindex="0" role="region" aria-label=(ServersAccount::TITLE) {
                    table class="grid" {
                        thead { tr {
                            td {}
                            @for server in &of.servers {
                                th scope="col" {
                                    (sanitize(&server.name, 80))
                                    @if let Some(version) = &server.version { span class="version" { (sanitize(version, 60)) } }
                                }
                            }
                        } }
                        tbody { @for row in &of.rows {
                            tr class=[row.differs.then_some("differs")] {
                                th scope="row" { (sanitize(&row.title, 120)) }
                                @for place in &row.cells { (field(place.and_then(|place| Some((place, table.cells.get(place)?))))) }
                            }
                        } }
                    }
                }
            }
        }
    }
}

fn field(cell: Option<(usize, &CellAccount)>) -> Markup {
    html! {
        @match cell {
            None => td class="empty" {},
            Some((place, cell)) => td {
                div class={ "slot " (class(cell)) } title={ "expected: " (cell.expected) "; seen: " (cell.seen) } {
                    @if cell.standing == CellStatus::Surprise { span class="badge" { "UNEXPECTED" } }
                    a class={ "shown " (shown_class(cell.shown)) } href={ "#cell-" (place + 1) } {
                        (cell.shown.word())
                        @if let Some(part) = &cell.part { small { " " (part) } }
                    }
                    span class="runs" { (links(cell, MOST_LINKS)) }
                }
            },
        }
    }
}
