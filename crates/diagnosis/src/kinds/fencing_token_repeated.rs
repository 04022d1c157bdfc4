//! A fencing token not greater than an earlier token.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ030",
    name: "fencing-token-repeated",
    title: "A fencing token is not greater than the token of an earlier lock.",
    rule: "The resource refuses writes with a smaller token. A repeated token lets the earlier holder write, or shuts the later \
    holder out.",
    source: KLEPPMANN,
    fix: "Keep the token counter where it survives restarts and failovers: on disk with appendfsync always, or in a store with consensus \
          (etcd's revision, ZooKeeper's zxid). Also let the resource refuse an equal token from another client.",
    commands: &[],
    right: Some(("redlock-tokens", "pause")),
    breaks: &[Claim::Updates, Claim::Amounts, Claim::Tokens],
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let mut by_key: BTreeMap<&str, Vec<(&Operation, u64, u64)>> = BTreeMap::new();
    for operation in &case.history.operations {
        let Some(acquired) = operation.phase(Phase::Acquired) else { continue };
        if let Some(token) = acquired.token {
            by_key.entry(&operation.key).or_default().push((operation, acquired.time(), token));
        }
    }
    let mut found = Vec::new();
    for (key, mut locks) in by_key {
        locks.sort_by_key(|(_, given, _)| *given);
        // For each lock, the index of the greatest token so far.
        let mut greatest: Vec<usize> = Vec::new();
        for (place, (_, _, token)) in locks.iter().enumerate() {
            let best = greatest.last().copied().filter(|best| locks[*best].2 >= *token);
            greatest.push(best.unwrap_or(place));
        }
        for (later, time, token) in &locks {
            // The locks granted before this one was requested.
            let before = locks.partition_point(|(_, given, _)| *given < later.invoked);
            let Some(best) = before.checked_sub(1).map(|last| greatest[last]) else { continue };
            let (earlier, given, greatest) = &locks[best];
            if greatest < token {
                continue;
            }
            let (client, other) = (case.run.client_name(later.process), case.run.client_name(earlier.process));
            let (earlier_at, at) = (moment(*given), moment(*time));
            let sentence = match client == other {
                _ if greatest > token => {
                    format!("{client} got token {token} at {at}, after {other} had got token {greatest} at {earlier_at}.")
                }
                true => format!("{client} got token {token} twice: at {earlier_at} and at {at}."),
                false => format!("{other} and {client} both got token {token}: {other} at {earlier_at}, {client} at {at}."),
            };
            found.push(Finding {
                time: *time,
                key: key.to_string(),
                sentence,
                operations: vec![earlier.index, later.index],
                commands: Vec::new(),
                harm: Harm::Outwritten(later.index),
                fault: None,
            });
        }
    }
    found
}
