//! The matrix as JUnit XML, which CI systems show: one test case per cell.

use maud::html;

use base::words::line;
use suite::outcome::CellStatus;
use summary::table::{CellAccount, SuiteSummary};

/// At most this many characters of a name or message are written.
const LONGEST: usize = 2000;

/// The content of `junit.xml`. An unexpected result is a failure, and an unknown cell is an error. A cell without an
/// expectation, or one that was not run, is skipped.
pub fn junit(table: &SuiteSummary) -> String {
    let counts = table.counts;
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    text.push_str(&format!(
        "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\" timestamp=\"{}\">\n",
        escaped(&format!("{}{}", table.suite, table.mark())),
        table.cells.len(),
        counts.surprise,
        counts.unknown,
        counts.observed + counts.not_run,
        table.took_s,
        escaped(table.started.trim_end_matches('Z')),
    ));
    for cell in &table.cells {
        text.push_str(&format!(
            "  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\">{}</testcase>\n",
            escaped(&format!("{}.{}", table.suite, cell.workload)),
            escaped(&cell.nemesis_with()),
            cell.seconds,
            finding(cell),
        ));
    }
    text + "</testsuite>\n"
}

fn finding(cell: &CellAccount) -> String {
    let told = cell.alarming_runs().map(|run| {
        let (summary, repeat) = (escaped(&line(&run.summary, 600)), escaped(&line(&run.repeat, 600)));
        format!("seed {}: {summary}\n{repeat}", run.seed)
    });
    let why = cell.not_run.as_ref().map_or_else(String::new, |why| format!("; {why}"));
    let message = escaped(&format!("expected {}: {}{why}", cell.expected, cell.seen));
    let told = told.collect::<Vec<String>>().join("\n");
    match cell.standing {
        CellStatus::AsExpected => String::new(),
        CellStatus::Surprise => format!("<failure message=\"{message}\">{told}</failure>"),
        CellStatus::Unknown => format!("<error message=\"{message}\">{told}</error>"),
        CellStatus::NotRun | CellStatus::Observed => format!("<skipped message=\"{message}\"/>"),
    }
}

/// A line of text for an XML element, or for an attribute in double quotes. [`line()`] removes the characters that XML 1.0
/// forbids even when escaped.
fn escaped(text: &str) -> String {
    html! { (line(text, LONGEST)) }.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_what_xml_forbids_is_gone() {
        for (text, expected) in [
            ("redlock under pause", "redlock under pause"),
            ("Grüße, 锁 🔒", "Grüße, 锁 🔒"),
            ("a<b>&\"c'", "a&lt;b&gt;&amp;&quot;c'"),
            ("</failure><x y=\"", "&lt;/failure&gt;&lt;x y=&quot;"),
            ("]]>", "]]&gt;"),
            // Nothing is escaped twice, and no text looks escaped already.
            ("&#1;&lt;", "&amp;#1;&amp;lt;"),
            ("one\ntwo\tthree\r", "one two three "),
            ("\u{0}\u{1b}[31m\u{b}\u{7f}\u{85}", "\u{fffd}\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}"),
            ("\u{fffe}\u{ffff}\u{feff}", "\u{fffd}\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(escaped(text), expected, "{text:?}");
        }
    }
}
