//! Collects the results of a library's stages, and compares them with the reference lock of the same kind.

use std::path::Path;
use std::time::Instant;

use tokio::task::block_in_place;

use super::discovery::{MOST_BYTES, held_for};
use super::{Examination, StageRuns};
use crate::fuzz::decisive;
use crate::library::commands::When;
use crate::library::endless;
use crate::library::examined::{Tried, TriedRun, share_by_itself};
use crate::library::kind::{self, Baseline, Kind};
use crate::library::strikes::{FaultPoint, Scripted};
use crate::library::struck;
use base::files;
use base::units::Length;
use base::words::list;
use checker::properties::client_crashes;
use checker::{AnomalyKind, Remark, Sentence, Validity, advise, check};
use model::history::{self, Claim, History, RecordedCommand};
use model::nemesis::{Expectation, Fault, Nemesis, Step};
use model::plan::Plan;
use model::scenario::{Options, Scenario, catalogue};
use runner::simulate::{simulate_unless, usual};
use runner::{Checked, RunnerError};
use suite::file::{Block, Names};
use suite::outcome::RunOutcome;
use suite::plan::PlannedCell;
use summary::store::results;
use summary::{AnomalyAccount, RunSummary};

const SEEDS: std::ops::Range<u64> = 1..4;

/// How many sentences of an incident's report are quoted.
const SENTENCES: usize = 3;

/// A scenario that was tried, and the means to repeat it.
pub(super) struct Case {
    pub tried: Tried,
    /// The nemesis: a name or a file.
    pub nemesis: String,
    pub scenarios: Vec<Scenario>,
    /// The faults at commands that the scenario is made of. Empty if it is from the catalogue.
    pub aims: Vec<FaultPoint>,
}

/// Adds the runs of a stage to the scenarios that were tried. `scripted` are the scenarios that were made for the library. In a
/// learning stage, a run of a single client counts only if it broke something or the client crashed.
pub(super) fn collect(
    page_folder: &Path,
    made: &StageRuns,
    scripted: &[Scripted],
    cases: &mut Vec<Case>,
) -> Result<(), RunnerError> {
    for cell in &made.suite.cells {
        let counts = |run: &TriedRun| {
            cell.scenario.clients > 1 || run.valid == Some(Validity::Invalid) || run.advisories.iter().any(is_crash)
        };
        let mut runs = runs_of(page_folder, made, cell)?;
        runs.retain(counts);
        let place = match cases.iter().position(|case| case.tried.scenario == cell.nemesis) {
            Some(place) => place,
            None if runs.is_empty() => continue,
            None => {
                let own = scripted.iter().find(|scripted| scripted.name == cell.nemesis);
                let file = page_folder.join("strikes").join(format!("{}.toml", cell.nemesis));
                cases.push(Case {
                    tried: Tried {
                        scenario: cell.nemesis.clone(),
                        description: cell.scenario.nemesis.description.clone(),
                        plain: cell.scenario.nemesis.is_plain(),
                        by_threads: cell.scenario.threads > 1,
                        ..Tried::default()
                    },
                    nemesis: own.map_or(cell.nemesis.clone(), |_| file.display().to_string()),
                    scenarios: Vec::new(),
                    aims: own.map(|own| own.aims.clone()).unwrap_or_default(),
                });
                cases.len() - 1
            }
        };
        let case = &mut cases[place];
        case.tried.runs.extend(runs);
        match case.scenarios.iter_mut().find(|scenario| scenario.ttl == cell.scenario.ttl) {
            // A run of one client alone shows nothing about the reference lock either.
            Some(fewer) if fewer.clients < cell.scenario.clients => *fewer = cell.scenario.clone(),
            Some(_) => {}
            None => case.scenarios.push(cell.scenario.clone()),
        }
    }
    acquit(page_folder, cases)
}

/// Judges runs again that report a key as an abandoned lock if other runs show that the key is not a lock.
fn acquit(page_folder: &Path, cases: &mut [Case]) -> Result<(), RunnerError> {
    let runs = cases.iter().flat_map(|case| &case.tried.runs);
    let no_locks = runs.flat_map(|run| run.endless.no_locks.iter().cloned()).collect();
    for case in cases {
        for run in case.tried.runs.iter_mut().filter(|run| !run.endless.accused.is_empty()) {
            let of = |scenario: &&Scenario| humantime::format_duration(scenario.ttl).to_string() == run.ttl;
            let file = page_folder.join(&run.folder).join("history.jsonl");
            let history = history::load(&file).map_err(RunnerError::could_not_run)?;
            let Some(scenario) = case.scenarios.iter().find(of) else { continue };
            let Some(history) = endless::acquitted(history, &no_locks) else { continue };
            let keys = run.endless.accused.iter().cloned().collect::<Vec<_>>();
            let checked = Checked::new(history, Some(scenario.clone()), Default::default());
            run.endless.accused.clear();
            run.valid = Some(checked.verdict.valid);
            let summary = checked.report().summary;
            run.summary = format!(
                "{} This run's report names {} as an abandoned lock. Other runs acquire the lock while such a key exists, so it is not a lock.",
                summary.one_line,
                list(&keys)
            );
            judge(run, &checked.history, &summary, scenario);
        }
    }
    Ok(())
}

fn runs_of(page_folder: &Path, made: &StageRuns, cell: &PlannedCell) -> Result<Vec<TriedRun>, RunnerError> {
    let runs = made.state.runs.iter().filter(|run| run.cell == cell.name);
    runs.map(|run| one(page_folder, made.state.folder(), run, &cell.scenario)).collect()
}

fn one(page_folder: &Path, suite: &Path, outcome: &RunOutcome, scenario: &Scenario) -> Result<TriedRun, RunnerError> {
    let folder = files::below(suite, &outcome.folder);
    let mut run = TriedRun {
        ttl: humantime::format_duration(scenario.ttl).to_string(),
        valid: outcome.valid,
        // The shortest wait of a script is a tenth of a TTL.
        timing_was_kept: outcome.timing.late_ms.is_none_or(|late_ms| late_ms <= 2 * outcome.timing.limit_ms),
        summary: outcome.summary.clone(),
        folder: folder.as_ref().map_or(String::new(), |folder| files::relative(page_folder, folder)),
        repeat: outcome.repeat.clone(),
        ..TriedRun::default()
    };
    if outcome.valid.is_some() {
        let folder = folder.map_err(RunnerError::could_not_run)?;
        let history = history::load(&folder.join("history.jsonl")).map_err(RunnerError::could_not_run)?;
        let (summary, history) = summary_of(&folder, history, scenario);
        // A run is judged even if its nodes could not record all commands.
        let commands = files::read_inside(&folder.join(RecordedCommand::FILE), MOST_BYTES).unwrap_or_default();
        let commands = RecordedCommand::read(&commands).unwrap_or_default();
        run.struck = struck::struck(&history, &commands);
        run.when = struck::struck_when(&run.struck);
        run.endless = endless::endless(&history);
        judge(&mut run, &history, &summary, scenario);
        run.advisories = summary.advisories;
        run.diagnoses = summary.diagnoses;
    } else if let Ok(folder) = folder
        && let Ok(history) = history::load(&folder.join("history.jsonl"))
    {
        // If the program keeps crashing, no run can be judged.
        run.advisories = advise(&history, &check(&history), &[]).into_iter().filter(is_crash).collect();
    }
    Ok(run)
}

/// The summary of the run's report. Checks the history again if there is no report, or one of a version with other fields.
fn summary_of(folder: &Path, history: History, scenario: &Scenario) -> (RunSummary, History) {
    match results::read(folder) {
        Ok(summary) => (summary, history),
        Err(_) => {
            let mut checked = Checked::new(history, Some(scenario.clone()), Default::default());
            checked.read_artifacts(folder);
            (checked.report().summary, checked.history)
        }
    }
}

fn is_crash(remark: &Remark) -> bool {
    remark.id == client_crashes::DEF.id
}

/// Records what went wrong in a run that broke the lock.
fn judge(run: &mut TriedRun, history: &History, summary: &RunSummary, scenario: &Scenario) {
    let mut anomalies: Vec<&AnomalyAccount> = summary.anomalies.iter().collect();
    anomalies.sort_by(|one, other| one.time_s.total_cmp(&other.time_s).then(one.kind.cmp(&other.kind)));
    let claims = summary.claims.iter().map(|claim| &claim.checked);
    let of_each = anomalies.iter().map(|anomaly| (anomaly.kind, &*anomaly.operations));
    let decisive = decisive(history, summary.valid, claims, of_each).map(|place| anomalies[place].kind);
    let first = anomalies.first().map(|anomaly| anomaly.kind);
    let kind = decisive.or(first).filter(|_| summary.valid == Validity::Invalid);
    // A client that could not acquire the lock does not suffer from a lock that expired.
    let runs_out = |kind: AnomalyKind| !matches!(kind.contradicts(), Some(Claim::Liveness | Claim::Timeouts));
    let is_outlived = || history.operations.iter().any(|one| held_for(one) > Some(scenario.ttl));
    run.outlived = kind.is_some_and(runs_out) && scenario.workload.lock.expires() && is_outlived();
    run.anomaly = kind.map(|kind| kind.name().to_string());
    run.account = kind.map_or(String::new(), |kind| account(summary, kind));
}

/// The first sentences of the run's report about the incident with this anomaly. Empty if the report describes none.
fn account(summary: &RunSummary, kind: AnomalyKind) -> String {
    let anomaly = summary.anomalies.iter().find(|anomaly| anomaly.kind == kind);
    let incident = anomaly.and_then(|anomaly| summary.incidents.get(anomaly.incident.checked_sub(1)?));
    let sentences = incident.iter().flat_map(|incident| &incident.sentences).take(SENTENCES);
    sentences.map(Sentence::text).collect::<Vec<_>>().join(" ")
}

impl Case {
    /// True if the faults are random, and so differ in each run. Then the reference lock met other faults.
    pub fn is_drawn(&self) -> bool {
        self.scenarios.iter().any(|of| of.nemesis.script.is_empty() && of.nemesis.injects())
    }

    /// True if the lock has several permits, so that other clients held some beside the script's clients.
    fn has_others(&self) -> bool {
        self.scenarios.iter().any(|of| of.workload.permits > 1)
    }

    /// True if the most telling run shows a failure that any lock of the kind has when it is held for so long.
    fn has_outlived(&self, kind: &Kind) -> bool {
        self.tried.telling().is_some_and(|run| kind.without_faults(run.outlived) == Baseline::Outlived)
    }

    /// The client's activity when the fault hit it, in the most telling run.
    fn struck_when(&self) -> Vec<When> {
        self.tried.telling().map(|run| run.when.clone()).unwrap_or_default()
    }

    pub fn telling_scenario(&self) -> Option<&Scenario> {
        let run = self.tried.telling()?;
        self.scenarios.iter().find(|scenario| humantime::format_duration(scenario.ttl).to_string() == run.ttl)
    }
}

pub(super) struct Compare<'a> {
    pub examination: &'a Examination,
    pub kind: &'a Kind,
    pub page_folder: &'a Path,
}

impl Compare<'_> {
    /// Compares every scenario that broke the lock with the reference lock, first in virtual time. Suspected library defects
    /// are then run on real servers with the reference lock, because simulated servers differ from real ones. Returns these
    /// runs, if there are any.
    pub async fn judge(&self, cases: &mut [Case]) -> Result<Option<StageRuns>, RunnerError> {
        self.in_virtual_time(cases);
        let own = || cases.iter().filter(|case| case.tried.of_its_kind == Baseline::Holds);
        let blocks = own().filter_map(|case| self.on_real_servers(case).transpose()).collect::<Result<Vec<_>, _>>()?;
        if blocks.is_empty() {
            return Ok(None);
        }
        let examination = self.examination;
        let made = examination.make("of-its-kind", &examination.suite_file(blocks), None).await?;
        for case in cases.iter_mut().filter(|case| case.tried.of_its_kind == Baseline::Holds) {
            let mut runs = Vec::new();
            for cell in made.suite.cells.iter().filter(|cell| cell.nemesis == case.tried.scenario) {
                let of_cell = runs_of(self.page_folder, &made, cell)?;
                runs.extend(of_cell.into_iter().filter_map(|run| Some((run.valid?, run.when))));
            }
            case.tried.of_its_kind = kind::judged(runs, &case.struck_when()).unwrap_or(Baseline::Unknown);
        }
        Ok(Some(made))
    }

    /// Runs the steps of suspected library defects without their faults, with the library itself. If the lock breaks in these
    /// runs too, the fault is not the cause. Returns these runs, if there are any.
    pub async fn without_strikes(&self, cases: &mut [Case], until: Instant) -> Result<Option<StageRuns>, RunnerError> {
        let examination = self.examination;
        let mut blocks = Vec::new();
        for case in cases.iter().filter(|case| case.tried.of_its_kind.is_defect() && !case.tried.plain) {
            let Some(of) = case.telling_scenario() else { continue };
            let is_strike = |step: &&Step| {
                matches!(step, Step::Inject(_) | Step::Heal(_) | Step::HealAll | Step::AwaitStrike { .. })
            };
            let script: Vec<Step> = of.nemesis.script.iter().filter(|step| !is_strike(step)).cloned().collect();
            if script.is_empty() || script.len() == of.nemesis.script.len() {
                continue;
            }
            let nemesis = Nemesis { script, faults: Vec::new(), ..of.nemesis.clone() };
            let scenario = Scenario { nemesis: nemesis.clone(), ..of.clone() };
            if scenario.check().is_err() || Plan::draw(&scenario).is_err() {
                continue;
            }
            let with = Options { threads: Some(of.threads), ..Options::default() };
            blocks.push(self.block("without-strikes", case, of, &nemesis, with)?);
        }
        if blocks.is_empty() {
            return Ok(None);
        }
        (examination.console.progress)("rerunning the scenarios of suspected defects without their fault");
        let made = examination.make("without-strikes", &examination.suite_file(blocks), Some(until)).await?;
        for case in cases.iter_mut().filter(|case| case.tried.of_its_kind.is_defect() && !case.tried.plain) {
            let Some(cell) = made.suite.cells.iter().find(|cell| cell.nemesis == case.tried.scenario) else { continue };
            let runs = runs_of(self.page_folder, &made, cell)?;
            let is_alike = |run: &TriedRun| run.anomaly.is_some() && run.anomaly.as_deref() == case.tried.anomaly();
            if runs.iter().any(is_alike) {
                case.tried.without_strike = true;
                case.tried.of_its_kind = Baseline::Unknown;
            }
        }
        Ok(Some(made))
    }

    /// Runs the scenarios that broke the library on the reference lock, in virtual time.
    pub fn in_virtual_time(&self, cases: &mut [Case]) {
        for case in cases.iter_mut().filter(|case| case.tried.outcome() == Validity::Invalid) {
            let of_its_kind = block_in_place(|| self.of_its_kind(&case.scenarios, &case.struck_when()));
            let of_its_kind = of_its_kind.or_else(|| self.without_faults(case));
            let of_its_kind = of_its_kind.unwrap_or_else(|| self.expected(&case.tried.scenario));
            let convicts = !case.is_drawn() && case.tried.is_certain();
            case.tried.of_its_kind = match of_its_kind {
                // The other clients hold their permits there for the whole script.
                Baseline::Holds if case.has_others() && case.has_outlived(self.kind) => Baseline::Outlived,
                own if own.is_defect() && !convicts => Baseline::Unknown,
                other => other,
            };
        }
        // A run with a fault does not show if the fault or the library by itself was the cause.
        let by_itself: Vec<bool> = cases
            .iter()
            .map(|case| {
                let plain = cases.iter().map(|case| &case.tried);
                !case.tried.plain
                    && case
                        .tried
                        .anomaly()
                        .and_then(|anomaly| share_by_itself(plain, anomaly, case.tried.by_threads))
                        .is_some_and(|share| case.tried.may_be_chance(share))
            })
            .collect();
        for (case, by_itself) in cases.iter_mut().zip(by_itself) {
            if by_itself && case.tried.of_its_kind.is_defect() {
                case.tried.of_its_kind = Baseline::Unknown;
            }
        }
    }

    /// A run of this case with the reference lock, as a cell of a suite.
    fn on_real_servers(&self, case: &Case) -> Result<Option<Block>, RunnerError> {
        let Some(of) = case.telling_scenario() else { return Ok(None) };
        let Some(scenario) = self.kind.scenario(of, &case.struck_when(), 1) else { return Ok(None) };
        let with = Options { nodes: Some(of.nodes), ..Options::default() };
        let block = self.block("of-its-kind", case, of, &scenario.nemesis, with)?;
        Ok(Some(Block { workload: Some(Names(vec![scenario.workload_name])), ..block }))
    }

    /// Writes this nemesis as a file in the folder, and returns a suite block that runs it like the case.
    fn block(
        &self,
        folder: &str,
        case: &Case,
        of: &Scenario,
        nemesis: &Nemesis,
        with: Options,
    ) -> Result<Block, RunnerError> {
        let folder = self.page_folder.join(folder);
        files::create_folder(&folder).map_err(RunnerError::could_not_run)?;
        let file = folder.join(format!("{}.toml", case.tried.scenario));
        let text = toml::to_string_pretty(nemesis).map_err(RunnerError::could_not_run)?;
        files::write(&file, text).map_err(RunnerError::could_not_run)?;
        let with = Options { ttl: Some(Length::Absolute(of.ttl)), clients: Some(of.clients), ..with };
        Ok(self.examination.block(&file.display().to_string(), with))
    }

    /// The result of the reference lock in virtual time: `Falls` if any of these scenarios breaks it. None if the runs show
    /// nothing. A run counts as passed only if the fault hit the client while it was doing the same.
    pub fn of_its_kind(&self, scenarios: &[Scenario], when: &[When]) -> Option<Baseline> {
        let runs = scenarios.iter().flat_map(|of| SEEDS.map(move |seed| (of, seed))).filter_map(|(of, seed)| {
            let scenario = self.kind.scenario(of, when, seed)?;
            let checked = simulate_unless(&self.examination.interrupt, usual(&scenario), &scenario).ok()??;
            Some((checked.verdict.valid, struck::struck_when(&struck::struck(&checked.history, &[]))))
        });
        kind::judged(runs, when)
    }

    /// The verdict if the reference lock cannot run the scenario, and the scenario's only faults are crashes of clients whose
    /// locks then expire. Otherwise None.
    fn without_faults(&self, case: &Case) -> Option<Baseline> {
        let (run, of) = (case.tried.telling()?, case.telling_scenario()?);
        let cancels = of.nemesis.script.iter().any(|step| matches!(step, Step::Cancel { .. }));
        let excuses = of.nemesis.injects() && !outlives_the_dead(&of.nemesis);
        if cancels || excuses || self.kind.scenario(of, &case.struck_when(), 1).is_some() {
            return None;
        }
        Some(self.kind.without_faults(run.outlived))
    }

    /// The result that the catalogue expects of the reference lock.
    fn expected(&self, nemesis: &str) -> Baseline {
        let (Some(reference), Ok((name, file))) = (&self.kind.reference, catalogue::nemesis(nemesis)) else {
            return Baseline::Unknown;
        };
        let by_lock = catalogue::workload(reference).ok().and_then(|(_, workload)| workload.expect.get(&name).copied());
        match file.expect.get(reference).copied().or(by_lock) {
            Some(Expectation::Violation) => Baseline::Falls,
            Some(Expectation::Valid) => Baseline::Holds,
            None => Baseline::Unknown,
        }
    }
}

/// True if the script only kills clients, and waits for more than a TTL before it expects anything.
fn outlives_the_dead(nemesis: &Nemesis) -> bool {
    let kills = |fault: &Fault| fault.kind.ends_processes() && !fault.names(|target| !target.is_client());
    let steps = || nemesis.script.iter();
    let died = steps().rposition(|step| matches!(step, Step::Inject(_)));
    let owed = steps().position(|step| matches!(step, Step::Expect { .. }));
    let (Some(died), Some(owed)) = (died, owed) else { return false };
    let waits = nemesis.script[died..owed.max(died)].iter().map(|step| match step {
        Step::Wait(Length::Ttl(ttls)) => *ttls,
        _ => 0.0,
    });
    nemesis.all_faults().all(kills) && waits.sum::<f64>() > 1.0
}

#[cfg(test)]
mod tests {
    use runner::simulate::simulate;

    use super::*;

    #[test]
    fn a_run_without_its_report_is_checked_again() {
        let scenario = Options::default().scenario("redlock", "pause", 1, Path::new("")).unwrap();
        let checked = simulate(&scenario).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.json");
        std::fs::write(&file, report::results_json(&checked.report())).unwrap();
        let (read, history) = summary_of(folder.path(), checked.history, &scenario);
        assert_eq!((read.valid, read.anomalies.is_empty()), (Validity::Invalid, false));
        // A report of another version, one that was cut off, and a missing one.
        for text in [Some("{}"), Some("{\"valid\":"), None] {
            match text {
                Some(text) => std::fs::write(&file, text).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            let (made, _) = summary_of(folder.path(), history.clone(), &scenario);
            assert_eq!((made.valid, &made.one_line), (read.valid, &read.one_line), "{text:?}");
            assert_eq!(made.anomalies.len(), read.anomalies.len());
        }
    }
}
