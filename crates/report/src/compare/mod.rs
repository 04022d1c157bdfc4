//! The comparison of two sides: for the terminal and as a page.

mod html;
mod text;

use base::words::{count, length, percent, plural, unless_none};
use suite::compare::share::NO_INTERVAL;
use suite::compare::{Cell, Change, Comparison, Numbers};

pub use html::{content, html};
pub use text::text;

/// The class of a verdict, for the page and the terminal.
fn class(verdict: Change) -> &'static str {
    match verdict {
        Change::Worse => "invalid",
        Change::NotWorse => "valid",
        _ => "unknown",
    }
}

/// The verdict in a sentence, and the cells that pass again.
fn headline(of: &Comparison) -> String {
    let again: Vec<&str> = of.cells.iter().filter(|cell| cell.passes_again).map(|cell| &*cell.name).collect();
    match &again[..] {
        [] => verdict_in_words(of),
        [name] => format!("{} `{name}` must pass, failed in A, and passes in B.", verdict_in_words(of)),
        several => format!("{} {} cells must pass, failed in A, and pass in B.", verdict_in_words(of), several.len()),
    }
}

fn verdict_in_words(of: &Comparison) -> String {
    let that = |change: Change| of.cells.iter().filter(|cell| cell.change == change).count() as u64;
    let one = of.cells.len() == 1;
    match of.verdict {
        Change::Worse if one => format!("B is worse than A: {}.", because(&of.cells[0])),
        Change::Worse if of.cells.iter().any(|cell| cell.broke) => {
            let broke: Vec<&Cell> = of.cells.iter().filter(|cell| cell.broke).collect();
            let others = unless_none(that(Change::Worse) - broke.len() as u64, |some| {
                format!(", and {some} more cells are worse")
            });
            match &broke[..] {
                [cell] => {
                    format!("B is worse than A: `{}` must pass, passed in A, and fails in B{others}.", cell.name)
                }
                several => {
                    format!("B is worse than A: {} cells must pass, passed in A, and fail in B{others}.", several.len())
                }
            }
        }
        Change::Worse if that(Change::Worse) == 0 => {
            format!(
                "B is worse than A over all {} together ({}), but not certainly in any single cell.",
                cells(of),
                chance(of.p_worse)
            )
        }
        Change::Worse => {
            format!("B is worse than A in {} of {} ({} in total).", that(Change::Worse), cells(of), chance(of.p_worse))
        }
        Change::NotWorse if one && of.cells[0].change == Change::Better => {
            format!("B is better than A: {}.", because(&of.cells[0]))
        }
        Change::NotWorse if one => format!("B was not shown to be worse than A: {}.", because(&of.cells[0])),
        Change::NotWorse => {
            let better = unless_none(that(Change::Better), |some| format!("; {some} better"));
            format!("B was not shown to be worse than A in {} ({} in total{better}).", cells(of), chance(of.p_worse))
        }
        Change::TooFew if one => {
            let (a, b) = (&of.cells[0].a, &of.cells[0].b);
            format!(
                "Any difference between {} of A and {} of B may be chance. A difference can be shown with at least three runs of \
                 each.",
                plural(a.judged, "run"),
                b.judged
            )
        }
        Change::TooFew => format!("Any difference between so few runs of {} may be chance.", cells(of)),
        _ => match &of.reasons[..] {
            [reason] => format!("{}.", base::words::capital(reason)),
            _ => "A has results that B cannot be compared with.".to_string(),
        },
    }
}

fn cells(of: &Comparison) -> String {
    plural(of.cells.len() as u64, "cell")
}

/// The evidence for a single cell's verdict.
fn because(cell: &Cell) -> String {
    let (a, b) = (&cell.a, &cell.b);
    let p = if cell.change == Change::Better { cell.p_better } else { cell.p_worse };
    let runs = format!("failed in {} of {} (A: {} of {})", b.broken, plural(b.judged, "run"), a.broken, a.judged);
    let lost = format!("lost {} of the updates (A: {})", share(b), share(a));
    if cell.broke {
        return format!("B must pass, A passed, and B {runs}, {lost}");
    }
    format!("{runs}, {lost} ({})", chance(p))
}

fn share(of: &Numbers) -> String {
    of.lost_share.map_or("none".to_string(), percent)
}

/// The probability that chance alone gives such a difference.
fn chance(p: f64) -> String {
    match p {
        p if p < 0.001 => "p < 0.001".to_string(),
        p if p > 0.995 => "p = 1".to_string(),
        p if p < 0.1 => format!("p = {p:.3}"),
        p => format!("p = {p:.2}"),
    }
}

fn interval(interval: Option<(f64, f64)>) -> String {
    interval.map_or(String::new(), |(low, high)| format!(" ({} to {})", percent(low), percent(high)))
}

/// `3 of 5 runs (23% to 88%)`.
fn broken(of: &Numbers) -> String {
    if of.judged == 0 {
        return format!("no verdict in {}", plural(of.runs, "run"));
    }
    let silent = of.runs - of.judged;
    let silent = if silent > 0 { format!(", {silent} more without a verdict") } else { String::new() };
    format!("{} of {}{}{silent}", of.broken, plural(of.judged, "run"), interval(of.broken_95))
}

/// `12 of 610, 2% (0.4% to 3.6%)`.
fn lost(of: &Numbers) -> String {
    match of.lost_share {
        None => "–".to_string(),
        Some(_) if of.lost == 0 => format!("0 of {}", count(of.acknowledged)),
        Some(share) => {
            let within = match of.lost_95 {
                None => format!(" ({NO_INTERVAL})"),
                within => interval(within),
            };
            format!("{} of {}, {}{within}", count(of.lost), count(of.acknowledged), percent(share))
        }
    }
}

fn ms(ms: Option<f64>) -> String {
    ms.map_or("–".to_string(), |ms| length((ms.clamp(0.0, 1e12) * 1e6) as u64))
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or("–".to_string(), |rate| format!("{rate:.1}"))
}

/// The probability of chance, or why it does not matter.
fn reason(cell: &Cell) -> String {
    match cell.change {
        _ if cell.broke => "must pass".to_string(),
        Change::NotComparable => {
            let missing = [("A", &cell.a), ("B", &cell.b)].into_iter().filter(|(_, of)| of.judged == 0);
            format!(
                "no verdict in {}",
                base::words::list(&missing.map(|(side, _)| side.to_string()).collect::<Vec<_>>())
            )
        }
        Change::Better => chance(cell.p_better),
        _ => chance(cell.p_worse),
    }
}

/// By how many percentage points B fails more often than A, with the interval.
fn more(cell: &Cell) -> String {
    let points = |share: f64| format!("{:+.0}", share * 100.0);
    cell.more_broken.map_or("–".to_string(), |(more, low, high)| {
        format!("{} percentage points (95%: {} to {})", points(more), points(low), points(high))
    })
}

const TERMS: [(&str, &str); 6] = [
    (
        "runs",
        "The unit. One late write can destroy several updates, and one fault can affect many. So each run counts once: a valid \
         run as 0, an invalid run as 1 plus its share of lost updates.",
    ),
    (
        "p",
        "The probability of a difference at least this large if A and B do not differ. It comes from the exact rank-sum test of \
         Wilcoxon, Mann and Whitney. If the runs differ only in their verdicts, this is Fisher's exact test. Worse and better are \
         tested separately, at 5%.",
    ),
    (
        "many cells",
        "With several cells, redjepsen tests all cells together at 2.5%, by the number of failed runs (runs may change sides \
         within their cell, and rank sums add up). It also tests each single cell at 2.5%, with Holm's correction. If a cell \
         must pass, passes in A and fails in B, B is worse without a test: a violation is certain.",
    ),
    (
        "too few runs",
        "With so few runs, no difference can be shown at the 5 % level. This does not mean that nothing changed. One cell needs at least three runs of each side.",
    ),
    (
        "intervals",
        "95%: for shares of runs by Wilson, for their difference by Newcombe, and for lost updates by Student, from the \
         variation between runs on the log-odds scale. This needs three runs with a loss. The docs say how often such an \
         interval contains the true share.",
    ),
    ("latency, throughput", "Medians of the runs. They depend on the machine and decide nothing here."),
];
