//! `redjepsen fuzz`: finds a failing scenario in virtual time, and shrinks it. [`labs::fuzz`] has the search itself.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tokio::task::block_in_place;

use super::console::{Exit, Failure, exit_after, exit_for, print, tell};
use super::flags::{from_to, jobs, processors};
use super::progress::{Bar, CONSOLE, Far};
use base::units::Length;
use base::words;
use checker::Validity;
use labs::fuzz::{Cause, Hunt, Progress, Search, ShrinkEnd, Shrunk, USUAL_TIME, Until, Violation, draw, page};
use model::history::FaultKind;
use model::nemesis::Expectation;
use model::scenario::{Options, Scenario, quoted};
use model::topology::ClusterKind;
use runner::simulate::can_be_simulated;
use runner::{KeepCluster, Place, RunSettings, Runner};

/// The time limit for saving the results after an interrupt.
const KEEPING: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(mut_arg("cluster", |cluster| cluster.hide(true)), mut_arg("client_cmd", |client| client.hide(true)))]
pub struct FuzzFlags {
    /// Lock and resource: a name from `redjepsen list`, or the path of a .toml file
    #[arg(long, default_value = "redlock")]
    workload: String,
    /// Only these kinds of faults, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "nemesis")]
    faults: Vec<FaultKind>,
    /// Run this nemesis, seed after seed, instead of random scripts
    #[arg(long)]
    nemesis: Option<String>,
    /// Continue after a violation until this many runs are done
    #[arg(long, value_name = "N", value_parser = from_to(1_u64, None))]
    runs: Option<u64>,
    /// Continue after a violation for this long, including shrinking [default: up to a minute, until the first violation]
    #[arg(long, value_name = "LENGTH")]
    time: Option<Length>,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs at the same time [default: one per processor]
    #[arg(long, value_name = "N", value_parser = jobs)]
    jobs: Option<usize>,
    /// Expected outcome: with `violation`, exit 0 if there is a violation, and 1 if there is none
    #[arg(long, value_enum)]
    expect: Option<Expectation>,
    #[command(flatten)]
    options: Options,
    /// Folder for the runs
    #[arg(long, default_value = "store")]
    store: PathBuf,
}

/// Hunts, shrinks the violations, and saves them, even after an interrupt.
pub async fn fuzz(flags: FuzzFlags) -> Result<Exit, Failure> {
    let search = flags.search()?;
    let mut runner = Runner::new(false, CONSOLE)?;
    let user = runner.interrupt();
    let mut bar = Bar::new();
    let (hunted, found) = block_in_place(|| search.run(&user, |progress| show(&mut bar, &search.until, progress)))?;
    drop(bar);
    let interrupted = user.is_raised();
    let mut failures: Vec<Failure> =
        print(page::summary(&search.base, &hunted, interrupted)).err().into_iter().collect();
    runner.extend_grace(KEEPING);
    for one in found {
        failures.extend(keep(&mut runner, &flags, one).await);
    }
    let came_out = match (hunted.violations(), hunted.unclear, hunted.valid) {
        (1.., _, _) => Validity::Invalid,
        // An unclear violation must be examined before the lock counts as passed. An interrupted search has not searched long
        // enough.
        (0, 0, 1..) if !interrupted => Validity::Valid,
        _ => Validity::Unknown,
    };
    let exit = exit_for(came_out, flags.expect);
    let texts: Vec<String> = failures.into_iter().map(|failure| failure.text).collect();
    let done = if texts.is_empty() { Ok(()) } else { Err(Failure::could_not_run(texts.join("\nredjepsen: "))) };
    exit_after(exit, done)
}

impl FuzzFlags {
    fn search(&self) -> Result<Search, Failure> {
        if let Some(kind) = self.options.cluster.filter(|kind| !kind.may_be_simulated()) {
            return Err(Failure::arguments(format!(
                "--cluster {} cannot be used here: `fuzz` is simulated; `redjepsen replay` runs its scenarios on real servers",
                kind.word()
            )));
        }
        let time =
            self.time.map(|time| time.absolute().map_err(|error| Failure::arguments(format!("--time: {error}"))));
        let time = time.transpose()?;
        if time.is_some_and(|time| time.is_zero()) {
            return Err(Failure::arguments("--time 0s leaves no time for a single run; give a length such as 30s"));
        }
        let options = Options { cluster: Some(ClusterKind::SIM), ..self.options.clone() };
        let nemesis = self.nemesis.as_deref().unwrap_or("none");
        let none = options.scenario(&self.workload, "none", self.seed, Path::new("")).map_err(Failure::arguments)?;
        // Check before the nemesis: it cannot hit members that do not exist.
        if let Err(error) = can_be_simulated(&none) {
            let instead = match none.workload.client {
                Some(_) => format!("; `redjepsen library {}` searches on real servers", quoted(&self.workload)),
                None => String::new(),
            };
            return Err(Failure::arguments(format!("{error}{instead}")));
        }
        let mut base =
            options.scenario(&self.workload, nemesis, self.seed, Path::new("")).map_err(Failure::arguments)?;
        if self.nemesis.is_none() && self.options.ttl.is_none() && base.workload.topology.has_roles() {
            base.ttl = draw::TTL_OF_GROUPS;
        }
        Ok(Search {
            base,
            own_nemesis: self.nemesis.is_some(),
            kinds: if self.faults.is_empty() { draw::kinds() } else { self.faults.clone() },
            first_seed: self.seed,
            threads: self.jobs.unwrap_or_else(processors),
            until: Until { runs: self.runs, time, first_violation: self.runs.is_none() && time.is_none() },
        })
    }
}

fn show(bar: &mut Bar, until: &Until, progress: Progress) {
    match progress {
        Progress::Hunting(hunt) => bar.show(&so_far(hunt, until, bar.elapsed()), false),
        Progress::Paused => bar.clear(),
        Progress::Shrinking { cause, steps, tried: 0 } => {
            bar.say(|| tell(&format!("shrinking: {cause} ({})", words::plural(steps as u64, "step"))));
        }
        Progress::Shrinking { cause, steps, tried } => {
            let (steps, tried) = (words::plural(steps as u64, "step"), words::plural(tried, "smaller script"));
            let mut far = Far { text: format!("shrinking: {cause}: {steps} left, {tried} tried"), ..Far::default() };
            if let Some(time) = until.time {
                let took = bar.elapsed();
                far.done = Some((took.as_secs_f64() / time.as_secs_f64()).min(1.0));
                far.left = Some(time.saturating_sub(took));
            }
            bar.show(&far, false);
        }
    }
}

/// The progress of a hunt: by its runs or its time, whichever is closer to the end.
fn so_far(hunt: &Hunt, until: &Until, took: Duration) -> Far {
    let rate = hunt.runs as f64 / hunt.took.as_secs_f64().max(0.001);
    let runs = words::plural(hunt.runs, "simulated run");
    let text = format!("{runs}, {rate:.0} per second · {}", words::plural(hunt.violations(), "violation"));
    let by_runs = until.runs.map(|all| Far::of(hunt.runs, all, took, text.clone()));
    let by_time = until.time.or(until.first_violation.then_some(USUAL_TIME)).map(|time| Far {
        done: Some((took.as_secs_f64() / time.as_secs_f64()).min(1.0)),
        left: Some(time.saturating_sub(took)),
        text: text.clone(),
        more: Vec::new(),
    });
    let further = by_runs
        .into_iter()
        .chain(by_time)
        .max_by(|one, other| one.done.unwrap_or(0.0).total_cmp(&other.done.unwrap_or(0.0)));
    further.unwrap_or(Far { text, ..Far::default() })
}

/// Saves a violation as a run, and as a file if its script was drawn. Prints the violation first. Returns the errors.
async fn keep(runner: &mut Runner, flags: &FuzzFlags, found: Violation) -> Vec<Failure> {
    let Violation { scenario, cause, seed, shrunk } = found;
    if flags.nemesis.is_some() {
        return match report(runner, flags, &scenario, &cause).await {
            Ok(folder) => {
                print(format!("\n{cause}\n  report  {folder}/report.html (simulated)\n")).err().into_iter().collect()
            }
            Err(failure) => {
                let told = print(format!("\n{cause}: with seed {seed}\n")).err();
                told.into_iter().chain([failure]).collect()
            }
        };
    }
    let shrunk = shrunk.unwrap_or(Shrunk { scenario, cause: cause.clone(), tried: 0, end: ShrinkEnd::ByLuck });
    let mut failures: Vec<Failure> = print(page::steps(&shrunk)).err().into_iter().collect();
    let mut text = String::from("\n");
    match shrunk.write(&flags.store, seed) {
        Ok((file, new)) => {
            let known = if new { "" } else { " (found before, with fewer steps)" };
            let _ = writeln!(text, "  scenario  {}{known}", file.display());
        }
        Err(error) => failures.push(Failure::could_not_run(error)),
    }
    let scenario = Scenario { nemesis_name: shrunk.name(), ..shrunk.scenario };
    match report(runner, flags, &scenario, &cause).await {
        Ok(folder) => {
            let replay = quoted(&folder);
            let _ =
                writeln!(text, "  report    {folder}/report.html (simulated)\n  replay    redjepsen replay {replay}");
        }
        Err(failure) => failures.push(failure),
    }
    failures.extend(print(text).err());
    failures
}

/// Repeats the run of a violation, with its report. Returns its folder.
async fn report(runner: &mut Runner, flags: &FuzzFlags, of: &Scenario, cause: &Cause) -> Result<String, Failure> {
    let no_report = |why: &str| Failure::could_not_run(format!("the report of `{cause}` is missing: {why}"));
    let no_time = "no time was left to repeat its run";
    if runner.interrupt().is_raised() {
        return Err(no_report(no_time));
    }
    let made = runner.make(of, &settings(flags)).await;
    let mut made = made.map_err(|error| no_report(&error.to_string()))?;
    if runner.interrupt().is_raised() && made.checked.verdict.valid != Validity::Invalid {
        return Err(no_report(no_time));
    }
    made.write_report(report::Pictures::Painted).map_err(|error| no_report(&error.to_string()))?;
    Ok(made.checked.facts.folder)
}

fn settings(flags: &FuzzFlags) -> RunSettings {
    RunSettings { place: Place::Store(flags.store.clone()), repeat: None, keep_cluster: KeepCluster::No, observe: true }
}
