//! The comparison on a terminal.

use super::{broken, class, headline, lost, more, ms, rate, reason};
use crate::Look;
use base::words::{count, line, sanitize};
use suite::compare::{About, Change, Comparison};

/// At most this many cells are listed; the page has the others.
const MOST_CELLS: usize = 40;
/// At most this many differences are listed; the page has the others.
const MOST_DIFFERENCES: usize = 12;

/// The verdict, both sides, their differences, and each cell that tells something.
pub fn text(of: &Comparison, look: Look) -> String {
    let mut lines = look.headline(&of.verdict.word().to_uppercase(), class(of.verdict), &headline(of));
    // A single reason is the headline.
    let reasons = of.reasons.iter().filter(|_| of.reasons.len() > 1 || of.verdict != Change::NotComparable);
    lines.extend(reasons.map(|reason| format!("  - {}", line(reason, 300))));
    lines.push(String::new());
    lines.extend([("A", &of.a), ("B", &of.b)].map(|(side, about)| format!("  {side}  {}", told(about))));
    if !of.differences.is_empty() {
        lines.push(String::new());
        for difference in of.differences.iter().take(MOST_DIFFERENCES) {
            let [name, a, b] = [&difference.name, &difference.a, &difference.b].map(|text| sanitize(text, 120));
            lines.push(format!("  {name:<22} {a} → {b}"));
        }
    }
    if !of.advisories.is_empty() {
        lines.extend([String::new(), format!("  {}", look.paint("1", "Advisories: number of runs that violate each"))]);
        let told =
            of.advisories.iter().map(|of| format!("    {}: {} → {}", line(&of.title, 160), count(of.a), count(of.b)));
        lines.extend(told);
    }
    let (one, several) = (of.cells.len() == 1, of.cells.len() > 1);
    let telling = |change| matches!(change, Change::Worse | Change::Better | Change::NotComparable);
    let shown = of.cells.iter().filter(|cell| one || telling(cell.change) || cell.a.broken != cell.b.broken);
    for cell in shown.take(MOST_CELLS) {
        lines.push(String::new());
        let code = match cell.change {
            Change::Worse => "1;31",
            Change::Better => "32",
            _ => "2",
        };
        lines.push(format!(
            "  {}: {} ({})",
            sanitize(&cell.name, 160),
            look.paint(code, cell.change.word()),
            reason(cell)
        ));
        for (name, a, b) in [
            ("failed", broken(&cell.a), broken(&cell.b)),
            ("updates lost", lost(&cell.a), lost(&cell.b)),
            ("latency, median", ms(cell.a.median_ms), ms(cell.b.median_ms)),
            ("latency, p99", ms(cell.a.p99_ms), ms(cell.b.p99_ms)),
            ("updates per second", rate(cell.a.per_second), rate(cell.b.per_second)),
        ] {
            lines.push(format!("    {name:<18} {a} → {b}"));
        }
        lines.push(format!("    {:<18} {}", "failures, B - A", more(cell)));
    }
    if several {
        let of_kind = |change: Change| of.cells.iter().filter(|cell| cell.change == change).count();
        let kinds = [Change::Worse, Change::Better, Change::NoDifference, Change::TooFew, Change::NotComparable];
        let kinds: Vec<String> = (kinds.into_iter())
            .filter(|kind| of_kind(*kind) > 0)
            .map(|kind| format!("{} {}", of_kind(kind), kind.word()))
            .collect();
        lines.push(String::new());
        lines.push(format!("  {} cells: {}", of.cells.len(), kinds.join(", ")));
        if kinds.iter().any(|kind| kind.ends_with(Change::TooFew.word())) {
            lines.push(
                "  A single cell needs more runs; all cells together may show a difference that no single cell shows."
                    .to_string(),
            );
        }
    }
    lines.join("\n") + "\n"
}

fn told(about: &About) -> String {
    let started = if about.started.is_empty() { String::new() } else { format!(", {}", sanitize(&about.started, 40)) };
    format!("{}: {}{started}", sanitize(&about.name, 200), sanitize(&about.what, 200))
}
