//! The run in a dozen lines: the verdict first, then the numbers, then the first incident and where to read on.

use super::{Report, verdict_word};
use base::words;
use base::words::{count, length, list, sanitize, wrap};
use checker::Validity;
use summary::{ClaimAccount, ClaimStatus, IncidentAccount, RunFacts, RunSummary};

/// How wide lines are where nobody knows how wide they may be.
const WIDTH: usize = 96;
/// Nobody likes to read longer lines, and in shorter ones there is no room beside the labels.
const WIDTHS: std::ops::RangeInclusive<usize> = 50..=120;
const LABEL: usize = 18;
/// How much of a story is told.
const STORY_LINES: usize = 6;
/// How many diagnoses are told.
const DIAGNOSES: usize = 2;
/// How many reasons are told.
const REASONS: usize = 3;

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

    /// A verdict in the colour of its class on a page.
    pub fn verdict(self, word: &str, class: &str) -> String {
        let code = match class {
            "valid" => "1;32",
            "invalid" => "1;31",
            _ => "1;33",
        };
        self.paint(code, word)
    }

    /// A verdict in the colour of its class, and what it is about beside it.
    pub fn headline(self, word: &str, class: &str, text: &str) -> Vec<String> {
        let starts = std::iter::once(self.verdict(word, class)).chain(std::iter::repeat(" ".repeat(word.len())));
        let lines = self.fit(text, self.line() - word.len() - 2);
        lines.iter().zip(starts).map(|(line, start)| format!("{start}  {line}")).collect()
    }

    /// A text in lines of at most this many characters; what programs read is on one line.
    fn fit(self, text: &str, width: usize) -> Vec<String> {
        if self.width.is_some() { wrap(text, width) } else { vec![text.to_string()] }
    }

    /// How wide a line is.
    pub fn line(self) -> usize {
        self.width.map_or(WIDTH, |width| width.clamp(*WIDTHS.start(), *WIDTHS.end()))
    }
}

/// The run in a few words for the terminal, at most about 20 lines.
pub fn summary(report: &Report, look: Look) -> String {
    let summary = &report.summary;
    let mut lines = verdict(summary, look);
    lines.extend(diagnoses(summary, look));
    lines.push(String::new());
    lines.extend(summary.claims.iter().flat_map(|of| claim(of, look)));
    lines.extend(numbers(summary, look));
    // What a diagnosis says need not be told again at length.
    let most = if summary.diagnoses.is_empty() { STORY_LINES } else { STORY_LINES / 2 };
    let first = summary.incidents.first();
    lines.extend(first.into_iter().flat_map(|first| incident(first, summary.incidents.len(), most, look)));
    lines.join("\n") + "\n"
}

/// The verdict and the headline; if the run proves nothing, why.
fn verdict(summary: &RunSummary, look: Look) -> Vec<String> {
    let (word, class) = verdict_word(summary.valid);
    let mut lines = look.headline(word, class, &summary.headline);
    if summary.valid == Validity::Unknown {
        let item = |text: &str, sign: &'static str| {
            let wrapped = wrap(&sanitize(text, 400), look.line() - 6).into_iter().enumerate();
            wrapped.map(move |(number, line)| {
                let start = if number == 0 { sign } else { "" };
                format!("{start:<width$}{line}", width = sign.chars().count())
            })
        };
        let mut said: Vec<&str> = Vec::new();
        for (number, reason) in summary.reasons.iter().enumerate().take(REASONS) {
            lines.extend(item(reason, "  - "));
            let Some(advice) = summary.advice.get(number).filter(|advice| !said.contains(&advice.text.as_str())) else {
                continue;
            };
            lines.extend(item(&advice.text, "    → "));
            // Not wrapped, since it is to be copied.
            let command = advice.command.iter().map(|command| format!("      {}", sanitize(command, 400)));
            lines.extend(command.filter(|_| said.is_empty()));
            said.push(&advice.text);
        }
        if summary.reasons.len() > REASONS {
            lines.push(format!("  - and {} more", summary.reasons.len() - REASONS));
        }
    }
    lines
}

/// What is wrong with the lock: the first diagnoses, each with what to change.
fn diagnoses(summary: &RunSummary, look: Look) -> Vec<String> {
    let mut lines = Vec::new();
    for account in summary.diagnoses.iter().take(DIAGNOSES) {
        let code = &account.diagnosis.code;
        let room = look.line() - code.len() - 4;
        let (sentence, fix) = (sanitize(account.sentence(), 400), format!("→ {}", account.diagnosis.fix));
        let starts = std::iter::once(look.paint("1", code)).chain(std::iter::repeat(" ".repeat(code.len())));
        let known = account.known.iter().flat_map(|known| wrap(&sanitize(known, 600), room));
        let told = wrap(&sentence, room).into_iter().chain(known).chain(wrap(&fix, room));
        lines.extend(told.zip(starts).map(|(line, start)| format!("  {start}  {line}")));
    }
    let more = summary.diagnoses.len().saturating_sub(DIAGNOSES);
    let codes: Vec<String> = summary.diagnoses.iter().skip(DIAGNOSES).map(|more| more.diagnosis.code.clone()).collect();
    lines.extend((more > 0).then(|| format!("  also {}; `redjepsen explain CODE` tells more", list(&codes))));
    if lines.is_empty() { lines } else { std::iter::once(String::new()).chain(lines).collect() }
}

/// A claim, how it came out, and what was found.
fn claim(of: &ClaimAccount, look: Look) -> Vec<String> {
    let code = match of.standing {
        ClaimStatus::Held if !of.checked.claimed => "2",
        ClaimStatus::NotShown => "2",
        ClaimStatus::Held if of.is_spotless() => "32",
        ClaimStatus::Broken => "1;31",
        ClaimStatus::Held | ClaimStatus::Unclaimed | ClaimStatus::Unproven => "33",
    };
    let room = look.line() - LABEL - 15;
    let starts = std::iter::once((of.checked.claim.name(), of.word())).chain(std::iter::repeat(("", "")));
    let found = look.fit(&of.found, room).into_iter().zip(starts);
    let found = found
        .map(|(line, (label, word))| format!("  {label:LABEL$}{} {line}", look.paint(code, &format!("{word:12}"))));
    let why = if of.checked.claimed { wrap(&of.why, room) } else { Vec::new() };
    let why = why.into_iter().map(|line| format!("  {:LABEL$}{:13}{}", "", "", look.paint("2", &line)));
    found.chain(why).collect()
}

/// What the resource came to, and the counts.
fn numbers(summary: &RunSummary, look: Look) -> Vec<String> {
    let (seconds, counts) = (length((summary.busy_s * 1e9) as u64), summary.counts);
    let rate =
        summary.acknowledged_per_second.map_or(String::new(), |rate| format!(", {rate:.1} acknowledged a second"));
    let (ok, fail, info) = (count(counts.ok), count(counts.fail), count(counts.info));
    let rows = [
        ("keys", summary.keys_text.clone()),
        ("resource", summary.resource_text.clone()),
        ("operations", Some(format!("{ok} ok, {fail} fail, {info} info in {seconds}{rate}"))),
        ("faults", Some(summary.faults.text.clone())),
        ("gates", Some(summary.gates_text.clone() + &advisories(summary))),
        ("history", summary.truncated_at_line.map(|number| format!("cut off in line {number}"))),
    ];
    let row = |(label, text): (&'static str, Option<String>)| {
        let labels = std::iter::once(label).chain(std::iter::repeat(""));
        let lines = text.map_or_else(Vec::new, |text| look.fit(&text, look.line() - LABEL - 2));
        lines.into_iter().zip(labels).map(|(line, label)| format!("  {label:LABEL$}{line}"))
    };
    rows.into_iter().flat_map(row).collect()
}

/// The advisories that are not kept, by name: the page has their sentences.
fn advisories(summary: &RunSummary) -> String {
    let against = summary.advisories.iter().map(|remark| format!("{} ({})", remark.id, remark.count));
    let against: Vec<String> = against.collect();
    if against.is_empty() { String::new() } else { format!("; advisories not kept: {}", list(&against)) }
}

/// The first of some incidents, as far as there is room: of a long story the beginning, and its end, which is what came of it.
fn incident(first: &IncidentAccount, all: usize, most: usize, look: Look) -> Vec<String> {
    let of = if all == 1 { String::new() } else { format!(" 1 of {}", count(all as u64)) };
    let what = first.aside().map_or("Incident".to_string(), |aside| format!("Seen, {aside}"));
    let text = format!("{what}{of}, key {}: {}", sanitize(&first.key, 20), first.text().replace('`', ""));
    let width = look.line() - 2;
    let mut lines = wrap(&text, width);
    // The page has the whole story.
    if lines.len() > most {
        let last = first.sentences.last().map_or(String::new(), |last| last.text().replace('`', ""));
        let mut end = wrap(&last, width);
        end.truncate(most / 2);
        lines.truncate(most - end.len());
        if let Some(line) = lines.last_mut() {
            *line = goes_on(line, width);
        }
        lines.append(&mut end);
    }
    std::iter::once(String::new()).chain(lines.into_iter().map(|line| format!("  {line}"))).collect()
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
    let pointers = [("report", words::sanitize(page, 400)), ("repeat", words::sanitize(repeat, 400))];
    let mut lines = pointers.iter().filter(|(_, text)| !text.is_empty()).peekable();
    let gap = if lines.peek().is_some() { "\n" } else { "" };
    format!("{gap}{}", lines.map(|(label, text)| format!("  {label:8}{text}\n")).collect::<String>())
}

/// The path of a file in the run folder, as the user can open it.
pub fn in_folder(folder: &str, file: &str) -> String {
    if folder.is_empty() { file.to_string() } else { format!("{}/{file}", folder.trim_end_matches('/')) }
}
