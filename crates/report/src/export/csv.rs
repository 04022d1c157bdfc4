//! Operations as comma-separated values (RFC 4180), one per line, with times in seconds since the run began.

use crate::Report;
use model::history::{Operation, Phase, Reading};
use summary::times;

const HEAD: &str = "index,invoked_s,completed_s,client,process,operation,key,outcome,read,wrote,error,token,acquired_s,released_s,written_s,lost";

/// All operations, in the order of invocation.
pub fn csv(report: &Report) -> String {
    let mut text = format!("{HEAD}\r\n");
    for operation in &report.story.subject.history.operations {
        text.push_str(&row(report, operation).map(cell).join(","));
        text.push_str("\r\n");
    }
    text
}

fn row(report: &Report, operation: &Operation) -> [String; 16] {
    let seconds = |time: Option<u64>| time.map_or(String::new(), |time| format!("{:.9}", time as f64 / 1e9));
    let hold = times::hold(operation);
    let token = operation.phases.iter().filter_map(|stamp| stamp.token).last();
    [
        operation.index.to_string(),
        seconds(Some(operation.invoked)),
        seconds(operation.completed),
        report.story.name(operation.process),
        operation.process.to_string(),
        super::edn::word(operation.f).to_string(),
        operation.key.to_string(),
        super::edn::outcome(operation.outcome).to_string(),
        match &operation.old {
            Reading::Unknown | Reading::Empty => String::new(),
            Reading::Value(value) => value.to_string(),
        },
        operation.new.as_deref().unwrap_or_default().to_string(),
        operation.error().unwrap_or_default().to_string(),
        token.map(|token| token.to_string()).unwrap_or_default(),
        seconds(hold.map(|hold| hold.start)),
        seconds(hold.filter(|hold| hold.ended).map(|hold| hold.end)),
        seconds(times::at(operation, Phase::Written)),
        if report.story.is_lost(operation) { "lost".to_string() } else { String::new() },
    ]
}

/// One value. A spreadsheet would evaluate a text that begins like a formula, so such a text gets a quote before it.
pub(crate) fn cell(value: String) -> String {
    let value = if value.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{value}") } else { value };
    if value.contains([',', '"', '\n', '\r']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value }
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn what_would_break_a_table_is_quoted_and_formulas_are_texts() {
        for (value, expected) in [
            ("c0:1", "c0:1"),
            ("a,b", "\"a,b\""),
            ("a\"b\nc", "\"a\"\"b\nc\""),
            ("=1+1", "'=1+1"),
            ("@x,y", "\"'@x,y\""),
            ("", ""),
        ] {
            assert_eq!(cell(value.to_string()), expected);
        }
    }
}
