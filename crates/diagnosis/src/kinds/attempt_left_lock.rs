//! An attempt that ends without the lock, and leaves its key.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ017",
    name: "attempt-left-lock",
    title: "An attempt that ends without the lock leaves its key behind.",
    rule: "A request whose reply is lost, or comes too late, may have created the key. So a client that gives up must release \
    the lock on every node that it asked.",
    source: REDIS_LOCKS,
    fix: "After an error, a timeout or a cancellation, also send the release: compare the value and delete the key.",
    commands: super::COMPARE_AND_DELETE,
    right: Some(("redlock", "lost-reply")),
    breaks: WAITS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    left_behind(case)
        .filter(|left| !left.elsewhere)
        .map(|left| finding(case, &left, "no release with its value followed"))
        .collect()
}

/// A key that an attempt created and never removed.
pub(super) struct LeftBehind<'c, 'a> {
    pub act: &'c Act<'a>,
    /// When the attempt ended, or its connection if that ended earlier; and until when the key stayed.
    over: u64,
    by_reset: bool,
    until: u64,
    /// True if the same attempt released on another node.
    pub elsewhere: bool,
}

/// The keys that attempts created and never removed, though their clients could reach the node again.
pub(super) fn left_behind<'c, 'a>(case: &'c Case<'a>) -> impl Iterator<Item = LeftBehind<'c, 'a>> {
    let created = case.acts.all.iter().filter(|act| act.is_done() && act.create().is_some());
    created.filter_map(|act| left(case, act))
}

fn left<'c, 'a>(case: &'c Case<'a>, act: &'c Act<'a>) -> Option<LeftBehind<'c, 'a>> {
    let operation = case.of(act)?;
    let ended = operation.completed.filter(|ended| gave_up(operation) && act.time < *ended)?;
    let Create { ttl, token, .. } = act.create()?;
    let end = act.time.saturating_add(ttl.after()?);
    // If the attempt outlived the key, the client had known long before that no reply would come.
    let reset = case.reset_at(act).filter(|_| ended > end);
    let over = reset.unwrap_or(ended);
    let own = || case.acts.after(act).filter(|other| other.client == act.client && other.time <= end);
    // The next attempt of this client may find the key by its value, and continue with it.
    let next = own().find(|other| other.operation != act.operation);
    let until = next.filter(|next| takes_over(case, next)).map_or(end, |next| next.time).min(seen_until(case, act));
    if until.saturating_sub(over) < case.ttl / 4 || !case.acts.was_watched(act.node, act.time, until) {
        return None;
    }
    let removes = |other: &Act| matches!(other.what, Change::Remove | Change::Other);
    // A script without the key's value as an argument can't compare with it.
    let may_compare = |other: &Act| {
        let by_script = matches!(other.by, Means::Script { .. });
        other.what == Change::Read && (!by_script || case.commands[other.sent].words.iter().any(|word| word == token))
    };
    let asks_to_remove = |other: &Act| other.operation == act.operation && may_compare(other);
    if own().take_while(|other| other.time < until).any(|other| removes(other) || asks_to_remove(other)) {
        return None;
    }
    // All its requests arrived meanwhile. Otherwise its release may be on its way, or lost. All earlier requests arrived too.
    // Otherwise this may be a late request of an earlier attempt.
    // A fault can hold a request for longer than a TTL, so the whole attempt counts.
    let began = operation.invoked.min(act.time).saturating_sub(case.ttl);
    if !case.requests_pass(act.client, act.node, began, until) {
        return None;
    }
    // A node that became a replica accepts no release.
    if case.history.promotions.iter().any(|seen| (act.time..=until).contains(&seen.time)) {
        return None;
    }
    // The client had the time to release.
    if case.ran_for(act.client, over, until) < case.ttl / 4 {
        return None;
    }
    let elsewhere = case
        .acts
        .of_operation(act.operation?)
        .any(|other| other.node != act.node && other.place > act.place && matches!(other.what, Change::Remove));
    let owned = case.acts.after(act).next().and_then(|next| next.owner());
    let is_seen = owned.is_some_and(|owned| owned.created == act.place && owned.end != KeyEnd::Unknown);
    is_seen.then_some(LeftBehind { act, over, by_reset: reset.is_some(), until, elsewhere })
}

/// When another client may have removed or overwritten the key that this act created; at the latest the end of the history.
pub(super) fn seen_until(case: &Case, act: &Act) -> u64 {
    let ends = |other: &&Act| {
        let may_end = !matches!(other.what, Change::Read | Change::Renew(_) | Change::Persist);
        other.client != act.client && other.done != Some(false) && may_end
    };
    case.acts.after(act).find(ends).map_or(case.history.last_time, |other| other.time)
}

/// True if the command of this act extended the key or created it again, and removed none.
pub(super) fn takes_over(case: &Case, act: &Act) -> bool {
    let same = || case.acts.after(act).take_while(|other| other.sent == act.sent).chain([act]);
    let took = |other: &Act| other.is_done() && matches!(other.what, Change::Create(_) | Change::Renew(_));
    same().any(took) && !same().any(|other| other.what == Change::Remove)
}

pub(super) fn finding(case: &Case, left: &LeftBehind, what: &str) -> Finding {
    let LeftBehind { act, over, by_reset, until, .. } = *left;
    let event = if by_reset { "lost its connection" } else { "ended its attempt" };
    let sentence = format!(
        "{} created the key{}. {} {event} at {}, and {what}. The key stayed for another {}.",
        case.did(act),
        on(case, act.node),
        act.client,
        moment(over),
        length(until.saturating_sub(over))
    );
    let met = case.acts.after(act).any(|other| {
        other.client != act.client && other.time > over && other.owner().is_some_and(|owner| owner.created == act.place)
    });
    let harm = if met { Harm::Kept } else { Harm::None };
    case.finding(act, &[act.place], &[act.operation], harm, sentence)
}
