//! The matrix for the terminal: one line per cell, grouped by workload.

use super::verdict_class;
use crate::Look;
use base::words::{length, sanitize};
use suite::outcome::CellStatus;
use suite::plan::Suite;
use summary::table::{CellAccount, SuiteSummary, distinct, expected};

/// The verdict, one line per cell, and the results of unexpected cells.
pub fn terminal(table: &SuiteSummary, look: Look) -> String {
    let word = look.verdict(&table.word, verdict_class(table.verdict));
    let mut lines = vec![format!("{word}  {}", table.headline), String::new()];
    lines.extend(cells(table, look));
    for (title, told) in table.lists() {
        if !told.is_empty() {
            lines.extend([String::new(), format!("  {}", look.paint("1", title))]);
            lines.extend(told.iter().take(MOST_TOLD).map(|text| format!("    {}", sanitize(text, 400))));
        }
        if told.len() > MOST_TOLD {
            lines.push(format!("    and {} more, in matrix.html", told.len() - MOST_TOLD));
        }
    }
    for cell in table.alarming() {
        lines.push(String::new());
        lines.push(format!("  {}: {}", look.paint("1", &sanitize(&cell.name, 100)), cell.standing_text));
        for run in cell.alarming_runs().take(MOST_RUNS) {
            lines.push(format!("    seed {}: {}", run.seed, sanitize(&run.summary, 300)));
            if !run.repeat.is_empty() {
                lines.push(format!("    repeat  {}", sanitize(&run.repeat, 400)));
            }
        }
    }
    if !table.mistimed.is_empty() {
        lines.push(String::new());
    }
    let mistimed = table.mistimed().take(MOST_MISTIMED);
    lines.extend(
        mistimed.map(|(cell, run, what)| format!("  {}, seed {}: {what}", sanitize(&cell.name, 100), run.seed)),
    );
    if table.mistimed.len() > MOST_MISTIMED {
        lines.push(format!("  and {} more such runs, in matrix.html", table.mistimed.len() - MOST_MISTIMED));
    }
    lines.join("\n") + "\n"
}

/// A line for each cell, below its workload.
fn cells(table: &SuiteSummary, look: Look) -> Vec<String> {
    let mut rows: Vec<[String; 5]> = vec![["", "expected", "seen", "updates lost", ""].map(String::from)];
    let mut codes: Vec<Option<&str>> = vec![Some("2")];
    for workload in &table.workloads {
        rows.push([&sanitize(workload, 60), "", "", "", ""].map(String::from));
        codes.push(None);
        for cell in table.cells.iter().filter(|cell| cell.workload == *workload) {
            let name = format!("  {}", sanitize(&cell.nemesis_with(), 40));
            rows.push([name, cell.expected.clone(), cell.seen.clone(), lost(cell), cell.standing_text.clone()]);
            codes.push(match cell.standing {
                CellStatus::AsExpected => Some("32"),
                CellStatus::Surprise => Some("1;31"),
                CellStatus::Unknown => Some("33"),
                CellStatus::NotRun | CellStatus::Observed => Some("2"),
            });
        }
    }
    let painted = aligned(&rows).into_iter().zip(codes).map(|([rest @ .., last], code)| {
        let last = code.map_or(last.clone(), |code| look.paint(code, &last));
        format!("{}{last}", rest.concat()).trim_end().to_string()
    });
    painted.collect()
}

/// The updates that a cell lost, with their share if there were any.
fn lost(cell: &CellAccount) -> String {
    if cell.lost_any && !cell.scripted { format!("{}, {}", cell.lost, cell.share) } else { cell.lost.clone() }
}

/// At most this many runs are named that were late, or that were rerun for that.
const MOST_MISTIMED: usize = 10;

/// At most this many changes, and this many reasons for missing runs, are listed.
const MOST_TOLD: usize = 20;

/// At most this many runs of an unexpected cell are described.
const MOST_RUNS: usize = 3;

/// The cells that a suite would run, and the planned time.
pub fn planned(suite: &Suite) -> String {
    let mut rows: Vec<[String; 5]> = vec![["", "expected", "runs", "seeds", "planned"].map(String::from)];
    for workload in distinct(suite.cells.iter().map(|cell| cell.workload.as_str())) {
        rows.push([&sanitize(&workload, 60), "", "", "", ""].map(String::from));
        for cell in suite.cells.iter().filter(|cell| cell.workload == workload) {
            let name = cell.name.split_once(" under ").map_or(cell.name.as_str(), |(_, rest)| rest);
            let seeds = match &cell.seeds[..] {
                [first, .., last] => format!("{first} to {last}"),
                seeds => seeds.iter().map(u64::to_string).collect(),
            };
            rows.push([
                format!("  {}", sanitize(name, 60)),
                expected(cell.expected, cell.found).to_string(),
                cell.seeds.len().to_string(),
                seeds,
                length(cell.planned_ms * 1_000_000),
            ]);
        }
    }
    let lines = aligned(&rows).into_iter().map(|line| line.concat().trim_end().to_string() + "\n");
    lines.collect()
}

/// Makes each column as wide as its widest field, followed by two spaces.
fn aligned(rows: &[[String; 5]]) -> Vec<[String; 5]> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let pad = |row: &[String; 5]| std::array::from_fn(|column| format!("{:1$}  ", row[column], widths[column]));
    rows.iter().map(pad).collect()
}
