//! `redjepsen check` and `redjepsen report`: from a history that exists to its verdict and its pages.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::flags::absolute;
use super::{Exit, Failure, exit_for, linear};
use crate::checker;
use crate::checker::linear::{FailedCas, ModelSpec};
use crate::history;
use crate::history::formats::{Format, Source};
use crate::report::{self, Report, RunFacts};
use crate::scenario::Scenario;

#[derive(Debug, Args)]
pub struct CheckFlags {
    /// Run folder, history file (JSON lines, EDN or a Jepsen log; plain, gzip or zstd), or - for standard input
    pub path: PathBuf,
    /// What the history is held against: register, cas-register, rmw, counter, set, list-append, text-append, mutex,
    /// owner-mutex, reentrant-mutex, fenced-mutex, semaphore:N [default: a run of ours is checked as `run` did; else the
    /// model is chosen by the operations]
    #[arg(long)]
    pub model: Option<ModelSpec>,
    /// What the object holds at first: a number, a text, or nil
    #[arg(long, default_value = "nil")]
    pub initial: String,
    /// Whether a failed compare-and-set is held to have found another value
    #[arg(long, value_enum, default_value = "check")]
    pub failed_cas: FailedCas,
    /// How long to search before the verdict is unknown
    #[arg(long, default_value = "60s", value_parser = absolute)]
    pub timeout: Duration,
    /// How much memory a search may take before the verdict is unknown, such as 512MiB
    #[arg(long, default_value = "4GiB", value_parser = bytes)]
    pub memory: usize,
    /// Take pairs as a key and its value, as jepsen.independent writes them
    #[arg(long)]
    pub independent: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Checks a history and prints the verdict: of a run of ours, what `run` printed.
pub fn check(flags: &CheckFlags) -> Result<Exit, Failure> {
    let source = Source::open(&flags.path).map_err(Failure::could_not_run)?;
    if source.format() == Format::Run && flags.model.is_none() {
        check_run(flags, source)
    } else {
        linear::check(flags, source)
    }
}

fn check_run(flags: &CheckFlags, source: Source<'_>) -> Result<Exit, Failure> {
    let history = source.run().map_err(Failure::could_not_run)?;
    let (scenario, facts) = beside(&flags.path)?;
    let verdict = checker::check(&history);
    let report = Report { scenario: scenario.as_ref(), history: &history, verdict: &verdict, facts: &facts };
    if flags.json {
        print!("{}", report::results_json(&report));
    } else {
        print!("{}", report::terminal(&report, std::io::stdout().is_terminal()));
    }
    Ok(exit_for(verdict.valid, scenario.and_then(|scenario| scenario.expect)))
}

/// Writes the report of a run folder again.
pub fn report(folder: &Path) -> Result<Exit, Failure> {
    if !folder.is_dir() {
        return Err(Failure::arguments(format!("{} is not a run folder", folder.display())));
    }
    let history = history::load(folder).map_err(Failure::could_not_run)?;
    let (scenario, facts) = beside(folder)?;
    let verdict = checker::check(&history);
    let report = Report { scenario: scenario.as_ref(), history: &history, verdict: &verdict, facts: &facts };
    report::write(folder, &report).map_err(|error| Failure::could_not_run(format!("{}: {error}", folder.display())))?;
    println!("{}", folder.join("report.html").display());
    Ok(Exit::Valid)
}

/// What the run folder around a history says beside it; nothing where there is no such folder.
fn beside(path: &Path) -> Result<(Option<Scenario>, RunFacts), Failure> {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let scenario =
        match fs::read_to_string(folder.join("scenario.toml")) {
            Err(_) => None,
            Ok(text) => Some(toml::from_str(&text).map_err(|error| {
                Failure::could_not_run(format!("{}: {error}", folder.join("scenario.toml").display()))
            })?),
        };
    let facts = match fs::read_to_string(folder.join("facts.json")) {
        Err(_) => RunFacts::default(),
        Ok(text) => serde_json::from_str(&text)
            .map_err(|error| Failure::could_not_run(format!("{}: {error}", folder.join("facts.json").display())))?,
    };
    Ok((scenario, facts))
}

/// A number of bytes, as `512MiB`.
fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        unit => return Err(format!("`{unit}` is no unit of memory; write for example 512MiB or 4GiB")),
    };
    let number: usize =
        digits.parse().map_err(|_| format!("`{text}` is no amount of memory; write for example 4GiB"))?;
    number.checked_mul(factor).filter(|bytes| *bytes > 0).ok_or_else(|| format!("`{text}` is out of range"))
}

impl ValueEnum for FailedCas {
    fn value_variants<'a>() -> &'a [Self] {
        &[FailedCas::Check, FailedCas::Drop]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(match self {
            FailedCas::Check => "check",
            FailedCas::Drop => "drop",
        }))
    }
}
