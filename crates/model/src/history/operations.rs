//! The operations of a run in the compact form for the linearizability checks.

use std::collections::HashMap;

use super::{Function, History, Operation, Outcome, Reading};
use linearizability::history::{Content, NEVER, Op, OpFunction, Table, Value, Values};

/// The run's operations on the resource, on one key or on all, and the times of their events by index, in nanoseconds of run
/// time.
///
/// Counters and lists are represented by the identities of their updates. Refused compare-and-sets are left out, as in the run's
/// own verdict. If the expected value of a compare-and-set is unknown, it may come after any operation, as a write may.
pub fn operation_table(history: &History, key: Option<&str>) -> (Table, Vec<i64>) {
    let touches = |operation: &&Operation| {
        let refused = operation.f == Function::Cas && operation.outcome == Outcome::Fail;
        key.is_none_or(|key| operation.key == key) && operation.f != Function::Hold && !refused
    };
    let kept: Vec<&Operation> = history.operations.iter().filter(touches).collect();
    let mut events: Vec<(u64, u64)> = Vec::with_capacity(2 * kept.len());
    for operation in &kept {
        // The lock keeps the value unchanged until the reader releases, so the read may count as the reader's last act.
        events.push((operation.index, history.kept_until(operation).unwrap_or(operation.invoked)));
        events.extend(returned(operation));
    }
    // Lines are in the order of their times.
    events.sort_unstable_by_key(|(index, time)| (*time, *index));
    events.dedup_by_key(|(index, _)| *index);
    let places: HashMap<u64, u32> = events.iter().map(|(index, _)| *index).zip(0..).collect();
    let place = |index: u64| places.get(&index).copied().unwrap_or(NEVER);

    let mut values = Values::default();
    let mut keys: Vec<String> = Vec::new();
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let mut operations = Vec::with_capacity(kept.len());
    for operation in kept {
        let key = *numbers.entry(&operation.key).or_insert_with(|| {
            keys.push(operation.key.to_string());
            keys.len() as u32 - 1
        });
        let (f, a, b) = meaning(operation, &mut values);
        operations.push(Op {
            key,
            process: operation.process.number(),
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
    (Table { operations, values, keys }, times)
}

fn meaning(operation: &Operation, values: &mut Values) -> (OpFunction, Value, Value) {
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
    match operation.f {
        Function::Rmw => (OpFunction::Rmw, read, wrote),
        Function::Cas if read != Value::UNKNOWN => (OpFunction::Cas, read, wrote),
        Function::Cas | Function::Write => (OpFunction::Write, wrote, Value::NIL),
        Function::Hold | Function::Read | Function::Shared => (OpFunction::Read, read, wrote),
    }
}

/// The event after which an operation can't take effect any more.
fn returned(operation: &Operation) -> Option<(u64, u64)> {
    match operation.outcome {
        Outcome::Info => None,
        Outcome::Ok | Outcome::Fail => operation.completed_index.zip(operation.completed),
    }
}
