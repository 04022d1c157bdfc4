//! Two clients with a majority each, of lists of nodes that differ.

use super::quorum_too_small::{Grant, grants};
use super::*;

pub static KIND: Kind = Kind {
    code: "RJ050",
    name: "lists-of-nodes-differ",
    title: "Two clients count their majorities over different lists of nodes.",
    rule: "Any two majorities of one list share a node. A majority of another list need not share any node with them, so two clients \
        can have a majority each.",
    source: ("D. Ongaro and J. Ousterhout, In Search of an Understandable Consensus Algorithm", "https://raft.github.io/raft.pdf"),
    fix: "Add or remove one node at a time, and wait until every client has the new list. Or stop all clients before the first one \
        starts with the new list.",
    commands: &[],
    right: Some(("redlock", "three-become-four")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    if case.history.clients.iter().all(|(_, event)| event.nodes.is_empty()) {
        return Vec::new();
    }
    let grants = grants(case);
    let pairs = grants.iter().flat_map(|first| grants.iter().map(move |second| (first, second)));
    pairs.filter_map(|(first, second)| finding(case, first, second)).collect()
}

/// The finding, if the first client certainly held its lock when the second one acquired it, on none of the first one's nodes.
fn finding(case: &Case, first: &Grant, second: &Grant) -> Option<Finding> {
    let (one, other) = (case.of(first.first)?, case.of(second.first)?);
    let is_later = (first.acquired, one.index) < (second.acquired, other.index);
    if !is_later || one.key != other.key || first.first.client == second.first.client || !case.holds(one, second.acquired) {
        return None;
    }
    let lists = [one, other].map(|operation| case.list_of(operation).into_iter().collect::<BTreeSet<String>>());
    let held: BTreeSet<&str> =
        first.granted.iter().filter(|act| is_there(case, act, second.acquired)).map(|act| act.node).collect();
    let taken: BTreeSet<&str> = second.granted.iter().map(|act| act.node).collect();
    let is_majority = |nodes: usize, of: &BTreeSet<String>| nodes * 2 > of.len();
    if lists[0] == lists[1]
        || !held.is_disjoint(&taken)
        || !is_majority(held.len(), &lists[0])
        || !is_majority(second.alive.min(taken.len()), &lists[1])
    {
        return None;
    }
    let on = |nodes: &BTreeSet<&str>, all: &BTreeSet<String>| {
        let named = list(&nodes.iter().map(ToString::to_string).collect::<Vec<_>>());
        match all.len() {
            1 => format!("{named}, the only node on its list"),
            all => format!("{named}, {} of the {all} nodes on its list", nodes.len()),
        }
    };
    let sentence = format!(
        "{} held the lock on {}. At {} {} acquired the lock on {}.",
        first.first.client,
        on(&held, &lists[0]),
        moment(second.acquired),
        second.first.client,
        on(&taken, &lists[1]),
    );
    let acts = first.granted.iter().filter(|act| held.contains(act.node)).chain(&second.granted);
    let places: Vec<usize> = acts.map(|act| act.place).collect();
    let operations = [first.first.operation, second.first.operation];
    Some(case.finding(second.first, &places, &operations, Harm::Ended(one.index), sentence))
}

/// True if a key that this act created was certainly there at a later time.
fn is_there(case: &Case, created: &Act, time: u64) -> bool {
    let mut end = match created.create().map(|create| KeyEnd::of(created.time, create.ttl)) {
        Some(KeyEnd::At(end)) => end,
        Some(KeyEnd::Never) => u64::MAX,
        Some(KeyEnd::Unknown) | None => return false,
    };
    for act in case.acts.after(created).take_while(|act| act.time <= time.saturating_add(EDGE)) {
        match act.what {
            Change::Read => {}
            _ if act.done == Some(false) => {}
            Change::Renew(Some(ttl)) if act.is_done() => end = act.time.saturating_add(ttl),
            _ => return false,
        }
    }
    let error = case.history.clock.map_or(0, |clock| clock.error_ns);
    end > time.saturating_add(EDGE + error)
}
