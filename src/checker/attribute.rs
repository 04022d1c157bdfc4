//! Which fault explains an anomaly: one that was seen to be in effect, on one of the clients or on a node, meanwhile.

use super::verdict::{Anomaly, AnomalyKind};
use super::words::Words;
use crate::history::{FaultWindow, History, Operation};

/// Writes into each anomaly the fault that explains it.
pub(super) fn explain_all(history: &History, anomalies: &mut [Anomaly]) {
    for anomaly in anomalies {
        anomaly.fault = explain(history, anomaly);
    }
}

/// The number of the fault that explains the anomaly, if one does.
///
/// A fault on a client that took part comes before a fault on a node, and among the clients the one that acted out of
/// turn comes first: the overwriter of a lost update, the earlier of two holders.
fn explain(history: &History, anomaly: &Anomaly) -> Option<u32> {
    let words = Words::new(history);
    let mut operations: Vec<&Operation> = anomaly
        .operations
        .iter()
        .filter_map(|index| history.operations.binary_search_by_key(index, |operation| operation.index).ok())
        .map(|place| &history.operations[place])
        .collect();
    if anomaly.kind == AnomalyKind::LostUpdate && operations.len() > 1 {
        operations.swap(0, 1);
    }
    let on_a_client = operations.iter().find_map(|operation| {
        let client = words.process(operation.process);
        let end = operation.completed.unwrap_or(history.last_time);
        latest(history, anomaly.time, operation.invoked, end, |window| window.targets.contains(&client))
    });
    on_a_client.or_else(|| {
        let start = operations.iter().map(|operation| operation.invoked).min()?;
        let end = operations.iter().filter_map(|operation| operation.completed).max().unwrap_or(start);
        let hits_a_node = |window: &FaultWindow| window.targets.iter().any(|target| target.starts_with('n'));
        latest(history, anomaly.time, start, end.max(anomaly.time), hits_a_node)
    })
}

/// The fault among those that were in effect at some moment from `start` to `end` that began last before `time`.
fn latest(history: &History, time: u64, start: u64, end: u64, concerns: impl Fn(&FaultWindow) -> bool) -> Option<u32> {
    let overlaps = |window: &FaultWindow| {
        let (from, to) = window.span();
        from <= end && to.is_none_or(|to| to >= start)
    };
    let candidates =
        history.faults.iter().filter(|window| window.was_observed() && overlaps(window) && concerns(window));
    candidates.max_by_key(|window| (window.inject <= time, window.inject)).map(|window| window.fault)
}
