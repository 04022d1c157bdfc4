//! A release that removes the key whatever its value.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ001",
    name: "release-without-compare",
    title: "The release deletes the key without checking who holds it.",
    rule: "A lock may have expired by the time of its release, and another client may have it. So a release must delete the key \
    only if the key still has the value that its holder wrote.",
    source: REDIS_LOCKS,
    fix: "Release with one script that compares the value and deletes the key. Write a new random value with each acquisition.",
    commands: COMPARE_AND_DELETE,
    right: Some(("single", "late-release")),
    breaks: &[Claim::Updates, Claim::MutualExclusion, Claim::Amounts, Claim::Releases],
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let removes = case.on_others().filter(|(act, _)| act.what == Change::Remove);
    let blind = removes.filter(|(act, _)| match act.by {
        // The release of an attempt that gave up although a node granted it is as blind. Without a grant, it is no release.
        Means::Plain | Means::Transaction { watched: false } if case.of(act).is_some_and(gave_up) => {
            case.had_asked(act).is_none() && case.was_granted_by_a_node(act)
        }
        Means::Plain | Means::Transaction { watched: false } => case.asked_nothing(act),
        Means::Script { compared } => !compared,
        Means::Transaction { watched: true } => false,
    });
    let of_holders = blind.filter(|(act, _)| !case.was_refused(act));
    of_holders
        .map(|(act, owner)| {
            let sentence = format!(
                "{} removed {}'s key{}: {}its release does not check who holds the key.",
                case.did(act),
                owner.client,
                on(case, act.node),
                earlier(case, act)
            );
            let harm = case.ended(&owner, act.time);
            case.finding(act, &[owner.created, act.place], &[act.operation, owner.operation], harm, sentence)
        })
        .collect()
}

/// Names the release that had already removed the client's own key, if this is a second one.
fn earlier(case: &Case, act: &Act) -> String {
    let mut before = act.operation.into_iter().flat_map(|place| case.acts.of_operation(place));
    let first = before.find(|other| {
        let is_own = other.owner().is_some_and(|owner| owner.operation == act.operation);
        other.what == Change::Remove && other.is_done() && is_own && other.life == act.life && other.place < act.place
    });
    first.map_or_else(String::new, |first| {
        format!("{} had already released its own key {}, and ", act.client, at(first.time))
    })
}
