//! Shrinks the scenarios that break a library, on real servers. It uses the shrinker of `fuzz` and runs the candidates one by
//! one.
//!
//! A candidate counts only if the reference lock has the same result as under the whole scenario. Otherwise the shrunk scenario
//! might show something other than the library's own defect.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::Examination;
use super::compare::{Case, Compare};
use crate::fuzz::{Cause, ShrinkEnd, Trials, shrink_on};
use crate::library::commands::When;
use crate::library::examined::Found;
use crate::library::kind::Baseline;
use crate::library::struck;
use base::files;
use checker::Validity;
use model::nemesis::{Expectation, Nemesis, Step, Target};
use model::plan::seed_after;
use model::scenario::{Scenario, quoted, typed};
use runner::{Console, KeepCluster, Place, RunSettings, Runner, RunnerError};

/// The smallest scenario is run with this many other seeds.
const AGAIN: u32 = 3;
/// With less time than this left, shrinking does not begin.
const LEAST: Duration = Duration::from_secs(20);
/// The file with the scenarios found so far, for a campaign that resumes.
const KEPT: &str = "found.json";

/// The smallest scenarios, one for each way in which the lock breaks. Failures that every lock of the kind has are left out.
pub(super) async fn all(compare: &Compare<'_>, cases: &[Case], until: Instant) -> Result<Vec<Found>, RunnerError> {
    let folder = compare.page_folder.join("found");
    let mut found = kept(&folder);
    let due: Vec<&Case> = due(cases).into_iter().filter(|case| !is_among(&found, case)).collect();
    if due.is_empty() || compare.examination.interrupt.is_raised() || Instant::now() + LEAST > until {
        return Ok(found);
    }
    files::create_folder(&folder).map_err(RunnerError::could_not_run)?;
    let Examination { interrupt, leftovers, console: tells, .. } = compare.examination;
    // No output: trials are many and short.
    let console = Console { say: |_| {}, progress: |_| {}, show: |_| tokio::spawn(async {}), leave: tells.leave };
    let mut runner = Runner::of_listener(console, interrupt.clone(), leftovers)?;
    for (place, case) in due.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        if left < LEAST || interrupt.is_raised() {
            break;
        }
        // Time that one case leaves unused goes to the next.
        let time = left / (due.len() - place) as u32;
        (tells.progress)(&format!(
            "shrinking {} on real servers, for at most {} s",
            case.tried.scenario,
            time.as_secs()
        ));
        let smaller = block_in_place(|| smaller(compare, &mut runner, case, &folder, time));
        if let Some(one) = smaller? {
            (tells.progress)(&format!("{}: {} of {} steps", one.scenario, one.steps, one.steps_before));
            found.push(one);
            let text = serde_json::to_string_pretty(&found).map_err(RunnerError::could_not_run)?;
            files::write(&folder.join(KEPT), text).map_err(RunnerError::could_not_run)?;
        }
    }
    runner.remove_cluster().await?;
    Ok(found)
}

/// The scenarios that an earlier process found.
fn kept(folder: &Path) -> Vec<Found> {
    let text = files::read_inside(&folder.join(KEPT), files::RESULTS).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn is_among(found: &[Found], case: &Case) -> bool {
    found.iter().any(|found| found.scenario == case.tried.scenario)
}

/// One scenario for each incident at each command, with as few faults as possible. Scenarios of the catalogue are already small
/// and left out.
fn due(cases: &[Case]) -> Vec<&Case> {
    let is_due = |case: &&Case| {
        case.tried.outcome() == Validity::Invalid && !case.tried.of_its_kind.is_inherent() && !case.aims.is_empty()
    };
    let mut due: Vec<&Case> = cases.iter().filter(is_due).collect();
    due.sort_by_key(|case| (!case.tried.of_its_kind.is_defect(), case.aims.len()));
    let mut seen = BTreeSet::new();
    due.retain(|case| {
        let run = case.tried.telling();
        let incident = run.and_then(|run| run.anomaly.clone());
        let at =
            run.map(|run| run.struck.iter().map(|struck| (struck.when, struck.command.clone())).collect::<Vec<_>>());
        seen.insert((incident, at))
    });
    due
}

/// Shrinks one scenario, repeats the smallest one, and writes it, within this time. None if the whole scenario does not break the
/// lock now.
fn smaller(
    compare: &Compare,
    runner: &mut Runner,
    case: &Case,
    folder: &Path,
    time: Duration,
) -> Result<Option<Found>, RunnerError> {
    let began = Instant::now();
    let Some(run) = case.tried.telling() else { return Ok(None) };
    let Some(scenario) = case.telling_scenario() else { return Ok(None) };
    let scenario = Scenario { record_commands: Some(false), ..scenario.clone() };
    let fate = compare.of_its_kind(std::slice::from_ref(&scenario), &run.when);
    let mut trials = OnServers { compare, runner, fate, store: folder.join("runs"), known: BTreeSet::new() };
    // The cause now, with no other run on the machine.
    let Some((cause, _)) = trials.played(&scenario) else { return Ok(None) };
    // The last trial may begin just before the time is over, and the runs with other seeds follow it.
    let after = began.elapsed() * (AGAIN + 1);
    let over = compare.examination.interrupt.or_after(time.saturating_sub(began.elapsed() + after));
    let Some(shrunk) = shrink_on(&mut trials, &scenario, &cause, &over) else { return Ok(None) };
    let mut came_back = 0;
    for seed in (1..).take(AGAIN as usize) {
        let again = Scenario { seed: seed_after(shrunk.scenario.seed, seed), ..shrunk.scenario.clone() };
        came_back += u32::from(trials.played(&again).is_some_and(|(now, _)| now.is(&cause)));
    }
    let nemesis = Nemesis {
        description: case.tried.description.clone(),
        story: format!(
            "Shrunk from `{}`, which {} fails ({cause}), after {} smaller scenarios were tried on real servers. The failure came \
             back in {came_back} of {AGAIN} runs with other seeds.",
            case.tried.scenario, scenario.workload_name, shrunk.tried
        ),
        expect: [(scenario.workload_name.clone(), Expectation::Violation)].into(),
        clients: Some(shrunk.scenario.clients),
        ..shrunk.scenario.nemesis.clone()
    };
    let file = folder.join(format!("{}.toml", case.tried.scenario));
    let text = toml::to_string_pretty(&nemesis).map_err(RunnerError::could_not_run)?;
    files::write(&file, text).map_err(RunnerError::could_not_run)?;
    let request = &compare.examination.request;
    Ok(Some(Found {
        scenario: case.tried.scenario.clone(),
        file: files::relative(compare.page_folder, &file),
        steps: nemesis.script.len(),
        steps_before: scenario.nemesis.script.len(),
        tried: shrunk.tried,
        finished: shrunk.end == ShrinkEnd::Smallest,
        came_back,
        of: AGAIN,
        repeat: format!(
            "redjepsen run --workload {} --nemesis {} --ttl {}{}",
            quoted(&request.workload),
            quoted(&file.display().to_string()),
            run.ttl,
            typed(request.with.to_flags())
        ),
    }))
}

/// Trials on a real cluster, one run each.
struct OnServers<'a, 'c> {
    compare: &'a Compare<'c>,
    runner: &'a mut Runner,
    /// The result of the reference lock under the whole scenario.
    fate: Option<Baseline>,
    store: PathBuf,
    /// The scripts that were tried. The shrinker proposes many of them again.
    known: BTreeSet<String>,
}

impl OnServers<'_, '_> {
    /// Runs a scenario. Returns how it broke the lock, and what its client was doing when the fault hit it. None if the lock
    /// did not break.
    fn played(&mut self, scenario: &Scenario) -> Option<(Cause, Vec<When>)> {
        let place = Place::Store(self.store.clone());
        let settings = RunSettings { place, repeat: None, keep_cluster: KeepCluster::ForNextRun, observe: false };
        let made = Handle::current().block_on(self.runner.make(scenario, &settings)).ok()?;
        let cause = Cause::of(&made.checked.history, &made.checked.verdict)?;
        Some((cause, struck::struck_when(&struck::struck(&made.checked.history, &[]))))
    }
}

impl Trials for OnServers<'_, '_> {
    fn enough(&self) -> u64 {
        1
    }

    /// A run takes seconds, so only steps that belong together are worth it.
    fn is_worth_leaving_out(&self, one: &Step, other: &Step) -> bool {
        let about = |step: &Step| match step {
            Step::Start { client, .. } | Step::Go { client, .. } => Some(Target::Client(*client)),
            Step::Await { client, .. } | Step::Expect { client, .. } => Some(Target::Client(*client)),
            _ => None,
        };
        let fault = |step: &Step| match step {
            Step::Inject(fault) | Step::Heal(fault) | Step::AwaitStrike { fault, .. } => Some(fault.clone()),
            _ => None,
        };
        (about(one).is_some() && about(one) == about(other)) || (fault(one).is_some() && fault(one) == fault(other))
    }

    fn that_break(&mut self, scenario: &Scenario, cause: &Cause, _: u64) -> u64 {
        let words: Vec<String> = scenario.nemesis.script.iter().map(ToString::to_string).collect();
        let words = format!("{} clients, {:?}: {}", scenario.clients, scenario.persistence, words.join("; "));
        // Virtual time is cheap, so look there first: a candidate with another result of the reference lock is useless.
        if !self.known.insert(words) || !self.may_have_its_fate(scenario) {
            return 0;
        }
        let Some((now, when)) = self.played(scenario) else { return 0 };
        let fate = self.compare.of_its_kind(std::slice::from_ref(scenario), &when);
        u64::from(now.is(cause) && !when.is_empty() && fate == self.fate)
    }
}

impl OnServers<'_, '_> {
    fn may_have_its_fate(&self, scenario: &Scenario) -> bool {
        let falls = self.compare.of_its_kind(std::slice::from_ref(scenario), &[]) == Some(Baseline::Falls);
        falls == (self.fate == Some(Baseline::Falls))
    }
}
