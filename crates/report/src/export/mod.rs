//! A run for other tools: operations as a table, as Jepsen's EDN, and as a trace that Perfetto opens.

pub(super) mod csv;
mod edn;
mod perfetto;

pub use csv::csv;
pub use edn::edn;
pub use perfetto::perfetto;

/// A format that other tools read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One operation a line, for spreadsheets and data frames.
    Csv,
    /// A history as Jepsen's own tools load it.
    Edn,
    /// A trace as JSON, which ui.perfetto.dev and Chromium open.
    Perfetto,
}

/// The run in this format.
pub fn export(report: &super::Report, format: Format) -> String {
    match format {
        Format::Csv => csv(report),
        Format::Edn => edn(report),
        Format::Perfetto => perfetto(report),
    }
}
