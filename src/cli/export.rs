//! `redjepsen export`: writes a run for other tools, or for the maintainers of a library.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::check;
use super::console::{Exit, Failure, print};
use base::files;
use labs::library::commands::RenewalMode;
use labs::library::kind::Kind;
use model::scenario::{Scenario, catalogue};
use report::export::{self, Format, Reference};

#[derive(Debug, Args)]
pub struct ExportFlags {
    /// Run folder
    run: PathBuf,
    /// Format for a spreadsheet, for Jepsen's tools, or for ui.perfetto.dev
    #[arg(long, value_enum, required_unless_present = "bug_report")]
    format: Option<FormatFlag>,
    /// Write a report for the maintainers of the library, as Markdown without host names, user names and paths
    ///
    /// With --output, the drawing of the incident is written beside the report as an SVG file.
    #[arg(long, conflicts_with = "format")]
    bug_report: bool,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatFlag {
    Csv,
    Edn,
    Perfetto,
}

pub fn export(flags: &ExportFlags) -> Result<Exit, Failure> {
    let checked = check::with_all(&flags.run)?;
    let report = checked.report();
    let text = match flags.format {
        Some(FormatFlag::Csv) => export::export(&report, Format::Csv),
        Some(FormatFlag::Edn) => export::export(&report, Format::Edn),
        Some(FormatFlag::Perfetto) => export::export(&report, Format::Perfetto),
        None => {
            let reference = checked.scenario.as_ref().and_then(reference);
            let drawing =
                flags.output.as_ref().and_then(|path| Some((path.with_extension("svg"), report::drawing(&report, 0)?)));
            let name = drawing.as_ref().and_then(|(path, _)| path.file_name()?.to_str());
            let Some(text) = export::bug_report(&report, reference.as_ref(), name) else {
                let run = flags.run.display();
                return Err(Failure::arguments(format!("{run} shows no violation, so there is nothing to report")));
            };
            if let Some((path, svg)) = &drawing {
                files::export(path, svg).map_err(Failure::could_not_run)?;
            }
            text
        }
    };
    match &flags.output {
        Some(path) => files::export(path, &text).map_err(Failure::could_not_run)?,
        None => print(text)?,
    }
    Ok(Exit::Valid)
}

/// The reference lock of the same kind, if a file has an expectation for it under the same nemesis. None for that lock itself.
fn reference(scenario: &Scenario) -> Option<Reference> {
    let kind = Kind::of(scenario, RenewalMode::None);
    let workload = kind.reference.filter(|name| *name != scenario.workload_name)?;
    let (of_workload, of_nemesis) =
        (catalogue::workload(&workload).ok()?.1, catalogue::nemesis(&scenario.nemesis_name).ok()?.1);
    let expected = of_workload.expect.get(&scenario.nemesis_name).or_else(|| of_nemesis.expect.get(&workload))?;
    Some(Reference { kind: kind.what, expected: *expected, workload })
}
