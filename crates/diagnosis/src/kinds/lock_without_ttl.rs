//! A lock whose key never expires.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ004",
    name: "lock-without-ttl",
    title: "The key of the lock has no TTL.",
    rule: "A holder that dies releases nothing. Without a TTL its key stays forever, and no client can acquire the lock again.",
    source: REDIS_SET,
    fix: "Set the TTL with the command that creates the key.",
    commands: &["SET KEY TOKEN NX PX TTL"],
    right: Some(("single", "crash-holder")),
    breaks: WAITS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let creates = case.acts.all.iter().filter(|act| act.is_done() && !act.by_watch());
    // One that sets a key that is there creates none: it may remove the TTL, which is RJ025.
    let endless = creates.filter(|act| {
        act.create().is_some_and(|create| create.ttl == Expiry::Never && !create.gets && create.only != Only::IfThere)
    });
    let endless: Vec<&Act> = endless.collect();
    if endless.is_empty() {
        return Vec::new();
    }
    // A TTL would only have ended the wait that a release caused.
    let unfreed: HashSet<u64> =
        release_frees_nothing::check(case).iter().flat_map(|finding| finding.commands.clone()).collect();
    endless
        .into_iter()
        .filter_map(|act| {
            // The last act that found the key as it was created.
            let is_it = |other: &&Act| match other.before {
                KeyState::There(owned) => owned.created == act.place && owned.end == KeyEnd::Never,
                _ => false,
            };
            let until = case.acts.after(act).rfind(is_it)?.time;
            let renewed = case.acts.after(act).any(|other| is_it(&other) && matches!(other.what, Change::Renew(_)));
            if renewed || !case.acts.was_watched(act.node, act.time, until) {
                return None;
            }
            let operation = case.of(act)?;
            let over = operation.completed.filter(|over| *over < until)?;
            let lay = until.saturating_sub(over);
            if lay < case.ttl {
                return None;
            }
            let sentence = format!(
                "{} created the key{} without a TTL, and no command gave it a TTL: the key was still there {} after {}'s \
                 operation had ended.",
                case.did(act),
                on(case, act.node),
                length(lay),
                act.client
            );
            let harm = if unfreed.contains(&(act.place as u64 + 1)) { Harm::None } else { Harm::Kept };
            Some(case.finding(act, &[act.place], &[act.operation], harm, sentence))
        })
        .collect()
}
