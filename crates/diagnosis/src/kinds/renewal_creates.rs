//! A renewal that acquires the lock again after it was lost.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ011",
    name: "renewal-creates",
    title: "The renewal creates the key again after the lock was lost, or overwrites another client's key.",
    rule: "Between the loss and the renewal, other clients may have held the lock. A renewal that creates the key hides that \
        from its holder.",
    source: REDIS_LOCKS,
    fix: "Renew with one script that compares the value and extends the key. If the key is gone, tell the holder that the lock is lost.",
    commands: COMPARE_AND_EXTEND,
    right: Some(("redlock-watchdog", "long-work")),
    breaks: &[Claim::Updates, Claim::MutualExclusion, Claim::Amounts, Claim::Losses],
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let creates = case.acts.all.iter().filter(|act| act.is_done() && !act.by_watch());
    creates
        .filter_map(|act| {
            let Create { only, gets, token, ttl, .. } = act.create()?;
            let operation = case.of(act)?;
            // It has the lock, as far as it knows, so this is not an acquisition.
            if only == Only::IfThere || gets || !case.holds(operation, act.time) {
                return None;
            }
            let own = case.acts.of_operation(act.operation?).find(|other| {
                other.place < act.place
                    && other.node == act.node
                    && other.key == act.key
                    && other.is_done()
                    && other.create().is_some()
            })?;
            let first = own.create().filter(|create| create.token == token)?;
            // A late request of the acquisition looks the same.
            let is_same = case.commands[act.place].name() == case.commands[own.place].name() && act.by == own.by;
            let is_alike = is_same && (first.only, first.ttl == Expiry::Never) == (only, ttl == Expiry::Never);
            if is_alike && !is_of_a_holder(case, act, own) {
                return None;
            }
            let (what, places, of, harm) = match act.before {
                KeyState::There(owner)
                    if owner.client != act.client && !matches!(act.by, Means::Script { compared: true }) =>
                {
                    (
                        format!("overwrote {}'s key", owner.client),
                        vec![owner.created],
                        owner.operation,
                        case.ended(&owner, act.time),
                    )
                }
                KeyState::Absent(_, Some(Gone::Expired(end))) => (
                    format!("created the key again, which had expired at {}", moment(end)),
                    Vec::new(),
                    None,
                    Harm::Misled(operation.index),
                ),
                KeyState::Absent(since, Some(Gone::Removed(place))) => (
                    format!("created the key again, which had been removed at {}", moment(since)),
                    vec![place],
                    None,
                    Harm::Misled(operation.index),
                ),
                _ => return None,
            };
            let sentence = format!(
                "{}'s {} {}, meant to extend its lock, {what}{}.",
                act.client,
                case.named(act),
                at(act.time),
                on(case, act.node)
            );
            let places: Vec<usize> = places.into_iter().chain([own.place, act.place]).collect();
            Some(case.finding(act, &places, &[act.operation, of], harm, sentence))
        })
        .collect()
}

/// If there are fewer requests like the acquisition's, they may be late copies of it.
const AGAIN: usize = 2;

/// True if a request can't be a late one of the acquisition. The node had answered the acquisition, no fault held anything, and
/// the client repeated the same request while it had the lock.
fn is_of_a_holder(case: &Case, act: &Act, own: &Act) -> bool {
    let Some(operation) = case.of(act) else { return false };
    let Some(acquired) = operation.phase(Phase::Acquired).map(|stamp| stamp.time()) else { return false };
    let token = |act: &Act| act.create().map(|create| create.token.to_string());
    let is_later = |other: &&Act| {
        other.node == act.node && other.time >= acquired.saturating_add(case.ttl / 4) && token(other) == token(act)
    };
    let later = act.operation.map_or(0, |place| case.acts.of_operation(place).filter(is_later).count());
    act.time >= acquired.saturating_add(case.ttl / 4)
        && later >= AGAIN
        && own.time <= acquired
        && case.replies_pass(act.client, act.node, operation.invoked, act.time)
        && case.ran(act.node, operation.invoked, act.time)
}
