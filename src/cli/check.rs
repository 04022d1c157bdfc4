//! `redjepsen check` and `redjepsen report`: from a history that exists to its verdict and its pages.

use std::fs;
use std::io::IsTerminal;
use std::path::Path;

use super::{Exit, Failure, exit_for};
use crate::checker;
use crate::history;
use crate::report::{self, Report, RunFacts};
use crate::scenario::Scenario;

/// Checks a run folder or a history file and prints what `run` printed.
pub fn check(path: &Path) -> Result<Exit, Failure> {
    let history = history::load(path).map_err(Failure::could_not_run)?;
    let (scenario, facts) = beside(path)?;
    let verdict = checker::check(&history);
    let report = Report { scenario: scenario.as_ref(), history: &history, verdict: &verdict, facts: &facts };
    print!("{}", report::terminal(&report, std::io::stdout().is_terminal()));
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
