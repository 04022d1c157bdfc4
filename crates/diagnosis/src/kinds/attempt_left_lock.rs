//! An attempt that ends without the lock, and leaves its key.

use super::super::acts::{Act, Change, KeyEnd};
use super::super::case::{Case, at, gave_up, on};
use super::super::{Finding, Harm, Kind};
use super::REDIS_LOCKS;
use base::words::{length, moment};

pub static KIND: Kind = Kind {
    code: "RJ017",
    name: "attempt-left-lock",
    title: "An attempt that ends without the lock leaves its key behind.",
    rule: "A request whose reply is lost, or comes too late, may have created the key. So a client that gives up releases on every node \
           that it asked.",
    source: REDIS_LOCKS,
    fix: "After an error, a time-out or a cancellation, send the release as well: compare the value and delete the key.",
    commands: super::COMPARE_AND_DELETE,
    right: Some(("redlock", "lost-reply")),
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    left_behind(case)
        .filter(|(_, released_elsewhere)| !released_elsewhere)
        .map(|(act, _)| finding(case, act, "no release followed"))
        .collect()
}

/// The keys that attempts created and never removed, though their clients could reach the node again; and whether the same attempt
/// released on another node.
pub(super) fn left_behind<'c, 'a>(case: &'c Case<'a>) -> impl Iterator<Item = (&'c Act<'a>, bool)> {
    let created = case.acts.all.iter().filter(|act| act.is_done() && act.create().is_some());
    created.filter_map(|act| {
        let operation = case.of(act)?;
        let over = operation.completed.filter(|_| gave_up(operation))?;
        let ttl = act.create()?.ttl?;
        let end = act.time.saturating_add(ttl);
        if end.saturating_sub(over) < case.ttl / 4 || !case.acts.was_watched(act.node, act.time, end) {
            return None;
        }
        let after = || case.acts.after(act);
        let removes = |other: &&Act| other.client == act.client && matches!(other.what, Change::Remove | Change::Other);
        let asks_to_remove =
            |other: &&Act| other.client == act.client && other.operation == act.operation && other.what == Change::Read;
        if after().any(|other| (removes(&other) || asks_to_remove(&other)) && other.time <= end) {
            return None;
        }
        // What it sent meanwhile came to the node: else its release may be on its way, or lost. And so before: else this may be a late request of
        // an earlier attempt.
        if !case.requests_pass(act.client, act.node, act.time.saturating_sub(case.ttl), end) {
            return None;
        }
        // It had the time to release.
        if case.ran_for(act.client, over, end) < case.ttl / 4 {
            return None;
        }
        let elsewhere = case
            .acts
            .of_operation(act.operation?)
            .any(|other| other.node != act.node && other.place > act.place && matches!(other.what, Change::Remove));
        let owned = after().next().and_then(|next| next.owner());
        let is_seen = owned.is_some_and(|owned| owned.created == act.place && owned.end != KeyEnd::Unknown);
        is_seen.then_some((act, elsewhere))
    })
}

pub(super) fn finding(case: &Case, act: &Act, what: &str) -> Finding {
    let over = case.of(act).and_then(|operation| operation.completed).unwrap_or(act.time);
    let end = act.time.saturating_add(act.create().and_then(|create| create.ttl).unwrap_or(0));
    let sentence = format!(
        "{}'s {} {} created the key{}. {}'s attempt ended at {}, and {what}. The key stayed for another {}.",
        act.client,
        case.named(act),
        at(act.time),
        on(case, act.node),
        act.client,
        moment(over),
        length(end.saturating_sub(over))
    );
    let met = case.acts.after(act).any(|other| {
        other.client != act.client && other.time > over && other.owner().is_some_and(|owner| owner.created == act.place)
    });
    let harm = if met { Harm::Kept } else { Harm::None };
    case.finding(act, &[act.place], &[act.operation], harm, sentence)
}
