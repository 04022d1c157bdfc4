//! `redjepsen check` and `redjepsen report`: from an existing history to its verdict and its pages.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::pages::PageFlags;
use super::{Exit, Failure, despite, exit_of, look, print};
use crate::files;
use crate::history;
use crate::report::{self, Counterexample, RunFacts};
use crate::runner::Checked;
use crate::scenario::{self, Scenario};
use linearizability::FailedCas;
use linearizability::formats::{Format, Source};

/// What the user wants checked, and how.
#[derive(Debug, Args)]
pub struct CheckFlags {
    /// Run folder, history file of any known format, or - for standard input
    path: PathBuf,
    /// What the history is of, such as register, cas-register, owner-mutex or semaphore:3 [default: a run of redjepsen
    /// gets its own verdict, another history the model that fits its operations]
    #[arg(long)]
    pub model: Option<String>,
    /// What a register or counter holds at first [default: nothing]
    #[arg(long, value_name = "V", allow_hyphen_values = true)]
    pub initial: Option<String>,
    /// What a failed compare-and-set says about the value
    #[arg(long, value_parser = failed_cas(), default_value = "drop")]
    pub failed_cas: FailedCas,
    /// What a read of nil says about a register [default: empty in runs of redjepsen, else unknown]
    #[arg(long, value_enum)]
    pub nil_reads: Option<NilReads>,
    /// Read values that are pairs as a key and its value, as jepsen.independent writes them
    #[arg(long)]
    pub independent: bool,
    /// How long to search for an order before the answer is unknown
    #[arg(long, default_value = "60s", value_parser = super::flags::absolute)]
    pub timeout: Duration,
    /// How much memory the search may use before the answer is unknown
    #[arg(long, default_value = "4GiB", value_parser = super::linear::bytes)]
    pub memory: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub pages: PageFlags,
}

/// Checks a history: a run's as `run` did, any other against a model.
pub fn check(flags: &CheckFlags) -> Result<Exit, Failure> {
    let model = flags.model.as_deref().map(super::linear::known).transpose()?;
    flags.pages.refuse(&flags.path)?;
    refuse_suite(&flags.path)?;
    let source = Source::open(&flags.path).map_err(Failure::could_not_run)?;
    if model.is_some() || source.format() != Format::Run {
        return super::linear::check(source, model, flags);
    }
    let history = history::run(source).map_err(Failure::could_not_run)?;
    let from_file = flags.path.as_os_str() != "-";
    let (scenario, facts) = if from_file { beside(&flags.path)? } else { (None, RunFacts::default()) };
    let mut checked = Checked::new(history, scenario, facts);
    let report = checked.report();
    if flags.json {
        print(report::results_json(&report))?;
    } else {
        print(report::summary(&report, look()))?;
    }
    if !flags.pages.any() {
        let page = if from_file { page_beside(&flags.path) } else { String::new() };
        show_pages(flags, &page, &checked)?;
        return Ok(exit_of(&checked));
    }
    checked.find_counterexample();
    let report = checked.report();
    let written =
        flags.pages.write(|| report::html(&report), || report.minimal_counterexample.map(Counterexample::standalone));
    match written {
        Ok(()) => {
            let page = flags.pages.html.as_ref().map_or(String::new(), |page| page.display().to_string());
            show_pages(flags, &page, &checked)?;
            Ok(exit_of(&checked))
        }
        Err(failure) => despite(exit_of(&checked), failure),
    }
}

/// Says where the runs are, to somebody who named the folder above them.
fn refuse_suite(folder: &Path) -> Result<(), Failure> {
    let has = |name: &str| folder.join(name).exists();
    if !folder.is_dir() || has("history.jsonl") {
        return Ok(());
    }
    let what = match (has("runs"), has("latest")) {
        (true, _) => "it is the folder of a suite; its runs are in `runs`",
        (_, true) => "it has the folders of several runs; name one, such as `latest`",
        _ => return Ok(()),
    };
    Err(Failure::could_not_run(format!("{}: no history.jsonl; {what}", folder.display())))
}

fn show_pages(flags: &CheckFlags, page: &str, checked: &Checked) -> Result<(), Failure> {
    if flags.json { Ok(()) } else { print(report::point_to(page, &checked.facts.repeat)) }
}

/// The report in the folder of a history, if there is one.
fn page_beside(path: &Path) -> String {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let page = folder.join("report.html");
    if page.is_file() { page.display().to_string() } else { String::new() }
}

/// Writes the report of a run folder again.
pub fn report(folder: &Path) -> Result<Exit, Failure> {
    if !folder.is_dir() {
        return Err(Failure::arguments(format!("{} is not a run folder", folder.display())));
    }
    refuse_suite(folder)?;
    let history = history::load(folder).map_err(Failure::could_not_run)?;
    let (scenario, facts) = beside(folder)?;
    let mut checked = Checked::new(history, scenario, facts);
    checked.find_counterexample();
    report::write(folder, &checked.report()).map_err(Failure::could_not_run)?;
    print(format!("{}\n", folder.join("report.html").display()))?;
    Ok(Exit::Valid)
}

/// What the run folder around a history contains besides it; empty if there is no such folder.
fn beside(path: &Path) -> Result<(Option<Scenario>, RunFacts), Failure> {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let is_there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    let scenario = is_there(scenario::FILE).then(|| Scenario::read(folder).map_err(Failure::could_not_run));
    let facts = is_there("facts.json").then(|| {
        let path = folder.join("facts.json");
        let text = files::read_inside(&path, files::BY_HAND).map_err(Failure::could_not_run)?;
        serde_json::from_str(&text).map_err(|error| Failure::could_not_run(format!("{}: {error}", path.display())))
    });
    Ok((scenario.transpose()?, facts.transpose()?.unwrap_or_default()))
}

/// What a read of nil says about a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NilReads {
    /// The register was empty
    Empty,
    /// Nothing, as in Knossos
    Unknown,
}

/// What a failed compare-and-set says, as a flag.
fn failed_cas() -> impl TypedValueParser<Value = FailedCas> {
    let check = PossibleValue::new("check").help("At some moment of the operation the value was a different one");
    let drop = PossibleValue::new("drop").help("Only that it did not happen, as in Knossos");
    let of = |word: String| if word == "check" { FailedCas::Check } else { FailedCas::Drop };
    PossibleValuesParser::new([check, drop]).map(of)
}
