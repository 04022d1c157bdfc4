//! A renewal that leaves the key less time than it had before.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ049",
    name: "renewal-shortens",
    title: "The renewal shortens the TTL of the key, and the lock expires.",
    rule: "PEXPIRE replaces the TTL of a key. A renewal with a short TTL ends the lock while its holder still relies on it.",
    source: ("Redis, PEXPIRE", "https://redis.io/docs/latest/commands/pexpire/"),
    fix: "Renew with the full TTL, in the unit that the command expects.",
    commands: super::COMPARE_AND_EXTEND,
    right: Some(("redlock-watchdog", "long-work")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let renews = case.acts.all.iter().filter(|act| act.is_done());
    renews.filter_map(|act| finding(case, act)).collect()
}

fn finding(case: &Case, act: &Act) -> Option<Finding> {
    let Change::Renew(Some(ttl)) = act.what else { return None };
    let owner = act.owner().filter(|owner| owner.client == act.client && owner.operation == act.operation)?;
    let (end, before) = (act.time.saturating_add(ttl), end_of(&owner)?);
    let operation = case.of(act)?;
    // The next act, which found the key gone, with no other renewal in between.
    let next = case.acts.after(act).find(|other| other.time > end.saturating_add(EDGE))?;
    let is_gone = next.before == KeyState::Absent(end, Some(Gone::Expired(end)));
    let is_shorter = end.saturating_add(case.ttl / 10) < before;
    if !is_shorter || !is_gone || !case.holds(operation, act.time) || !case.holds(operation, end.saturating_add(EDGE)) {
        return None;
    }
    let sentence = format!(
        "{}, a renewal, left the key{} {}: the key would have lived until {}, but expired at {} while {} still relied on it.",
        case.did(act),
        on(case, act.node),
        length(ttl),
        moment(before),
        moment(end),
        act.client
    );
    let harm = Harm::Ended(operation.index);
    Some(case.finding(act, &[owner.created, act.place], &[act.operation, next.operation], harm, sentence))
}
