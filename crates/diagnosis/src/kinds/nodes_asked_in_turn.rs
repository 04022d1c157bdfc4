//! An acquisition that waits for one node before it asks the next.

use super::*;
use super::quorum_too_small::asks_a_majority;

pub static KIND: Kind = Kind {
    code: "RJ028",
    name: "nodes-asked-in-turn",
    title: "The acquisition asks one node at a time, and waits for a node that does not answer.",
    rule: "The TTL of the first key runs while the client waits for the other nodes. So the client should ask all nodes at the \
        same time, with a timeout that is short compared with the TTL.",
    source: REDIS_LOCKS,
    fix: "Send the requests to all nodes at once. Wait at most a few percent of the TTL for each reply.",
    commands: &[],
    right: Some(("redlock", "one-node-down")),
    breaks: WAITS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    // The first try of each operation: until it sends a second request to a node, or releases.
    let mut by_operation: BTreeMap<usize, BTreeMap<&str, &Act>> = BTreeMap::new();
    let mut over: BTreeSet<usize> = BTreeSet::new();
    for act in &case.acts.all {
        let Some(place) = act.operation.filter(|place| !over.contains(place)) else { continue };
        let tried = by_operation.entry(place).or_default();
        match act.what {
            Change::Create(_) if !tried.contains_key(act.node) => _ = tried.insert(act.node, act),
            Change::Read if act.sent == act.place || !tried.contains_key(act.node) => {}
            _ => _ = over.insert(place),
        }
    }
    if !asks_a_majority(case, by_operation.iter().map(|(place, nodes)| (*place, nodes.len()))) {
        return Vec::new();
    }
    by_operation.into_iter().filter_map(|(place, nodes)| finding(case, place, nodes.into_values().collect())).collect()
}

fn finding(case: &Case, place: usize, mut asked: Vec<&Act>) -> Option<Finding> {
    if asked.len() * 2 <= case.listed(place) || asked.len() < 2 {
        return None;
    }
    asked.sort_by_key(|act| act.time);
    let (first, last) = (asked.first()?, asked.last()?);
    let took = last.time.saturating_sub(first.time);
    // Each request left when the one before was over: nothing delayed it on its way.
    let nothing_late = asked.iter().all(|act| case.requests_pass(act.client, act.node, first.time, act.time));
    if took < case.ttl / 2 || !nothing_late || !case.ran(first.client, first.time, last.time) {
        return None;
    }
    let sentence = format!(
        "{}'s {} reached {} {}, and the last of its requests reached {} {} later. The TTL is {}.",
        first.client,
        case.named(first),
        first.node,
        at(first.time),
        last.node,
        length(took),
        length(case.ttl)
    );
    Some(case.finding(first, &[first.place, last.place], &[first.operation], Harm::None, sentence))
}
