//! A renewal that extends the key whatever its value.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ010",
    name: "renewal-without-compare",
    title: "The renewal extends the key without checking who holds it.",
    rule: "A lock may have expired before its renewal, and another client may have it. So a renewal must extend the key only if \
    the key still has the value that its holder wrote.",
    source: REDIS_LOCKS,
    fix: "Renew with one script that compares the value and extends the key. If the value differs, tell the holder that the lock is lost.",
    commands: COMPARE_AND_EXTEND,
    right: Some(("redlock-watchdog", "long-work")),
    breaks: &[Claim::Updates, Claim::MutualExclusion, Claim::Amounts, Claim::Liveness, Claim::Timeouts, Claim::Losses],
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let extends = |what: Change| {
        matches!(what, Change::Renew(_) | Change::Create(Create { only: Only::IfThere, if_value: None, .. }))
    };
    let renews = case.on_others().filter(|(act, _)| extends(act.what));
    renews
        .filter(|(act, _)| match act.by {
            Means::Plain | Means::Transaction { watched: false } => case.compared_nothing(act),
            Means::Script { compared } => !compared,
            Means::Transaction { watched: true } => false,
        })
        .map(|(act, owner)| {
            let sentence = format!(
                "{} extended {}'s key{}: its renewal does not check who holds the key.",
                case.did(act),
                owner.client,
                on(case, act.node)
            );
            let holder = case.of(act).is_some_and(|operation| case.holds(operation, act.time));
            let harm = if holder { case.ended(&owner, act.time) } else { Harm::None };
            case.finding(act, &[owner.created, act.place], &[act.operation, owner.operation], harm, sentence)
        })
        .collect()
}
