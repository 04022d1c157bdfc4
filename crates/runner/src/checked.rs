//! A run's history with everything derived from it. The result is the same after a run and in a later check.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linearizability::Limits;

use super::artifacts;
use super::events::Diary;
use base::files::Unwritten;
use base::runs::RunFolder;
use checker::Verdict;
use model::history::History;
use model::scenario::Scenario;
use report::{Counterexample, Pictures, Report, RunArtifacts, RunFacts, Subject};

/// The time limit of the search for a counterexample, which does not affect the verdict.
const LOOKING: Duration = Duration::from_secs(3);

/// A run's history with its verdict and the content of its report.
pub struct Checked {
    pub history: History,
    pub scenario: Option<Scenario>,
    pub facts: RunFacts,
    pub verdict: Verdict,
    pub minimal_counterexample: Option<Counterexample>,
    /// Records besides the history. The verdict does not use them.
    pub artifacts: RunArtifacts,
    /// The simulated runs with remedies, each with true if it was valid.
    pub played: Vec<(Arc<Scenario>, bool)>,
}

impl Checked {
    pub fn new(history: History, scenario: Option<Scenario>, facts: RunFacts) -> Checked {
        let verdict = checker::check(&history);
        Checked {
            history,
            scenario,
            facts,
            verdict,
            minimal_counterexample: None,
            artifacts: RunArtifacts::default(),
            played: Vec::new(),
        }
    }

    /// Reads the records in the run's folder, which the report shows besides the history.
    pub fn read_artifacts(&mut self, folder: &Path) {
        self.artifacts = artifacts::of(folder, &self.history);
    }

    /// True if this run with a remedy was valid. None if it was not simulated.
    pub(super) fn played(&self, run: &Scenario) -> Option<bool> {
        self.played.iter().find(|(played, _)| **played == *run).map(|(_, held)| *held)
    }

    /// Searches the counterexample for the report, for some seconds. This does not change the verdict.
    pub fn find_counterexample(&mut self) {
        self.minimal_counterexample = minimal_counterexample(&self.history, &self.verdict);
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        let Checked { history, scenario, facts, verdict, .. } = self;
        Subject { scenario: scenario.as_ref(), history, verdict, facts }
    }

    /// The content of the report, built anew at each call.
    pub fn report(&self) -> Report<'_> {
        let mut report = Report::new(self.subject(), self.minimal_counterexample.as_ref()).with(&self.artifacts);
        report.summary.keep_remedies(|run| self.played(run));
        report
    }
}

/// A run that was made and checked. Its verdict can be shown before other files are written, which may fail.
pub struct PendingReport {
    pub checked: Checked,
    folder: RunFolder,
    /// The files that could not be written so far.
    unwritten: Unwritten,
    /// While it is here, the run counts as active for readers of its folder.
    diary: Option<Diary>,
}

impl PendingReport {
    pub(super) fn new(
        checked: Checked,
        folder: RunFolder,
        unwritten: Unwritten,
        diary: Option<Diary>,
    ) -> PendingReport {
        PendingReport { checked, folder, unwritten, diary }
    }

    /// Writes the report. The error names every file of the run that could not be written, now or earlier. The verdict holds
    /// even then.
    pub fn write_report(&mut self, pictures: Pictures) -> Result<(), Unwritten> {
        self.checked.find_counterexample();
        self.checked.play_remedies();
        let mut unwritten = std::mem::take(&mut self.unwritten);
        let mut report = self.checked.report();
        report.pictures = pictures;
        unwritten.note_all(report::write(self.folder.path(), &report));
        if let Some(diary) = self.diary.take() {
            diary.conclude(&report.summary);
        }
        unwritten.conclude()
    }
}

/// The counterexample. None if the search does not find it in time.
fn minimal_counterexample(history: &History, verdict: &Verdict) -> Option<Counterexample> {
    let deadline = Instant::now() + LOOKING;
    let limits = Limits { give_up: &|| Instant::now() >= deadline, ..Limits::default() };
    checker::minimal_counterexample(history, verdict, &limits)
        .map(|minimal_counterexample| Counterexample::of_run(history, &minimal_counterexample))
}
