//! A client that never had the lock, and deletes the key when it gives up.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ003",
    name: "give-up-deletes",
    title: "A client that was refused deletes the holder's key when it gives up.",
    rule: "Only the client that created a key may remove it.",
    source: REDIS_LOCKS,
    fix: "Release only locks that were acquired, and compare the value at the server even then.",
    commands: COMPARE_AND_DELETE,
    right: Some(("single", "given-up-while-waiting")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let removes = case.on_others().filter(|(act, _)| act.what == Change::Remove);
    let unchecked = removes.filter(|(act, _)| match act.by {
        Means::Script { compared } => !compared,
        Means::Transaction { watched } => !watched,
        Means::Plain => true,
    });
    unchecked
        .filter(|(act, _)| case.was_refused(act))
        .map(|(act, owner)| {
            let sentence = format!(
                "{} removed {}'s key{}, though this attempt of {} had not acquired the lock.",
                case.did(act),
                owner.client,
                on(case, act.node),
                act.client
            );
            let harm = case.ended(&owner, act.time);
            case.finding(act, &[owner.created, act.place], &[act.operation, owner.operation], harm, sentence)
        })
        .collect()
}
