//! A run in ten lines: the verdict, the cause, the remedy, and the report's path. With `--verbose`, also each claim, the counts
//! and the first incident in full.

use super::{Report, verdict_word};
use base::words;
use base::words::{count, length, list, sanitize, wrap};
use checker::{AnomalyKind, Validity};
use model::scenario::catalogue;
use summary::{ClaimAccount, ClaimStatus, DiagnosisAccount, IncidentAccount, RunFacts, RunSummary};

/// The width of lines if the terminal's width is unknown.
const WIDTH: usize = 80;
/// Longer lines are hard to read. Shorter ones leave no room beside the labels.
const WIDTHS: std::ops::RangeInclusive<usize> = 50..=120;
const LABEL: usize = 18;
const STORY_LINES: usize = 12;
const DIAGNOSES: usize = 2;
const REASONS: usize = 3;
/// At most this many lines in the short form, not counting the two of [`pointers`].
const LINES: usize = 8;
/// Lines of the short form that are reserved for the remedy.
const FIX_LINES: usize = 3;
/// The width of a label of the short form and of [`pointers`].
const SHORT_LABEL: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub color: bool,
    /// Characters per line of the terminal. None if the output is not a terminal. Then the verdict is one line, for programs
    /// that read it.
    pub width: Option<usize>,
}

impl Look {
    /// The look for a file or a pipe.
    pub const PLAIN: Look = Look { color: false, width: None };

    /// A text in the colour of an ANSI code.
    pub fn paint(self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    pub fn verdict(self, word: &str, class: &str) -> String {
        let code = match class {
            "valid" => "1;32",
            "invalid" => "1;31",
            _ => "1;33",
        };
        self.paint(code, word)
    }

    /// A verdict in the colour of its class, with a text beside it.
    pub fn headline(self, word: &str, class: &str, text: &str) -> Vec<String> {
        let starts = std::iter::once(self.verdict(word, class)).chain(std::iter::repeat(" ".repeat(word.len())));
        let lines = self.fit(text, self.line() - word.len() - 2);
        lines.iter().zip(starts).map(|(line, start)| format!("{start}  {line}")).collect()
    }

    /// A text in lines of at most this many characters. Without a terminal, one line.
    fn fit(self, text: &str, width: usize) -> Vec<String> {
        if self.width.is_some() { wrap(text, width) } else { vec![text.to_string()] }
    }

    pub fn line(self) -> usize {
        self.width.map_or(WIDTH, |width| width.clamp(*WIDTHS.start(), *WIDTHS.end()))
    }
}

/// The run for the terminal: at most eight lines, or with `verbose` all details.
pub fn summary(report: &Report, look: Look, verbose: bool) -> String {
    let summary = &report.summary;
    let lines = if verbose { at_length(summary, look) } else { in_short(summary, look) };
    lines.join("\n") + "\n"
}

/// The verdict, the cause, the remedy, and its command.
fn in_short(summary: &RunSummary, look: Look) -> Vec<String> {
    let (word, class) = verdict_word(summary.valid);
    let mut lines = look.headline(word, class, &summary.headline);
    let first = summary.incidents.first();
    let explains = |account: &&DiagnosisAccount| account.incidents.contains(&1);
    // Clients that never acquire the lock make the run unknown, but this is still a finding.
    let keeps_out = summary.anomalies.iter().any(|anomaly| anomaly.kind == AnomalyKind::KeptOut);
    let is_told = summary.valid != Validity::Unknown || keeps_out;
    let account = summary.diagnoses.iter().find(explains).filter(|_| is_told);
    // A defect is shown even if it violated no claim of the run.
    let beside = summary.diagnoses.iter().find(|account| account.diagnosis.is_harmful() && !account.diagnosis.inherent);
    let beside = beside.filter(|_| account.is_none());
    let advice = summary.advice.first();
    let of_reason = || if summary.valid == Validity::Unknown { summary.reasons.first().cloned() } else { None };
    let why = account.map(of_diagnosis).or_else(|| of_reason().map(|reason| vec![reason]));
    let why = why.or_else(|| first.map(point)).unwrap_or_default();
    let is_broken = summary.valid == Validity::Invalid || account.is_some() && keeps_out;
    let fix = account.filter(|_| is_broken).map(|account| by_sentence(&account.diagnosis.fix));
    let remedy = first.filter(|_| is_broken).and_then(|first| first.remedies.first());
    let fix = fix.or_else(|| remedy.map(|remedy| by_sentence(&remedy.text)));
    let fix = fix.or_else(|| advice.map(|advice| by_sentence(&advice.text)));
    let fix = fix.or_else(|| beside.map(|account| by_sentence(&account.diagnosis.fix))).unwrap_or_default();
    let right = account.filter(|_| is_broken).and_then(|account| account.diagnosis.right.as_deref());
    let right = right.map(|right| format!("{right}  # a lock that passes"));
    let tried = right.or_else(|| remedy.map(|remedy| remedy.command.clone()));
    let tried = tried.or_else(|| advice.and_then(|advice| advice.command.clone()));
    let tried = tried.or_else(|| next_scenarios(summary));
    let tried = tried.filter(|command| !command.is_empty() && *command != summary.repeat);
    let cut = summary.truncated_at_line.map(|number| format!("cut off in line {number}"));
    let rows = [("history", cut), ("try", tried)].into_iter().filter_map(|(label, text)| Some((label, text?)));
    // Commands are not wrapped, so that users can copy them.
    let rows: Vec<String> = rows.map(|(label, text)| labelled(label, &sanitize(&text, 400))).collect();
    let width = look.line() - SHORT_LABEL - 2;
    // The first sentence of the remedy takes precedence over the second one of the incident.
    let fix_rows = fix.last().map_or(0, |first| wrap(first, width).len().min(FIX_LINES));
    let mut told = |label: &str, texts: &[String], reserved: usize| {
        let room = LINES.saturating_sub(lines.len() + rows.len() + reserved);
        let labels = std::iter::once(label).chain(std::iter::repeat(""));
        let wrapped = longest(texts, room, width);
        lines.extend(wrapped.iter().zip(labels).map(|(line, label)| labelled(label, line)));
    };
    told(if is_broken || summary.valid == Validity::Unknown { "why" } else { "seen" }, &why, fix_rows);
    let of_code = |account: &DiagnosisAccount| {
        let shorter = of_diagnosis(account).into_iter();
        shorter.map(|text| format!("{text} ({})", account.diagnosis.code)).collect()
    };
    told("seen", &beside.map_or_else(Vec::new, of_code), fix_rows);
    told(if is_broken { "fix" } else { "do" }, &fix, 0);
    lines.extend(rows);
    lines
}

/// The command that tries other scenarios on the lock of a valid run; None for a lock that is not in the catalogue.
fn next_scenarios(summary: &RunSummary) -> Option<String> {
    let known = |name: &&String| catalogue::WORKLOADS.iter().any(|(known, _)| known == name);
    let workload = summary.workload.as_ref().filter(known).filter(|_| summary.valid == Validity::Valid)?;
    let needs_ifeq = catalogue::workload(workload).is_ok_and(|(_, file)| file.lock.needs_ifeq());
    let server = if needs_ifeq { " --server valkey:9.1" } else { "" };
    Some(match summary.simulated || needs_ifeq {
        true => format!("redjepsen fuzz --workload {workload}{server}  # other scenarios, in virtual time"),
        false => format!("redjepsen library {workload}  # every other scenario"),
    })
}

/// The diagnosis in a sentence, and the catalogue's remark on it.
fn of_diagnosis(account: &DiagnosisAccount) -> Vec<String> {
    shorter(std::iter::once(account.sentence().to_string()).chain(account.known.clone()).collect())
}

/// An incident in at most four sentences, then in fewer: its beginning, the write over another client's update, and always its
/// result.
pub(super) fn point(incident: &IncidentAccount) -> Vec<String> {
    let texts: Vec<String> = incident.sentences.iter().map(|sentence| sentence.text().replace('`', "")).collect();
    let Some((last, others)) = texts.split_last() else { return Vec::new() };
    let most = others.len().min(2);
    // The write that replaced the lost update, whose value the result names.
    let replaced = |text: &&String| {
        let value = text.split_once(" over ").and_then(|(_, rest)| rest.split([' ', '.']).next());
        value.is_some_and(|value| last.contains(&format!("update {value} is lost")))
    };
    let over = others[most..].iter().find(replaced);
    let with = |many: usize, over: Option<&String>| {
        others[..many].iter().chain(over).chain([last]).cloned().collect::<Vec<_>>().join(" ")
    };
    let with_over = over.into_iter().flat_map(|over| (1..=most).rev().map(move |many| (many, Some(over))));
    let without = (0..=most).rev().map(|many| (many, None));
    with_over.chain(without).map(|(many, over)| with(many, over)).collect()
}

/// A text, then the text without its last sentence, and so on down to its first sentence.
fn by_sentence(text: &str) -> Vec<String> {
    shorter(text.split_inclusive(". ").map(|sentence| sentence.trim().to_string()).collect())
}

/// All sentences, then all but the last, and so on.
fn shorter(sentences: Vec<String>) -> Vec<String> {
    (1..=sentences.len()).rev().map(|many| sentences[..many].join(" ")).collect()
}

/// The longest of these texts that fits. If none fits, the shortest one is cut.
fn longest(texts: &[String], room: usize, width: usize) -> Vec<String> {
    let mut wrapped = texts.iter().map(|text| wrap(&sanitize(text, 1200), width));
    let mut lines = wrapped
        .find(|lines| lines.len() <= room)
        .unwrap_or_else(|| texts.last().map_or_else(Vec::new, |text| wrap(&sanitize(text, 1200), width)));
    if lines.len() > room {
        lines.truncate(room);
        if let Some(line) = lines.last_mut() {
            *line = goes_on(line, width);
        }
    }
    lines
}

fn labelled(label: &str, text: &str) -> String {
    format!("  {label:SHORT_LABEL$}{text}")
}

/// The verdict, each claim, the counts and the first incident, in about 30 lines.
fn at_length(summary: &RunSummary, look: Look) -> Vec<String> {
    let mut lines = verdict(summary, look);
    lines.extend(diagnoses(summary, look));
    lines.push(String::new());
    lines.extend(summary.claims.iter().flat_map(|of| claim(of, look)));
    lines.extend(numbers(summary, look));
    // If there is a diagnosis, the story can be shorter.
    let most = if summary.diagnoses.is_empty() { STORY_LINES } else { STORY_LINES / 2 };
    let first = summary.incidents.first();
    lines.extend(first.into_iter().flat_map(|first| incident(first, summary.incidents.len(), most, look)));
    lines.push(String::new());
    lines
}

/// The verdict and the headline. If the run is unknown, also the reasons.
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
        for reason in summary.reasons.iter().take(REASONS) {
            lines.extend(item(reason, "  - "));
            let Some(advice) = summary.advice_on(reason).filter(|advice| !said.contains(&advice.text.as_str())) else {
                continue;
            };
            lines.extend(item(&advice.text, "    → "));
            // Not wrapped, so that users can copy it.
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

/// The first diagnoses of the lock, each with its fix.
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
    lines.extend((more > 0).then(|| format!("  also {}; for details run `redjepsen explain CODE`", list(&codes))));
    if lines.is_empty() { lines } else { std::iter::once(String::new()).chain(lines).collect() }
}

/// A claim, its result, and the evidence.
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

/// The final state of the resource, and the counts.
fn numbers(summary: &RunSummary, look: Look) -> Vec<String> {
    let (seconds, counts) = (length((summary.busy_s * 1e9) as u64), summary.counts);
    let rate =
        summary.acknowledged_per_second.map_or(String::new(), |rate| format!(", {rate:.1} acknowledged per second"));
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

/// The names of advisories with remarks. The page has their sentences.
fn advisories(summary: &RunSummary) -> String {
    let against = summary.advisories.iter().map(|remark| format!("{} ({})", remark.id, remark.count));
    let against: Vec<String> = against.collect();
    if against.is_empty() { String::new() } else { format!("; advisories not kept: {}", list(&against)) }
}

/// The first incident, as far as there is room. Of a long story, the beginning and the result.
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

/// A line with an ellipsis, without its last word if there is no room for both.
fn goes_on(line: &str, width: usize) -> String {
    let fits = line.chars().count() + 2 <= width;
    let shown = if fits { line } else { line.rsplit_once(' ').map_or(line, |(shown, _)| shown) };
    format!("{shown} …")
}

/// The report's path, if it was `written`, and the command that repeats the run.
pub fn pointers(facts: &RunFacts, written: bool) -> String {
    let report = if written { in_folder(&facts.folder, "report.html") } else { String::new() };
    point_to(&report, &facts.repeat)
}

/// Like [`pointers`], for a page at any path. Without a page if the path is empty.
pub fn point_to(page: &str, repeat: &str) -> String {
    let pointers = [("report", words::sanitize(page, 400)), ("repeat", words::sanitize(repeat, 400))];
    let lines = pointers.iter().filter(|(_, text)| !text.is_empty());
    lines.map(|(label, text)| labelled(label, text) + "\n").collect()
}

/// The path of a file in the run folder, for the user.
pub fn in_folder(folder: &str, file: &str) -> String {
    if folder.is_empty() { file.to_string() } else { format!("{}/{file}", folder.trim_end_matches('/')) }
}
