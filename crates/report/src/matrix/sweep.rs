//! Cells that differ in one option only, drawn side by side.

use maud::{Markup, PreEscaped, html};

use crate::html::plot;
use crate::plots;
use base::words::{count, percent, sanitize};
use suite::compare::share::NO_INTERVAL;
use summary::table::{SuiteSummary, SweepAccount};

/// A plot for each sweep of the suite. Empty if there is none.
pub fn sweeps(table: &SuiteSummary) -> Markup {
    html! {
        @if !table.sweeps.is_empty() {
            section id="sweeps" {
                h2 { "Side by side" }
                @for sweep in &table.sweeps {
                    @let svg = plots::svg(&plots::sweep(sweep, table.simulated)).unwrap_or_default();
                    @let lines = lines(sweep).join("; ").replace(" %", "\u{a0}%");
                    (plot(&PreEscaped(svg), &html! { (sanitize(&sweep.title, 200)) ": " (lines) "." }))
                }
            }
        }
    }
}

/// A line for each value, with the updates that it loses.
pub fn lines(of: &SweepAccount) -> Vec<String> {
    let line = |point: &summary::table::SweepPoint| {
        let numbers = &point.numbers;
        let interval = match numbers.lost_95 {
            Some((low, high)) => format!(" ({} to {})", percent(low), percent(high)),
            None if numbers.lost > 0 => format!(" ({NO_INTERVAL})"),
            None => String::new(),
        };
        let lost = match numbers.lost_share {
            None => "nothing acknowledged".to_string(),
            Some(share) => {
                format!(
                    "{} of {} updates lost, {}{interval}",
                    count(numbers.lost),
                    count(numbers.acknowledged),
                    percent(share)
                )
            }
        };
        let value = sanitize(&format!("{} {}", of.option, point.value), 60);
        format!("{value}: failed in {} of {}, {lost}", numbers.broken, numbers.judged)
    };
    of.points.iter().map(line).collect()
}
