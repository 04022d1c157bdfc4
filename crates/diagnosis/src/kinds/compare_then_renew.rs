//! A renewal that compares in one command and extends in another.

use super::super::acts::{Change, Means};
use super::super::case::{Case, at, on};
use super::super::{Finding, Harm, Kind};
use super::{COMPARE_AND_EXTEND, REDIS_LOCKS};
use base::words::length;

pub static KIND: Kind = Kind {
    code: "RJ024",
    name: "compare-then-renew",
    title: "The renewal compares the key in one command and extends it in another.",
    rule: "Between two commands the lock can expire, and another client can acquire it. The server must compare and extend in one step.",
    source: REDIS_LOCKS,
    fix: "Compare and extend in one script.",
    commands: COMPARE_AND_EXTEND,
    right: Some(("redlock-watchdog", "long-work")),
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let renews = case.on_others().filter(|(act, _)| matches!(act.what, Change::Renew(_)));
    let apart = renews.filter(|(act, _)| matches!(act.by, Means::Plain | Means::Transaction { watched: false }));
    apart
        .filter_map(|(act, owner)| {
            let asked = case.had_compared(act)?;
            let was_own = asked.owner().is_none_or(|then| then.client == act.client);
            let sentence = format!(
                "{}'s {} {} extended {}'s key{}: {} had read the value {} before, in a command of its own ({}).",
                act.client,
                case.named(act),
                at(act.time),
                owner.client,
                on(case, act.node),
                act.client,
                length(act.time.saturating_sub(asked.time)),
                case.named(asked),
            );
            let holder = case.of(act).is_some_and(|operation| case.holds(operation, act.time));
            let harm = if holder { case.ended(&owner, act.time) } else { Harm::None };
            let places = [owner.created, asked.place, act.place];
            was_own.then(|| case.finding(act, &places, &[act.operation, owner.operation], harm, sentence))
        })
        .collect()
}
