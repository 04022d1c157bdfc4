//! A renewal that continues after its holder has released the lock.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ014",
    name: "renewal-outlives-holder",
    title: "The renewal goes on after its client has released the lock, lost it or given up.",
    rule: "A renewal belongs to one acquisition, and must end with its hold. Otherwise the renewal may extend a lock that no \
    client holds, or another client's lock.",
    source: REDIS_LOCKS,
    fix: "Stop the renewal, and wait until it has stopped, before the release is sent.",
    commands: &[],
    right: Some(("redlock-watchdog", "long-work")),
    breaks: WAITS,
    inherent: false,
    check,
};

/// A command within the TTL divided by this may have been on its way.
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
            let ended = match operation.outcome {
                Outcome::Ok if operation.phase(Phase::Released).is_some() => "released the lock",
                // Its release failed, or it was told that it had lost the lock.
                Outcome::Ok => "ended its operation",
                _ if gave_up(operation) => "given up",
                _ => return None,
            };
            let after = act.time.checked_sub(over)?;
            // Nothing has held it since then: requests could pass, and client and node had the time to process it.
            let since = act.time.saturating_sub(case.ttl / ON_ITS_WAY);
            let had_time = |member: &str| case.ran_for(member, since, act.time) >= case.ttl / 4;
            let was_free = case.requests_pass(act.client, act.node, since, act.time);
            if over >= since || !was_free || !had_time(act.client) || !had_time(act.node) {
                return None;
            }
            let sentence = format!(
                "{} was meant to extend the key{} {} after {} had {ended}.",
                case.did(act),
                on(case, act.node),
                length(after),
                act.client,
            );
            let is_own = act.is_done() && act.owner().is_some_and(|owner| owner.client == act.client);
            let harm = if is_own { Harm::Kept } else { Harm::None };
            Some(case.finding(act, &[act.place], &[act.operation], harm, sentence))
        })
        .collect()
}
