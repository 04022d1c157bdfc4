//! A run's history with everything derived from it: the same after a run and when the run is checked again.

use std::time::{Duration, Instant};

use linearizability::Limits;

use crate::checker::{self, Verdict};
use crate::history::History;
use crate::report::{Counterexample, Report, RunFacts};
use crate::scenario::Scenario;

/// How long a report may wait for its counterexample, which does not decide the verdict.
const LOOKING: Duration = Duration::from_secs(3);

/// A run's history with its verdict and what its report shows.
pub struct Checked {
    pub history: History,
    pub scenario: Option<Scenario>,
    pub facts: RunFacts,
    pub verdict: Verdict,
    pub minimal_counterexample: Option<Counterexample>,
}

impl Checked {
    /// Checks a history. Looks for the counterexample that the report shows if `counterexample` is set.
    pub fn new(history: History, scenario: Option<Scenario>, facts: RunFacts, counterexample: bool) -> Checked {
        let verdict = checker::check(&history);
        let minimal_counterexample = if counterexample { minimal_counterexample(&history, &verdict) } else { None };
        Checked { history, scenario, facts, verdict, minimal_counterexample }
    }

    pub fn report(&self) -> Report<'_> {
        Report {
            scenario: self.scenario.as_ref(),
            history: &self.history,
            verdict: &self.verdict,
            facts: &self.facts,
            minimal_counterexample: self.minimal_counterexample.as_ref(),
        }
    }
}

/// The counterexample, if it is found in time.
fn minimal_counterexample(history: &History, verdict: &Verdict) -> Option<Counterexample> {
    let deadline = Instant::now() + LOOKING;
    let limits = Limits { give_up: &|| Instant::now() >= deadline, ..Limits::default() };
    checker::minimal_counterexample(history, verdict, &limits)
        .map(|minimal_counterexample| Counterexample::of_run(history, &minimal_counterexample))
}
