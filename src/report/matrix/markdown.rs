//! The matrix as Markdown, for the summary of a CI job.

use super::{phrases, scoreboard};
use crate::suite::matrix::{Cell, Matrix};
use crate::suite::outcome::CellStatus;
use crate::words::{count, line};

/// GitHub accepts 1 MiB of summary per step, and shows none of it beyond that; readers want less.
const LONGEST: usize = 200_000;

/// The content of `matrix.md`: the verdict, the alarming cells, the matrix, and as many cells' numbers as fit.
pub fn markdown(matrix: &Matrix) -> String {
    let (word, _) = phrases::verdict(matrix.verdict);
    let simulated = if matrix.simulated > 0 { " (simulated)" } else { "" };
    let mut text = format!("## {}: {word}{simulated}\n\n{}\n\n", escaped(&matrix.suite), escaped(&matrix.headline()));
    let alarming = phrases::alarming(matrix);
    let alarms = alarming.iter().map(|cell| alarm(cell));
    fill(&mut text, alarms, LONGEST / 2);
    text.push_str(&grid(matrix));
    text.push('\n');
    fill(&mut text, scoreboard::markdown(matrix).into_iter(), LONGEST / 4 * 3);
    text.push_str("<details><summary>Numbers</summary>\n\n");
    text.push_str("| cell | expected | seen | updates lost | share (95 %) | overlaps | first violation | without the lock after the heal | updates/s | |\n");
    text.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
    fill(&mut text, matrix.cells.iter().map(row), LONGEST);
    text.push_str("\n</details>\n\n");
    let mistimed = phrases::mistimed(matrix).into_iter();
    let told = mistimed.map(|(cell, run, what)| format!("- {}, seed {}: {what}\n", escaped(&cell.name), run.seed));
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        fill(&mut text, told.into_iter(), LONGEST + LONGEST / 10);
        text.push('\n');
    }
    let about: Vec<String> = phrases::about(matrix).iter().map(|part| escaped(part)).collect();
    let versions = matrix.versions.iter().map(|(name, version)| escaped(&format!("{name} {}", line(version, 100))));
    text.push_str(&format!("{}\n", about.into_iter().chain(versions).collect::<Vec<_>>().join(" · ")));
    text
}

/// Adds parts as long as there is room, then says how many are left out.
fn fill(text: &mut String, parts: impl ExactSizeIterator<Item = String>, room: usize) {
    let all = parts.len();
    for (number, part) in parts.enumerate() {
        if text.len() + part.len() > room {
            text.push_str(&format!("\nand {} more, in matrix.html\n\n", count((all - number) as u64)));
            return;
        }
        text.push_str(&part);
    }
}

fn alarm(cell: &Cell) -> String {
    let mut text = format!(
        "**{}: {}**, expected {}, {}\n\n",
        phrases::standing(cell.standing),
        escaped(&cell.name),
        phrases::expected(cell.expected, cell.found),
        phrases::seen(cell)
    );
    for run in cell.runs.iter().filter(|run| phrases::alarms(cell, run)).take(3) {
        text.push_str(&format!("- seed {}: {}\n", run.seed, escaped(&line(&run.summary, 300))));
        if !run.repeat.is_empty() {
            text.push_str(&format!("  `{}`\n", line(&run.repeat, 400).replace('`', "'")));
        }
    }
    text + "\n"
}

/// Workloads across, nemeses down. A grid too large for a summary is left to the page.
fn grid(matrix: &Matrix) -> String {
    let workloads = phrases::distinct(matrix.cells.iter().map(|cell| cell.workload.as_str()));
    let nemeses = phrases::distinct(matrix.cells.iter().map(|cell| cell.nemesis.as_str()));
    if workloads.len() * nemeses.len() > 2_000 {
        return String::new();
    }
    let names: Vec<String> = workloads.iter().map(|workload| escaped(workload)).collect();
    let mut text = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(workloads.len()));
    for nemesis in nemeses {
        let of = |workload: &&str| {
            let cells = matrix
                .cells
                .iter()
                .filter(|cell| (&cell.workload, cell.nemesis.as_str()) == (&workload.to_string(), nemesis));
            cells.map(mark).collect::<Vec<_>>().join("<br>")
        };
        let cells: Vec<String> = workloads.iter().map(of).collect();
        text.push_str(&format!("| {} | {} |\n", escaped(nemesis), cells.join(" | ")));
    }
    text
}

fn mark(cell: &Cell) -> String {
    let (word, _) = phrases::shown(cell);
    let part = match word {
        "broken" => format!(" {}/{}", cell.tally.invalid, cell.tally.done()),
        "held" => format!(" {}/{}", cell.tally.valid, cell.tally.done()),
        _ => String::new(),
    };
    let sign = match cell.standing {
        CellStatus::AsExpected => "✅",
        CellStatus::Surprise => "❌ SURPRISE:",
        CellStatus::Unknown => "❔",
        CellStatus::NotRun => "▫️",
        CellStatus::Observed => "👁",
    };
    format!("{sign} {word}{part}")
}

fn row(cell: &Cell) -> String {
    let numbers = &cell.numbers;
    let fields = [
        escaped(&cell.name),
        phrases::expected(cell.expected, cell.found).to_string(),
        phrases::seen(cell),
        phrases::lost(numbers),
        phrases::share(cell),
        phrases::overlaps(numbers),
        phrases::seconds(numbers.first_violation_s),
        phrases::seconds(numbers.without_lock_s),
        phrases::rate(numbers.per_second),
        phrases::standing(cell.standing).to_string(),
    ];
    format!("| {} |\n", fields.join(" | "))
}

/// Escapes text so that it means nothing in Markdown, GitHub's included, or HTML, and stays on its line and in its cell.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in line(text, 1000).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            // So that only our own backticks begin or end a quotation.
            '`' => escaped.push_str("&#96;"),
            '\\' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' | '@' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_on_its_line_and_in_its_cell() {
        for (text, expected) in [
            ("redlock under pause", "redlock under pause"),
            ("a|b", "a\\|b"),
            ("a\\|b", "a\\\\\\|b"),
            ("`code`", "&#96;code&#96;"),
            ("<b>&lt;", "&lt;b&gt;&amp;lt;"),
            ("one\n# two\r\n- three", "one \\# two  - three"),
            ("![x](http://y)", "!\\[x\\](http://y)"),
            ("**_~$@", "\\*\\*\\_\\~\\$\\@"),
            ("\u{1b}[31m\u{202e}", "\u{fffd}\\[31m\u{fffd}"),
        ] {
            assert_eq!(escaped(text), expected, "{text:?}");
        }
    }
}
