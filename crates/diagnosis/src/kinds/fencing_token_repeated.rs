//! A fencing token not greater than an earlier token.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ030",
    name: "fencing-token-repeated",
    title: "A fencing token is not greater than the token of an earlier lock.",
    rule: "The resource refuses writes with a smaller token. A repeated token lets the earlier holder write, or shuts the later \
    holder out.",
    source: KLEPPMANN,
    fix: "Count the token in the script that creates the key. Keep the counter where it survives restarts and failovers: on disk \
          with appendfsync always, or in a store with consensus (etcd's revision, ZooKeeper's zxid). Also let the resource \
          refuse an equal token from another client.",
    commands: &[],
    right: Some(("redlock-tokens", "pause")),
    breaks: &[Claim::Updates, Claim::Amounts, Claim::Tokens],
    inherent: false,
    check,
};

/// A lock with a token.
struct Lock<'c> {
    operation: &'c Operation,
    given: u64,
    token: u64,
    /// Its place among the locks lies between these times.
    from: u64,
    until: u64,
}

fn check(case: &Case) -> Vec<Finding> {
    let mut by_key: BTreeMap<&str, Vec<Lock>> = BTreeMap::new();
    for (place, operation) in case.history.operations.iter().enumerate() {
        let Some(acquired) = operation.phase(Phase::Acquired) else { continue };
        if let Some(token) = acquired.token {
            let given = acquired.time();
            // Keys on one node have an order, whatever delayed the replies.
            let (from, until) = created(case, place, given).map_or((operation.invoked, given), |time| (time, time));
            by_key.entry(&operation.key).or_default().push(Lock { operation, given, token, from, until });
        }
    }
    let mut found = Vec::new();
    for (key, mut locks) in by_key {
        locks.sort_by_key(|lock| lock.until);
        // For each lock, the index of the greatest token so far.
        let mut greatest: Vec<usize> = Vec::new();
        for (place, lock) in locks.iter().enumerate() {
            let best = greatest.last().copied().filter(|best| locks[*best].token >= lock.token);
            greatest.push(best.unwrap_or(place));
        }
        for later in &locks {
            // The locks that certainly began before this one.
            let before = locks.partition_point(|lock| lock.until < later.from);
            let Some(best) = before.checked_sub(1).map(|last| greatest[last]) else { continue };
            let earlier = &locks[best];
            if earlier.token < later.token {
                continue;
            }
            let name = |lock: &Lock| case.run.client_name(lock.operation.process);
            let (client, other, token) = (name(later), name(earlier), later.token);
            let (earlier_at, at) = (moment(earlier.given), moment(later.given));
            let sentence = match client == other {
                _ if earlier.token > token && earlier.given > later.given => {
                    format!(
                        "{client} got token {token} at {at}, but {other}, whose key was there before {client}'s, got token {} at {earlier_at}.",
                        earlier.token
                    )
                }
                _ if earlier.token > token => {
                    format!("{client} got token {token} at {at}, after {other} had got token {} at {earlier_at}.", earlier.token)
                }
                true => format!("{client} got token {token} twice: at {earlier_at} and at {at}."),
                false => format!("{other} and {client} both got token {token}: {other} at {earlier_at}, {client} at {at}."),
            };
            found.push(Finding {
                time: later.given.max(earlier.given),
                key: key.to_string(),
                sentence,
                operations: vec![earlier.operation.index, later.operation.index],
                commands: Vec::new(),
                harm: Harm::Outwritten(later.operation.index),
                fault: None,
            });
        }
    }
    found
}

/// When the key of a lock on a single node was created; None if that is not certain.
fn created(case: &Case, place: usize, given: u64) -> Option<u64> {
    let token = case.last_value(place, given).filter(|_| case.run.nodes == 1 && case.run.threads == 1)?;
    let mut created = case.acts.of_operation(place).filter(|act| act.create().is_some_and(|create| create.token == token));
    let only = created.next().filter(|act| act.is_done() && act.time <= given)?;
    created.next().is_none().then_some(only.time)
}
