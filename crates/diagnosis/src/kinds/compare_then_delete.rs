//! A release that compares in one command and deletes in another.

use super::super::acts::{Change, Means};
use super::super::case::{Case, at, gave_up, on};
use super::super::{Finding, Kind};
use super::{COMPARE_AND_DELETE, REDIS_LOCKS};
use base::words::length;

pub static KIND: Kind = Kind {
    code: "RJ002",
    name: "compare-then-delete",
    title: "The release compares the key in one command and deletes it in another.",
    rule: "Between two commands the lock can expire, and another client can acquire it. The comparison and the deletion have to be one \
           step at the server.",
    source: REDIS_LOCKS,
    fix: "Compare and delete in one script, or in a transaction that watches the key.",
    commands: COMPARE_AND_DELETE,
    right: Some(("single", "between-check-and-delete")),
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let removes = case.on_others().filter(|(act, _)| act.what == Change::Remove);
    let apart = removes.filter(|(act, _)| matches!(act.by, Means::Plain | Means::Transaction { watched: false }));
    apart
        .filter(|(act, _)| !case.of(act).is_some_and(gave_up))
        .filter_map(|(act, owner)| {
            let asked = case.had_compared(act)?;
            // Another client's key that was there when it asked was no reason to delete.
            let was_own = asked.owner().is_none_or(|then| then.client == act.client);
            let sentence = format!(
                "{}'s {} {} removed {}'s key{}: it had read the value {} before, in a command of its own ({}).",
                act.client,
                case.named(act),
                at(act.time),
                owner.client,
                on(case, act.node),
                length(act.time.saturating_sub(asked.time)),
                case.named(asked),
            );
            let harm = case.ended(&owner, act.time);
            let places = [owner.created, asked.place, act.place];
            was_own.then(|| case.finding(act, &places, &[act.operation, owner.operation], harm, sentence))
        })
        .collect()
}
