//! Which fault explains an anomaly other than two holders at once ([`super::causes`])? It must have been observed in effect at a
//! time at which it could cause the anomaly.

use super::AnomalyKind;
use super::reach::{Needed, last_of_one_kind, lost_between, most_telling, overlaps, telling};
use super::verdict::{Anomaly, Blames, How, HowKind};
use super::words::{Words, seconds};
use base::members::Role;
use model::fault_kinds::{OnData, OnPackets};
use model::history::{FaultWindow, History, Operation, Phase, ResourceKind, SeenPromotion};

/// Writes into each anomaly the fault that explains it.
pub(super) fn explain_all(history: &History, anomalies: &mut [Anomaly]) {
    for anomaly in anomalies {
        let blames = anomaly.kind.def().blames;
        if matches!(blames, Blames::Nothing | Blames::Holders) {
            continue;
        }
        let operations = operations(history, anomaly);
        let of_updates = blames == Blames::Writes;
        let replicated = history.run.as_ref().is_some_and(|run| run.resource == ResourceKind::Replicated);
        let from = operations.iter().map(|operation| operation.invoked).min();
        // Replicated data are lost together with the primary that had them.
        let is_in_a_group = of_updates && replicated || blames == Blames::Counters;
        let seen = history.promotions.iter().rfind(|seen| {
            is_in_a_group
                && seen.promotion.key == anomaly.key
                && from.is_some_and(|from| from <= seen.time)
                && seen.time <= anomaly.time
        });
        if let Some(seen) = seen {
            anomaly.how = promoted(seen);
            anomaly.fault = trigger(history, seen).map(|window| window.fault);
        } else if of_updates {
            anomaly.fault = between_reading_and_writing(history, anomaly, &operations, replicated);
        } else {
            anomaly.fault = in_effect(history, anomaly, &operations, blames);
        }
    }
}

/// The operations of an anomaly. The operation that acted out of turn comes first.
fn operations<'h>(history: &'h History, anomaly: &Anomaly) -> Vec<&'h Operation> {
    let places = anomaly.operations.iter().filter_map(|index| history.place_of(*index));
    let mut operations: Vec<&Operation> = places.map(|place| &history.operations[place]).collect();
    if anomaly.kind == AnomalyKind::LostUpdate && operations.len() > 1 {
        operations.swap(0, 1);
    }
    operations
}

/// The fault that made the watchers of a primary consider it dead, so that another node took its place.
pub(super) fn trigger<'h>(history: &'h History, seen: &SeenPromotion) -> Option<&'h FaultWindow> {
    let primary = &seen.promotion.instead_of;
    let is_watcher = |name: &String| matches!(Role::of(name), Some(Role::Node | Role::Sentinel));
    // If only clients cannot reach a primary, it is not replaced.
    let silent = |window: &&FaultWindow| match &window.links {
        Some(links) => links
            .iter()
            .any(|(one, other)| (one == primary && is_watcher(other)) || (other == primary && is_watcher(one))),
        None => window.kind.does.silences && !window.kind.is_at_command(),
    };
    let hits = |window: &&FaultWindow| window.was_observed() && window.targets.contains(primary) && silent(window);
    let faults = history.faults.iter().filter(hits);
    most_telling(faults.filter(|window| overlaps(window, seen.promotion.after_ns, seen.time)))
}

/// `n1 had replaced n0 as the primary of k0 by 4.046 s`.
pub(super) fn promoted(seen: &SeenPromotion) -> Option<How> {
    let promotion = &seen.promotion;
    let text = format!(
        "{} had replaced {} as the primary of {} by {}",
        promotion.node,
        promotion.instead_of,
        promotion.key,
        seconds(seen.time)
    );
    How::new(HowKind::Promoted, text, [seen.index])
}

/// An update is lost because a client wrote late what it had read early, or because the server that had the data lost them.
fn between_reading_and_writing(
    history: &History,
    anomaly: &Anomaly,
    operations: &[&Operation],
    replicated: bool,
) -> Option<u32> {
    let words = Words::new(history);
    let from = operations.iter().map(|operation| operation.invoked).min()?;
    let keeper = if replicated { Role::Node } else { Role::Resource };
    let needed = Needed::new(history, &anomaly.key, anomaly.time);
    let keepers = |window: &FaultWindow| window.hits(keeper) && (!replicated || needed.hits(window));
    // A client that read the value after the lost update was there did not overwrite the update because it was late.
    let read_of =
        |operation: &Operation| operation.phase(Phase::Read).map_or(operation.invoked, |stamp| stamp.received);
    let written_of = |operation: &Operation| {
        operation.phase(Phase::Written).map(|stamp| stamp.received).or(operation.completed).unwrap_or(u64::MAX)
    };
    let last = anomaly.operations.last().and_then(|index| history.place_of(*index));
    let lost = || anomaly.lost.iter().filter_map(|index| history.place_of(*index));
    let read_before = |last: usize| {
        let read = read_of(&history.operations[last]);
        lost().any(|place| place != last && read <= written_of(&history.operations[place]))
    };
    let may_be_late = anomaly.kind != AnomalyKind::LostUpdate || last.is_none_or(read_before);
    let ranked = history.faults.iter().filter(|window| is_disturbing(window)).filter_map(|window| {
        let late = operations.iter().filter(|_| may_be_late).position(|operation| {
            let read = read_of(operation);
            let end = operation.phase(Phase::Written).map(|stamp| stamp.received).or(operation.completed);
            // Delayed packets to a member that does not store the data cannot delay a write.
            let keeps =
                if window.kind.is_of_the_network() { window.hits(keeper) } else { !window.kind.does.wall_clock };
            keeps
                && window.hits_process(operation, &words.process(operation.process))
                && overlaps(window, read, end.unwrap_or(history.last_time))
        });
        let gone = keepers(window) && lost_between(window, from, anomaly.time);
        let place = late.or(gone.then_some(operations.len()))?;
        Some(((telling(window.kind, late.is_some()), place), window))
    });
    first_of_one_kind(ranked.collect())
}

/// True if a fault was observed and disturbs its targets while it lasts. A client that got another list of nodes works as before.
fn is_disturbing(window: &FaultWindow) -> bool {
    window.was_observed() && !window.kind.gives_a_list()
}

/// The last of the faults with the lowest rank; None if these faults are of several kinds.
fn first_of_one_kind<R: Ord>(ranked: Vec<(R, &FaultWindow)>) -> Option<u32> {
    let lowest = ranked.iter().map(|(rank, _)| rank).min()?;
    let equals = ranked.iter().filter(|(rank, _)| rank == lowest).map(|(_, window)| *window);
    last_of_one_kind(&equals.collect::<Vec<_>>()).map(|window| window.fault)
}

/// When a client first acquired the lock with a token not greater than the greater one of these acquisitions, after that one.
fn first_smaller(history: &History, operations: &[&Operation]) -> Option<u64> {
    let granted = |one: &Operation| Some((one.phase(Phase::Acquired)?.time(), one.phase(Phase::Acquired)?.token?));
    let (greatest, token) = operations.iter().filter_map(|one| granted(one)).min()?;
    let key = &operations.first()?.key;
    let later = history.operations.partition_point(|one| one.invoked <= greatest);
    let of_key = history.operations[later..].iter().filter(|one| one.key == *key);
    let smaller = of_key.filter_map(granted).filter(|(_, other)| *other <= token);
    smaller.map(|(time, _)| time).next()
}

/// Among the faults in effect at the time, a pause explains most, then a node that forgot or misjudged, then delayed packets,
/// then a partition. Between equals, a fault on a client that took part comes first, then one on enough nodes. A fault that
/// began after the anomaly explains nothing.
fn in_effect(history: &History, anomaly: &Anomaly, operations: &[&Operation], blames: Blames) -> Option<u32> {
    let words = Words::new(history);
    let start = operations.iter().map(|operation| operation.invoked).min()?;
    let end = operations.iter().filter_map(|operation| operation.completed).max().unwrap_or(start).max(anomaly.time);
    let needed = Needed::new(history, &anomaly.key, anomaly.time);
    // A node that keeps its data counts on, whatever happens to its clients. Independent nodes that clients cannot reach miss
    // acquisitions.
    let nodes = history.run.as_ref().map_or(1, |run| run.nodes);
    let is_independent = nodes > 1 && matches!(needed, Needed::Several(_));
    let forgets = |window: &FaultWindow| window.kind.does.data != OnData::Kept && !window.kind.does.wall_clock;
    let sets_back = |window: &&FaultWindow| {
        let misses = is_independent && (window.kind.does.packets == OnPackets::Cut || window.kind.halts());
        blames != Blames::Counters || window.hits(Role::Node) && (forgets(window) || misses)
    };
    // The reader of a stale value had it in hand before its operation was over.
    let read = operations.first().and_then(|reader| reader.phase(Phase::Read));
    let seen = match anomaly.kind {
        AnomalyKind::StaleRead => read.map_or(anomaly.time, |read| read.received),
        // Tokens that follow the first smaller one are small for the same reason.
        AnomalyKind::TokenRegress => first_smaller(history, operations).unwrap_or(anomaly.time),
        _ => anomaly.time,
    };
    let ranked =
        history.faults.iter().filter(|window| is_disturbing(window) && sets_back(window)).filter_map(|window| {
            let hit = operations.iter().position(|operation| {
                let end = operation.completed.unwrap_or(history.last_time);
                window.hits_process(operation, &words.process(operation.process))
                    && overlaps(window, operation.invoked, end)
            });
            let on_a_node = || window.hits(Role::Node) && overlaps(window, start, end);
            let place = hit.or_else(|| on_a_node().then_some(operations.len()))?;
            let too_few = hit.is_none() && !needed.hits(window);
            // A counter that was lost needs no node that clients could not reach.
            let may_have_kept = blames == Blames::Counters && !forgets(window);
            let rank = (may_have_kept, telling(window.kind, hit.is_some()), place, too_few);
            // A fault explains nothing that happened before it.
            (window.inject <= seen).then_some((rank, window))
        });
    first_of_one_kind(ranked.collect())
}
