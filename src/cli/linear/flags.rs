//! The flags of `redjepsen check`. Most are about models.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use crate::cli::flags::{absolute, bytes};
use crate::cli::pages::PageFlags;
use linearizability::FailedCas;

/// What to check, and with which model.
#[derive(Debug, Args)]
pub struct CheckFlags {
    /// Run folder, history file of any known format, or - for standard input
    pub path: PathBuf,
    /// Model, such as register, cas-register, owner-mutex or semaphore:3 [default: the model that fits the operations]
    ///
    /// Without a model, a run of redjepsen gets its own verdict. `redjepsen list models` prints all models.
    #[arg(long)]
    pub model: Option<String>,
    /// Initial value of a register or counter [default: none]
    #[arg(long, value_name = "V", allow_hyphen_values = true)]
    pub initial: Option<String>,
    /// Meaning of a failed compare-and-set
    #[arg(long, value_parser = failed_cas(), default_value = "drop")]
    pub failed_cas: FailedCas,
    /// Meaning of a read that returns nil [default: empty in runs of redjepsen, else unknown]
    #[arg(long, value_enum)]
    pub nil_reads: Option<NilReads>,
    /// Treat a value that is a pair as [key, value], as jepsen.independent does
    #[arg(long)]
    pub independent: bool,
    /// How long to search for an order before the answer is unknown
    #[arg(long, default_value = "60s", value_parser = absolute)]
    pub timeout: Duration,
    /// How much memory the search may use before the answer is unknown
    #[arg(long, default_value = "4GiB", value_parser = bytes)]
    pub memory: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// For a run, also print each claim, the counts and the first incident
    #[arg(short, long)]
    pub verbose: bool,
    #[command(flatten)]
    pub pages: PageFlags,
}

/// The meaning of a nil read of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NilReads {
    /// The register was empty
    Empty,
    /// Nothing, as in Knossos
    Unknown,
}

/// The parser for the meaning of a failed compare-and-set.
fn failed_cas() -> impl TypedValueParser<Value = FailedCas> {
    let check = PossibleValue::new("check").help("The value differed at some moment during the operation");
    let drop = PossibleValue::new("drop").help("Only that the operation had no effect, as in Knossos");
    let of = |word: String| if word == "check" { FailedCas::Check } else { FailedCas::Drop };
    PossibleValuesParser::new([check, drop]).map(of)
}
