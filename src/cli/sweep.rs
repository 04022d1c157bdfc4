//! `redjepsen sweep`: runs one workload with several values of an option, as a suite without expectations, and plots the
//! losses.

use std::path::{Path, PathBuf};

use clap::Args;

use super::console::{Exit, Failure, exit_after, look, print, tell, tell_progress};
use super::flags::from_to;
use super::options::{Choice, Chosen};
use super::progress::CONSOLE;
use super::suite::{Made, make, planned};
use base::units::Length;
use base::words::{plural, wrap};
use model::scenario::{Options, typed};
use model::topology::ClusterKind;
use report::matrix as pages;
use runner::open::open_whole;
use runner::{Ended, Jobs, Prepared, Series, signals};
use suite::file::{Block, Expected, Names, SuiteFile};
use suite::matrix::{Circumstances, Matrix};
use suite::plan::{Source, Suite};
use suite::sweep::Sweep;

#[derive(Debug, Args)]
pub struct SweepFlags {
    /// Lock and resource: a name from `redjepsen list`, or the path of a .toml file; several, such as versions of a library, with commas
    #[arg(long, default_value = "redlock", value_delimiter = ',')]
    workload: Vec<String>,
    /// Faults, as for `run`
    #[arg(long, default_value = "pause")]
    nemesis: String,
    #[command(flatten)]
    sweep: Sweep,
    /// Runs of each value, with seeds 1, 2, …
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = from_to(1_u32, Some(1000)))]
    runs: u32,
    #[command(flatten)]
    chosen: Chosen<OfAllValues>,
    /// Runs at the same time, each on its own cluster; `auto`: as many as the machine can take
    #[arg(long, value_name = "N", default_value = "1")]
    jobs: Jobs,
    /// Start from the beginning, even if an interrupted sweep could be resumed
    #[arg(long)]
    fresh: bool,
    /// Folder for the runs
    #[arg(long, default_value = "store")]
    store: PathBuf,
}

#[derive(Debug)]
struct OfAllValues;

impl Choice for OfAllValues {
    const NAMES: &'static [&'static str] = &["time_limit"];
}

/// Exits 0 if each value has its runs, 2 if some runs have no verdict.
pub async fn sweep(flags: SweepFlags) -> Result<Exit, Failure> {
    let unsettled = flags.plan(ClusterKind::Auto)?;
    if unsettled.cells.len() < 2 {
        return Err(Failure::arguments(
            "a sweep needs at least two values of an option; give a list, such as --ttl 1s,2s,5s",
        ));
    }
    let (interrupt, leftovers) = signals::listen(CONSOLE).map_err(Failure::could_not_run)?;
    let Prepared { auto, not_here, not_simulated } = runner::prepare(&unsettled, &interrupt, CONSOLE.say).await?;
    let suite = flags.plan(auto)?;
    if let Some((workload, why)) = not_simulated.iter().next() {
        return Err(Failure::arguments(format!("{workload} is not simulated: {why}")));
    }
    let mut state = open_whole(&flags.store, &suite, flags.fresh, tell)?;
    tell_progress(&format!("{} · {}", planned(&suite), state.folder().display()));
    let circumstances = Circumstances {
        repeat: flags.command(),
        not_here: not_here.clone(),
        left_out: not_simulated,
        ..Circumstances::default()
    };
    let series = Series {
        suite: &suite,
        interrupt,
        leftovers,
        fail_fast: false,
        until: None,
        new_clusters: false,
        observe: true,
        jobs: flags.jobs,
        not_here,
    };
    let Made { matrix, ended, unmarked, .. } = make(series, &mut state, circumstances).await?;
    let exit = conclude(&matrix, state.folder())?;
    match (unmarked, ended) {
        (Some(error), _) => exit_after(exit, Err(Failure::could_not_run(error))),
        (None, Ended::CannotRun(reason)) => exit_after(exit, Err(Failure::could_not_run(reason))),
        (None, Ended::Interrupted) => exit_after(exit, print("interrupted; run the same command again to resume\n")),
        (None, _) => Ok(exit),
    }
}

/// Shows the losses at each value, and writes the page.
fn conclude(matrix: &Matrix, folder: &Path) -> Result<Exit, Failure> {
    let (table, look) = (pages::SuiteSummary::new(matrix), look());
    let width = look.width.unwrap_or(usize::MAX);
    let mut text = String::new();
    for sweep in &table.sweeps {
        text.push_str(&format!("{} by {}\n", look.paint("1", &sweep.title), sweep.option));
        for line in pages::sweep_lines(sweep) {
            for (number, part) in wrap(&line, width.saturating_sub(4)).into_iter().enumerate() {
                text.push_str(&format!("{}{part}\n", if number == 0 { "  " } else { "    " }));
            }
        }
        text.push('\n');
    }
    let judged = |cell: &suite::matrix::Cell| cell.tally.valid + cell.tally.invalid == cell.tally.planned;
    let exit = if matrix.cells.iter().all(judged) { Exit::Valid } else { Exit::Unknown };
    let silent = matrix.cells.iter().filter(|cell| !judged(cell)).count() as u64;
    if silent > 0 {
        text.push_str(&format!("  {} without a verdict in some runs; the page says why\n\n", plural(silent, "cell")));
    }
    let shown = print(text);
    let written = pages::write(folder, matrix).map_err(Failure::could_not_run);
    let page = folder.join("matrix.html");
    exit_after(exit, shown.and(written).and_then(|()| print(format!("  plot    {}#sweeps\n", page.display()))))
}

impl SweepFlags {
    fn plan(&self, auto: ClusterKind) -> Result<Suite, Failure> {
        let block = Block {
            workload: Some(Names(self.workload.clone())),
            nemesis: Some(Names(vec![self.nemesis.clone()])),
            runs: Some(self.runs),
            expect: Some(Expected::Nothing),
            sweep: self.sweep.clone(),
            ..Block::default()
        };
        let file = SuiteFile {
            description: "One workload with several values of an option".to_string(),
            runs: self.runs,
            seed: 1,
            with: self.chosen.options.clone(),
            cells: vec![block],
            overrides: Options::default(),
        };
        let source = Source { name: &self.name(), file: &file, folder: Path::new("") };
        // The user has written no suite and no block, so only the text helps.
        Suite::plan(&source, auto).map_err(|error| Failure::arguments(error.text))
    }

    /// The name of the suite, such as `sweep-redlock-pause`.
    fn name(&self) -> String {
        let said = format!("sweep-{}-{}", self.workload.join("-"), self.nemesis);
        let words = said.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty() && *word != "toml");
        words.collect::<Vec<_>>().join("-").chars().take(80).collect()
    }

    fn command(&self) -> String {
        let mut said: Vec<(&str, String)> =
            vec![("workload", self.workload.join(",")), ("nemesis", self.nemesis.clone())];
        let Sweep { ttl, hold, clients, nodes, keys, rate, acquire_timeout, image, redis_server } = &self.sweep;
        fn list<T>(values: &[T], text: impl Fn(&T) -> String) -> String {
            values.iter().map(text).collect::<Vec<String>>().join(",")
        }
        said.extend([
            ("ttl", list(ttl, Length::to_string)),
            ("hold", list(hold, |hold| hold.to_string())),
            ("clients", list(clients, u32::to_string)),
            ("nodes", list(nodes, u32::to_string)),
            ("keys", list(keys, u32::to_string)),
            ("rate", list(rate, f64::to_string)),
            ("acquire-timeout", list(acquire_timeout, Length::to_string)),
            ("image", image.join(",")),
            ("redis-server", list(redis_server, |path| path.display().to_string())),
            ("runs", self.runs.to_string()),
        ]);
        let said = said.into_iter().filter(|(_, value)| !value.is_empty());
        let said = said.map(|(name, value)| (name.to_string(), value));
        format!("redjepsen sweep{}{}", typed(said), self.chosen.typed())
    }
}
