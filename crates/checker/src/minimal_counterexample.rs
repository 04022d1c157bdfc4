//! The smallest set of a run's operations that no order explains: the argument of the general checker for a verdict on updates.
//!
//! It decides nothing. [`super::check`] decides whether updates were lost and which; this module finds the smallest argument for
//! it, to show to people.

use super::{Validity, Verdict};
use linearizability::explain::{Explanation, explain_object};
use linearizability::history::{OpFunction, Table};
use linearizability::words::{self, Words};
use linearizability::{Answer, FailedCas, Limits, ModelSpec, Options, check};
use model::history::{CONTROLLER, Claim, History, Process, operation_table};

/// Operations of a run, and why those on one key have no order.
#[derive(Clone, Debug)]
pub struct MinimalCounterexample {
    /// The operations on that key alone.
    pub table: Table,
    /// The times of the events, by their index.
    pub times: Vec<i64>,
    pub key: String,
    /// Its operations are indices in the table.
    pub explanation: Explanation,
}

/// The argument for the first lost update of a run; None if no update was lost, or the limits were too tight.
pub fn minimal_counterexample(history: &History, verdict: &Verdict, limits: &Limits) -> Option<MinimalCounterexample> {
    let about_updates = |anomaly: &&super::Anomaly| anomaly.kind.contradicts() == Some(Claim::Updates);
    let anomaly = verdict.anomalies.iter().find(about_updates).filter(|_| verdict.valid == Validity::Invalid)?;
    let (table, times) = operation_table(history, Some(&anomaly.key));
    let spec = match table.operations.iter().any(|op| op.f == OpFunction::Rmw) {
        true => ModelSpec::Rmw,
        false => ModelSpec::CasRegister,
    };
    // The verdict does not use failed compare-and-sets either.
    let options = Options { limits: *limits, failed_cas: FailedCas::Drop, ..Options::default() };
    let object = check(&table, spec, &options).into_iter().next()?;
    let Answer::NotLinearizable(conflict) = object.answer else { return None };
    let process = |number| words::called(&MinimalCounterexample::called(history, number));
    let words = Words { values: &table.values, process: &process };
    let explanation = explain_object(spec, &table.operations, &words, &conflict, &options);
    // A search that gave up leaves many operations, which prove no more than the verdict does.
    explanation.minimal.then(|| MinimalCounterexample { times, key: anomaly.key.clone(), explanation, table })
}

impl MinimalCounterexample {
    /// The name of a process in its table, as in the run's report.
    pub fn called(history: &History, number: u32) -> String {
        let process = if number == CONTROLLER { Process::Controller } else { Process::Client(number) };
        match (&history.run, process) {
            (Some(header), process) => header.client_name(process),
            (None, process) => process.to_string(),
        }
    }
}
