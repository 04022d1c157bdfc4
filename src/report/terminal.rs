//! The run in a dozen lines: the verdict first, then the numbers, then the first incident and where to read on.

use super::ends::{end_of_all, keys};
use super::explain::explain_incident;
use super::headline::headline_of;
use super::results::{faults_in_words, per_second};
use super::story::{PropertyOutcome, Story};
use super::{Report, RunFacts, claims};
use crate::checker::Validity;
use crate::words;
use crate::words::{count, length, tame};

const WIDTH: usize = 96;
const LABEL: usize = 18;

/// A run whose report is written: its [`summary`] and its [`pointers`].
pub fn terminal(report: &Report, color: bool) -> String {
    summary(report, color) + &pointers(report.facts, true)
}

/// The run in a few words for the terminal, at most about 20 lines; with ANSI colours if `color`.
pub fn summary(report: &Report, color: bool) -> String {
    let story = Story::new(report);
    let verdict = report.verdict;
    let paint = |code: &str, text: &str| if color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() };
    let mut lines = Vec::new();

    let (word, code) = match verdict.valid {
        Validity::Valid => ("VALID", "1;32"),
        Validity::Invalid => ("INVALID", "1;31"),
        Validity::Unknown => ("UNKNOWN", "1;33"),
    };
    let headline = wrap(&headline_of(&story), WIDTH - word.len() - 2);
    for (number, line) in headline.iter().enumerate() {
        let start = if number == 0 { paint(code, word) } else { " ".repeat(word.len()) };
        lines.push(format!("{start}  {line}"));
    }
    if verdict.valid == Validity::Unknown {
        for reason in verdict.reasons.iter().take(3) {
            for (number, line) in wrap(&tame(reason, 400), WIDTH - 4).iter().enumerate() {
                lines.push(format!("{}{line}", if number == 0 { "  - " } else { "    " }));
            }
        }
        if verdict.reasons.len() > 3 {
            lines.push(format!("  - and {} more", verdict.reasons.len() - 3));
        }
    }
    lines.push(String::new());

    for claim in &verdict.claims {
        let (word, code) = match story.standing(claim.claim) {
            PropertyOutcome::Held if !claim.claimed => ("not claimed", "2"),
            PropertyOutcome::Held => ("held", "32"),
            PropertyOutcome::Broken => ("BROKEN", "1;31"),
            PropertyOutcome::Unclaimed => ("not claimed", "33"),
            PropertyOutcome::Unproven => ("unproven", "33"),
        };
        let label = claim.claim.name();
        let found = claims::found(&story, claim.claim);
        lines.push(format!("  {label:LABEL$}{} {found}", paint(code, &format!("{word:12}"))));
        if claim.claimed {
            let told = wrap(&claims::evidence(claim), WIDTH - LABEL - 15);
            lines.extend(told.into_iter().map(|line| format!("  {:LABEL$}{:13}{}", "", "", paint("2", &line))));
        }
    }
    for (label, text) in [("keys", keys(&story)), ("resource", end_of_all(&story))] {
        lines.extend(text.map(|text| format!("  {label:LABEL$}{text}")));
    }
    let seconds = length((story.busy_seconds() * 1e9) as u64);
    let rate = per_second(&story).map_or(String::new(), |rate| format!(", {rate:.1} acknowledged a second"));
    let counts = verdict.counts;
    lines.push(format!(
        "  {:LABEL$}{} ok, {} fail, {} info in {seconds}{rate}",
        "operations",
        count(counts.ok),
        count(counts.fail),
        count(counts.info)
    ));
    lines.push(format!("  {:LABEL$}{}", "faults", faults_in_words(&story)));
    let passed = verdict.gates.iter().filter(|gate| gate.passed).count();
    let failed: Vec<String> =
        verdict.gates.iter().filter(|gate| !gate.passed).map(|gate| tame(&gate.name, 40)).collect();
    let failed = if failed.is_empty() { String::new() } else { format!("; failed: {}", failed.join(", ")) };
    lines.push(format!("  {:LABEL$}{passed} of {} passed{failed}", "gates", verdict.gates.len()));
    if let Some(number) = report.history.truncated_at_line {
        lines.push(format!("  {:LABEL$}cut off in line {number}", "history"));
    }

    if let Some(incident) = story.incidents.first() {
        lines.push(String::new());
        let of = if story.incidents.len() == 1 {
            String::new()
        } else {
            format!(" 1 of {}", count(story.incidents.len() as u64))
        };
        let told = explain_incident(&story, incident).replace('`', "");
        let text = format!(
            "{}{of}, key {}: {told}",
            if incident.claimed { "Incident" } else { "Seen, not claimed" },
            tame(incident.key, 20)
        );
        let mut told = wrap(&text, WIDTH - 2);
        // The page has the whole story.
        if told.len() > 7 {
            told.truncate(7);
            told[6].push_str(" …");
        }
        lines.extend(told.into_iter().map(|line| format!("  {line}")));
    }
    lines.join("\n") + "\n"
}

/// Where to read on, if the report is `written`, and how to repeat the run.
pub fn pointers(facts: &RunFacts, written: bool) -> String {
    let report = if written { in_folder(&facts.folder, "report.html") } else { String::new() };
    point_to(&report, &facts.repeat)
}

/// The same for a page that is anywhere, or nowhere if its path is empty.
pub fn point_to(page: &str, repeat: &str) -> String {
    let pointers = [("report", words::tame(page, 400)), ("repeat", words::tame(repeat, 400))];
    let mut lines = pointers.iter().filter(|(_, text)| !text.is_empty()).peekable();
    let gap = if lines.peek().is_some() { "\n" } else { "" };
    format!("{gap}{}", lines.map(|(label, text)| format!("  {label:8}{text}\n")).collect::<String>())
}

/// The path of a file in the run folder, as the user can open it.
pub fn in_folder(folder: &str, file: &str) -> String {
    if folder.is_empty() { file.to_string() } else { format!("{}/{file}", folder.trim_end_matches('/')) }
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}
