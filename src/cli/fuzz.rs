//! `redjepsen fuzz`: what breaks a lock, searched for in virtual time.

use std::fmt::Write;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::task::block_in_place;

use super::flags::{jobs, processors};
use super::{CONSOLE, Exit, Failure, despite, exit_for, is_live, print, tell};
use crate::checker::{Validity, wilson_95};
use crate::files;
use crate::fuzz::{self, Cause, Found, Hunt, Shrunk, Until, draw};
use crate::history::FaultKind;
use crate::interrupt::Interrupt;
use crate::nemesis::{Expectation, Nemesis};
use crate::runner::simulate::can_be_simulated;
use crate::runner::{KeepCluster, Place, RunSettings, Runner};
use crate::scenario::{Options, Scenario, quoted};
use crate::topology::ClusterKind;
use crate::units::Length;
use crate::words;

/// How long a hunt goes on unless the user says.
const TIME: Duration = Duration::from_secs(60);
/// A shorter one would make hardly a run.
const SHORTEST_HUNT: Duration = Duration::from_millis(100);
/// How long keeping what was found may take once the user wants to stop.
const KEEPING: Duration = Duration::from_secs(1);

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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,
    /// Go on after a violation for this long, with what it takes to make violations smaller [default: up to a minute, until
    /// the first violation]
    #[arg(long, value_name = "LENGTH")]
    time: Option<Length>,
    /// The first seed [default: 1]
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many runs to make at the same time [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = jobs)]
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

/// What is looked for, and where.
struct Search {
    base: Scenario,
    /// Seeds of a nemesis, in place of scripts.
    nemesis: bool,
    kinds: Vec<FaultKind>,
    first_seed: u64,
    threads: usize,
    until: Until,
}

/// Hunts, makes what it found as small as possible, and keeps it, also if the user wants to stop meanwhile.
pub async fn fuzz(flags: FuzzFlags) -> Result<Exit, Failure> {
    let search = flags.search()?;
    let mut runner = Runner::new(false, CONSOLE)?;
    let user = runner.interrupt();
    let (hunted, found) = search.carry_out(&user)?;
    let interrupted = user.is_raised();
    let mut failures: Vec<Failure> = print(told(&search.base, &hunted, interrupted)).err().into_iter().collect();
    runner.goes_on_for(KEEPING);
    for one in found {
        failures.extend(keep(&mut runner, &flags, one).await);
    }
    let came_out = match (hunted.violations(), hunted.unclear, hunted.valid) {
        (1.., _, _) => Validity::Invalid,
        // Somebody must look at a violation before the lock can be said to have held, and a hunt that was broken off has
        // not looked for as long as it was to.
        (0, 0, 1..) if !interrupted => Validity::Valid,
        _ => Validity::Unknown,
    };
    let exit = exit_for(came_out, flags.expect);
    let texts: Vec<String> = failures.into_iter().map(|failure| failure.text).collect();
    if texts.is_empty() { Ok(exit) } else { despite(exit, Failure::could_not_run(texts.join("\nredjepsen: "))) }
}

impl FuzzFlags {
    /// What the flags mean, checked.
    fn search(&self) -> Result<Search, Failure> {
        if let Some(kind) = self.options.cluster.filter(|kind| !matches!(kind, ClusterKind::Sim | ClusterKind::Any)) {
            return Err(Failure::arguments(format!(
                "--cluster {} makes no sense here: `fuzz` is simulated, and `redjepsen replay` carries out on real servers \
                 what it found",
                kind.word()
            )));
        }
        let time =
            self.time.map(|time| time.absolute().map_err(|error| Failure::arguments(format!("--time: {error}"))));
        let time = time.transpose()?;
        if time.is_some_and(|time| time.is_zero()) {
            return Err(Failure::arguments("--time 0s leaves no time for a single run; give a length such as 30s"));
        }
        let options = Options { cluster: Some(ClusterKind::Sim), ..self.options.clone() };
        let nemesis = self.nemesis.as_deref().unwrap_or("none");
        let none = options.scenario(&self.workload, "none", self.seed, Path::new("")).map_err(Failure::arguments)?;
        // Before the nemesis, which cannot hit what is not there.
        can_be_simulated(&none)?;
        let mut base =
            options.scenario(&self.workload, nemesis, self.seed, Path::new("")).map_err(Failure::arguments)?;
        if self.nemesis.is_none() && self.options.ttl.is_none() && base.workload.topology.has_roles() {
            base.ttl = draw::TTL_OF_GROUPS;
        }
        Ok(Search {
            base,
            nemesis: self.nemesis.is_some(),
            kinds: if self.faults.is_empty() { draw::kinds() } else { self.faults.clone() },
            first_seed: self.seed,
            threads: self.jobs.unwrap_or_else(processors),
            until: Until { runs: self.runs, time, first_violation: self.runs.is_none() && time.is_none() },
        })
    }
}

impl Search {
    /// Hunts, and makes the first violation of each cause smaller. The time that the user gave is for both: half of what is
    /// left is for hunting, then what was found is made smaller, and so on.
    fn carry_out(&self, user: &Interrupt) -> Result<(Hunt, Vec<Kept>), Failure> {
        let began = Instant::now();
        let over = self.until.time.map_or_else(|| user.clone(), |time| user.or_after(time));
        let live = is_live();
        let mut show = |hunt: &Hunt| {
            if live {
                let _ = write!(io::stderr(), "\r\x1b[K{}", progress(hunt));
            }
        };
        let (mut hunted, mut found, mut robust) = (Hunt::default(), Vec::<Kept>::new(), false);
        loop {
            let left = self.until.time.unwrap_or(TIME).saturating_sub(began.elapsed());
            let time = match (self.until.time, self.until.first_violation) {
                (Some(_), _) => Some((left / 2).max(SHORTEST_HUNT)),
                (None, true) => Some(left),
                (None, false) => None,
            };
            let runs = self.until.runs.map(|runs| runs.saturating_sub(hunted.runs));
            let (first, until) = (self.first_seed.wrapping_add(hunted.runs), Until { runs, time, ..self.until });
            let scenario_of = |seed| self.scenario(seed);
            let more = block_in_place(|| fuzz::hunt(scenario_of, first, self.threads, until, &over, &mut show));
            if live {
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
            let more = more?;
            hunted.add(&more);
            for (cause, seen) in more.found {
                found.retain(|kept: &Kept| kept.cause != cause || kept.shrunk.is_some());
                if !found.iter().any(|kept| kept.cause == cause) {
                    let smaller = block_in_place(|| self.smaller(&cause, &seen.seeds, &over));
                    // One that needs a lucky delay of the network is told of, and is not what the hunt was for.
                    robust |= smaller.as_ref().is_some_and(|kept| self.is_enough(kept));
                    found.extend(smaller);
                }
            }
            let all_made = self.until.runs.is_some_and(|runs| hunted.runs >= runs);
            let is_over = over.is_raised() || all_made || left.is_zero();
            if is_over || (self.until.first_violation && robust) {
                return Ok((hunted, found));
            }
        }
    }

    fn scenario(&self, seed: u64) -> Scenario {
        match self.nemesis {
            true => Scenario { seed, ..self.base.clone() },
            false => draw::scenario(&self.base, &self.kinds, seed),
        }
    }

    /// The first of these seeds whose scenario can be made smaller, or else the last one that was tried.
    fn smaller(&self, cause: &Cause, seeds: &[u64], over: &Interrupt) -> Option<Kept> {
        if !self.nemesis {
            tell(&format!("making it smaller: {cause}"));
        }
        let mut last = None;
        for seed in seeds {
            let scenario = self.scenario(*seed);
            let shrunk = if self.nemesis { None } else { fuzz::shrink(&scenario, cause, over) };
            let kept = Kept { scenario, cause: cause.clone(), seed: *seed, shrunk };
            if self.is_enough(&kept) || over.is_raised() {
                return Some(kept);
            }
            last = Some(kept);
        }
        last
    }

    fn is_enough(&self, kept: &Kept) -> bool {
        kept.shrunk.is_some() || self.nemesis
    }
}

fn progress(hunt: &Hunt) -> String {
    let rate = hunt.runs as f64 / hunt.took.as_secs_f64().max(0.001);
    let runs = words::plural(hunt.runs, "simulated run");
    format!("{runs}, {rate:.0} a second · {}", words::plural(hunt.violations(), "violation"))
}

/// What a hunt came to.
fn told(base: &Scenario, hunt: &Hunt, interrupted: bool) -> String {
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
    if interrupted {
        let _ = writeln!(text, "  interrupted: what it found until then is kept, and it was to look for more");
    }
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

/// Keeps a violation as a run, and as a file if it has a script. What it shows is printed first; returns what could not be
/// kept.
async fn keep(runner: &mut Runner, flags: &FuzzFlags, kept: Kept) -> Vec<Failure> {
    let Kept { scenario, cause, seed, shrunk } = kept;
    if scenario.nemesis.script.is_empty() {
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
    let Some(shrunk) = shrunk else {
        let text = format!("\n{cause}: with seed {seed}, but only with some delays of the network\n");
        return print(text).err().into_iter().collect();
    };
    let mut failures: Vec<Failure> = print(steps(&shrunk)).err().into_iter().collect();
    let mut text = String::from("\n");
    let (name, written) = write(flags, &shrunk, seed);
    match written {
        Ok(file) => _ = writeln!(text, "  scenario  {}", file.display()),
        Err(failure) => failures.push(failure),
    }
    let scenario = Scenario { nemesis_name: name, ..shrunk.scenario };
    match report(runner, flags, &scenario, &cause).await {
        Ok(folder) => {
            let replay = quoted(&folder);
            let _ =
                writeln!(text, "  report    {folder}/report.html (simulated)\n  for real  redjepsen replay {replay}");
        }
        Err(failure) => failures.push(failure),
    }
    failures.extend(print(text).err());
    failures
}

/// The steps of a script, for people.
fn steps(shrunk: &Shrunk) -> String {
    let script = &shrunk.scenario.nemesis.script;
    let larger = if shrunk.finished { "" } else { " (there was no time to make it as small as possible)" };
    let mut text = format!("\n{}, in {} steps{larger}:\n", shrunk.cause, script.len());
    for (number, step) in (1..).zip(script) {
        let _ = writeln!(text, "  {number:>2}. {step}");
    }
    text
}

/// Makes the run of a violation again, with its report. Returns its folder.
async fn report(runner: &mut Runner, flags: &FuzzFlags, of: &Scenario, cause: &Cause) -> Result<String, Failure> {
    let no_report = |why: &str| Failure::could_not_run(format!("there is no report of `{cause}`: {why}"));
    let no_time = "there was no time left to make its run again";
    if runner.interrupt().is_raised() {
        return Err(no_report(no_time));
    }
    let made = runner.make(of, &settings(flags)).await;
    let mut made = made.map_err(|error| no_report(&error.to_string()))?;
    if runner.interrupt().is_raised() && made.checked.verdict.valid != Validity::Invalid {
        return Err(no_report(no_time));
    }
    made.write_report().map_err(|error| no_report(&error.to_string()))?;
    Ok(made.checked.facts.folder)
}

fn settings(flags: &FuzzFlags) -> RunSettings {
    RunSettings { place: Place::Store(flags.store.clone()), repeat: None, keep_cluster: KeepCluster::No }
}

/// Writes a scenario as a nemesis file. Returns its name and, if that went well, its path.
fn write(flags: &FuzzFlags, shrunk: &Shrunk, seed: u64) -> (String, Result<PathBuf, Failure>) {
    let Shrunk { scenario, cause, tried, finished } = shrunk;
    let workload = &scenario.workload_name;
    let story = if *finished {
        format!(
            "The smallest scenario with this outcome that was found from seed {seed}, after {tried} smaller ones were tried in \
             virtual time."
        )
    } else {
        format!(
            "Found with seed {seed} in virtual time. There was no time to make it as small as possible: {tried} smaller ones \
             were tried."
        )
    };
    let nemesis = Nemesis {
        description: format!("Found by fuzzing {workload}: {cause}"),
        story,
        expect: [(workload.clone(), Expectation::Violation)].into(),
        ..scenario.nemesis.clone()
    };
    let folder = flags.store.join("fuzz");
    let name: String = cause.to_string().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = name.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    let name = format!("{workload}-{name}");
    let file = folder.join(format!("{name}.toml"));
    let written = toml::to_string(&nemesis).map_err(Failure::could_not_run).and_then(|text| {
        let folders = files::create_folder(&flags.store).and_then(|()| files::create_folder(&folder));
        folders.and_then(|()| files::write(&file, text)).map_err(Failure::could_not_run)
    });
    (name, written.map(|()| file))
}
