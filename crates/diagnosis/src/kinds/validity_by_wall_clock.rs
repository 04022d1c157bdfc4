//! A lock whose validity is measured by a wall clock that was changed.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ032",
    name: "validity-by-wall-clock",
    title: "The client measures the validity of its lock by its wall clock.",
    rule: "A wall clock can be set at any moment. Only a monotonic clock tells how much time has passed.",
    source: KLEPPMANN,
    fix: "Read a monotonic clock before the request and after the reply: Instant, time.monotonic(), System.nanoTime(), performance.now().",
    commands: &[],
    right: Some(("redlock", "client-clock-ahead")),
    breaks: &[Claim::Updates, Claim::MutualExclusion, Claim::Amounts, Claim::Grants],
    inherent: false,
    check,
};

/// The most that a library may add to the TTL, in ns.
const MARGIN: u64 = 20_000_000;

fn check(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    for (place, operation) in case.history.operations.iter().enumerate() {
        let Some(acquired) = operation.phase(Phase::Acquired) else { continue };
        let Some(validity) = acquired.validity_ms.map(|ms| ms.saturating_mul(1_000_000)) else { continue };
        // The longest TTL that the acquisition gave its keys, or that was asked for: the library may count on either. A longer
        // validity counts time that has not passed.
        let created = case.acts.of_operation(place).filter(|act| act.time <= acquired.time());
        let Some(act) = created.clone().find(|act| act.create().is_some()) else { continue };
        let ttls = created.filter_map(|act| act.create().and_then(|create| create.ttl.after()));
        let Some(ttl) = ttls.max() else { continue };
        let client = case.run.client_name(operation.process);
        let set = case.history.faults.iter().find(|window| {
            let (began, _) = window.span();
            window.kind.does.wall_clock
                && window.skipped.is_none()
                && window.targets.contains(&client)
                && began <= acquired.time()
                && window.healed.is_none_or(|(healed, _)| healed >= operation.invoked)
        });
        let Some(set) = set.filter(|_| validity > ttl.max(case.ttl).saturating_add(MARGIN)) else { continue };
        let sentence = format!(
            "{client} received the lock at {} with a validity of {}, and its keys have a TTL of {}: {client}'s clock was set at {}.",
            moment(acquired.time()),
            length(validity),
            length(ttl),
            moment(set.inject)
        );
        found.push(case.finding(act, &[act.place], &[act.operation], Harm::Misled(operation.index), sentence));
    }
    found
}
