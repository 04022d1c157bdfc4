//! An attempt that gives up at the first node that does not answer, although a majority is up.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ042",
    name: "stops-at-dead-node",
    title: "The acquisition fails at a node that is down, and does not ask the others.",
    rule: "A lock over several nodes must work as long as a majority of them is up. A node that does not answer is one missing \
    vote.",
    source: REDIS_LOCKS,
    fix: "Catch the error of each node, count it as a missing vote, and ask the next node.",
    commands: &[],
    right: Some(("redlock", "one-node-down")),
    breaks: WAITS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    if case.run.nodes < 3 || case.run.threads > 1 || !is_over_all_nodes(case) {
        return Vec::new();
    }
    let attempts = case.history.operations.iter().filter(|one| one.process != Process::Controller);
    attempts.filter_map(|attempt| finding(case, attempt)).collect()
}

/// True if an operation of this run had keys on a majority of the nodes: then they belong to the lock, and are not replicas.
fn is_over_all_nodes(case: &Case) -> bool {
    let mut nodes: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for act in case.acts.all.iter().filter(|act| act.is_done() && act.create().is_some()) {
        if let Some(operation) = act.operation {
            nodes.entry(operation).or_default().insert(act.node);
        }
    }
    nodes.iter().any(|(place, nodes)| nodes.len() * 2 > case.listed(*place))
}

fn finding(case: &Case, attempt: &Operation) -> Option<Finding> {
    let over = attempt.completed.filter(|_| gave_up(attempt))?;
    let asking = attempt.phase(Phase::Acquiring)?.time();
    // A long attempt may have timed out, and a cancelled attempt did as its caller asked.
    if over.saturating_sub(asking) > case.ttl / 2 || attempt.error() == Some("cancelled") {
        return None;
    }
    let client = case.run.client_name(attempt.process);
    let is_down = |window: &&FaultWindow| {
        matches!(window.kind.does.process, OnProcess::Stops | OnProcess::Ends)
            && window.injected.is_some_and(|(time, observed)| observed && time < asking)
            && window.heal.is_none_or(|heal| heal > over)
    };
    let down: Vec<&str> = case.history.faults.iter().filter(is_down).flat_map(FaultWindow::nodes).collect();
    let all = case.list_of(attempt);
    let up: Vec<&String> = all.iter().filter(|node| !down.contains(&node.as_str())).collect();
    if down.is_empty() || up.len() * 2 <= all.len() {
        return None;
    }
    let (from, to) = (attempt.invoked.saturating_sub(EDGE), over.saturating_add(EDGE));
    // Nothing delayed the client or its requests.
    let free = |node: &&String| case.replies_pass(&client, node, from, to) && case.acts.was_watched(node, from, to);
    if !up.iter().all(free) || !case.ran(&client, from, to) {
        return None;
    }
    let asked = |node: &&&String| {
        case.commands.iter().any(|command| {
            command.from.as_ref() == Some(&client) && command.node == ***node && (from..=to).contains(&command.time)
        })
    };
    let (asked, spared): (Vec<&&String>, Vec<&&String>) = up.iter().partition(asked);
    let place = case.history.place_of(attempt.index)?;
    let created = |node: &&&&String| {
        case.acts.of_operation(place).any(|act| act.node == ***node && act.is_done() && act.create().is_some())
    };
    // It can't have found a majority held by others, and the remaining nodes could still have granted it a majority.
    let possible = spared.len() + asked.iter().filter(created).count();
    if spared.is_empty() || asked.len() * 2 > all.len() || possible * 2 <= all.len() {
        return None;
    }
    let names = |nodes: &[&&String]| list(&nodes.iter().map(|node| node.to_string()).collect::<Vec<String>>());
    let down: Vec<String> = down.iter().map(|node| node.to_string()).collect();
    let sentence = format!(
        "{client}'s attempt ended without the lock at {}, while {} was down; it had sent nothing to {}, which {} up.",
        moment(over),
        list(&down),
        names(&spared),
        if spared.len() == 1 { "was" } else { "were" }
    );
    Some(Finding {
        time: over,
        key: attempt.key.to_string(),
        sentence,
        operations: vec![attempt.index],
        commands: Vec::new(),
        harm: Harm::Waited,
        fault: None,
    })
}
