//! `redjepsen clean`: removes the remains of dead runs. With --older-than or --keep, lists or removes old runs of a store
//! instead.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;

use super::console::{Exit, Failure, print};
use super::flags::from_to;
use base::runs::prune::{self, PruneLimits};
use base::words::{line, plural};
use runner::clean_cache;
use system::cluster::{self, CleanOptions, Cleaned};

/// Long, because a line names every container of a run.
const LONGEST: usize = 20_000;
const MOST_LISTED: usize = 50;

#[derive(Debug, Args)]
pub struct CleanFlags {
    /// Also remove runs whose controller may still be alive, such as runs of another machine
    #[arg(long)]
    all: bool,
    /// Also remove the images that redjepsen made
    #[arg(long)]
    images: bool,
    /// List the runs and suites of the store that are older than this (such as 30d), instead of leftovers; with --yes, remove them
    #[arg(long, value_name = "AGE", value_parser = age, conflicts_with_all = ["all", "images"])]
    older_than: Option<Duration>,
    /// List all runs except the newest N of each test and suite, instead of leftovers; with --yes, remove them. Can be combined with --older-than
    #[arg(long, value_name = "N", value_parser = from_to(1_u32, None), conflicts_with_all = ["all", "images"])]
    keep: Option<u32>,
    /// Remove the listed runs
    #[arg(long)]
    yes: bool,
    /// The store
    #[arg(long, default_value = "store")]
    store: PathBuf,
}

pub async fn clean(flags: CleanFlags) -> Result<Exit, Failure> {
    if flags.older_than.is_some() || flags.keep.is_some() {
        return prune(&flags);
    }
    if flags.yes {
        return Err(Failure::arguments("--yes needs --older-than or --keep"));
    }
    of_dead_runs(flags.all, flags.images).await
}

/// Parses the age of a run. Any length is accepted.
fn age(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim()).map_err(|_| "expected an age, such as `30d` or `12h`".to_string())
}

fn prune(flags: &CleanFlags) -> Result<Exit, Failure> {
    let limits = PruneLimits { older_than: flags.older_than, keep: flags.keep.map_or(0, |keep| keep as usize) };
    let old = prune::find(&flags.store, limits, SystemTime::now()).map_err(Failure::arguments)?;
    if old.is_empty() {
        let text = "no run is beyond these limits. Runs used in the last hour are always kept.";
        print(format!("{}: {text}\n", flags.store.display()))?;
        return Ok(Exit::Valid);
    }
    let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64);
    let listed = old.iter().take(MOST_LISTED).map(|one| {
        let hours = one.age.as_secs() / 3600;
        let age = if hours < 48 { plural(hours, "hour") } else { plural(hours / 24, "day") };
        format!("{:>12}  {}, {age} old\n", mebibytes(one.bytes), line(&one.folder.display().to_string(), LONGEST))
    });
    let mut text: String = listed.collect();
    if old.len() > MOST_LISTED {
        text.push_str(&format!("{:>12}  and {} more\n", "", old.len() - MOST_LISTED));
    }
    let sum = mebibytes(old.iter().map(|one| one.bytes).sum());
    let (what, which) = (plural(old.len() as u64, "folder"), if old.len() == 1 { "it" } else { "them" });
    if !flags.yes {
        print(format!("{text}{what}, {sum}; nothing was removed: --yes removes {which}\n"))?;
        return Ok(Exit::Valid);
    }
    prune::remove(&flags.store, &old).map_err(Failure::could_not_run)?;
    print(format!("{text}removed {what}, {sum}\n"))?;
    Ok(Exit::Valid)
}

async fn of_dead_runs(all: bool, images: bool) -> Result<Exit, Failure> {
    let (mut cleaned, unreachable) = cluster::clean(&CleanOptions { all, images, of: None }).await;
    let mut lines = Vec::new();
    lines.extend(cleaned.removed.iter().map(|run| format!("removed run {}: {}", run.run_id, run.names.join(", "))));
    lines.extend(cleaned.kept.iter().map(|run| format!("kept run {}: {}", run.run_id, run.reason)));
    lines.extend(cleaned.images.iter().map(|image| format!("removed image {image}")));
    let (unfinished, not_removed) = clean_cache();
    lines.extend(unfinished.iter().map(|folder| format!("removed an unfinished installation: {}", folder.display())));
    cleaned.failed.extend(not_removed);
    if let Some(error) = unreachable {
        lines.push(format!("redjepsen looked at local runs only: {error}"));
    } else if cleaned == Cleaned::default() && unfinished.is_empty() {
        lines.push("nothing to clean".to_string());
    }
    print(lines.iter().map(|text| line(text, LONGEST) + "\n").collect::<String>())?;
    if cleaned.failed.is_empty() {
        return Ok(Exit::Valid);
    }
    Err(Failure::could_not_run(format!("not everything could be removed\n{}", cleaned.failed.join("\n"))))
}
