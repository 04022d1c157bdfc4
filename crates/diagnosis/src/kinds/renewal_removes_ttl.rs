//! A renewal that removes the TTL from the key.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ025",
    name: "renewal-removes-ttl",
    title: "The renewal removes the TTL from the key.",
    rule: "SET without PX or EX removes the TTL of the key that it sets, even with XX or IFEQ. If the holder dies after that, \
    no client \
           acquires the lock again.",
    source: REDIS_SET,
    fix: "Give the TTL with each SET, or extend the key with PEXPIRE.",
    commands: COMPARE_AND_EXTEND,
    right: Some(("redlock-watchdog", "long-work")),
    breaks: WAITS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let sets = case.acts.all.iter().filter(|act| match act.what {
        Change::Persist => true,
        Change::Create(create) => create.ttl == Expiry::Never && create.only != Only::IfAbsent && !create.gets,
        _ => false,
    });
    sets.filter(|act| act.is_done())
        .filter_map(|act| {
            let owner = act.owner().filter(|owner| owner.client == act.client && owner.operation == act.operation)?;
            let KeyEnd::At(_) = owner.end else { return None };
            let operation = case.of(act)?;
            // Also while the client is silent, as a holder that a script keeps at its work.
            let is_over = |stamp: &PhaseStamp| matches!(stamp.phase, Phase::Lost | Phase::Releasing) && stamp.time() <= act.time;
            if !case.had_lock(operation, act.time) || operation.phases.iter().any(|stamp| is_over(&stamp)) {
                return None;
            }
            let still = |other: &&Act| {
                other.owner().is_some_and(|then| {
                    then.end == KeyEnd::Never && (then.client, then.operation) == (act.client, act.operation)
                })
            };
            // The next act that shows the key. It does not count if the client gives the key a TTL again at once.
            let is_later = |other: &&Act| other.owner().is_some() && !case.share_a_transaction(act, other);
            let told = case.acts.after(act).find(is_later).filter(still)?;
            if matches!(told.what, Change::Renew(_)) && told.client == act.client && told.time == act.time {
                return None;
            }
            // The first that another client sent when all was over, however often the holder had set the key again before.
            let over = operation.completed.unwrap_or(u64::MAX);
            let is_left = |other: &&Act| still(other) && other.client != act.client && over < other.time;
            let left = case.acts.after(act).find(is_left);
            let told = left.unwrap_or(told);
            let sentence = format!(
                "{}'s {} {}, meant to extend its lock, removed the TTL of the key{}: the key would have expired at {}.",
                act.client,
                case.named(act),
                at(act.time),
                on(case, act.node),
                super::super::case::end_of(&owner).map_or(String::new(), base::words::moment)
            );
            let places = [owner.created, act.place, told.place];
            let harm = if left.is_some() { Harm::Kept } else { Harm::None };
            Some(case.finding(act, &places, &[act.operation, told.operation], harm, sentence))
        })
        .collect()
}
