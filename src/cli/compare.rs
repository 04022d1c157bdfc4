//! `redjepsen compare`: tests if one side's runs are worse than the other's.

use std::path::{Path, PathBuf};

use clap::Args;

use super::console::{Exit, Failure, exit_after, look, print};
use base::files;
use report::compare as pages;
use suite::compare::{Change, Comparison, compare};
use summary::store::sides;

#[derive(Debug, Args)]
pub struct CompareFlags {
    /// Baseline A: a run, a folder of runs, a suite run, or a cell of a suite run (FOLDER#CELL)
    a: String,
    /// Candidate B, which may be worse than A
    b: String,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Also write a page; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Exits 0 if B is not worse, 1 if it is, 2 if that is unknown.
pub fn compare_sides(flags: &CompareFlags) -> Result<Exit, Failure> {
    if let Some(page) = &flags.html
        && page.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
    {
        return Err(Failure::arguments(format!("--html {}: there is no such directory", page.display())));
    }
    let read = |side: &str| sides::read(side).map_err(Failure::arguments);
    let comparison = compare(&read(&flags.a)?, &read(&flags.b)?);
    let exit = match comparison.verdict {
        Change::NotWorse => Exit::Valid,
        Change::Worse => Exit::Invalid,
        _ => Exit::Unknown,
    };
    let shown = match flags.json {
        true => print(json(&comparison)?),
        false => print(pages::text(&comparison, look())),
    };
    let written = flags.html.as_deref().map_or(Ok(()), |page| write(page, &comparison));
    exit_after(exit, shown.and(written))
}

fn json(comparison: &Comparison) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(comparison).map_err(Failure::could_not_run)? + "\n")
}

fn write(page: &Path, comparison: &Comparison) -> Result<(), Failure> {
    files::export(page, &pages::html(comparison)).map_err(Failure::could_not_run)
}
