//! Reads histories into a [`Table`]: any known format, from a file, a run folder or a stream, compressed or not.
//!
//! The content determines the format: the first bytes show the compression (`source`), the following ones the notation
//! (`detect`). Each notation has a file here (`json` with its fast path `fast`, `forms` over `edn`, `log`) and produces the same
//! `event::FileEvent`. So the same code pairs and refuses them all (`pair`, `meaning`; [`InFlight`] serves other readers too).
//! Memory is limited to the table and a few lines of at most 4 MiB, whatever the file contains. No data cause a panic here.
//!
//! JSON lines have Jepsen's fields, one event per line: `process` (a number or a name), `type`, `f`, `value` and, if there are
//! several objects, `key`. `type` is `invoke`, `ok`, `fail` if it certainly did not happen, or `info` if that is unknown. `f` is
//! `read`, `write`, `cas`, `rmw`, `acquire`, `release`, `add` or `append`. `value` is a pair for a `cas` and an `rmw`, old and
//! new. EDN and logs are Jepsen's own.
//!
//! ```
//! use linearizability::{Answer, ModelSpec, Options, check, formats};
//!
//! let history = r#"{"process":0,"type":"invoke","f":"write","value":1}
//! {"process":0,"type":"ok","f":"write","value":1}
//! {"process":1,"type":"invoke","f":"read","value":null}
//! {"process":1,"type":"ok","f":"read","value":2}
//! "#;
//! let loaded = formats::read(history.as_bytes(), "a test", &formats::FormatOptions::default())?;
//! assert_eq!(loaded.format, formats::Format::Json);
//! let answers = check(&loaded.table, ModelSpec::Register, &Options::default());
//! assert!(matches!(answers[0].answer, Answer::NotLinearizable(_))); // nobody wrote 2
//! # Ok::<(), formats::HistoryError>(())
//! ```

mod cursor;
mod detect;
mod edn;
mod event;
mod fast;
mod forms;
mod in_flight;
mod input;
mod json;
mod log;
mod meaning;
mod names;
mod pair;
mod ring;
mod source;
mod tree;

use std::io::{self, BufRead, Read};
use std::path::Path;

use crate::history::{Op, OpFunction, Outcome, Table, Value};
use input::{Fault, Input};
use pair::Pairing;

pub use event::word;
pub use in_flight::{InFlight, OutOfTurn};
pub use source::Compression;

/// How to read parts that a file leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormatOptions {
    /// True if a value that is a pair is a key with its value, as in jepsen.independent. Tagged tuples need no option.
    pub independent: bool,
    /// True to keep the times of events; no check needs them.
    pub times: bool,
}

/// The notation of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The history of a run of redjepsen, in JSON lines.
    Run,
    /// Operations with Jepsen's fields, one JSON object per line.
    Json,
    /// Operations as EDN maps.
    Edn,
    /// Lines of a Jepsen log.
    Log,
}

impl Format {
    /// A stable name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Run => "redjepsen",
            Format::Json => "jsonl",
            Format::Edn => "edn",
            Format::Log => "log",
        }
    }
}

impl Compression {
    /// A stable name.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }
}

/// A history as operations, with its format.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The operations.
    pub table: Table,
    /// Its notation.
    pub format: Format,
    /// The compression of the file.
    pub compression: Compression,
    /// The number of the last line, if the writer of a redjepsen run was killed in the middle of it.
    pub truncated_at_line: Option<u64>,
    /// True if a redjepsen run says that it was simulated.
    pub simulated: bool,
    /// Remarks on reading the file, as sentences for readers of the verdict: skipped lines and oddities.
    pub notes: Vec<String>,
    /// Nanoseconds by place in the order of events. Empty unless [`FormatOptions::times`] is set and the file has times.
    pub times: Vec<i64>,
    /// Names of the processes that have a name instead of a number, see [`Loaded::process_name`].
    pub named: Vec<String>,
}

/// The number of the first process in [`Loaded::named`]. Numbers that a file gives to processes stay below it.
pub const FIRST_NAMED: u32 = 1 << 31;

/// A longer line is not part of a history. Refusing it bounds the memory that a broken file can take.
pub const LONGEST_LINE: u64 = 4 << 20;

/// Why a file is not a history.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages show the fields.
pub enum HistoryError {
    /// It cannot be read.
    #[error("{name}: {source}")]
    Io { name: String, source: io::Error },
    /// It is not a history.
    #[error("{name}{}: {reason}", in_line(*line))]
    Malformed { name: String, line: u64, reason: String },
    /// It can be read, but only with an option that decides how.
    #[error("{name}, line {line}: {reason}")]
    Ambiguous { name: String, line: u64, reason: String },
}

/// Where the mistake is: nowhere in a file without lines, whose number is 0.
fn in_line(line: u64) -> String {
    if line == 0 { String::new() } else { format!(", line {line}") }
}

impl Loaded {
    /// The display name of a process in the table: its number, or its name if the file gave one.
    pub fn process_name(&self, process: u32) -> String {
        let named = process.checked_sub(FIRST_NAMED).and_then(|place| self.named.get(place as usize));
        named.map_or_else(|| process.to_string(), String::clone)
    }

    /// Treats reads of nil as reads of an unknown value, as Knossos does for registers, and notes it.
    pub fn forget_nil_reads(&mut self) {
        let is_nil = |op: &&mut Op| (op.f, op.outcome, op.a) == (OpFunction::Read, Outcome::Ok, Value::NIL);
        let forgotten = self.table.operations.iter_mut().filter(is_nil).map(|op| op.a = Value::UNKNOWN).count();
        if forgotten > 0 {
            let reads = if forgotten == 1 { "1 read".into() } else { format!("{forgotten} reads") };
            self.notes
                .push(format!("{reads} of nil count as unknown; with --nil-reads empty they mean an empty register"));
        }
    }
}

/// A history that has been opened and recognized, but not yet read.
pub struct OpenHistory<'r> {
    name: String,
    input: Input<'r>,
    format: Format,
    compression: Compression,
}

impl OpenHistory<'static> {
    /// Opens a file, the history in a run folder, or standard input for `-`.
    pub fn open(path: &Path) -> Result<OpenHistory<'static>, HistoryError> {
        let (reader, name) = source::open(path)?;
        OpenHistory::of(reader, &name)
    }
}

impl<'r> OpenHistory<'r> {
    /// Recognizes the content of a reader; `name` identifies it in messages.
    pub fn of(reader: impl Read + Send + 'r, name: &str) -> Result<OpenHistory<'r>, HistoryError> {
        let (input, format, compression) = recognize(reader).map_err(|broken| broken.named(name))?;
        Ok(OpenHistory { name: name.to_string(), input, format, compression })
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its notation.
    pub fn format(&self) -> Format {
        self.format
    }

    /// How it is compressed.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Reads it as operations. A redjepsen run contains more than operations, so the program reads it itself.
    pub fn table(mut self, options: &FormatOptions) -> Result<Loaded, HistoryError> {
        let mut loading = Loading::default();
        loading.pairing.times = options.times.then(Vec::new);
        let load = match self.format {
            Format::Run => {
                return Err(
                    at(1, "this is a run of redjepsen, which this loader does not read".into()).named(&self.name)
                );
            }
            Format::Json => json::load,
            Format::Edn => forms::load,
            Format::Log => log::load,
        };
        load(&mut self.input, &mut loading, options).map_err(|broken| match broken {
            Broken::TooLong => too_long(self.input.line()).named(&self.name),
            Broken::Line(line, reason) if loading.pairing.needs_independent => {
                HistoryError::Ambiguous { name: self.name.clone(), line, reason }
            }
            broken => broken.named(&self.name),
        })?;
        let notes = loading.notes();
        let times = loading.pairing.take_times();
        let (table, named) = loading.pairing.finish();
        Ok(Loaded {
            table,
            times,
            named,
            format: self.format,
            compression: self.compression,
            truncated_at_line: None,
            simulated: false,
            notes,
        })
    }

    /// The decompressed content, for another kind of reader.
    pub fn into_reader(self) -> impl BufRead + 'r {
        self.input.into_reader()
    }
}

/// Reads a file, the history in a run folder, or standard input for `-` as operations.
pub fn load(path: &Path, options: &FormatOptions) -> Result<Loaded, HistoryError> {
    OpenHistory::open(path)?.table(options)
}

/// Reads the content of a reader as operations; `name` identifies it in messages.
pub fn read(reader: impl Read + Send, name: &str, options: &FormatOptions) -> Result<Loaded, HistoryError> {
    OpenHistory::of(reader, name)?.table(options)
}

fn recognize<'r>(reader: impl Read + Send + 'r) -> Result<(Input<'r>, Format, Compression), Broken> {
    let (reader, compression) = source::decompress(reader).map_err(Broken::Io)?;
    let mut input = Input::new(reader);
    // A byte order mark is not part of the text.
    input.widen()?;
    if input.window().starts_with("\u{feff}".as_bytes()) {
        input.take(3);
    }
    // A file without lines is wrong in no line.
    let first = if input.window().is_empty() && input.is_exhausted() { 0 } else { 1 };
    loop {
        match detect::detect(input.window(), input.is_exhausted()) {
            Some(format) => return Ok((input, format.map_err(|reason| at(first, reason))?, compression)),
            None => input.widen().map_err(|fault| match fault {
                Fault::TooLong => too_long(1),
                fault => fault.into(),
            })?,
        }
    }
}

/// The state while a file is read.
#[derive(Default)]
struct Loading {
    pairing: Pairing,
    /// How many lines of a log are not operations, and the first of them.
    skipped: u64,
    first_skipped: Option<u64>,
}

impl Loading {
    fn notes(&self) -> Vec<String> {
        let skipped = self.first_skipped.map(|line| match self.skipped {
            1 => format!("line {line} is not an operation and was skipped"),
            count => format!("{count} lines are not operations and were skipped, first line {line}"),
        });
        skipped.into_iter().chain(self.pairing.notes()).collect()
    }
}

/// Why a file is refused, without the file's name.
enum Broken {
    Io(io::Error),
    TooLong,
    Line(u64, String),
}

fn at(line: u64, reason: String) -> Broken {
    Broken::Line(line, reason)
}

fn too_long(line: u64) -> Broken {
    at(line, format!("longer than {} MiB", LONGEST_LINE >> 20))
}

/// A line number as the table stores it; used in messages only.
fn short(line: u64) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Broken {
        match fault {
            Fault::Io(error) => Broken::Io(error),
            Fault::TooLong => Broken::TooLong,
        }
    }
}

impl Broken {
    fn named(self, name: &str) -> HistoryError {
        let name = name.to_string();
        match self {
            Broken::Io(source) => HistoryError::Io { name, source },
            Broken::TooLong => HistoryError::Malformed { name, line: 0, reason: "a line that is too long".into() },
            Broken::Line(line, reason) => HistoryError::Malformed { name, line, reason },
        }
    }
}
