//! `redjepsen replay`: a run carried out again on real servers, in how many of several runs its violation came back, and
//! what differed where it did not.

use std::path::PathBuf;

use clap::Args;

use super::{CONSOLE, Exit, Failure, print, tell};
use crate::checker::{Validity, wilson_95};
use crate::fuzz::Cause;
use crate::history::{self, History, StepOutcome};
use crate::report::RunFacts;
use crate::runner::{Checked, KeepCluster, Place, RunSettings, Runner};
use crate::scenario::Scenario;
use crate::topology::ClusterKind;
use crate::words;

#[derive(Debug, Args)]
pub struct ReplayFlags {
    /// The run: its folder, simulated or real
    run: PathBuf,
    /// What to carry it out on
    #[arg(long, value_enum, default_value = "auto")]
    cluster: ClusterKind,
    /// Also run the programs of others that the saved run names, such as its client: they may do whatever you may
    #[arg(long)]
    trust: bool,
    /// How often
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
    /// Folder that keeps the runs
    #[arg(long, default_value = "store")]
    store: PathBuf,
}

/// Exits 0 if the violation came back every time, 1 if not, 2 if the run was none.
pub async fn replay(flags: ReplayFlags) -> Result<Exit, Failure> {
    let mut scenario = Scenario::read_to_run(&flags.run, flags.trust).map_err(Failure::arguments)?;
    let history = history::load(&flags.run).map_err(Failure::arguments)?;
    let original = Checked::new(history, None, RunFacts::default());
    let Some(cause) = Cause::of(&original.history, &original.verdict) else {
        print(format!("NOTHING TO BRING BACK  {} is no violation\n", flags.run.display()))?;
        return Ok(Exit::Unknown);
    };
    scenario.cluster.kind = flags.cluster;
    scenario.expect = None;
    scenario.check().map_err(Failure::arguments)?;
    let mut runner = Runner::new(false, CONSOLE)?;
    let (mut made, mut came_back, mut where_from) = (0, 0, String::new());
    let mut failed = None;
    while made < flags.times && failed.is_none() {
        let settings = RunSettings {
            place: Place::Store(flags.store.clone()),
            repeat: None,
            keep_cluster: KeepCluster::ForNextRun,
        };
        match runner.make(&scenario, &settings).await {
            // It was cut short: it shows nothing either way.
            Ok(_) if runner.interrupt().is_raised() => {}
            Ok(mut run) => {
                made += 1;
                run.write_report().map_err(Failure::could_not_run)?;
                where_from.clone_from(&run.checked.facts.cluster);
                let differed = differed(&original.history, &cause, &run.checked);
                came_back += u32::from(differed.is_none());
                let how = differed.unwrap_or_else(|| format!("came back: {cause}"));
                tell(&format!("{made} of {}: {how} · {}", flags.times, run.checked.facts.folder));
            }
            Err(error) => failed = Some(error),
        }
        if runner.interrupt().is_raised() {
            break;
        }
    }
    runner.remove_cluster().await?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let interval = wilson_95(u64::from(came_back), u64::from(made)).map_or(String::new(), |(low, high)| {
        format!(" ({:.0} to {:.0} % of such runs, 95 %)", low * 100.0, high * 100.0)
    });
    let verdict = match (came_back == made, made) {
        (_, 0) => "NOT REPEATED",
        (true, _) => "CAME BACK",
        (false, _) => "DID NOT ALWAYS COME BACK",
    };
    print(format!(
        "{verdict}  {cause}: in {came_back} of {} on a cluster of the kind {where_from}{interval}\n",
        words::plural(u64::from(made), "run")
    ))?;
    Ok(if came_back < made {
        Exit::Invalid
    } else if made < flags.times {
        Exit::Unknown
    } else {
        Exit::Valid
    })
}

/// What was different in a run in which the violation did not come back; None if it did.
fn differed(original: &History, cause: &Cause, run: &Checked) -> Option<String> {
    let now = Cause::of(&run.history, &run.verdict);
    if now.as_ref() == Some(cause) {
        return None;
    }
    if let Some(other) = now {
        return Some(format!("another violation: {other}"));
    }
    let outcome = |outcome: StepOutcome| match outcome {
        StepOutcome::Happened => "happened",
        StepOutcome::WentOn => "did not happen in time, and the script went on",
        StepOutcome::NotLive => "did not happen, though a live lock owes it",
        StepOutcome::Failed => "failed",
    };
    let steps = original.steps.iter().zip(&run.history.steps);
    let mut different = steps.filter(|((_, before), (_, now))| before.outcome != now.outcome);
    if let Some(((_, before), (_, now))) = different.next() {
        let text = if now.text.is_empty() { String::new() } else { format!(" ({})", words::line(&now.text, 200)) };
        return Some(format!(
            "step {}, `{}`, {} then and {} now{text}",
            now.number,
            now.step,
            outcome(before.outcome),
            outcome(now.outcome)
        ));
    }
    let unseen = run.history.faults.iter().find(|window| !window.was_observed());
    if let Some(window) = unseen {
        return Some(format!("fault {} had no effect that was seen", window.fault));
    }
    Some(match run.verdict.valid {
        Validity::Valid => "each step was as before, and the lock held".to_string(),
        Validity::Invalid => "a violation outside the script".to_string(),
        Validity::Unknown => format!("unknown: {}", run.verdict.reasons.first().map_or("", String::as_str)),
    })
}
