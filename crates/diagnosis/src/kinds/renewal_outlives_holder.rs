//! A renewal that goes on after its holder has given the lock back.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ014",
    name: "renewal-outlives-holder",
    title: "The renewal goes on after its client has released the lock or given up.",
    rule: "A renewal belongs to one acquisition, and ends with it. Otherwise it may extend a lock that no client holds, or \
        another client's lock.",
    source: REDIS_LOCKS,
    fix: "Stop the renewal, and wait until it has stopped, before the release is sent.",
    commands: &[],
    right: Some(("redlock-watchdog", "long-work")),
    breaks: WAITS,
    inherent: false,
    check,
};

/// What comes within this part of a TTL may have been on its way.
const ON_ITS_WAY: u64 = 2;

fn check(case: &Case) -> Vec<Finding> {
    let extends = |what: Change| match what {
        Change::Renew(_) => true,
        Change::Create(create) => create.only == Only::IfThere,
        _ => false,
    };
    let renews = case.acts.all.iter().filter(|act| extends(act.what));
    renews
        .filter_map(|act| {
            let operation = case.of(act)?;
            let over = operation.completed?;
            let released = operation.outcome == Outcome::Ok && operation.phase(Phase::Released).is_some();
            if !released && !gave_up(operation) {
                return None;
            }
            let after = act.time.checked_sub(over)?;
            // Nothing has held it since: the way was free, and client and node had the time to send it on.
            let since = act.time.saturating_sub(case.ttl / ON_ITS_WAY);
            let had_time = |member: &str| case.ran_for(member, since, act.time) >= case.ttl / 4;
            let was_free = case.requests_pass(act.client, act.node, since, act.time);
            if over >= since || !was_free || !had_time(act.client) || !had_time(act.node) {
                return None;
            }
            let sentence = format!(
                "{} was meant to extend the key{} {} after {} had {}.",
                case.did(act),
                on(case, act.node),
                length(after),
                act.client,
                if released { "released the lock" } else { "given up" }
            );
            let is_own = act.is_done() && act.owner().is_some_and(|owner| owner.client == act.client);
            let harm = if is_own { Harm::Kept } else { Harm::None };
            Some(case.finding(act, &[act.place], &[act.operation], harm, sentence))
        })
        .collect()
}
