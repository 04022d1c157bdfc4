//! An extension that is reported after the key has expired.

use super::*;
use super::expired_grant::TO_RETURN;

pub static KIND: Kind = Kind {
    code: "RJ038",
    name: "expired-extension",
    title: "The extension reports success after the extended key has expired.",
    rule: "The TTL counts from the moment at which the server extends the key. If the reply comes after that, the lock is gone.",
    source: REDIS_LOCKS,
    fix: "If more than the TTL has passed on a monotonic clock at the reply, report that the lock is lost. Read it before the request.",
    commands: &[],
    right: Some(("redlock-extend", "late-extension")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    for (place, operation) in case.history.operations.iter().enumerate() {
        let Some(acquired) = operation.phase(Phase::Acquired) else { continue };
        let mut since = acquired.time();
        for said in operation.phases.iter().filter(|stamp| stamp.phase == Phase::Extended) {
            if let Some(stamped) = said.stamped.and_then(|time| u64::try_from(time).ok()) {
                found.extend(finding(case, place, since, stamped));
            }
            since = said.time();
        }
    }
    found
}

/// The extensions that were sent after `since`, if the keys of a majority had expired before the library reported the extension.
fn finding(case: &Case, place: usize, since: u64, stamped: u64) -> Option<Finding> {
    let operation = case.operation(Some(place))?;
    let mut last: BTreeMap<&str, &Act> = BTreeMap::new();
    let acts = || case.acts.of_operation(place).filter(|act| act.time <= stamped);
    for act in acts().filter(|act| act.is_done() && extends(act)) {
        last.insert(act.node, act);
    }
    // The keys that were extended and had expired at the answer, with no other act in between.
    let mut ended: Vec<(u64, &Act)> = Vec::new();
    for act in last.values().filter(|act| act.time > since) {
        let Change::Renew(Some(ttl)) = act.what else { continue };
        let end = act.time.saturating_add(ttl);
        let mut later = case.acts.after(act).take_while(|other| other.time <= stamped);
        let again =
            later.any(|other| other.done != Some(false) && other.client == act.client && other.what != Change::Read);
        if end < stamped && !again && case.acts.was_watched(act.node, act.time, stamped) {
            ended.push((end, act));
        }
    }
    ended.sort_by_key(|(end, _)| *end);
    // This many keys may expire, and a majority is left.
    let nodes = case.listed(place).max(1);
    let &(end, act) = ended.get(nodes - nodes / 2 - 1)?;
    if case.ran_for(act.client, end, stamped) < TO_RETURN {
        return None;
    }
    let (keys, were) = if nodes > 1 { ("keys of a majority", "were") } else { ("key", "was") };
    let sentence = format!(
        "{}'s library reported at {} that the lock was extended, {} after the {keys} had expired: the reply came {} after the \
         {} {were} extended.",
        act.client,
        moment(stamped),
        length(stamped.saturating_sub(end)),
        length(stamped.saturating_sub(act.time)),
        if nodes > 1 { "keys" } else { "key" }
    );
    let created = ended.iter().filter_map(|(_, act)| act.owner()).map(|owner| owner.created);
    let places: Vec<usize> = created.chain(ended.iter().map(|(_, act)| act.place)).collect();
    Some(case.finding(act, &places, &[act.operation], Harm::Misled(operation.index), sentence))
}

/// True if an act extends its client's own key.
fn extends(act: &Act) -> bool {
    let is_own = act.owner().is_some_and(|owner| owner.client == act.client && owner.operation == act.operation);
    is_own && matches!(act.what, Change::Renew(Some(_)))
}
