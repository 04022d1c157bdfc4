//! The matrix as JUnit XML, which CI systems show: one test case per cell.

use super::phrases;
use crate::suite::matrix::{Cell, Matrix};
use crate::suite::outcome::CellStatus;
use crate::words::line;

/// The content of `junit.xml`: a surprise is a failure, an unknown cell an error, and a cell without an expectation, or
/// one that was not run, is skipped.
pub fn junit(matrix: &Matrix) -> String {
    let counts = matrix.counts;
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    text.push_str(&format!(
        "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\" timestamp=\"{}\">\n",
        escaped(&matrix.suite),
        matrix.cells.len(),
        counts.surprise,
        counts.unknown,
        counts.observed + counts.not_run,
        matrix.took_s,
        escaped(matrix.started.trim_end_matches('Z')),
    ));
    for cell in &matrix.cells {
        let seconds: f64 = cell.runs.iter().map(|run| run.seconds).sum();
        text.push_str(&format!(
            "  <testcase classname=\"{}\" name=\"{}\" time=\"{seconds:.3}\">",
            escaped(&format!("{}.{}", matrix.suite, cell.workload)),
            escaped(&phrases::nemesis(cell)),
        ));
        text.push_str(&finding(cell));
        text.push_str("</testcase>\n");
    }
    text + "</testsuite>\n"
}

fn finding(cell: &Cell) -> String {
    let message = format!("expected {}: {}", phrases::expected(cell.expected, cell.found), phrases::seen(cell));
    let runs = cell.runs.iter().filter(|run| phrases::alarms(cell, run));
    let told: Vec<String> =
        runs.map(|run| format!("seed {}: {}\n{}", run.seed, line(&run.summary, 600), line(&run.repeat, 600))).collect();
    let (message, told) = (escaped(&message), escaped(&told.join("\n")));
    match cell.standing {
        CellStatus::AsExpected => String::new(),
        CellStatus::Surprise => format!("<failure message=\"{message}\">{told}</failure>"),
        CellStatus::Unknown => format!("<error message=\"{message}\">{told}</error>"),
        CellStatus::NotRun | CellStatus::Observed => format!("<skipped message=\"{message}\"/>"),
    }
}

/// Escapes text for XML elements and attributes; [`line()`] has already removed the characters that XML does not allow.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() && c != '\n' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
