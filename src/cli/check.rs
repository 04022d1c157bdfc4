//! `redjepsen check` and `redjepsen report`: from an existing history to its verdict and pages.

use std::path::Path;

use super::console::{Exit, Failure, exit_after, exit_of, look, print};
use super::linear::{self, CheckFlags};
use base::files;
use base::runs;
use linearizability::formats::{Format, OpenHistory};
use model::history;
use model::scenario::{self, Scenario};
use report::{Counterexample, RunFacts};
use runner::Checked;

/// Checks a history: that of a run like `run` does, any other against a model.
pub fn check(flags: &CheckFlags) -> Result<Exit, Failure> {
    let model = flags.model.as_deref().map(linear::known).transpose()?;
    flags.pages.refuse(&flags.path)?;
    refuse_suite(&flags.path)?;
    let source =
        OpenHistory::open(&flags.path).map_err(|error| match flags.path.as_os_str() == "-" || flags.path.exists() {
            true => Failure::could_not_run(error),
            false => {
                Failure::could_not_run(format!("{error}; give a run folder, a history file, or - for standard input"))
            }
        })?;
    if model.is_some() || source.format() != Format::Run {
        return linear::check(source, model, flags);
    }
    let history = history::run(source).map_err(Failure::could_not_run)?;
    let from_file = flags.path.as_os_str() != "-";
    let (scenario, facts) = if from_file { beside(&flags.path)? } else { (None, RunFacts::default()) };
    let mut checked = Checked::new(history, scenario, facts);
    // A run folder also has the nodes' commands.
    if flags.path.is_dir() {
        checked.read_artifacts(&flags.path);
    }
    if flags.json {
        checked.play_remedies();
    }
    let report = checked.report();
    let shown = match flags.json {
        true => print(report::results_json(&report)),
        false => print(report::summary(&report, look(), flags.verbose)),
    };
    if !flags.pages.any() {
        let page = if from_file { page_beside(&flags.path) } else { String::new() };
        return exit_after(exit_of(&checked), shown.and_then(|()| show_pages(flags, &page, &checked)));
    }
    checked.find_counterexample();
    checked.play_remedies();
    let report = checked.report();
    let written =
        flags.pages.write(|| report::html(&report), || report.minimal_counterexample.map(Counterexample::standalone));
    let page = flags.pages.html.as_ref().map_or(String::new(), |page| page.display().to_string());
    exit_after(exit_of(&checked), shown.and(written).and_then(|()| show_pages(flags, &page, &checked)))
}

/// Rejects a folder that contains runs, and names them.
fn refuse_suite(folder: &Path) -> Result<(), Failure> {
    let Some(what) = runs::with_runs_in_it(folder) else { return Ok(()) };
    Err(Failure::could_not_run(format!("{}: no history.jsonl; {what}", folder.display())))
}

fn show_pages(flags: &CheckFlags, page: &str, checked: &Checked) -> Result<(), Failure> {
    if flags.json { Ok(()) } else { print(report::point_to(page, &checked.facts.repeat)) }
}

/// The report in the folder of a history. Empty if there is none.
fn page_beside(path: &Path) -> String {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let page = folder.join("report.html");
    if page.is_file() { page.display().to_string() } else { String::new() }
}

/// Checks a run again, with everything in its folder.
pub(super) fn with_all(folder: &Path) -> Result<Checked, Failure> {
    if !folder.is_dir() {
        return Err(Failure::arguments(format!(
            "`{}` is not a run folder; give a folder that contains history.jsonl",
            folder.display()
        )));
    }
    refuse_suite(folder)?;
    let history = history::load(folder).map_err(Failure::could_not_run)?;
    let (scenario, facts) = beside(folder)?;
    let mut checked = Checked::new(history, scenario, facts);
    checked.read_artifacts(folder);
    Ok(checked)
}

pub fn report(folder: &Path) -> Result<Exit, Failure> {
    let mut checked = with_all(folder)?;
    checked.find_counterexample();
    checked.play_remedies();
    report::write(folder, &checked.report()).map_err(Failure::could_not_run)?;
    print(format!("{}\n", folder.join("report.html").display()))?;
    Ok(Exit::Valid)
}

/// The scenario and the facts in the run folder around a history. Empty without such a folder.
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
