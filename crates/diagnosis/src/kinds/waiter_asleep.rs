//! A waiter that does not ask again although the lock is free.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ033",
    name: "waiter-asleep",
    title: "A waiter does not wake up when the key of the lock is gone.",
    rule: "A holder that dies sends no message. A waiter for messages must ask again on its own, at the latest when the TTL is \
        over.",
    source: REDIS_LOCKS,
    fix: "Wait for the release message only as long as the key lives (PTTL), then ask again.",
    commands: &["PTTL KEY"],
    right: Some(("single", "crash-holder")),
    breaks: WAITS,
    inherent: false,
    check,
};

/// The shortest rest that counts as sleep, in ns.
const REST: u64 = 1_000_000_000;

fn check(case: &Case) -> Vec<Finding> {
    // Waiters for a lock over several nodes ask all of them.
    if case.run.nodes > 1 {
        return Vec::new();
    }
    let mut found = Vec::new();
    for act in &case.acts.all {
        let (since, freed) = match act.before {
            KeyState::Absent(since, Some(Gone::Expired(end))) => (since.max(end), None),
            KeyState::Absent(since, Some(Gone::Removed(place))) => (since, Some(place)),
            _ => continue,
        };
        // The first act that accesses the key after it was gone.
        let is_first = case.acts.before(act).next_back().is_none_or(|last| last.time <= since);
        if is_first && act.time.saturating_sub(since) >= REST.max(case.ttl) {
            let waiters = case.history.operations.iter().filter(|operation| waits(case, operation, act, since));
            found.extend(waiters.map(|waiter| finding(case, act, since, freed, waiter)));
        }
    }
    found
}

/// True if an operation had asked for the key before it was gone, and waited until this act, or at least a TTL.
fn waits(case: &Case, operation: &Operation, act: &Act, since: u64) -> bool {
    if operation.process == Process::Controller || model::history::key_behind(act.key) != Some(&*operation.key) {
        return false;
    }
    let client = case.run.client_name(operation.process);
    let until = operation.completed.unwrap_or(u64::MAX).min(act.time);
    let acquired = operation.phase(Phase::Acquired).map_or(u64::MAX, |stamp| stamp.time());
    let asked = case.acts.before(act).any(|other| {
        let is_refused = other.done == Some(false) && other.owner().is_some_and(|owner| owner.client != client);
        other.client == client && is_refused && (operation.invoked..since).contains(&other.time)
    });
    asked
        && acquired > until
        && until.saturating_sub(since) >= REST.max(case.ttl)
        && case.acts.was_watched(act.node, since, until)
        && case.requests_pass(&client, act.node, since, until)
        && case.ran(&client, since, until)
}

fn finding(case: &Case, act: &Act, since: u64, freed: Option<usize>, waiter: &Operation) -> Finding {
    let client = case.run.client_name(waiter.process);
    let until = waiter.completed.unwrap_or(u64::MAX).min(act.time);
    let how = if freed.is_some() { "was removed" } else { "expired" };
    let sentence = format!(
        "The key{} {how} at {}; {client}, waiting since {}, sent no request for it in the next {}.",
        on(case, act.node),
        moment(since),
        moment(waiter.invoked),
        length(until.saturating_sub(since))
    );
    let mut finding = case.finding(act, &[act.place], &[], Harm::Waited, sentence);
    finding.time = since;
    finding.operations = vec![waiter.index];
    finding
}
