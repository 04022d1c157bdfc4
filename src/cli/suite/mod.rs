//! `redjepsen suite`: from a suite file to its matrix and exit code.

mod merge;
pub(super) mod progress;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use sha2::{Digest, Sha256};

use self::progress::Progress;
use super::{CONSOLE, Exit, Failure, exit_despite, look, print, tell, tell_progress};
use crate::report::matrix as pages;
use crate::runner::{self, Ended, Jobs, Prepared, Series, signals};
use crate::runs;
use crate::scenario::quoted;
use crate::store::Results;
use crate::suite::cut::Durations;
use crate::suite::file;
use crate::suite::matrix::{Circumstances, Matrix, Overall};
use crate::suite::outcome::RunOutcome;
use crate::suite::plan::{Clusters, Source, Suite};
use crate::suite::shard::{self, Shard, ShardChoice};
use crate::suite::state::{Earlier, Identity, State};
use crate::topology::ClusterKind;
use crate::words::{length, plural};

#[derive(Debug, Args)]
pub struct SuiteFlags {
    /// A name from `redjepsen list`, or the path of a .toml file
    #[arg(required_unless_present = "merge")]
    suite: Option<String>,
    /// List the cells with what is expected and how long they take; run nothing
    #[arg(long)]
    dry_run: bool,
    /// Stop at the first surprise
    #[arg(long)]
    fail_fast: bool,
    /// Runs at the same time, each on its own cluster; `auto`: as many as the machine can take
    #[arg(long, value_name = "N", default_value = "1")]
    jobs: Jobs,
    /// Run one shard of the suite, such as 2/4; `auto`: the one that CI or the scheduler names
    #[arg(long, value_name = "I/N")]
    shard: Option<ShardChoice>,
    /// Balance the shards by the durations of an earlier suite: its folder or matrix.json, the same for each shard
    #[arg(long, value_name = "DIR", requires = "shard")]
    durations: Option<PathBuf>,
    /// Start again, even if an interrupted suite could be continued
    #[arg(long)]
    fresh: bool,
    /// Start a new cluster for each run, instead of reusing one
    #[arg(long)]
    new_clusters: bool,
    /// The kind of cluster, instead of what the suite says
    #[arg(long, value_enum)]
    cluster: Option<ClusterKind>,
    /// Folder for the runs
    #[arg(long, default_value = "store")]
    store: PathBuf,
    /// Merge the shards in or below these folders into one matrix; run nothing
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["suite", "dry_run", "fail_fast", "jobs", "shard", "durations", "fresh", "new_clusters", "cluster"])]
    merge: Vec<PathBuf>,
}

pub async fn suite(flags: SuiteFlags) -> Result<Exit, Failure> {
    let Some(wanted) = &flags.suite else { return merge::merge(&flags.merge, &flags.store) };
    // Everything that can be wrong with any cell is found before anything starts.
    let part = flags.part()?;
    let unsettled = flags.plan(wanted, &part, ClusterKind::Auto)?;
    if flags.dry_run {
        print(format!("{}\n{}\n", pages::planned(&unsettled), announcement(&unsettled)))?;
        return Ok(Exit::Valid);
    }
    let (interrupt, remains) = signals::listen(CONSOLE).map_err(Failure::could_not_run)?;
    let Prepared { auto, not_here } = runner::prepare(&unsettled, &interrupt, CONSOLE.say).await?;
    let suite = flags.plan(wanted, &part, auto)?;
    let mut state = flags.state(&suite, &part)?;
    tell_progress(&format!("{} · {}", announcement(&suite), state.folder().display()));

    let SuiteFlags { fail_fast, new_clusters, jobs, .. } = flags;
    let series = Series { suite: &suite, interrupt, remains, fail_fast, until: None, new_clusters, jobs, not_here };
    let series_not_here = series.not_here.clone();
    let ended = series.make(&mut state, &mut Progress::default()).await?;
    let failed = state.runs.iter().filter(|run| run.valid.is_none()).count() as u64;
    let mut unmarked = None;
    if matches!(ended, Ended::FailFast) || matches!(ended, Ended::Done) && failed == 0 {
        unmarked = state.end().err();
    }
    let circumstances = Circumstances {
        shard: part.shard,
        started: state.started.clone(),
        versions: versions(state.folder(), &state.runs),
        repeat: flags.repeat(wanted),
        not_here: series_not_here,
    };
    let matrix = Matrix::new(&suite, &state.runs, circumstances);
    let exit = conclude(&matrix, state.folder())?;
    if let Some(error) = unmarked {
        return exit_despite(exit, Failure::could_not_run(error));
    }
    match ended {
        Ended::Done => {
            if failed > 0 {
                print(format!("{} could not be made; the same command tries again\n", plural(failed, "run")))?;
            }
            Ok(exit)
        }
        Ended::FailFast => {
            print("stopped at the first surprise (--fail-fast)\n")?;
            Ok(exit)
        }
        Ended::OutOfTime | Ended::Interrupted => {
            print("interrupted; the same command goes on where it was\n")?;
            Ok(exit)
        }
        Ended::CannotRun(reason) => exit_despite(exit, Failure::could_not_run(reason)),
    }
}

/// What of a suite is to be run.
struct Part {
    shard: Option<Shard>,
    /// What the shards are cut by, instead of the planned durations.
    durations: Option<Durations>,
}

impl SuiteFlags {
    /// Which part of the suite is wanted. Says so if the user left that to the environment or to an earlier night.
    fn part(&self) -> Result<Part, Failure> {
        let shard = match self.shard {
            None => None,
            Some(ShardChoice::This(shard)) => Some(shard),
            Some(ShardChoice::Auto) => {
                let variable = |name: &str| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned());
                let (shard, said) = shard::from_environment(&variable).map_err(Failure::arguments)?;
                eprintln!("shard {shard}, by {said}");
                Some(shard)
            }
        };
        let durations = self.durations.as_deref().map(|path| {
            let failed = |error| Failure::arguments(format!("--durations {error}"));
            merge::read(path).map(|matrix| Durations::of(&matrix)).map_err(failed)
        });
        Ok(Part { shard, durations: durations.transpose()? })
    }

    fn plan(&self, wanted: &str, part: &Part, auto: ClusterKind) -> Result<Suite, Failure> {
        let (name, file, folder) = file::open(wanted).map_err(Failure::arguments)?;
        let clusters = Clusters { instead: self.cluster, auto };
        let source = Source { name: &name, file: &file, folder: &folder };
        let suite = Suite::plan(&source, clusters).map_err(Failure::arguments)?;
        if let (Some(durations), Some(path)) = (&part.durations, &self.durations)
            && durations.known(&suite) == 0
        {
            let text = format!("--durations {}: no cell of the suite {name} was run there", path.display());
            return Err(Failure::arguments(text));
        }
        Ok(match part.shard {
            Some(shard) => suite.shard(shard, part.durations.as_ref()),
            None => suite,
        })
    }

    /// The command that repeats the whole suite, whichever of its runs this process makes.
    fn repeat(&self, wanted: &str) -> String {
        let cluster = self.cluster.map_or(String::new(), |cluster| format!(" --cluster {}", cluster.word()));
        format!("redjepsen suite {}{cluster}", quoted(wanted))
    }

    fn state(&self, suite: &Suite, part: &Part) -> Result<State, Failure> {
        let identity = Identity {
            suite: suite.name.clone(),
            suite_sha256: suite.sha256.clone(),
            program_sha256: program_sha256().map_err(Failure::could_not_run)?,
            shard: part.shard,
            cut_sha256: suite.cut_sha256.clone(),
        };
        open_state(&self.store, &identity, suite.runs(), self.fresh)
    }
}

/// The state of an interrupted suite if there is one to continue, else a new one. Says which.
pub(super) fn open_state(store: &Path, identity: &Identity, runs: usize, fresh: bool) -> Result<State, Failure> {
    let earlier = runs::suites(store, &identity.suite);
    let found = if fresh { Earlier::Nothing } else { State::find(&earlier, identity) };
    match found {
        Earlier::Unfinished(state) => {
            let done = state.runs.iter().filter(|run| run.valid.is_some()).count();
            let folder = state.folder().display();
            tell(&format!("going on with {folder}: {done} of {runs} runs are done"));
            return Ok(state);
        }
        Earlier::Changed { folder, why } => {
            tell(&format!("starting anew: {} is not finished, but {why}", folder.display()));
        }
        Earlier::Busy { folder } => {
            tell(&format!("starting anew: another process is at work on {}", folder.display()));
        }
        Earlier::Nothing => {}
    }
    let failed = |error| Failure::could_not_run(format!("--store {}: {error}", store.display()));
    let folder = runs::create_suite(store, &identity.suite).map_err(failed)?;
    State::begin(&folder, identity).map_err(Failure::could_not_run)
}

fn announcement(suite: &Suite) -> String {
    format!(
        "{}: {} in {}, planned for {}",
        suite.name,
        plural(suite.runs() as u64, "run"),
        plural(suite.cells.len() as u64, "cell"),
        length(suite.planned_ms() * 1_000_000)
    )
}

/// Shows the matrix, writes it, and returns the exit code.
fn conclude(matrix: &Matrix, folder: &Path) -> Result<Exit, Failure> {
    let exit = match matrix.verdict {
        Overall::AsExpected => Exit::Valid,
        Overall::Surprise => Exit::Invalid,
        Overall::Unknown => Exit::Unknown,
    };
    let shown = print(pages::terminal(&pages::Table::new(matrix), look()));
    let written = pages::write(folder, matrix).map_err(Failure::could_not_run);
    let page = folder.join("matrix.html");
    match shown.and(written).and_then(|()| print(format!("\n  matrix  {}\n", page.display()))) {
        Ok(()) => Ok(exit),
        Err(failure) => exit_despite(exit, failure),
    }
}

/// The versions that the runs ran on, as each reported them.
pub(super) fn versions(folder: &Path, runs: &[RunOutcome]) -> BTreeMap<String, String> {
    let mut versions: BTreeMap<String, String> = BTreeMap::new();
    for run in runs.iter().filter(|run| !run.folder.is_empty()) {
        let Ok(results) = Results::read(&folder.join(&run.folder)) else { continue };
        for (name, version) in results.versions {
            versions.entry(name).or_insert(version);
        }
    }
    versions
}

/// SHA-256 of this program's file, in hexadecimal.
pub(super) fn program_sha256() -> std::io::Result<String> {
    let digest = Sha256::digest(std::fs::read(runner::PROGRAM)?);
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}
