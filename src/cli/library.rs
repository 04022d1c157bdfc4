//! `redjepsen library`: tries every scenario on the lock of a workload, and writes a page with the results.

use std::path::PathBuf;

use clap::Args;

use super::console::{Exit, Failure, exit_after, look, print};
use super::flags::from_to;
use super::options::{Choice, Chosen};
use super::progress::CONSOLE;
use super::suite::progress::SuiteProgress;
use base::files;
use base::units::Length;
use base::words::plural;
use labs::library::campaign::{CampaignRequest, ShowStage, examine};
use labs::library::page;
use runner::Jobs;

#[derive(Debug, Args)]
pub struct LibraryFlags {
    /// The library: a name from `redjepsen list libraries`, or the path of a .toml file
    workload: String,
    #[command(flatten)]
    chosen: Chosen<OfAllRuns>,
    /// Time for all runs; to resume, run the same command again
    #[arg(long, value_name = "LENGTH", default_value = "30m", allow_hyphen_values = true)]
    budget: Length,
    /// The lock's time to live; separate several with commas
    #[arg(long, value_delimiter = ',', default_value = "1s,400ms", allow_hyphen_values = true)]
    ttl: Vec<Length>,
    /// Seeds per scenario; a failing scenario gets two more
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_to(1_u32, Some(100)))]
    seeds: u32,
    /// Runs at the same time, each on its own cluster; `auto`: as many as the machine can take
    #[arg(long, value_name = "N", default_value = "auto")]
    jobs: Jobs,
    /// Start from the beginning, even if an earlier search could be resumed
    #[arg(long)]
    fresh: bool,
    /// Folder for the runs and the page
    #[arg(long, default_value = "store")]
    store: PathBuf,
}

#[derive(Debug)]
struct OfAllRuns;

impl Choice for OfAllRuns {
    const NAMES: &'static [&'static str] = &["image", "redis_server", "nodes", "redis_config"];
}

pub async fn library(flags: LibraryFlags) -> Result<Exit, Failure> {
    let budget = flags.budget.absolute().map_err(|error| Failure::arguments(format!("--budget: {error}")))?;
    let LibraryFlags { workload, chosen, ttl, seeds, jobs, fresh, store, .. } = flags;
    let request = CampaignRequest { workload, with: chosen.options, budget, ttl, seeds, jobs, fresh, store };
    let show: ShowStage =
        |learning| Box::new(if learning { SuiteProgress::learning() } else { SuiteProgress::default() });
    let finished = examine(request, CONSOLE, show).await?;
    let file = finished.folder.join(page::FILE);
    let shown = print(page::terminal(&finished.examined, look()));
    let written = files::write(&file, page::html(&finished.examined)).map_err(Failure::could_not_run);
    let pointed = || print(format!("\n  page  {}\n", file.display()));
    let left = plural(finished.examined.not_made as u64, "run");
    // Only an incomplete campaign can be resumed.
    let (exit, ended) = match finished.is_complete {
        true => (Exit::Valid, finished.end().map_err(Failure::from)),
        false => (Exit::Unknown, print(format!("{left} left; run the same command to resume\n"))),
    };
    exit_after(exit, shown.and(written).and_then(|()| pointed()).and(ended))
}
