//! `redjepsen export`: a run for other tools.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::check;
use super::console::{Exit, Failure, print};
use base::files;
use report::export::{self, Format};

#[derive(Debug, Args)]
pub struct ExportFlags {
    /// Run folder
    run: PathBuf,
    /// For a spreadsheet, for Jepsen's own tools, or for ui.perfetto.dev
    #[arg(long, value_enum)]
    format: FormatFlag,
    /// Write it to this file instead of standard output
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
    let format = match flags.format {
        FormatFlag::Csv => Format::Csv,
        FormatFlag::Edn => Format::Edn,
        FormatFlag::Perfetto => Format::Perfetto,
    };
    let text = export::export(&checked.report(), format);
    match &flags.output {
        Some(path) => files::export(path, &text).map_err(Failure::could_not_run)?,
        None => print(text)?,
    }
    Ok(Exit::Valid)
}
