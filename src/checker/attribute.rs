//! Which fault explains an anomaly: one observed to be in effect at the time, on one of its clients or on a node.

use std::cmp::Reverse;

use super::verdict::{Anomaly, AnomalyKind};
use super::words::Words;
use crate::history::{FaultKind, FaultWindow, History, Operation};
use crate::members::Role;

/// Writes into each anomaly the fault that explains it.
pub(super) fn explain_all(history: &History, anomalies: &mut [Anomaly]) {
    for anomaly in anomalies {
        anomaly.fault = explain(history, anomaly);
    }
}

/// The number of the fault that explains the anomaly, if one does.
///
/// Among the faults in effect at the time, a pause explains most, then a node that forgot or misjudged, then delayed
/// packets, then a partition, which mostly sets the scene. A client that died, or whose clock was wrong, explains less than
/// a node: what it held it keeps until it expires, and few locks ask a client's clock. Ties go to the client that acted
/// out of turn (the overwriter of a lost update, the earlier of two holders), before a node, then to the fault that began last.
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
    let start = operations.iter().map(|operation| operation.invoked).min()?;
    let end = operations.iter().filter_map(|operation| operation.completed).max().unwrap_or(start).max(anomaly.time);
    let ranked = history.faults.iter().filter(|window| window.was_observed()).filter_map(|window| {
        let hit = operations.iter().position(|operation| {
            let end = operation.completed.unwrap_or(history.last_time);
            window.targets.contains(&words.process(operation.process)) && overlaps(window, operation.invoked, end)
        });
        let on_a_node = || window.hits(Role::Node) && overlaps(window, start, end);
        let place = hit.or_else(|| on_a_node().then_some(operations.len()))?;
        Some((
            telling(window.kind, hit.is_some()),
            place,
            window.inject > anomaly.time,
            Reverse(window.inject),
            window.fault,
        ))
    });
    ranked.min().map(|(.., fault)| fault)
}

/// How much a kind of fault explains by itself, on a client involved or on a node; a lower number explains more.
fn telling(kind: FaultKind, on_client: bool) -> u8 {
    match kind {
        FaultKind::Pause | FaultKind::PauseBackground => 0,
        FaultKind::Kill | FaultKind::PowerLoss if on_client => 3,
        FaultKind::Clock if on_client => 2,
        FaultKind::Kill
        | FaultKind::PowerLoss
        | FaultKind::Clock
        | FaultKind::Evict
        | FaultKind::Flush
        | FaultKind::Failover
        | FaultKind::Call => 1,
        FaultKind::Loss | FaultKind::Delay | FaultKind::Reset => 2,
        FaultKind::Partition => 3,
    }
}

/// Whether the fault was in effect at some moment from `start` to `end`.
fn overlaps(window: &FaultWindow, start: u64, end: u64) -> bool {
    let (from, to) = window.span();
    from <= end && to.is_none_or(|to| to >= start)
}
