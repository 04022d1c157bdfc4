//! A release that finds another client's key, and reports success.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ029",
    name: "release-claims-success",
    title: "The release finds another client's key, but reports success.",
    rule: "A release that could not release its lock is the last chance to learn that the work was not protected.",
    source: REDIS_LOCKS,
    fix: "Return the script's answer: 1 if it deleted the key, 0 if the key was gone or belonged to another client.",
    commands: super::COMPARE_AND_DELETE,
    right: Some(("single", "late-release")),
    breaks: &[Claim::Releases],
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    if !case.run.claims.contains(&Claim::Releases) {
        return Vec::new();
    }
    let operations = case.history.operations.iter().enumerate();
    operations.filter_map(|(place, operation)| finding(case, place, operation)).collect()
}

fn finding(case: &Case, place: usize, operation: &Operation) -> Option<Finding> {
    let sent = operation.phase(Phase::Releasing)?.time();
    let over = operation.phase(Phase::Released)?.time();
    if operation.phase(Phase::Lost).is_some() {
        return None;
    }
    let acts: Vec<&Act> = case.acts.of_operation(place).collect();
    let created: BTreeSet<&str> =
        acts.iter().filter(|act| act.is_done() && act.create().is_some()).map(|act| act.node).collect();
    let in_release = |act: &&&Act| act.time >= sent && act.time <= over;
    let ended = acts.iter().any(|act| act.what == Change::Remove && act.done != Some(false) && act.time >= sent);
    let mut of_others = acts.iter().filter(in_release).filter(|act| {
        matches!(act.what, Change::Read | Change::Remove) && act.owner().is_some_and(|owner| owner.client != act.client)
    });
    let nodes: BTreeSet<&str> = of_others.clone().map(|act| act.node).filter(|node| created.contains(node)).collect();
    let act = of_others.next()?;
    if ended || nodes.is_empty() || nodes.len() < created.len() {
        return None;
    }
    let owner = act.owner()?;
    let sentence = format!(
        "{}'s release {} found {}'s key{}, and told {} at {} that the lock was released.",
        act.client,
        at(act.time),
        owner.client,
        on(case, act.node),
        act.client,
        moment(over)
    );
    let places = [owner.created, act.place];
    Some(case.finding(act, &places, &[act.operation, owner.operation], Harm::Misled(operation.index), sentence))
}
