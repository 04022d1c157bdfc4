//! Facts about a library from runs that only watch it or ask what its client can do.

use std::time::Duration;

use super::{ASKS, CANCELS_A_HOLDER, StageRuns};
use crate::library::commands::{self, ObservedCommand};
use base::files;
use base::units::Length;
use model::history::{self, History, Operation, Phase, PhaseStamp, RecordedCommand};
use model::scenario::Ability;
use runner::RunnerError;
use suite::outcome::RunOutcome;
use suite::plan::PlannedCell;

/// The recorded commands of a run of some seconds take less than this many bytes.
pub(super) const MOST_BYTES: u64 = 256 << 20;

pub(super) struct Learnt {
    pub sent: Vec<ObservedCommand>,
    pub operations: u64,
    pub phases: Vec<Phase>,
    /// True if a client holds the lock for longer than half its TTL although it was not asked to. Clients that extend their
    /// lock do so.
    pub holds_long: bool,
}

/// The runs of a stage, of all its scenarios or of one, each with the commands that the nodes executed. Runs that could not be
/// made are left out.
pub(super) fn runs_of(
    made: &StageRuns,
    nemesis: Option<&str>,
) -> Result<Vec<(History, Vec<RecordedCommand>)>, RunnerError> {
    let is_of = |run: &&RunOutcome| {
        run.valid.is_some() && nemesis.is_none_or(|name| made.cell(run).is_some_and(|cell| cell.nemesis == name))
    };
    let mut runs = Vec::new();
    for run in made.state.runs.iter().filter(is_of) {
        let folder = files::below(made.state.folder(), &run.folder).map_err(RunnerError::could_not_run)?;
        let history = history::load(&folder.join("history.jsonl")).map_err(RunnerError::could_not_run)?;
        let file = folder.join(RecordedCommand::FILE);
        let text = files::read_inside(&file, MOST_BYTES).map_err(RunnerError::could_not_run)?;
        let commands = RecordedCommand::read(&text)
            .map_err(|error| RunnerError::could_not_run(format!("{}: {error}", file.display())))?;
        runs.push((history, commands));
    }
    Ok(runs)
}

pub(super) fn learn(made: &StageRuns) -> Result<Learnt, RunnerError> {
    let runs = runs_of(made, None)?;
    let operations = runs.iter().flat_map(|(history, _)| &history.operations);
    let mut phases: Vec<Phase> =
        operations.clone().flat_map(|operation| &operation.phases).map(|stamp| stamp.phase).collect();
    phases.sort_unstable();
    phases.dedup();
    let count = operations.count() as u64;
    // In one of these runs, clients were asked to hold for long.
    let holds_long = runs.iter().all(|(history, _)| holds_long(history));
    Ok(Learnt { sent: commands::sent(&runs), operations: count, phases, holds_long })
}

/// True if the median hold lasts for longer than half the TTL.
fn holds_long(history: &History) -> bool {
    let ttl = history.run.as_ref().map_or(Duration::MAX, |run| Duration::from_millis(run.ttl_ms));
    let mut held: Vec<Duration> = history.operations.iter().filter_map(held_for).collect();
    held.sort_unstable();
    held.get(held.len() / 2).is_some_and(|held| *held > ttl / 2)
}

/// How long the client held the lock, until it began to release it or the operation ended. None if it never held it.
pub(super) fn held_for(operation: &Operation) -> Option<Duration> {
    let until = operation.phase(Phase::Releasing).map(PhaseStamp::time).or(operation.completed).unwrap_or(u64::MAX);
    Some(Duration::from_nanos(until.saturating_sub(operation.phase(Phase::Acquired)?.time())))
}

/// The TTLs with which no run could be made, each with the reason.
pub(super) fn refused_ttls(made: &StageRuns) -> Vec<(Length, String)> {
    let failed = made.state.runs.iter().filter(|run| run.valid.is_none());
    failed.filter_map(|run| Some((Length::Absolute(made.cell(run)?.scenario.ttl), run.summary.clone()))).collect()
}

/// Why a client cannot cancel an operation of one of its threads. None if it can.
pub(super) fn unable_by_threads(made: &StageRuns) -> Option<String> {
    let is_it = |cell: &PlannedCell| cell.nemesis == CANCELS_A_HOLDER && cell.scenario.threads > 1;
    let mut runs = made.state.runs.iter().filter(|run| made.cell(run).is_some_and(is_it)).peekable();
    let first = runs.peek().map_or("no run asked it to cancel an operation of one thread", |run| &run.summary);
    let why = first.to_string();
    (!runs.any(|run| run.valid.is_some())).then_some(why)
}

/// The abilities that this client lacks, each with the client's error. Runs that need such an ability cannot be made.
pub(super) fn unable(made: &StageRuns) -> Vec<(Ability, String)> {
    let why = |nemesis: &str| {
        let cell = made.suite.cells.iter().find(|cell| cell.nemesis == nemesis)?;
        match made.state.runs.iter().find(|run| run.cell == cell.name) {
            Some(run) => run.valid.is_none().then(|| run.summary.clone()),
            None => Some("no run tried this".to_string()),
        }
    };
    ASKS.iter().filter_map(|(ability, nemesis)| Some((*ability, why(nemesis)?))).collect()
}
