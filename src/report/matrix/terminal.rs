//! The matrix on a terminal: one line per cell, grouped by workload.

use super::phrases;
use crate::report::Look;
use crate::suite::matrix::Matrix;
use crate::suite::outcome::CellStatus;
use crate::suite::plan::Suite;
use crate::words::{length, tame};

/// The verdict, one line per cell, and what a surprise showed.
pub fn terminal(matrix: &Matrix, look: Look) -> String {
    let paint = |code: &str, text: &str| look.paint(code, text);
    let (word, class) = phrases::verdict(matrix.verdict);
    let code = match class {
        "valid" => "1;32",
        "invalid" => "1;31",
        _ => "1;33",
    };
    let mut lines = vec![format!("{}  {}", paint(code, word), matrix.headline()), String::new()];

    let mut rows: Vec<[String; 5]> = vec![["", "expected", "seen", "updates lost", ""].map(String::from)];
    let mut painted: Vec<Option<&str>> = vec![Some("2")];
    for workload in phrases::distinct(matrix.cells.iter().map(|cell| cell.workload.as_str())) {
        rows.push([&tame(workload, 60), "", "", "", ""].map(String::from));
        painted.push(None);
        for cell in matrix.cells.iter().filter(|cell| cell.workload == workload) {
            let lost = match (cell.numbers.lost_updates.count, cell.scripted) {
                (0, _) | (_, true) => phrases::lost(&cell.numbers),
                _ => format!("{}, {}", phrases::lost(&cell.numbers), phrases::share(cell)),
            };
            rows.push([
                format!("  {}", tame(&phrases::nemesis(cell), 40)),
                phrases::expected(cell.expected, cell.found).to_string(),
                phrases::seen(cell),
                lost,
                phrases::standing(cell.standing).to_string(),
            ]);
            painted.push(match cell.standing {
                CellStatus::AsExpected => Some("32"),
                CellStatus::Surprise => Some("1;31"),
                CellStatus::Unknown => Some("33"),
                CellStatus::NotRun | CellStatus::Observed => Some("2"),
            });
        }
    }
    for (line, code) in aligned(&rows).into_iter().zip(painted) {
        let [rest @ .., last] = &line;
        let last = code.map_or(last.clone(), |code| paint(code, last));
        lines.push(format!("{}{last}", rest.concat()).trim_end().to_string());
    }
    for cell in phrases::alarming(matrix) {
        lines.push(String::new());
        lines.push(format!("  {}: {}", paint("1", &tame(&cell.name, 100)), phrases::standing(cell.standing)));
        for run in cell.runs.iter().filter(|run| phrases::alarms(cell, run)).take(MOST_RUNS) {
            lines.push(format!("    seed {}: {}", run.seed, tame(&run.summary, 300)));
            if !run.repeat.is_empty() {
                lines.push(format!("    repeat  {}", tame(&run.repeat, 400)));
            }
        }
    }
    let mistimed = phrases::mistimed(matrix);
    if !mistimed.is_empty() {
        lines.push(String::new());
    }
    for (cell, run, what) in mistimed.iter().take(MOST_MISTIMED) {
        lines.push(format!("  {}, seed {}: {what}", tame(&cell.name, 100), run.seed));
    }
    if mistimed.len() > MOST_MISTIMED {
        lines.push(format!("  and {} more such runs, in matrix.html", mistimed.len() - MOST_MISTIMED));
    }
    lines.join("\n") + "\n"
}

/// How many runs are named whose timing was not kept, or that were made again for that.
const MOST_MISTIMED: usize = 10;

/// How many runs of an alarming cell are described.
const MOST_RUNS: usize = 3;

/// What a suite would run, and for how long.
pub fn planned(suite: &Suite) -> String {
    let mut rows: Vec<[String; 5]> = vec![["", "expected", "runs", "seeds", "planned"].map(String::from)];
    for workload in phrases::distinct(suite.cells.iter().map(|cell| cell.workload.as_str())) {
        rows.push([&tame(workload, 60), "", "", "", ""].map(String::from));
        for cell in suite.cells.iter().filter(|cell| cell.workload == workload) {
            let name = cell.name.split_once(" under ").map_or(cell.name.as_str(), |(_, rest)| rest);
            let seeds = match &cell.seeds[..] {
                [first, .., last] => format!("{first} to {last}"),
                seeds => seeds.iter().map(u64::to_string).collect(),
            };
            rows.push([
                format!("  {}", tame(name, 60)),
                phrases::expected(cell.expected, cell.found).to_string(),
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
