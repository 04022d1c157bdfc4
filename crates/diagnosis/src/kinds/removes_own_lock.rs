//! A library that deletes its holder's key while the holder still works.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ035",
    name: "removes-own-lock",
    title: "The library deletes the key while its holder still relies on the lock.",
    rule: "A renewal that fails on some nodes has not lost the lock: the keys live until their TTL is over. The holder needs that time to \
           stop.",
    source: REDIS_LOCKS,
    fix: "Tell the holder first, and leave the keys until the holder has stopped or their TTL is over.",
    commands: &[],
    right: Some(("redlock-watchdog", "reset-in-renewal")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let removes = case.acts.all.iter().filter(|act| act.is_done() && act.what == Change::Remove);
    removes.filter_map(|act| finding(case, act)).collect()
}

fn finding(case: &Case, act: &Act) -> Option<Finding> {
    let owner = act.owner().filter(|owner| owner.client == act.client && owner.operation == act.operation)?;
    let operation = case.of(act)?;
    let (start, end) = case.history.certain_hold(operation)?;
    let (start, end) = (u64::try_from(start).ok()?, u64::try_from(end).ok()?);
    // A late release of an earlier try removes a key that is not part of the lock.
    let is_of_lock = case.last_value(act.operation?, start) == Some(owner.token) && is_of_a_majority(case, act, owner.token);
    let is_late = act.time > start.saturating_add(EDGE) && act.time.saturating_add(EDGE) < end && is_of_lock;
    // Before its client received the lock, with no later creation of the key.
    let is_early = act.time <= start && is_of_lock && is_left_without(case, act.operation?, start);
    // A request without a value may be a late request of an earlier attempt.
    let is_of_it = matches!(act.by, Means::Script { compared: true })
        || case.requests_pass(act.client, act.node, operation.invoked.saturating_sub(case.ttl), act.time);
    if !(is_late || is_early) || !is_of_it {
        return None;
    }
    let when = if is_late {
        format!("while {} relied on the lock until {}", act.client, moment(end))
    } else {
        format!("before {} received the lock at {}", act.client, moment(start))
    };
    let sentence = format!(
        "{} removed its own key{} {when}.",
        case.did(act),
        on(case, act.node)
    );
    Some(case.finding(act, &[owner.created, act.place], &[act.operation], Harm::Ended(operation.index), sentence))
}

/// True if the client of an operation had already removed the keys of its last try when it received the lock. Then no majority
/// was left.
fn is_left_without(case: &Case, place: usize, granted: u64) -> bool {
    let acts = || case.acts.of_operation(place).filter(|act| act.time <= granted.saturating_add(EDGE));
    // A client that gave up its work at once releases the lock in the same millisecond.
    let release = case.history.operations[place].phase(Phase::Releasing).map_or(u64::MAX, PhaseStamp::time);
    let Some(token) = case.last_value(place, granted) else { return false };
    let mut there: BTreeMap<&str, bool> = BTreeMap::new();
    for act in acts() {
        match act.what {
            Change::Create(create) if act.done != Some(false) && create.token == token => {
                // A creation after a removal begins another try, also with the same value.
                there.retain(|_, there| *there);
                there.insert(act.node, true);
            }
            Change::Remove if act.is_done() && act.time.saturating_add(EDGE) < release => {
                there.entry(act.node).and_modify(|there| *there = false);
            }
            _ => {}
        }
    }
    // A try that only a minority granted was not a lock, whatever happened to its keys.
    let nodes = case.listed(place);
    let left = there.values().filter(|there| **there).count();
    there.len() * 2 > nodes && left * 2 <= nodes
}

/// True if most nodes accepted this value. A late request of an earlier try may bring an older value to a single node.
fn is_of_a_majority(case: &Case, act: &Act, token: &str) -> bool {
    let Some(place) = act.operation else { return false };
    let created = case.acts.of_operation(place).filter(|one| one.done != Some(false));
    let of_token = created.filter(|one| one.create().is_some_and(|create| create.token == token));
    of_token.map(|one| one.node).collect::<BTreeSet<_>>().len() * 2 > case.listed(place)
}
