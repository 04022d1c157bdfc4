//! A run's history with everything derived from it: the same after a run and when the run is checked again.

use std::path::Path;

use super::beside;
use crate::checker::{self, Verdict};
use crate::history::History;
use crate::report::{Beside, Counterexample, Report, RunFacts, Subject};
use crate::scenario::Scenario;

/// A run's history with its verdict and what its report shows.
pub struct Checked {
    pub history: History,
    pub scenario: Option<Scenario>,
    pub facts: RunFacts,
    pub verdict: Verdict,
    pub minimal_counterexample: Option<Counterexample>,
    /// What was found beside the history, which the verdict knows nothing of.
    pub beside: Beside,
}

impl Checked {
    /// Checks a history.
    pub fn new(history: History, scenario: Option<Scenario>, facts: RunFacts) -> Checked {
        let verdict = checker::check(&history);
        Checked { history, scenario, facts, verdict, minimal_counterexample: None, beside: Beside::default() }
    }

    /// Looks into the run's folder for what its report shows beside the history.
    pub fn look_beside(&mut self, folder: &Path) {
        self.beside = beside::of(folder, &self.history);
    }

    /// Everything that is shown of it; made anew at each call.
    pub fn report(&self) -> Report<'_> {
        let Checked { history, scenario, facts, verdict, minimal_counterexample, beside } = self;
        let subject = Subject { scenario: scenario.as_ref(), history, verdict, facts };
        Report::new(subject, minimal_counterexample.as_ref()).with(beside)
    }
}
