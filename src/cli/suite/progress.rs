//! Shows the progress of a suite: a line for each finished run, with the remaining time. On a terminal, it also shows the
//! activity of the current run, or the names of the parallel runs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget};

use crate::cli::console::{is_live, tell, tell_progress};
use crate::cli::progress::{BESIDE, LIVE_EVERY, STEPS, style, width};
use base::words::{length, plural, sanitize};
use checker::Validity;
use model::nemesis::Expectation;
use runner::{Outlook, SeriesProgress};
use suite::file::FoundIn;
use suite::outcome::RunOutcome;
use suite::plan::PlannedCell;

pub struct SuiteProgress {
    bar: ProgressBar,
    all: usize,
    done: usize,
    began: Instant,
    /// The planned duration of the remaining runs.
    left: Duration,
    /// The planned duration of the runs that this process has made.
    passed: Duration,
    /// No run begins after this time.
    until: Option<Instant>,
    /// The runs in progress, by lane.
    running: BTreeMap<usize, String>,
    /// `again ` during reruns.
    again: &'static str,
    /// True if the runs are only for learning, and not to judge a lock.
    learning: bool,
}

impl SeriesProgress for SuiteProgress {
    fn starts(&mut self, outlook: Outlook) {
        let Outlook { all, due, clusters, planned, lanes, until } = outlook;
        (self.all, self.done, self.began, self.left) = (all, all - due, Instant::now(), planned);
        (self.passed, self.again, self.until) = (Duration::ZERO, "", until);
        if is_live() {
            self.bar.set_style(style(true));
            self.bar.set_length(STEPS);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(LIVE_EVERY);
        }
        let side_by_side = if lanes > 1 && due > 1 { format!(", {lanes} runs at a time") } else { String::new() };
        if clusters < due || lanes > 1 {
            let clusters = plural(clusters as u64, "cluster");
            self.bar.suspend(|| tell_progress(&format!("{} on {clusters}{side_by_side}", plural(due as u64, "run"))));
        }
    }

    fn starts_again(&mut self, outlook: Outlook) {
        let Outlook { due, planned, .. } = outlook;
        (self.all, self.done, self.began, self.left) = (due, 0, Instant::now(), planned);
        (self.passed, self.again) = (Duration::ZERO, "again ");
        let runs = plural(due as u64, "run");
        self.bar
            .suspend(|| tell_progress(&format!("rerunning {runs} alone: parallel load may have hidden their results")));
    }

    fn changes_lanes(&mut self, lanes: usize, why: &str) {
        let runs = plural(lanes as u64, "run");
        self.bar.suspend(|| tell_progress(&format!("{why}; redjepsen now does {runs} at a time")));
    }

    fn begins(&mut self, lane: usize, cell: &PlannedCell, seed: u64) {
        self.running.insert(lane, format!("{}, seed {seed}", sanitize(&cell.name, 60)));
        self.show_running(format!("{} left", self.left_in_words()));
    }

    fn says(&mut self, _lane: usize, line: String) {
        if self.running.len() == 1 && !line.is_empty() {
            let running = self.running.values().next().cloned().unwrap_or_default();
            self.message(&format!("{running} · {line}"));
        }
    }

    fn ended(&mut self, lane: usize, cell: &PlannedCell, outcome: &RunOutcome, planned: Duration) {
        self.done += 1;
        self.left = self.left.saturating_sub(planned);
        self.passed += planned;
        self.running.remove(&lane);
        let width = self.all.to_string().len();
        let mut line = format!(
            "[{}{:width$}/{}] {}, seed {}: {} · {:.1} s",
            self.again,
            self.done,
            self.all,
            sanitize(&cell.name, 80),
            outcome.seed,
            if self.learning { learnt(outcome) } else { told(cell, outcome) },
            outcome.seconds
        );
        if self.done < self.all {
            line.push_str(&format!(" · {} left", self.left_in_words()));
        }
        self.bar.suspend(|| tell_progress(&line));
        self.show_running(format!("{} left", self.left_in_words()));
    }

    fn warns(&mut self, text: &str) {
        self.bar.suspend(|| tell(&format!("redjepsen: {text}")));
    }

    fn finds(&mut self, defect: &str) {
        self.bar.suspend(|| tell_progress(&format!("  defect  {}", sanitize(defect, 400))));
    }
}

impl Default for SuiteProgress {
    fn default() -> SuiteProgress {
        let nothing = Duration::ZERO;
        SuiteProgress {
            bar: ProgressBar::hidden(),
            all: 0,
            done: 0,
            began: Instant::now(),
            left: nothing,
            until: None,
            passed: nothing,
            running: BTreeMap::new(),
            again: "",
            learning: false,
        }
    }
}

impl SuiteProgress {
    /// A display for learning runs. It does not mention missing evidence.
    pub fn learning() -> SuiteProgress {
        let mut progress = SuiteProgress::default();
        progress.learning = true;
        progress
    }

    /// Shows the runs in progress on a live line: a single run with its output, or the names of several.
    fn show_running(&self, left: String) {
        let names: Vec<&str> = self.running.values().map(String::as_str).collect();
        match &names[..] {
            // The last run is over, and the next one has no output yet.
            [] => self.message(&left),
            [one] => self.message(&format!("{left} · {one}")),
            several => self.message(&format!("{left} · {} at a time: {}", several.len(), several.join(" · "))),
        }
    }

    /// Shows a line. The bar's position is the planned share of the finished runs.
    fn message(&self, line: &str) {
        let all = (self.passed + self.left).as_secs_f64().max(1e-3);
        self.bar.set_position((self.passed.as_secs_f64() / all * STEPS as f64) as u64);
        self.bar.set_message(sanitize(line, width().saturating_sub(BESIDE).max(20)));
    }

    /// The planned duration of the rest at the pace so far. At most the remaining time of the budget.
    fn left_in_words(&self) -> String {
        let pace = match self.passed {
            Duration::ZERO => 1.0,
            passed => self.began.elapsed().as_secs_f64() / passed.as_secs_f64(),
        };
        let left = self.left.mul_f64(pace.clamp(0.1, 10.0));
        let time = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let in_words = |left: Duration| length(left.as_secs().max(1) * 1_000_000_000);
        match time.filter(|time| *time < left) {
            Some(time) => format!("at most {}", in_words(time)),
            None => format!("about {}", in_words(left)),
        }
    }
}

impl Drop for SuiteProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The result of a learning run: neither passed nor failed, unless something broke.
fn learnt(outcome: &RunOutcome) -> String {
    let seen = plural(outcome.numbers.acknowledged, "acknowledged update");
    match outcome.valid {
        None => sanitize(&outcome.summary, 300),
        Some(Validity::Invalid) => format!("a claim was violated without a fault, after {seen}"),
        Some(_) => format!("{seen}; this run has no verdict"),
    }
}

fn told(cell: &PlannedCell, outcome: &RunOutcome) -> String {
    let word = match outcome.valid {
        Some(Validity::Valid) => "valid",
        Some(Validity::Invalid) => "violation",
        Some(Validity::Unknown) => "UNKNOWN",
        None => return sanitize(&outcome.summary, 300),
    };
    if outcome.needs_rerun(cell.expected) {
        let why =
            outcome.timing.why_not_kept().unwrap_or_else(|| "other runs were active at the same time".to_string());
        return format!("{word}, but {why}, so it may be rerun alone");
    }
    let note = match (outcome.valid, cell.expected, cell.found) {
        // The summary begins with the meaning of that word, then the reason.
        (Some(Validity::Unknown), _, _) => return format!("{word}: {}", sanitize(reason(&outcome.summary), 300)),
        (_, None, _) => "",
        (Some(Validity::Valid), Some(Expectation::Violation), Some(FoundIn::Some)) => {
            ", but at least one run must show a violation"
        }
        (Some(Validity::Valid), Some(Expectation::Valid), _)
        | (Some(Validity::Invalid), Some(Expectation::Violation), _) => ", as expected",
        _ => ", NOT AS EXPECTED",
    };
    format!("{word}{note}")
}

/// The reason in the summary of an inconclusive run.
fn reason(summary: &str) -> &str {
    summary.split_once("proves nothing about the lock: ").map_or(summary, |(_, reason)| reason)
}
