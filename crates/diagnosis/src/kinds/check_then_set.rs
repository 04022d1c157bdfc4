//! An acquisition that asks in one command and sets in another.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ012",
    name: "check-then-set",
    title: "The acquisition asks whether the key is there in one command, and sets it in another.",
    rule: "Between two commands another client can set the key. Then both have the lock.",
    source: REDIS_SET,
    fix: "Create the key only if it is absent, with one command.",
    commands: &["SET KEY TOKEN NX PX TTL"],
    right: Some(("single", "none")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

/// The acquisitions that replaced another client's key while that client counted on it, and its TTL was not over.
pub(super) fn overwrites<'c, 'a>(case: &'c Case<'a>) -> impl Iterator<Item = (&'c Act<'a>, Owned<'a>)> {
    case.on_others().filter(|(act, owner)| {
        let sets = matches!(act.what, Change::Create(Create { only: Only::Always, gets: false, .. }));
        // Its first command that creates the key is the acquisition, though its client may report the lock at nearly the same time.
        let earlier = |other: &Act| other.place < act.place && other.life == act.life && other.create().is_some();
        let is_first = act.operation.is_some_and(|place| !case.acts.of_operation(place).any(earlier));
        let acquires = case.of(act).is_some_and(|operation| is_first || !case.had_lock(operation, act.time));
        sets && acquires
            && !act.by_watch()
            && act.by != (Means::Script { compared: true })
            && act.time.saturating_sub(owner.since) < case.ttl
            && case.cost(owner, act.time) != Harm::None
    })
}

fn check(case: &Case) -> Vec<Finding> {
    overwrites(case)
        .filter_map(|(act, owner)| {
            let asked = case.had_asked(act).filter(|asked| asked.place < owner.created)?;
            let sentence = format!(
                "{} overwrote {}'s key{}: it had asked for the key {} before, in a command of its own ({}).",
                case.did(act),
                owner.client,
                on(case, act.node),
                length(act.time.saturating_sub(asked.time)),
                case.named(asked)
            );
            let places = [asked.place, owner.created, act.place];
            Some(case.finding(act, &places, &[act.operation, owner.operation], case.cost(&owner, act.time), sentence))
        })
        .collect()
}
