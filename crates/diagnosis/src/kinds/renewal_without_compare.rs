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
            // Its client goes on, as if the lock were still its own.
            let holder = case.of(act).filter(|operation| case.holds(operation, act.time));
            let harm = match (holder, case.ended(&owner, act.time)) {
                (Some(holder), Harm::Ended(_)) if takes_most(case, act) => Harm::Misled(holder.index),
                _ => Harm::None,
            };
            case.finding(act, &[owner.created, act.place], &[act.operation, owner.operation], harm, sentence)
        })
        .collect()
}

/// True if the same renewal found other clients' keys on so many nodes that its own client had no majority left.
fn takes_most(case: &Case, act: &Act) -> bool {
    let Some(place) = act.operation else { return false };
    let renewals = || case.acts.of_operation(place).filter(|other| other.is_done() && other.what == act.what);
    let is_lost = |other: &&Act| other.owner().is_some_and(|owner| owner.client != act.client);
    let lost: BTreeSet<&str> = renewals().filter(is_lost).map(|other| other.node).collect();
    let created = case.acts.of_operation(place).filter(|other| other.is_done() && other.create().is_some());
    let nodes: BTreeSet<&str> = created.map(|other| other.node).collect();
    nodes.len() <= 1 || nodes.len().saturating_sub(lost.len()) * 2 <= case.listed(place)
}
