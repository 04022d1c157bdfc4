//! The matrix as JUnit XML, which CI systems show: one test case per cell.

use super::phrases;
use crate::suite::matrix::{Cell, Matrix};
use crate::suite::outcome::CellStatus;
use crate::words::line;

/// How much of a name or message is told.
const LONGEST: usize = 2000;

/// The content of `junit.xml`: a surprise is a failure, an unknown cell an error, and a cell without an expectation, or
/// one that was not run, is skipped.
pub fn junit(matrix: &Matrix) -> String {
    let counts = matrix.counts;
    let simulated = if matrix.simulated > 0 { " (simulated)" } else { "" };
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    text.push_str(&format!(
        "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\" timestamp=\"{}\">\n",
        escaped(&format!("{}{simulated}", matrix.suite)),
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
    let told = runs.map(|run| {
        let (summary, repeat) = (escaped(&line(&run.summary, 600)), escaped(&line(&run.repeat, 600)));
        format!("seed {}: {summary}\n{repeat}", run.seed)
    });
    let (message, told) = (escaped(&message), told.collect::<Vec<String>>().join("\n"));
    match cell.standing {
        CellStatus::AsExpected => String::new(),
        CellStatus::Surprise => format!("<failure message=\"{message}\">{told}</failure>"),
        CellStatus::Unknown => format!("<error message=\"{message}\">{told}</error>"),
        CellStatus::NotRun | CellStatus::Observed => format!("<skipped message=\"{message}\"/>"),
    }
}

/// A line of text for an XML element or attribute. [`line()`] takes out the characters that XML 1.0 does not allow at all,
/// not even escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in line(text, LONGEST).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_what_xml_forbids_is_gone() {
        for (text, expected) in [
            ("redlock under pause", "redlock under pause"),
            ("Grüße, 锁 🔒", "Grüße, 锁 🔒"),
            ("a<b>&\"c'", "a&lt;b&gt;&amp;&quot;c&apos;"),
            ("</failure><x y=\"", "&lt;/failure&gt;&lt;x y=&quot;"),
            ("]]>", "]]&gt;"),
            // So that nothing is escaped twice, nor taken for escaped.
            ("&#1;&lt;", "&amp;#1;&amp;lt;"),
            ("one\ntwo\tthree\r", "one two three "),
            ("\u{0}\u{1b}[31m\u{b}\u{7f}\u{85}", "\u{fffd}\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}"),
            ("\u{fffe}\u{ffff}\u{feff}", "\u{fffd}\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(escaped(text), expected, "{text:?}");
        }
    }
}
