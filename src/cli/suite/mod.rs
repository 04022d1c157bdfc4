//! `redjepsen suite`: from a suite file to its matrix and exit code.

mod merge;
pub(super) mod progress;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;

use self::progress::SuiteProgress;
use super::console::{Exit, Failure, exit_after, look, print, tell, tell_progress};
use super::flags::{from_to, parse_u64};
use super::options::{Choice, Chosen};
use super::progress::CONSOLE;
use base::files::FileError;
use base::runs;
use base::words::{length, plural};
use model::scenario::{Options, quoted, typed};
use model::topology::ClusterKind;
use report::matrix as pages;
use runner::open::{open_state, program_sha256};
use runner::{Ended, Jobs, Prepared, Series, signals};
use suite::balance::Durations;
use suite::file;
use suite::matrix::{Circumstances, Matrix, Overall};
use suite::plan::{Source, Suite};
use suite::shard::{self, Shard, ShardChoice};
use suite::state::{Identity, SuiteState};
use suite::trend;
use summary::store::versions;

#[derive(Debug, Args)]
pub struct SuiteFlags {
    /// A name from `redjepsen list`, or the path of a .toml file
    #[arg(required_unless_present = "merge")]
    suite: Option<String>,
    /// List the cells with their expected results and durations; run nothing
    #[arg(long)]
    dry_run: bool,
    /// Stop at the first unexpected cell
    #[arg(long)]
    fail_fast: bool,
    /// Runs at the same time, each on its own cluster; `auto`: as many as the machine can take [default: 1; simulated: auto]
    #[arg(long, value_name = "N")]
    jobs: Option<Jobs>,
    /// Run one shard of the suite, such as 2/4; `auto`: the shard that CI or the scheduler names
    #[arg(long, value_name = "I/N")]
    shard: Option<ShardChoice>,
    /// Balance the shards by the durations of an earlier suite: its folder or matrix.json, the same for each shard
    #[arg(long, value_name = "DIR", requires = "shard")]
    durations: Option<PathBuf>,
    /// Start from the beginning, even if an interrupted suite could be resumed
    #[arg(long)]
    fresh: bool,
    /// Start a new cluster for each run, instead of reusing one
    #[arg(long)]
    new_clusters: bool,
    /// Do not record keys and commands of the lock's nodes (servers.jsonl, commands.jsonl); timelines and diagnoses then lack them
    #[arg(long)]
    no_observer: bool,
    /// Run only this cell: its name as `--dry-run` shows it, or its workload or nemesis; may be given several times
    #[arg(long, value_name = "CELL")]
    only: Vec<String>,
    /// Run only cells that were unexpected or not yet run, according to earlier suite runs in this store with the same flags
    #[arg(long, conflicts_with = "only")]
    failed: bool,
    #[command(flatten)]
    overrides: Overrides,
    /// Print the matrix as JSON, for programs, instead of the table
    #[arg(long)]
    json: bool,
    /// Folder for the runs
    #[arg(long, default_value = "store")]
    store: PathBuf,
    /// Merge the shards in or below these folders into one matrix; run nothing
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["suite", "dry_run", "fail_fast", "jobs", "shard", "durations", "fresh", "new_clusters", "no_observer", "only", "failed", "cluster", "image", "redis_server", "server", "ttl", "time_limit", "seed", "runs"])]
    merge: Vec<PathBuf>,
}

/// Options of the command line that replace the suite's for all cells.
#[derive(Debug, Args)]
struct Overrides {
    #[command(flatten)]
    chosen: Chosen<OfAllCells>,
    /// The seed of each cell's first run, instead of the suite's
    #[arg(long, value_parser = parse_u64)]
    seed: Option<u64>,
    /// Runs of each cell, instead of the suite's number
    #[arg(long, value_name = "N", value_parser = from_to(1_u32, Some(1000)))]
    runs: Option<u32>,
}

#[derive(Debug)]
struct OfAllCells;

impl Choice for OfAllCells {
    const NAMES: &'static [&'static str] = &["image", "redis_server", "ttl", "time_limit"];
    const DEFAULT: Option<&'static str> = Some("the suite's");
}

impl Overrides {
    /// The overrides as options of a run. A path is relative to the working directory, not to the suite file.
    fn options(&self) -> Result<Options, Failure> {
        let here =
            std::env::current_dir().map_err(|error| Failure::arguments(format!("the working directory: {error}")))?;
        Ok(self.chosen.options.in_folder(&here))
    }

    /// The overrides as the user would type them.
    fn to_flags(&self) -> Result<String, Failure> {
        let number = |name: &str, value: Option<u64>| value.map(|value| (name.to_string(), value.to_string()));
        let numbers = number("seed", self.seed).into_iter().chain(number("runs", self.runs.map(u64::from)));
        Ok(typed(self.options()?.to_flags().into_iter().chain(numbers)))
    }
}

pub async fn suite(flags: SuiteFlags) -> Result<Exit, Failure> {
    let Some(wanted) = &flags.suite else { return merge::merge(&flags.merge, &flags.store, flags.json) };
    // All errors in any cell are found before anything starts.
    let part = flags.part(wanted)?;
    let unsettled = flags.plan(wanted, &part, ClusterKind::Auto)?;
    if unsettled.cells.is_empty() {
        return nothing_again();
    }
    if flags.dry_run {
        print(format!("{}\n{}: {}\n", pages::planned(&unsettled), unsettled.name, planned(&unsettled)))?;
        return Ok(Exit::Valid);
    }
    let (interrupt, leftovers) = signals::listen(CONSOLE).map_err(Failure::could_not_run)?;
    let Prepared { auto, not_here, not_simulated } = runner::prepare(&unsettled, &interrupt, CONSOLE.say).await?;
    let suite = flags.plan(wanted, &part, auto)?.without(|workload| not_simulated.contains_key(workload));
    // Cells that cannot be simulated were never run, and need no rerun.
    if flags.failed && suite.cells.is_empty() {
        return nothing_again();
    }
    if suite.cells.is_empty() && !not_simulated.is_empty() {
        return Err(Failure::arguments("no cell can be simulated; use `--cluster docker` or `--cluster local`"));
    }
    let mut state = flags.state(&suite, &part)?;
    tell_progress(&format!("{}: {} · {}", suite.name, planned(&suite), state.folder().display()));

    let SuiteFlags { fail_fast, new_clusters, jobs, json, .. } = flags;
    // A simulated run does not depend on how late its processor is.
    let is_simulated = suite.cells.iter().all(|cell| cell.scenario.cluster_kind().is_simulated());
    let jobs = jobs.unwrap_or(if is_simulated { Jobs::Auto } else { Jobs::ALONE });
    let observe = !flags.no_observer;
    let (shard, repeat) = (part.shard, flags.repeat(wanted)?);
    let circumstances = Circumstances {
        shard,
        repeat,
        not_here: not_here.clone(),
        left_out: not_simulated,
        ..Circumstances::default()
    };
    let series =
        Series { suite: &suite, interrupt, leftovers, fail_fast, until: None, new_clusters, observe, jobs, not_here };
    let Made { matrix, ended, failed, unmarked } = make(series, &mut state, circumstances).await?;
    let exit = conclude(matrix, state.folder(), &flags.store, json)?;
    if let Some(error) = unmarked {
        return exit_after(exit, Err(Failure::could_not_run(error)));
    }
    let told = match ended {
        Ended::Done if failed == 0 => Ok(()),
        Ended::Done => {
            beside(json, &format!("{} could not be run; repeat the command to retry\n", plural(failed, "run")))
        }
        Ended::FailFast => beside(json, "stopped at the first unexpected cell (--fail-fast)\n"),
        Ended::OutOfTime | Ended::Interrupted => beside(json, "interrupted; run the same command again to resume\n"),
        Ended::CannotRun(reason) => Err(Failure::could_not_run(reason)),
    };
    exit_after(exit, told)
}

/// A finished or interrupted series.
pub(super) struct Made {
    pub matrix: Matrix,
    pub ended: Ended,
    /// The number of runs that could not be made.
    pub failed: u64,
    /// Why the state file does not say that the suite run is complete.
    pub unmarked: Option<FileError>,
}

/// Makes the runs of a suite that are due. The start and the versions of the `circumstances` come from the runs.
pub(super) async fn make(
    series: Series<'_>,
    state: &mut SuiteState,
    circumstances: Circumstances,
) -> Result<Made, Failure> {
    let suite = series.suite;
    let ended = series.make(state, &mut SuiteProgress::default()).await?;
    let failed = state.runs.iter().filter(|run| run.valid.is_none()).count() as u64;
    let is_complete = matches!(ended, Ended::FailFast) || matches!(ended, Ended::Done) && failed == 0;
    let unmarked = if is_complete { state.end().err() } else { None };
    let (started, versions) = (state.started.clone(), versions(state.folder(), &state.runs));
    let matrix = Matrix::new(suite, &state.runs, Circumstances { started, versions, ..circumstances });
    Ok(Made { matrix, ended, failed, unmarked })
}

/// The message of `--failed` if no cell has failed.
fn nothing_again() -> Result<Exit, Failure> {
    print("each cell was as expected in its last run, so there is nothing to rerun\n")?;
    Ok(Exit::Valid)
}

struct Selection {
    shard: Option<Shard>,
    /// The durations that determine the shards, instead of the planned ones.
    durations: Option<Durations>,
    /// With `--failed`, the names of the cells that need no rerun.
    passed: Option<BTreeSet<String>>,
}

impl SuiteFlags {
    /// The requested part of the suite. Prints it if it comes from the environment or an earlier suite run.
    fn part(&self, wanted: &str) -> Result<Selection, Failure> {
        let shard = match self.shard {
            None => None,
            Some(ShardChoice::This(shard)) => Some(shard),
            Some(ShardChoice::Auto) => {
                let variable = |name: &str| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned());
                let (shard, said) = shard::from_environment(&variable).map_err(Failure::arguments)?;
                eprintln!("shard {shard}, from {said}");
                Some(shard)
            }
        };
        let durations = self.durations.as_deref().map(|path| {
            let failed = |error| Failure::arguments(format!("--durations {error}"));
            merge::read(path).map(|matrix| Durations::of(&matrix)).map_err(failed)
        });
        let passed = self.failed.then(|| self.passed_before(wanted)).transpose()?;
        Ok(Selection { shard, durations: durations.transpose()?, passed })
    }

    /// The cells that were as expected when this command last ran them.
    fn passed_before(&self, wanted: &str) -> Result<BTreeSet<String>, Failure> {
        let (name, ..) = file::open(wanted).map_err(Failure::arguments)?;
        let repeat = self.repeat(wanted)?;
        let earlier: Vec<Matrix> =
            earlier(&self.store, &name, None).into_iter().filter(|matrix| matrix.repeat == repeat).collect();
        if earlier.is_empty() {
            let text = format!(
                "--failed: there is no earlier run of `{repeat}` in {}; run it once without --failed",
                self.store.display()
            );
            return Err(Failure::arguments(text));
        }
        let cells = earlier.iter().flat_map(|matrix| &matrix.cells);
        Ok(trend::passed(cells.map(|cell| (cell.name.as_str(), cell.standing))))
    }

    fn plan(&self, wanted: &str, part: &Selection, auto: ClusterKind) -> Result<Suite, Failure> {
        let (name, file, folder) = file::open(wanted).map_err(Failure::arguments)?;
        let file = file.with_overrides(self.overrides.options()?, self.overrides.seed, self.overrides.runs);
        let source = Source { name: &name, file: &file, folder: &folder };
        let mut suite = Suite::plan(&source, auto).map_err(Failure::arguments)?;
        if !self.only.is_empty() {
            suite = suite.only(&self.only).map_err(Failure::arguments)?;
        }
        if let Some(passed) = &part.passed {
            suite = suite.without_cells(passed);
        }
        if let (Some(durations), Some(path)) = (&part.durations, &self.durations)
            && durations.known(&suite) == 0
        {
            let text = format!("--durations {}: it contains no cell of the suite {name}", path.display());
            return Err(Failure::arguments(text));
        }
        Ok(match part.shard {
            Some(shard) => suite.shard(shard, part.durations.as_ref()),
            None => suite,
        })
    }

    /// The command that repeats the whole suite, whatever part this process runs.
    fn repeat(&self, wanted: &str) -> Result<String, Failure> {
        Ok(format!("redjepsen suite {}{}", quoted(wanted), self.overrides.to_flags()?))
    }

    fn state(&self, suite: &Suite, part: &Selection) -> Result<SuiteState, Failure> {
        let identity = Identity {
            suite: suite.name.clone(),
            suite_sha256: suite.sha256.clone(),
            program_sha256: program_sha256().map_err(Failure::could_not_run)?,
            shard: part.shard,
            cut_sha256: suite.cut_sha256.clone(),
            only: if self.failed || !self.only.is_empty() { suite.places() } else { Vec::new() },
        };
        Ok(open_state(&self.store, &identity, suite.runs(), self.fresh, tell)?)
    }
}

/// The runs of a suite and their planned duration.
pub(super) fn planned(suite: &Suite) -> String {
    let is_simulated = suite.cells.iter().all(|cell| cell.scenario.cluster_kind().is_simulated());
    format!(
        "{} in {}, planned for {}{}",
        plural(suite.runs() as u64, "run"),
        plural(suite.cells.len() as u64, "cell"),
        length(suite.planned_ms() * 1_000_000),
        if is_simulated { " of virtual time" } else { "" }
    )
}

/// At most this many earlier suite runs are read for the comparison.
const MOST_EARLIER: usize = 20;

/// The matrices of earlier runs of this suite in a store, newest first. Unreadable ones are left out.
fn earlier(store: &Path, name: &str, but: Option<&Path>) -> Vec<Matrix> {
    let folders = runs::suites(store, name).into_iter().filter(|folder| Some(folder.as_path()) != but);
    folders.filter_map(|folder| merge::read(&folder).ok()).take(MOST_EARLIER).collect()
}

/// Prints a message besides the matrix. With `--json`, it goes to standard error, because standard output is for the JSON.
fn beside(json: bool, text: &str) -> Result<(), Failure> {
    if !json {
        return print(text);
    }
    tell(text.trim());
    Ok(())
}

/// Shows the matrix, writes it, and returns the exit code.
fn conclude(mut matrix: Matrix, folder: &Path, store: &Path, json: bool) -> Result<Exit, Failure> {
    matrix.compare(&earlier(store, &matrix.suite, Some(folder)));
    let exit = match matrix.verdict {
        Overall::AsExpected => Exit::Valid,
        Overall::Surprise => Exit::Invalid,
        Overall::Unknown => Exit::Unknown,
    };
    let shown = print(match json {
        true => pages::json(&matrix),
        false => pages::terminal(&pages::SuiteSummary::new(&matrix), look()),
    });
    let written = pages::write(folder, &matrix).map_err(Failure::could_not_run);
    let page = format!("\n  matrix  {}\n", folder.join("matrix.html").display());
    exit_after(exit, shown.and(written).and_then(|()| beside(json, &page)))
}
