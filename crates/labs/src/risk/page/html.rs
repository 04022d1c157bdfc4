//! An answer as a page: the sentence, the plot, the table, what it rests on.

use maud::{PreEscaped, html};

use super::{RiskReport, plot};
use crate::risk::distribution::Source;
use base::words::capital;
use report::html::{facts_section, header, table, whole_page};
use report::plots;

impl RiskReport<'_> {
    /// The page.
    pub(super) fn html(&self) -> String {
        let headline = html! { (capital(&self.headline())) "." };
        let guard = html! { @if let Some(guard) = self.with_guard() { p { (guard) } } };
        let picture = plot::risk(&self.risk.rows, self.question.asked, &self.title());
        let (heads, rows) = self.table();
        let profiles = html! {
            @for (_, distribution) in &self.question.faults {
                @if let Source::Profile { from, .. } = &distribution.source {
                    p class="fine" { "Profile " (distribution.name) ": " (from) }
                }
            }
        };
        let body = html! {
            main {
                (header("unknown", &["how often a lock loses updates"], "SIMULATED", &headline, &guard))
                section id="ttl" {
                    h2 { "By TTL" }
                    @if let Ok(svg) = plots::svg(&picture) { figure class="plot" { (PreEscaped(svg)) } }
                    (table(&heads, rows.iter().map(|row| html! { @for cell in row { td class="n" { (cell) } } })))
                    p class="fine" {
                        "In brackets: 95 % intervals. An incident is a fault that costs at least one update. The last two columns "
                        "are the price of a long TTL: no client gets the lock of a dead holder before it expires."
                    }
                }
                (facts_section("rests", "What it rests on", &self.facts(), &self.command, &profiles))
            }
        };
        whole_page(&["SIMULATED", &self.title()], "", &body)
    }
}
