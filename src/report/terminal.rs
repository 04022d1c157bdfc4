//! The run in a dozen lines: the verdict first, then the numbers, then the first incident and where to read on.

use super::ends::{end_of_all, keys};
use super::explain::explain_incident;
use super::headline::headline_of;
use super::results::{faults_in_words, per_second};
use super::story::{PropertyOutcome, Story};
use super::{Report, RunFacts, claims};
use crate::checker::Validity;
use crate::words;
use crate::words::{count, length, tame, wrap};

/// How wide lines are where nobody knows how wide they may be.
const WIDTH: usize = 96;
/// Nobody likes to read longer lines, and in shorter ones there is no room beside the labels.
const WIDTHS: std::ops::RangeInclusive<usize> = 50..=120;
const LABEL: usize = 18;
/// How much of a story is told.
const STORY_LINES: usize = 7;

/// How what is printed is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether with ANSI colours.
    pub color: bool,
    /// How many characters there are in a line of the terminal; None where it is no terminal. Then the verdict is one line, for
    /// programs that read it.
    pub width: Option<usize>,
}

impl Look {
    /// In a file or a pipe.
    pub const PLAIN: Look = Look { color: false, width: None };

    /// A text in a colour, by the ANSI code.
    pub fn paint(self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// How wide a line is.
    fn line(self) -> usize {
        self.width.map_or(WIDTH, |width| width.clamp(*WIDTHS.start(), *WIDTHS.end()))
    }
}

/// A run whose report is written: its [`summary`] and its [`pointers`].
pub fn terminal(report: &Report, look: Look) -> String {
    summary(report, look) + &pointers(report.facts, true)
}

/// The run in a few words for the terminal, at most about 20 lines.
pub fn summary(report: &Report, look: Look) -> String {
    let story = Story::new(report);
    let verdict = report.verdict;
    let (paint, width) = (|code: &str, text: &str| look.paint(code, text), look.line());
    let mut lines = Vec::new();

    let (word, code) = match verdict.valid {
        Validity::Valid => ("VALID", "1;32"),
        Validity::Invalid => ("INVALID", "1;31"),
        Validity::Unknown => ("UNKNOWN", "1;33"),
    };
    // What programs read is on one line.
    let fit = |text: &str, width: usize| match look.width {
        Some(_) => wrap(text, width),
        None => vec![text.to_string()],
    };
    let headline = fit(&headline_of(&story), width - word.len() - 2);
    for (number, line) in headline.iter().enumerate() {
        let start = if number == 0 { paint(code, word) } else { " ".repeat(word.len()) };
        lines.push(format!("{start}  {line}"));
    }
    if verdict.valid == Validity::Unknown {
        for reason in verdict.reasons.iter().take(3) {
            for (number, line) in wrap(&tame(reason, 400), width - 4).iter().enumerate() {
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
        for (number, line) in fit(&found, width - LABEL - 15).iter().enumerate() {
            let told = if number == 0 { format!("{word:12}") } else { " ".repeat(12) };
            let label = if number == 0 { label } else { "" };
            lines.push(format!("  {label:LABEL$}{} {line}", paint(code, &told)));
        }
        if claim.claimed {
            let told = wrap(&claims::evidence(claim), width - LABEL - 15);
            lines.extend(told.into_iter().map(|line| format!("  {:LABEL$}{:13}{}", "", "", paint("2", &line))));
        }
    }
    let row = |label: &str, text: &str| -> Vec<String> {
        let labels = std::iter::once(label).chain(std::iter::repeat(""));
        let told = fit(text, width - LABEL - 2).into_iter().zip(labels);
        told.map(|(line, label)| format!("  {label:LABEL$}{line}")).collect()
    };
    for (label, text) in [("keys", keys(&story)), ("resource", end_of_all(&story))] {
        lines.extend(text.iter().flat_map(|text| row(label, text)));
    }
    let seconds = length((story.busy_seconds() * 1e9) as u64);
    let rate = per_second(&story).map_or(String::new(), |rate| format!(", {rate:.1} acknowledged a second"));
    let counts = verdict.counts;
    let (ok, fail, info) = (count(counts.ok), count(counts.fail), count(counts.info));
    lines.extend(row("operations", &format!("{ok} ok, {fail} fail, {info} info in {seconds}{rate}")));
    lines.extend(row("faults", &faults_in_words(&story)));
    let passed = verdict.gates.iter().filter(|gate| gate.passed).count();
    let failed: Vec<String> =
        verdict.gates.iter().filter(|gate| !gate.passed).map(|gate| tame(&gate.name, 40)).collect();
    let failed = if failed.is_empty() { String::new() } else { format!("; failed: {}", failed.join(", ")) };
    lines.extend(row("gates", &format!("{passed} of {} passed{failed}", verdict.gates.len())));
    if let Some(number) = report.history.truncated_at_line {
        lines.extend(row("history", &format!("cut off in line {number}")));
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
        let mut told = wrap(&text, width - 2);
        // The page has the whole story.
        if told.len() > STORY_LINES {
            told.truncate(STORY_LINES);
            told[STORY_LINES - 1] = goes_on(&told[STORY_LINES - 1], width - 2);
        }
        lines.extend(told.into_iter().map(|line| format!("  {line}")));
    }
    lines.join("\n") + "\n"
}

/// A line that says that there is more, without its last word if there is no room for both.
fn goes_on(line: &str, width: usize) -> String {
    let fits = line.chars().count() + 2 <= width;
    let shown = if fits { line } else { line.rsplit_once(' ').map_or(line, |(shown, _)| shown) };
    format!("{shown} …")
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
