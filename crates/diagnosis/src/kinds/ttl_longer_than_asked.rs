//! A key with a longer TTL than the client asked for.

use super::*;
use super::ttl_shorter_than_asked::expired_within;

pub static KIND: Kind = Kind {
    code: "RJ036",
    name: "ttl-longer-than-asked",
    title: "The acquisition creates the key with a longer TTL than was asked for.",
    rule: "If the client dies during the acquisition, all other clients wait as long as the key lives.",
    source: REDIS_LOCKS,
    fix: "Create the key with the TTL that the caller asked for.",
    commands: &["SET KEY TOKEN NX PX TTL"],
    right: Some(("redlock", "crash-at-third-node")),
    breaks: WAITS,
    inherent: false,
    check,
};

/// A library may add a margin, or round up.
const LONGER: f64 = 1.5;
/// From this factor on the unit is wrong, which is a separate diagnosis.
const OTHER_UNIT: f64 = 500.0;

fn check(case: &Case) -> Vec<Finding> {
    of_another_ttl(case, |times| (LONGER..OTHER_UNIT).contains(&times))
}

/// The keys that were created with a TTL that is this many times the requested TTL.
pub(super) fn of_another_ttl(case: &Case, is_meant: impl Fn(f64) -> bool) -> Vec<Finding> {
    let created = case.acts.all.iter().filter(|act| act.is_done() && case.run.expires);
    created
        .filter_map(|act| {
            let ttl = act.create()?.ttl.after().filter(|ttl| is_meant(*ttl as f64 / case.ttl.max(1) as f64))?;
            let sentence = format!(
                "{} created the key{} with a TTL of {}; the TTL that was asked for is {}.",
                case.did(act),
                on(case, act.node),
                length(ttl),
                length(case.ttl)
            );
            // Another client found the key after the requested TTL, without a release before.
            let released = case.of(act)?.phase(Phase::Released).is_some();
            let met_late = case.acts.after(act).any(|other| {
                other.client != act.client
                    && other.time > act.time.saturating_add(case.ttl)
                    && matches!(other.before, KeyState::There(owned) if owned.created == act.place)
            });
            let end = act.time.saturating_add(ttl);
            let harm = if met_late && !released { Harm::Kept } else { expired_within(case, act, end) };
            Some(case.finding(act, &[act.place], &[act.operation], harm, sentence))
        })
        .collect()
}
