//! `redjepsen fuzz`: what breaks a lock, searched for in virtual time.

use std::fmt::Write;
use std::io::{self, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::{CONSOLE, Exit, Failure, exit_for, print, tell};
use crate::checker::{Validity, wilson_95};
use crate::files;
use crate::fuzz::{self, Cause, Found, Hunt, Shrunk, Until, draw};
use crate::history::FaultKind;
use crate::nemesis::{Expectation, Nemesis};
use crate::runner::{KeepCluster, Place, RunSettings, Runner};
use crate::scenario::{Options, Scenario, quoted};
use crate::topology::ClusterKind;
use crate::units::Length;
use crate::words;

/// How long a hunt goes on unless the user says.
const TIME: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub struct FuzzFlags {
    /// Lock and resource: a name from `redjepsen list`, or the path of a .toml file
    #[arg(long, default_value = "redlock")]
    workload: String,
    /// Only these kinds of faults, with commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "nemesis")]
    faults: Vec<FaultKind>,
    /// The faults of this nemesis, seed after seed, instead of scripts drawn from the whole language
    #[arg(long)]
    nemesis: Option<String>,
    /// Go on after a violation, until this many runs are made
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Go on after a violation for this long [default: up to a minute, until the first violation]
    #[arg(long, value_name = "LENGTH")]
    time: Option<Length>,
    /// The first seed [default: 1]
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many runs to make at the same time [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// What must come out: with `violation` a violation exits 0 and its absence 1
    #[arg(long, value_enum)]
    expect: Option<Expectation>,
    #[command(flatten)]
    options: Options,
    /// Folder that keeps the runs
    #[arg(long, default_value = "store")]
    store: PathBuf,
}

/// Hunts, then makes what it found as small as possible and keeps it.
pub async fn fuzz(flags: FuzzFlags) -> Result<Exit, Failure> {
    let until = Until {
        runs: flags.runs,
        time: match (flags.time, flags.runs) {
            (Some(time), _) => Some(time.absolute().map_err(|error| Failure::arguments(format!("--time: {error}")))?),
            (None, Some(_)) => None,
            (None, None) => Some(TIME),
        },
        first_violation: flags.runs.is_none() && flags.time.is_none(),
    };
    let options = Options { cluster: Some(ClusterKind::Sim), ..flags.options.clone() };
    let nemesis = flags.nemesis.as_deref().unwrap_or("none");
    let mut base = options.scenario(&flags.workload, nemesis, flags.seed, Path::new("")).map_err(Failure::arguments)?;
    if flags.nemesis.is_none() && flags.options.ttl.is_none() && base.workload.topology.has_roles() {
        base.ttl = draw::TTL_OF_GROUPS;
    }
    let kinds = if flags.faults.is_empty() { draw::KINDS.to_vec() } else { flags.faults.clone() };
    let scenario_of = |seed: u64| match flags.nemesis {
        Some(_) => Scenario { seed, ..base.clone() },
        None => draw::scenario(&base, &kinds, seed),
    };
    let threads = flags.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mut runner = Runner::new(false, CONSOLE)?;
    let interrupt = runner.interrupt();
    let live = io::stderr().is_terminal();
    let mut show = |hunt: &Hunt| {
        if live {
            let _ = write!(io::stderr(), "\r\x1b[K{}", progress(hunt));
        }
        !interrupt.is_raised()
    };
    let began = Instant::now();
    let (mut hunted, mut kept, mut robust) = (Hunt::default(), Vec::<Kept>::new(), false);
    loop {
        let left = until.time.map(|time| time.saturating_sub(began.elapsed()));
        let first = flags.seed.wrapping_add(hunted.runs);
        let until = Until { time: left, ..until };
        let more = tokio::task::block_in_place(|| fuzz::hunt(scenario_of, first, threads, until, &mut show));
        if live {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        let more = more?;
        hunted.add(&more);
        let scripted = flags.nemesis.is_none();
        for (cause, found) in more.found {
            kept.retain(|kept: &Kept| kept.cause != cause || kept.shrunk.is_some());
            if kept.iter().any(|kept| kept.cause == cause) {
                continue;
            }
            if scripted {
                tell(&format!("making it smaller: {cause}"));
            }
            let one = |seed: &u64| {
                let scenario = scenario_of(*seed);
                let shrunk = scripted.then(|| fuzz::shrink(&scenario, &cause)).flatten();
                Kept { scenario, cause: cause.clone(), seed: *seed, shrunk }
            };
            let mut tried = found.seeds.iter().take_while(|_| !interrupt.is_raised()).map(one);
            let (mut last, is_enough) = (None, |kept: &Kept| kept.shrunk.is_some() || !scripted);
            tokio::task::block_in_place(|| {
                while !last.as_ref().is_some_and(is_enough)
                    && let Some(next) = tried.next()
                {
                    last = Some(next);
                }
            });
            // One that needs a lucky delay of the network is told of, and is not what the hunt was for.
            robust |= last.as_ref().is_some_and(is_enough);
            kept.extend(last);
        }
        let is_over = until.time.is_some_and(|left| left.is_zero()) || interrupt.is_raised();
        if robust || is_over || !until.first_violation {
            break;
        }
    }
    print(told(&base, &hunted))?;
    for kept in kept {
        keep(&mut runner, &flags, kept).await?;
    }
    let came_out = match (hunted.violations(), hunted.unclear, hunted.valid) {
        (1.., _, _) => Validity::Invalid,
        // Somebody must look at a violation before the lock can be said to have held.
        (0, 0, 1..) => Validity::Valid,
        _ => Validity::Unknown,
    };
    Ok(exit_for(came_out, flags.expect))
}

fn progress(hunt: &Hunt) -> String {
    let rate = hunt.runs as f64 / hunt.took.as_secs_f64().max(0.001);
    let runs = words::plural(hunt.runs, "simulated run");
    format!("{runs}, {rate:.0} a second · {}", words::plural(hunt.violations(), "violation"))
}

/// What a hunt came to.
fn told(base: &Scenario, hunt: &Hunt) -> String {
    let mut text = String::new();
    let runs = words::plural(hunt.runs, "simulated run");
    let seconds = hunt.took.as_secs_f64();
    let verdict = match hunt.violations() {
        0 => format!("NOTHING FOUND  {} was not broken in {runs}", base.workload_name),
        some => format!("BROKEN  {} in {} of {runs}", base.workload_name, words::count(some)),
    };
    let _ = writeln!(
        text,
        "{verdict}, in {seconds:.1} s ({} valid, {} that show nothing). Nothing of this was real.",
        words::count(hunt.valid),
        words::count(hunt.unknown())
    );
    if hunt.unknown() > 0 {
        let mut gates: Vec<(&String, &u64)> = hunt.nothing.iter().collect();
        gates.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let gates: Vec<String> =
            gates.into_iter().map(|(gate, count)| format!("{gate} {}", words::count(*count))).collect();
        let _ = writeln!(text, "  gates that failed  {}", gates.join(", "));
    }
    if hunt.unclear > 0 {
        let _ = writeln!(text, "  violations that the script does not explain  {}", words::count(hunt.unclear));
    }
    for (cause, found) in &hunt.found {
        let _ = writeln!(text, "\n  {cause}: {}", rate(found, hunt.runs));
    }
    text
}

/// How often a cause was seen, with the interval of its rate.
fn rate(found: &Found, runs: u64) -> String {
    let percent = |share: f64| format!("{:.2}", share * 100.0);
    let interval = wilson_95(found.count, runs)
        .map(|(low, high)| format!(", {} to {} % of runs like these", percent(low), percent(high)))
        .unwrap_or_default();
    let after = found.after.as_secs_f64();
    format!(
        "{}{interval} (95 %), first after {after:.2} s, seed {}",
        words::plural(found.count, "run"),
        found.seeds.first().copied().unwrap_or_default()
    )
}

/// A violation to keep.
struct Kept {
    scenario: Scenario,
    cause: Cause,
    seed: u64,
    /// The smallest scenario with this cause; None if there is no script, or if it breaks the lock by luck only.
    shrunk: Option<Shrunk>,
}

/// Keeps a violation as a run, and as a file if it has a script.
async fn keep(runner: &mut Runner, flags: &FuzzFlags, kept: Kept) -> Result<(), Failure> {
    let Kept { scenario, cause, seed, shrunk } = kept;
    if scenario.nemesis.script.is_empty() {
        let mut made = runner.make(&scenario, &settings(flags)).await?;
        made.write_report().map_err(Failure::could_not_run)?;
        return print(format!("\n{cause}\n  report  {}/report.html (simulated)\n", made.checked.facts.folder));
    }
    let Some(shrunk) = shrunk else {
        return print(format!("\n{cause}: with seed {seed}, but only with some delays of the network\n"));
    };
    let file = write(flags, &shrunk, seed)?;
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let scenario = Scenario { nemesis_name: stem, ..shrunk.scenario.clone() };
    let mut made = runner.make(&scenario, &settings(flags)).await?;
    made.write_report().map_err(Failure::could_not_run)?;
    let mut text = format!("\n{cause}, in {} steps:\n", shrunk.scenario.nemesis.script.len());
    for (number, step) in (1..).zip(&shrunk.scenario.nemesis.script) {
        let _ = writeln!(text, "  {number:>2}. {step}");
    }
    let folder = &made.checked.facts.folder;
    let _ = writeln!(
        text,
        "\n  scenario  {}\n  report    {folder}/report.html (simulated)\n  for real  redjepsen replay {}",
        file.display(),
        quoted(folder)
    );
    print(text)
}

fn settings(flags: &FuzzFlags) -> RunSettings {
    RunSettings { place: Place::Store(flags.store.clone()), repeat: None, keep_cluster: KeepCluster::No }
}

/// Writes a scenario as a nemesis file.
fn write(flags: &FuzzFlags, shrunk: &Shrunk, seed: u64) -> Result<PathBuf, Failure> {
    let Shrunk { scenario, cause, tried } = shrunk;
    let workload = &scenario.workload_name;
    let nemesis = Nemesis {
        description: format!("Found by fuzzing {workload}: {cause}"),
        story: format!(
            "The smallest scenario with this outcome that was found from seed {seed}, after {tried} smaller ones were tried in \
             virtual time."
        ),
        expect: [(workload.clone(), Expectation::Violation)].into(),
        ..scenario.nemesis.clone()
    };
    let folder = flags.store.join("fuzz");
    files::create_folder(&flags.store).and_then(|()| files::create_folder(&folder)).map_err(Failure::could_not_run)?;
    let name: String = cause.to_string().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = name.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    let file = folder.join(format!("{workload}-{name}.toml"));
    let text = toml::to_string(&nemesis).map_err(Failure::could_not_run)?;
    files::write(&file, text).map_err(Failure::could_not_run)?;
    Ok(file)
}
