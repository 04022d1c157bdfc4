//! The matrix as Markdown, for the summary of a CI job.

use base::words::{count, line};
use suite::outcome::CellStatus;
use summary::table::{CellAccount, LibraryAccount, SuiteSummary, distinct};

/// GitHub accepts 1 MiB of summary per step, and shows nothing of a longer one. Readers want less.
const LONGEST: usize = 200_000;

/// The content of `matrix.md`: the verdict, unexpected cells, the matrix, and the numbers of as many cells as fit.
pub fn markdown(table: &SuiteSummary) -> String {
    let (suite, word, headline) = (escaped(&table.suite), &table.word, escaped(&table.headline));
    let mut text = format!("## {suite}: {word}{}\n\n{headline}\n\n", table.mark());
    for (title, told) in table.lists() {
        if !told.is_empty() {
            text.push_str(&format!("**{title}**\n\n"));
            fill(&mut text, told.iter().map(|one| format!("- {}\n", escaped(&line(one, 400)))), LONGEST / 4);
            text.push('\n');
        }
    }
    fill(&mut text, table.alarming().map(alarm), LONGEST / 2);
    text.push_str(&grid(table));
    text.push('\n');
    fill(&mut text, table.libraries.iter().map(|one| library(table, one)), LONGEST / 4 * 3);
    text.push_str("<details><summary>Numbers</summary>\n\n");
    text.push_str("| cell | expected | seen | updates lost | share (95%) | overlaps | first violation | without the lock after the heal | updates/s | |\n");
    text.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
    fill(&mut text, table.cells.iter().map(row), LONGEST);
    text.push_str("\n</details>\n\n");
    if !table.mistimed.is_empty() {
        let told = table.mistimed();
        let told = told.map(|(cell, run, what)| format!("- {}, seed {}: {what}\n", escaped(&cell.name), run.seed));
        fill(&mut text, told, LONGEST + LONGEST / 10);
        text.push('\n');
    }
    let about = table.about.iter().map(|part| escaped(part));
    let versions = table.versions.iter().map(|(name, version)| escaped(&format!("{name} {}", line(version, 100))));
    text.push_str(&format!("{}\n", about.chain(versions).collect::<Vec<_>>().join(" · ")));
    text
}

/// Adds parts while there is room, then the number of parts left out.
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

fn alarm(cell: &CellAccount) -> String {
    let (standing, name) = (&cell.standing_text, escaped(&cell.name));
    let mut text = format!("**{standing}: {name}**, expected {}, {}\n\n", cell.expected, cell.seen);
    for run in cell.alarming_runs().take(3) {
        text.push_str(&format!("- seed {}: {}\n", run.seed, escaped(&line(&run.summary, 300))));
        if !run.repeat.is_empty() {
            text.push_str(&format!("  {}\n", code(&run.repeat)));
        }
    }
    text + "\n"
}

fn code(command: &str) -> String {
    format!("`{}`", line(command, 400).replace('`', "'"))
}

/// Workloads as columns and nemeses as rows. Empty if the grid is too large for a summary.
fn grid(table: &SuiteSummary) -> String {
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

fn mark(cell: &CellAccount) -> String {
    let part = cell.part.as_ref().map_or(String::new(), |part| format!(" {part}"));
    let sign = match cell.standing {
        CellStatus::AsExpected => "✅",
        CellStatus::Surprise => "❌ UNEXPECTED:",
        CellStatus::Unknown => "❔",
        CellStatus::NotRun => "▫️",
        CellStatus::Observed => "👁",
    };
    format!("{sign} {}{part}", cell.shown.word())
}

fn row(cell: &CellAccount) -> String {
    let fields = [
        &escaped(&cell.name),
        &cell.expected,
        &cell.seen,
        &cell.lost,
        &cell.share,
        &cell.overlaps,
        &cell.first_violation,
        &cell.without_lock,
        &cell.rate,
        &cell.standing_text,
    ];
    format!("| {} |\n", fields.map(String::as_str).join(" | "))
}

/// One library: what broke it, what it passed, and what is unknown.
fn library(table: &SuiteSummary, library: &LibraryAccount) -> String {
    let mut text =
        format!("### {} {}\n\n{}", escaped(&library.name), escaped(&library.version), escaped(&library.summary));
    for more in library.home.iter().chain([&library.users]) {
        text.push_str(&format!(" · {}", escaped(more)));
    }
    text.push_str("\n\n");
    for broken in &library.broken {
        let what = broken.what.as_ref().map_or_else(String::new, |what| {
            let more = broken.source.iter().chain(&broken.issue).map(|text| format!(" ({})", escaped(text)));
            format!(" {}{}", escaped(what), more.collect::<String>())
        });
        text.push_str(&format!(
            "- ❌ **{}** {}/{}, {}.{what}\n  {}\n",
            escaped(&table.cells[broken.cell].nemesis),
            broken.invalid,
            broken.done,
            broken.whose,
            code(&broken.command)
        ));
    }
    for held in &library.held {
        text.push_str(&format!("- ✅ {}\n", escaped(held)));
    }
    for why in &library.open {
        text.push_str(&format!("- ❔ {}\n", escaped(why)));
    }
    text + "\n"
}

/// Escapes text for Markdown, GitHub's included, and for HTML. The text stays on its line and in its cell.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in line(text, 1000).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            // Only redjepsen's own backticks may begin or end a quotation.
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
