//! The matrix for spreadsheets: a line per cell, in the format of RFC 4180.

use crate::export::csv::cell;
use base::words::line;
use suite::matrix::{Cell, Matrix};
use summary::table::expected;

/// At most this many characters of a name are written.
const LONGEST: usize = 400;
const HEADS: [&str; 16] = [
    "workload",
    "nemesis",
    "with",
    "expected",
    "standing",
    "planned",
    "valid",
    "invalid",
    "unknown",
    "could_not_run",
    "lost",
    "acknowledged",
    "overlaps",
    "holds",
    "updates_per_second",
    "seconds",
];

pub fn csv(matrix: &Matrix) -> String {
    let heads = HEADS.map(str::to_string);
    let rows = std::iter::once(heads).chain(matrix.cells.iter().map(row));
    rows.map(|row| row.map(|field| cell(line(&field, LONGEST))).join(",") + "\r\n").collect()
}

fn row(cell: &Cell) -> [String; 16] {
    let (tally, numbers) = (cell.tally, &cell.numbers);
    let standing = serde_json::to_value(cell.standing).ok();
    [
        cell.workload.clone(),
        cell.nemesis.clone(),
        cell.with.clone(),
        expected(cell.expected, cell.found).to_string(),
        standing.as_ref().and_then(|word| word.as_str()).unwrap_or_default().to_string(),
        tally.planned.to_string(),
        tally.valid.to_string(),
        tally.invalid.to_string(),
        tally.unknown.to_string(),
        tally.could_not_run.to_string(),
        numbers.lost_updates.count.to_string(),
        numbers.lost_updates.acknowledged.to_string(),
        numbers.overlaps.to_string(),
        numbers.holds.to_string(),
        numbers.per_second.map_or(String::new(), |spread| spread.median.to_string()),
        cell.runs.iter().map(|run| run.seconds).sum::<f64>().to_string(),
    ]
}
