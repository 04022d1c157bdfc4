//! Whose fault is a lost update: the lock's, or that of a client that released the lock while its own write was in flight?
//!
//! A write that was never answered may still be in the network. If its client releases the lock, the next holder can read before
//! that write lands; no lock can prevent the loss that follows. If the two clients never held the lock at once, the lock did its
//! job. But if the lock expired before the writer gave up, it is the lock's fault, and the holds overlap.

use super::AnomalyKind;
use super::verdict::{Anomaly, KeyEnd, LostUpdates};
use super::words::Words;
use model::history::{Claim, History, Operation, Outcome, Phase, PhaseStamp};

/// Reclassifies losses that are not the lock's fault.
pub(super) fn assign(history: &History, anomalies: &mut [Anomaly]) {
    let words = Words::new(history);
    for anomaly in anomalies.iter_mut().filter(|anomaly| anomaly.kind.contradicts() == Some(Claim::Updates)) {
        let places: Vec<usize> = anomaly.operations.iter().filter_map(|index| history.place_of(*index)).collect();
        let careless = places.iter().copied().find(|&place| {
            let others = places.iter().filter(|&&other| other != place).map(|&other| &history.operations[other]);
            gave_back_in_doubt(&history.operations[place], others)
        });
        if let Some(careless) = careless {
            anomaly.kind = AnomalyKind::WriteInFlight;
            anomaly.summary.push_str(&format!(
                "; {} had released the lock while its write of {} was still in flight, which no lock can prevent",
                words.client(careless),
                words.new_value(careless),
            ));
        }
    }
}

/// Subtracts the updates that were lost to writes in flight from the updates that the lock lost.
pub(super) fn take_out(anomalies: &[Anomaly], lost: &mut LostUpdates, keys: &mut [KeyEnd]) {
    for anomaly in anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::WriteInFlight) {
        let in_flight = anomaly.lost.len() as u64;
        lost.count = lost.count.saturating_sub(in_flight);
        for key in keys.iter_mut().filter(|key| key.key == anomaly.key) {
            key.lost = key.lost.saturating_sub(in_flight);
        }
    }
    if lost.acknowledged > 0 {
        lost.fraction = lost.count as f64 / lost.acknowledged as f64;
    }
}

/// True if the operation released its lock while its write was in doubt, and its hold overlapped none of the others' holds.
fn gave_back_in_doubt<'h>(operation: &Operation, others: impl Iterator<Item = &'h Operation>) -> bool {
    let in_doubt = operation.outcome == Outcome::Info
        && operation.phases.has(Phase::BeforeWrite)
        && !operation.phases.has(Phase::Written);
    let (true, Some((start, Some(end)))) = (in_doubt, hold(operation)) else { return false };
    let mut others = others.filter_map(hold);
    others.all(|(from, to)| end <= from || to.is_some_and(|to| to <= start))
}

/// When a client acquired the lock, and when it began to release it, if it did. The client's own stamps, which are on the safe
/// side, take precedence over the times at which the controller received the reports.
fn hold(operation: &Operation) -> Option<(i64, Option<i64>)> {
    let time = |stamp: PhaseStamp| stamp.stamped.unwrap_or(i64::try_from(stamp.received).unwrap_or(i64::MAX));
    Some((operation.phase(Phase::Acquired).map(time)?, operation.phase(Phase::Releasing).map(time)))
}
