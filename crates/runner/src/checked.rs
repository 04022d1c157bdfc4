//! A run's history with everything derived from it: the same after a run and when the run is checked again.

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

/// How long a report may wait for its counterexample, which does not decide the verdict.
const LOOKING: Duration = Duration::from_secs(3);

/// A run's history with its verdict and what its report shows.
pub struct Checked {
    pub history: History,
    pub scenario: Option<Scenario>,
    pub facts: RunFacts,
    pub verdict: Verdict,
    pub minimal_counterexample: Option<Counterexample>,
    /// What was found beside the history, which the verdict knows nothing of.
    pub artifacts: RunArtifacts,
    /// The runs with remedies that were played, and whether each was valid.
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

    /// Looks into the run's folder for what its report shows beside the history.
    pub fn read_artifacts(&mut self, folder: &Path) {
        self.artifacts = artifacts::of(folder, &self.history);
    }

    /// Whether this run with a remedy was valid; None if it was not played.
    pub(super) fn played(&self, run: &Scenario) -> Option<bool> {
        self.played.iter().find(|(played, _)| **played == *run).map(|(_, held)| *held)
    }

    /// Looks for the counterexample that the report shows, for some seconds; it does not change the verdict.
    pub fn find_counterexample(&mut self) {
        self.minimal_counterexample = minimal_counterexample(&self.history, &self.verdict);
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        let Checked { history, scenario, facts, verdict, .. } = self;
        Subject { scenario: scenario.as_ref(), history, verdict, facts }
    }

    /// Everything that is shown of it; made anew at each call.
    pub fn report(&self) -> Report<'_> {
        let mut report = Report::new(self.subject(), self.minimal_counterexample.as_ref()).with(&self.artifacts);
        report.summary.keep_remedies(|run| self.played(run));
        report
    }
}

/// A run that was made and checked. Its verdict can be shown before anything else is written, which may fail.
pub struct PendingReport {
    pub checked: Checked,
    folder: RunFolder,
    /// What could not be written so far.
    unwritten: Unwritten,
    /// As long as it is here, the run goes on for whoever looks at its folder.
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

    /// Writes the report. The error names every file of the run that could not be written, now or earlier; the verdict
    /// holds all the same.
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

/// The counterexample, if it is found in time.
fn minimal_counterexample(history: &History, verdict: &Verdict) -> Option<Counterexample> {
    let deadline = Instant::now() + LOOKING;
    let limits = Limits { give_up: &|| Instant::now() >= deadline, ..Limits::default() };
    checker::minimal_counterexample(history, verdict, &limits)
        .map(|minimal_counterexample| Counterexample::of_run(history, &minimal_counterexample))
}
