//! A lock whose key receives its TTL in a second command.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ005",
    name: "ttl-in-second-command",
    title: "The key of the lock gets its TTL from a second command.",
    rule: "A client can die, and a connection can break, between two commands. Then the key has no TTL, and no client can acquire the lock again.",
    source: REDIS_SET,
    fix: "Set the TTL with the command that creates the key, or do both in one script.",
    commands: &["SET KEY TOKEN NX PX TTL"],
    right: Some(("single", "between-set-and-expire")),
    breaks: WAITS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let renews = case.acts.all.iter().filter(|act| act.is_done() && matches!(act.what, Change::Renew(_)));
    renews
        .filter(|act| act.by == Means::Plain)
        .filter_map(|act| {
            let KeyState::There(owned) = act.before else { return None };
            let created = case.acts.before(act).find(|other| other.place == owned.created)?;
            let create = created.create()?;
            let is_own = owned.client == act.client && owned.operation == act.operation && created.port == act.port;
            let is_first = owned.end == KeyEnd::Never && create.ttl == Expiry::Never;
            // A holder that sets its own key again creates none.
            let is_new = matches!(created.before, KeyState::Absent(..)) || create.only == Only::IfAbsent;
            // A release that lets the key expire is no part of the acquisition.
            let is_release = case.of(act).and_then(|of| of.phase(Phase::Releasing)).is_some_and(|at| at.time() <= act.time);
            if is_release || !is_own || !is_first || !is_new || created.by != Means::Plain {
                return None;
            }
            let sentence = format!(
                "{} created the key{} without a TTL; its {} set the TTL {} later.",
                case.did(created),
                on(case, act.node),
                case.named(act),
                length(act.time.saturating_sub(created.time))
            );
            Some(case.finding(created, &[created.place, act.place], &[act.operation], Harm::None, sentence))
        })
        .collect()
}
