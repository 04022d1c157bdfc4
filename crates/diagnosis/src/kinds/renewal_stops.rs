//! A renewal that ends while its holder still works.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ015",
    name: "renewal-stops",
    title: "No renewal is sent for a whole TTL while the holder still works, and the lock expires.",
    rule: "A renewal in the background must go on until the release, or until the library tells the holder that the lock is \
    lost.",
    source: REDIS_LOCKS,
    fix: "Renew until the release, even after a failed renewal. If no renewal succeeds in time, tell the holder that the lock is lost.",
    commands: &[],
    right: Some(("redlock-watchdog", "long-work")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    for act in &case.acts.all {
        let KeyState::Absent(_, Some(Gone::Expired(end))) = act.before else { continue };
        // The first act that finds the key gone.
        let before = || case.acts.before(act);
        let Some(last) = before().rev().find(|other| other.is_done() && other.what != Change::Read) else { continue };
        let is_first = !before().any(|other| other.place > last.place && matches!(other.before, KeyState::Absent(..)));
        let Some(operation) = case.of(last).filter(|_| last.extended()) else { continue };
        let renewals = before().filter(|other| other.operation == last.operation && other.extended()).count() as u64;
        let is_whole = case.acts.was_watched(act.node, operation.invoked, act.time);
        if !is_first || renewals == 0 || !is_whole || !case.holds(operation, end) {
            continue;
        }
        // Without a fault, two renewals show that the library renews. Otherwise the client must have been able to send the next
        // renewal for most of a TTL. A holder that extends its lock itself may wait for the answer.
        let lived = end.saturating_sub(last.time);
        let extends_itself = operation.phase(Phase::Extended).is_some();
        let could_go_on = case.could_send(last.client, last.node, last.time, end)
            && case.ran_for(last.client, last.time, end) >= lived / 10 * 9;
        if !(renewals >= 2 && case.was_quiet(last.time, end)) && (extends_itself || !could_go_on) {
            continue;
        }
        let sentence = format!(
            "{} extended its key{} {}, the last time at {}, and sent no more renewals: it expired at {} while {} still relied on it.",
            last.client,
            on(case, act.node),
            plural(renewals, "time"),
            moment(last.time),
            moment(end),
            last.client
        );
        found.push(case.finding(
            last,
            &[last.place],
            &[last.operation, act.operation],
            Harm::Ended(operation.index),
            sentence,
        ));
    }
    found
}
