//! A retry that finds the key of its own first try, and mistakes it for another client's.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ027",
    name: "retry-meets-own-lock",
    title: "A retry finds the key of its own earlier request, and mistakes it for another client's key.",
    rule: "A request whose reply is lost may have created the key. If that key then refuses the retry, the client waits for \
        itself.",
    source: REDIS_LOCKS,
    fix: "Send the same value with each retry, and compare when the key is there: the same value means that the lock is acquired. Or \
          release before each retry.",
    commands: &["SET KEY TOKEN NX PX TTL", "GET KEY"],
    right: Some(("single", "retry-after-applied")),
    breaks: WAITS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    // If a lock is on several nodes, a retry without a majority is another diagnosis.
    if case.run.nodes > 1 {
        return Vec::new();
    }
    let creates = |act: &&Act| matches!(act.what, Change::Create(create) if create.only == Only::IfAbsent);
    let mut found: Vec<Finding> = Vec::new();
    for again in case.acts.all.iter().filter(creates).filter(|act| act.done == Some(false)) {
        let (Some(operation), Some(owner)) = (case.of(again), again.owner()) else { continue };
        if owner.operation != again.operation || found.iter().any(|other| other.operations == [operation.index]) {
            continue;
        }
        let own = case.acts.before(again).find(|act| act.place == owner.created);
        let Some(own) = own.filter(|own| own.sent != again.sent && own.time.saturating_add(RESENT) < again.time) else {
            continue;
        };
        // Delayed requests may all arrive at once, after the release was lost.
        if !case.requests_pass(again.client, again.node, operation.invoked.saturating_sub(case.ttl), again.time) {
            continue;
        }
        // It received the lock after all. So by then it knew that the key was its own, unless the key had expired.
        let acquired = operation.phase(model::history::Phase::Acquired).map(|stamp| stamp.time());
        let is_late = acquired.is_some_and(|time| super::super::case::end_of(&owner).is_some_and(|end| time >= end));
        if !gave_up(operation) && !is_late {
            continue;
        }
        let then = match acquired {
            Some(time) => format!("{} acquired the lock only at {}", again.client, moment(time)),
            None => format!("{} gave up", again.client),
        };
        let sentence = format!(
            "{}'s {} {} created the key{}; that key refused its {} at {}, and {then}.",
            again.client,
            case.named(own),
            at(own.time),
            on(case, again.node),
            case.named(again),
            moment(again.time)
        );
        found.push(case.finding(again, &[own.place, again.place], &[again.operation], Harm::Waited, sentence));
    }
    found
}

/// The shortest time until a retry, in ns. A copy that the network makes comes sooner.
pub(super) const RESENT: u64 = 5_000_000;
