//! The matrix as Markdown, for the summary of a CI job.

use base::words::{count, line};
use suite::matrix::Cell;
use suite::outcome::CellStatus;
use summary::table::{LibraryAccount, Table, distinct, expected, libraries, phrases};

/// GitHub accepts 1 MiB of summary per step, and shows none of it beyond that; readers want less.
const LONGEST: usize = 200_000;

/// The content of `matrix.md`: the verdict, the alarming cells, the matrix, and as many cells' numbers as fit.
pub fn markdown(table: &Table) -> String {
    let (suite, word, headline) = (escaped(&table.suite), table.word, escaped(&table.headline));
    let mut text = format!("## {suite}: {word}{}\n\n{headline}\n\n", table.mark());
    for (title, told) in [("Otherwise than the last time", &table.changes), ("Not run", &table.not_run)] {
        if !told.is_empty() {
            text.push_str(&format!("**{title}**\n\n"));
            fill(&mut text, told.iter().map(|one| format!("- {}\n", escaped(&line(one, 400)))), LONGEST / 4);
            text.push('\n');
        }
    }
    fill(&mut text, table.alarming().into_iter().map(alarm), LONGEST / 2);
    text.push_str(&grid(table));
    text.push('\n');
    fill(&mut text, table.libraries.iter().map(|one| library(table, one)), LONGEST / 4 * 3);
    text.push_str("<details><summary>Numbers</summary>\n\n");
    text.push_str("| cell | expected | seen | updates lost | share (95 %) | overlaps | first violation | without the lock after the heal | updates/s | |\n");
    text.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
    fill(&mut text, table.cells.iter().map(row), LONGEST);
    text.push_str("\n</details>\n\n");
    let mistimed = table.mistimed();
    if !mistimed.is_empty() {
        let told =
            mistimed.iter().map(|(cell, run, what)| format!("- {}, seed {}: {what}\n", escaped(&cell.name), run.seed));
        fill(&mut text, told, LONGEST + LONGEST / 10);
        text.push('\n');
    }
    let about = phrases::about(table);
    let about = about.iter().map(|part| escaped(part));
    let versions = table.versions.iter().map(|(name, version)| escaped(&format!("{name} {}", line(version, 100))));
    text.push_str(&format!("{}\n", about.chain(versions).collect::<Vec<_>>().join(" · ")));
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
    let (standing, name) = (cell.standing.word(), escaped(&cell.name));
    let (expected, seen) = (expected(cell.expected, cell.found), phrases::seen(cell));
    let mut text = format!("**{standing}: {name}**, expected {expected}, {seen}\n\n");
    for run in cell.alarming_runs().take(3) {
        text.push_str(&format!("- seed {}: {}\n", run.seed, escaped(&line(&run.summary, 300))));
        if !run.repeat.is_empty() {
            text.push_str(&format!("  {}\n", code(&run.repeat)));
        }
    }
    text + "\n"
}

/// A command, as code.
fn code(command: &str) -> String {
    format!("`{}`", line(command, 400).replace('`', "'"))
}

/// Workloads across, nemeses down. A grid too large for a summary is left to the page.
fn grid(table: &Table) -> String {
    let nemeses = distinct(table.cells.iter().map(|cell| cell.nemesis.as_str()));
    if table.workloads.len() * nemeses.len() > 2_000 {
        return String::new();
    }
    let names: Vec<String> = table.workloads.iter().map(|workload| escaped(workload)).collect();
    let mut text = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for nemesis in nemeses {
        let of = |workload: &String| {
            let cells = table.cells.iter().filter(|cell| (&cell.workload, &cell.nemesis) == (workload, &nemesis));
            cells.map(mark).collect::<Vec<_>>().join("<br>")
        };
        let cells: Vec<String> = table.workloads.iter().map(of).collect();
        text.push_str(&format!("| {} | {} |\n", escaped(&nemesis), cells.join(" | ")));
    }
    text
}

fn mark(cell: &Cell) -> String {
    let part = phrases::part(cell).map_or(String::new(), |part| format!(" {part}"));
    let sign = match cell.standing {
        CellStatus::AsExpected => "✅",
        CellStatus::Surprise => "❌ SURPRISE:",
        CellStatus::Unknown => "❔",
        CellStatus::NotRun => "▫️",
        CellStatus::Observed => "👁",
    };
    format!("{sign} {}{part}", phrases::shown(cell))
}

fn row(cell: &Cell) -> String {
    let numbers = &cell.numbers;
    let fields = [
        escaped(&cell.name),
        expected(cell.expected, cell.found).to_string(),
        phrases::seen(cell),
        phrases::lost(numbers),
        phrases::share(cell),
        phrases::overlaps(numbers),
        phrases::seconds(numbers.first_violation_s),
        phrases::seconds(numbers.without_lock_s),
        phrases::rate(numbers.per_second),
        cell.standing.word().to_string(),
    ];
    format!("| {} |\n", fields.join(" | "))
}

/// One library: what broke it, what it stood, and what is open.
fn library(table: &Table, of: &LibraryAccount) -> String {
    let library = of.library();
    let mut text =
        format!("### {} {}\n\n{}", escaped(&library.name), escaped(&library.version), escaped(&of.summary()));
    for more in library.home.as_deref().into_iter().chain([of.users()]) {
        text.push_str(&format!(" · {}", escaped(more)));
    }
    text.push_str("\n\n");
    for cell in &of.broken {
        let finding = of.finding(cell);
        let what = finding.map_or_else(String::new, |finding| {
            let more = finding.source.iter().chain(&finding.issue).map(|text| format!(" ({})", escaped(text)));
            format!(" {}{}", escaped(&finding.what), more.collect::<String>())
        });
        text.push_str(&format!(
            "- ❌ **{}** {}/{}, {}.{what}\n  {}\n",
            escaped(&cell.nemesis),
            cell.tally.invalid,
            cell.tally.done(),
            libraries::whose(finding),
            code(&libraries::command(cell))
        ));
    }
    for cell in &of.held {
        text.push_str(&format!("- ✅ {}\n", escaped(&libraries::held(cell))));
    }
    for why in of.why_open(table) {
        text.push_str(&format!("- ❔ {}\n", escaped(&why)));
    }
    text + "\n"
}

/// Escapes text so that it means nothing in Markdown, GitHub's included, or HTML, and stays on its line and in its cell.
fn escaped(text: &str) -> String {
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
