//! The fewest operations of a run that no order explains: the verdict on its updates, seen by the general checks.
//!
//! It decides nothing. [`super::check`] says whether updates were lost and which; this finds the smallest argument for
//! it, to be shown.

use std::collections::HashMap;

use super::linear::explain::{Explanation, explain_object};
use super::linear::words::{self, Words};
use super::linear::{Answer, FailedCas, Limits, ModelSpec, Options, check};
use super::{Validity, Verdict};
use crate::history::table::{Content, NEVER, Op, OpFunction, Table, Value, Values};
use crate::history::{Claim, Function, History, Operation, Outcome, Process, Reading};

/// Operations of a run, and why those on one key have no order.
#[derive(Clone, Debug)]
pub struct Fewest {
    /// The operations on that key alone.
    pub table: Table,
    /// When the events happened, by their places.
    pub times: Vec<i64>,
    pub key: String,
    /// Places in the table.
    pub explanation: Explanation,
}

/// The argument for the first lost update of a run; none where no update was lost, or the limits were too narrow.
pub fn fewest(history: &History, verdict: &Verdict, limits: &Limits) -> Option<Fewest> {
    let about_updates = |anomaly: &&super::Anomaly| anomaly.kind.contradicts() == Some(Claim::Updates);
    let anomaly = verdict.anomalies.iter().find(about_updates).filter(|_| verdict.valid == Validity::Invalid)?;
    let (table, times) = table(history, &anomaly.key);
    let spec = match table.operations.iter().any(|op| op.f == OpFunction::Rmw) {
        true => ModelSpec::Rmw,
        false => ModelSpec::CasRegister,
    };
    // What a refusal found, the verdict leaves out as well.
    let options = Options { limits: *limits, failed_cas: FailedCas::Drop, ..Options::default() };
    let object = check(&table, spec, &options).into_iter().next()?;
    let Answer::NotLinearizable(conflict) = object.answer else { return None };
    let process = |number| words::called(&Fewest::called(history, number));
    let words = Words { values: &table.values, process: &process };
    let explanation = explain_object(spec, &table.operations, &words, &conflict, &options);
    // A search that was given up has found many operations, which prove no more than the verdict does.
    explanation.minimal.then(|| Fewest { times, key: anomaly.key.clone(), explanation, table })
}

impl Fewest {
    /// The name of a process of its table, as the run's report has it.
    pub fn called(history: &History, number: u32) -> String {
        let process = if number == CONTROLLER { Process::Controller } else { Process::Client(number) };
        match (&history.run, process) {
            (Some(header), process) => header.client_name(process),
            (None, Process::Client(number)) => number.to_string(),
            (None, Process::Controller) => "controller".into(),
        }
    }
}

/// The number of the controller, which has none.
const CONTROLLER: u32 = u32::MAX;

/// The operations on a key, and the times of their events.
fn table(history: &History, key: &str) -> (Table, Vec<i64>) {
    let touches = |operation: &&Operation| operation.key == key && operation.f != Function::Hold;
    let of_key: Vec<&Operation> = history.operations.iter().filter(touches).collect();
    let mut events: Vec<(u64, u64)> = Vec::new();
    for operation in &of_key {
        events.push((operation.index, operation.invoked));
        events.extend(returned(operation));
    }
    events.sort_unstable();
    events.dedup_by_key(|(index, _)| *index);
    let places: HashMap<u64, u32> = events.iter().map(|(index, _)| *index).zip(0..).collect();
    let place = |index: u64| places.get(&index).copied().unwrap_or(NEVER);

    let mut values = Values::default();
    let mut operations = Vec::with_capacity(of_key.len());
    for operation in of_key {
        let read = match &operation.old {
            Reading::Unknown => Value::UNKNOWN,
            Reading::Empty => Value::NIL,
            Reading::Value(value) => values.intern(Content::Text(value.as_str().into())),
        };
        let wrote = match &operation.new {
            Some(value) => values.intern(Content::Text(value.as_str().into())),
            None if operation.f.writes() => Value::UNKNOWN,
            None => Value::NIL,
        };
        let (f, a, b) = match operation.f {
            Function::Rmw => (OpFunction::Rmw, read, wrote),
            // Where nobody knows what it found, it may come after anything, as a write may.
            Function::Cas if read != Value::UNKNOWN => (OpFunction::Cas, read, wrote),
            Function::Cas | Function::Write => (OpFunction::Write, wrote, Value::NIL),
            Function::Hold | Function::Read => (OpFunction::Read, read, wrote),
        };
        operations.push(Op {
            key: 0,
            process: match operation.process {
                Process::Client(number) => number,
                Process::Controller => CONTROLLER,
            },
            f,
            outcome: operation.outcome,
            a,
            b,
            invoked: place(operation.index),
            completed: returned(operation).map_or(NEVER, |(index, _)| place(index)),
            // A run's lines are its events, counted from 1.
            line: u32::try_from(operation.index + 1).unwrap_or(u32::MAX),
        });
    }
    let times = events.iter().map(|(_, time)| i64::try_from(*time).unwrap_or(i64::MAX)).collect();
    (Table { operations, values, keys: vec![key.to_string()] }, times)
}

/// The event after which an operation can't take effect any more.
fn returned(operation: &Operation) -> Option<(u64, u64)> {
    match operation.outcome {
        Outcome::Info => None,
        Outcome::Ok | Outcome::Fail => operation.completed_index.zip(operation.completed),
    }
}
