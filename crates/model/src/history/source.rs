//! A history of any kind as operations: a redjepsen run through its own reader, any other history through the formats of
//! [`linearizability`].

use std::path::Path;

use linearizability::formats::{FIRST_NAMED, Format, FormatOptions, HistoryError, Loaded, OpenHistory};
use linearizability::history::Table;

use super::{History, load_reader, lock_table, operation_table};

/// The process number of the controller in a table of operations.
pub const CONTROLLER: u32 = FIRST_NAMED;

pub fn operations(source: OpenHistory, options: &FormatOptions) -> Result<Loaded, HistoryError> {
    match source.format() {
        Format::Run => of_run(source, options, |history| operation_table(history, None)),
        _ => source.table(options),
    }
}

/// Reads the history of a run as acquires and releases of its locks. Fails if it is not a redjepsen run.
pub fn lock_operations(source: OpenHistory, options: &FormatOptions) -> Result<Loaded, HistoryError> {
    of_run(source, options, lock_table)
}

/// Loads the history of a run from a file, or from a run folder.
pub fn load(path: &Path) -> Result<History, HistoryError> {
    run(OpenHistory::open(path)?)
}

/// Reads the history of a run, which contains more than operations.
pub fn run(source: OpenHistory) -> Result<History, HistoryError> {
    let name = source.name().to_string();
    load_reader(source.into_reader(), &name)
}

fn of_run(
    source: OpenHistory,
    options: &FormatOptions,
    table: impl Fn(&History) -> (Table, Vec<i64>),
) -> Result<Loaded, HistoryError> {
    let (format, compression) = (source.format(), source.compression());
    let history = run(source)?;
    let (table, times) = table(&history);
    Ok(Loaded {
        table,
        times: if options.times { times } else { Vec::new() },
        named: vec!["controller".to_string()],
        format,
        compression,
        truncated_at_line: history.truncated_at_line,
        simulated: history.is_simulated(),
        notes: Vec::new(),
    })
}
