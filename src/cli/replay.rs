//! `redjepsen replay`: repeats a run on real servers, and counts the runs in which its violation came back. For the others, it
//! names the difference.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;

use super::console::{Exit, Failure, exit_after, print, tell_progress};
use super::flags::from_to;
use super::progress::{self, CONSOLE, Far};
use base::words;
use checker::{Validity, wilson_95};
use labs::fuzz::Cause;
use model::history::{self, History, StepOutcome};
use model::scenario::Scenario;
use model::topology::ClusterKind;
use report::RunFacts;
use runner::{Checked, KeepCluster, Place, RunSettings, Runner};

#[derive(Debug, Args)]
pub struct ReplayFlags {
    /// The run, simulated or real: its folder, or a file in it
    run: PathBuf,
    /// Where the servers run
    #[arg(long, value_enum, default_value = "auto")]
    cluster: ClusterKind,
    /// Also start programs that do not come with redjepsen, such as the run's client, with your permissions
    #[arg(long)]
    trust: bool,
    /// Number of runs
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = from_to(1_u32, Some(1000)))]
    times: u32,
    /// Folder for the runs
    #[arg(long, default_value = "store")]
    store: PathBuf,
}

/// Exits 0 if the violation came back every time, 1 if not, 2 if the original run has none or the user stopped the replay.
pub async fn replay(flags: ReplayFlags) -> Result<Exit, Failure> {
    let folder = flags.folder();
    let mut scenario = Scenario::read_to_run(folder, flags.trust).map_err(Failure::arguments)?;
    let history = history::load(folder).map_err(Failure::arguments)?;
    let original = Checked::new(history, None, RunFacts::default());
    let Some(cause) = Cause::of(&original.history, &original.verdict) else {
        print(format!("NOTHING TO REPLAY  {} has no violation\n", folder.display()))?;
        return Ok(Exit::Unknown);
    };
    scenario.cluster.kind = flags.cluster;
    scenario.expect = None;
    scenario.check().map_err(Failure::arguments)?;
    let mut runner = Runner::new(false, CONSOLE)?;
    let replays = replay_all(&mut runner, &flags, &scenario, (&original.history, &cause)).await;
    let removed = runner.remove_cluster().await;
    // The verdict first: it holds, even if later steps fail.
    let shown = print(replays.verdict(&cause, flags.times));
    let failures = replays.failures.iter().cloned().chain(removed.err().map(|error| error.to_string()));
    let failures: Vec<String> = failures.chain(shown.err().map(|failure| failure.text)).collect();
    let exit = replays.exit(flags.times);
    let done = if failures.is_empty() { Ok(()) } else { Err(Failure::could_not_run(failures.join("\nredjepsen: "))) };
    exit_after(exit, done)
}

impl ReplayFlags {
    fn folder(&self) -> &Path {
        match self.run.parent() {
            Some(folder) if self.run.is_file() && folder.as_os_str().is_empty() => Path::new("."),
            Some(folder) if self.run.is_file() => folder,
            _ => &self.run,
        }
    }
}

#[derive(Default)]
struct Replays {
    made: u32,
    came_back: u32,
    cluster: String,
    /// The errors of runs and reports.
    failures: Vec<String>,
}

impl Replays {
    fn verdict(&self, cause: &Cause, wanted: u32) -> String {
        let Replays { made, came_back, cluster, .. } = self;
        let word = match (came_back, made) {
            (_, 0) => return format!("NOT REPLAYED  {cause}: no run finished\n"),
            (0, _) => "DID NOT COME BACK",
            _ if came_back == made => "CAME BACK",
            _ => "FLAKY",
        };
        let interval = wilson_95(u64::from(*came_back), u64::from(*made)).map_or(String::new(), |(low, high)| {
            format!(" (95% confidence: {:.0} to {:.0}% of such runs)", low * 100.0, high * 100.0)
        });
        let runs = words::plural(u64::from(*made), "run");
        let stopped = if *made < wanted { format!("; stopped after {made} of {wanted} runs") } else { String::new() };
        format!("{word}  {cause}: in {came_back} of {runs} on cluster {cluster}{interval}{stopped}\n")
    }

    fn exit(&self, wanted: u32) -> Exit {
        if self.came_back < self.made {
            Exit::Invalid
        } else if self.made < wanted {
            Exit::Unknown
        } else {
            Exit::Valid
        }
    }
}

/// Replays the run the requested number of times, until the user stops it or a run cannot be made.
async fn replay_all(
    runner: &mut Runner,
    flags: &ReplayFlags,
    scenario: &Scenario,
    (original, cause): (&History, &Cause),
) -> Replays {
    let mut replays = Replays::default();
    let place = Place::Store(flags.store.clone());
    let settings = RunSettings { place, repeat: None, keep_cluster: KeepCluster::ForNextRun, observe: true };
    let began = Instant::now();
    while replays.made < flags.times && replays.failures.is_empty() && !runner.interrupt().is_raised() {
        match runner.make(scenario, &settings).await {
            // It was interrupted, so it shows nothing.
            Ok(_) | Err(_) if runner.interrupt().is_raised() => {}
            Ok(mut run) => {
                let differed = differed(original, cause, &run.checked);
                if let Err(error) = run.write_report(report::Pictures::Painted) {
                    replays.failures.push(error.to_string());
                    // A run whose history could not be written may have seen more than the history has.
                    if differed.is_some() {
                        break;
                    }
                }
                replays.made += 1;
                replays.cluster.clone_from(&run.checked.facts.cluster);
                replays.came_back += u32::from(differed.is_none());
                let how = differed.unwrap_or_else(|| format!("came back: {cause}"));
                let (made, all) = (u64::from(replays.made), u64::from(flags.times));
                let left = Far::of(made, all, began.elapsed(), String::new()).left.filter(|left| !left.is_zero());
                let left = left.map_or(String::new(), |left| format!(" · about {}", progress::left(left)));
                tell_progress(&format!("{made} of {all}: {how} · {}{left}", run.checked.facts.folder));
            }
            Err(error) => replays.failures.push(error.to_string()),
        }
    }
    replays
}

/// The difference in a run without the violation. None if the violation came back.
fn differed(original: &History, cause: &Cause, run: &Checked) -> Option<String> {
    let now = Cause::of(&run.history, &run.verdict);
    match now {
        Some(now) if now.is(cause) => return None,
        Some(other) => return Some(format!("another violation: {other}")),
        None => {}
    }
    let outcome = |outcome: StepOutcome| match outcome {
        StepOutcome::Happened => "happened",
        StepOutcome::WentOn => "timed out",
        StepOutcome::NotLive => "timed out (liveness violated)",
        StepOutcome::Failed => "failed",
    };
    let steps = original.steps.iter().zip(&run.history.steps);
    let mut different = steps.filter(|((_, before), (_, now))| before.outcome != now.outcome);
    if let Some(((_, before), (_, now))) = different.next() {
        let text = if now.text.is_empty() { String::new() } else { format!(" ({})", words::line(&now.text, 200)) };
        return Some(format!(
            "step {}, `{}`: {} in the original run, {} now{text}",
            now.number,
            now.step,
            outcome(before.outcome),
            outcome(now.outcome)
        ));
    }
    let unseen = run.history.faults.iter().find(|window| !window.was_observed());
    if let Some(window) = unseen {
        return Some(format!("fault {} had no observed effect", window.fault));
    }
    Some(match run.verdict.valid {
        Validity::Valid => "every step had the same outcome as before, without a violation".to_string(),
        Validity::Invalid => "a violation outside the script".to_string(),
        Validity::Unknown => format!("unknown: {}", run.verdict.reasons.first().map_or("", String::as_str)),
    })
}
