//! Exports a run for other tools, as a table of operations, as Jepsen's EDN, or as a trace for Perfetto. Also writes a report
//! for a library's maintainers.

mod bug_report;
pub(super) mod csv;
mod edn;
mod perfetto;

pub use bug_report::{Reference, bug_report};
pub use csv::csv;
pub use edn::edn;
pub use perfetto::perfetto;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One operation per line, for spreadsheets and data frames.
    Csv,
    /// A history that Jepsen's own tools can load.
    Edn,
    /// A trace as JSON, for ui.perfetto.dev and Chromium.
    Perfetto,
}

pub fn export(report: &super::Report, format: Format) -> String {
    match format {
        Format::Csv => csv(report),
        Format::Edn => edn(report),
        Format::Perfetto => perfetto(report),
    }
}
