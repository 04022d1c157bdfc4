//! An acquisition that sets the key even if it exists.

use super::*;
use super::check_then_set::{asked_apart, overwrites, replaced};

pub static KIND: Kind = Kind {
    code: "RJ013",
    name: "acquire-overwrites",
    title: "The acquisition sets the key although another client's key is there.",
    rule: "An acquisition must create the key only if it is absent.",
    source: REDIS_SET,
    fix: "Create the key only if it is absent, with one command.",
    commands: &["SET KEY TOKEN NX PX TTL"],
    right: Some(("single", "none")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let unasked =
        overwrites(case).filter(|(act, owner)| asked_apart(case, act).is_none_or(|asked| asked.place > owner.created));
    unasked
        .map(|(act, owner)| {
            let sentence = format!(
                "{} {}{}, which was there since {}.",
                case.did(act),
                replaced(act, &owner),
                on(case, act.node),
                base::words::moment(owner.since)
            );
            case.finding(
                act,
                &[owner.created, act.place],
                &[act.operation, owner.operation],
                case.ended(&owner, act.time),
                sentence,
            )
        })
        .collect()
}
