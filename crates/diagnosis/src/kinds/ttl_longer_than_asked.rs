//! A key whose TTL is longer than the one that was asked for.

use super::super::acts::{Act, KeyState};
use super::super::case::{Case, at, on};
use super::super::{Finding, Harm, Kind};
use super::REDIS_LOCKS;
use base::words::length;
use model::history::Phase;

pub static KIND: Kind = Kind {
    code: "RJ036",
    name: "ttl-longer-than-asked",
    title: "The acquisition creates the key with a longer TTL than was asked for.",
    rule: "If the client dies during the acquisition, all others wait for as long as the key lives.",
    source: REDIS_LOCKS,
    fix: "Create the key with the TTL that the caller asked for.",
    commands: &["SET KEY TOKEN NX PX TTL"],
    right: Some(("redlock", "crash-at-third-node")),
    inherent: false,
    check,
};

/// A library may add a margin, or round up.
const LONGER: f64 = 1.5;
/// From here on it is another unit, which is a diagnosis of its own.
const OTHER_UNIT: f64 = 500.0;

/// Whether another client met the key after the TTL that was asked for.
pub(super) fn is_met_late(case: &Case, act: &Act) -> bool {
    case.acts.after(act).any(|other| {
        other.client != act.client
            && other.time > act.time.saturating_add(case.ttl)
            && matches!(other.before, KeyState::There(owned) if owned.created == act.place)
    })
}

fn check(case: &Case) -> Vec<Finding> {
    let created = case.acts.all.iter().filter(|act| act.is_done() && case.run.expires && act.create().is_some());
    created
        .filter_map(|act| {
            let ttl = act.create()?.ttl?;
            let times = ttl as f64 / case.ttl.max(1) as f64;
            if !(LONGER..OTHER_UNIT).contains(&times) {
                return None;
            }
            let operation = case.of(act)?;
            let never_had = operation.phase(Phase::Acquired).is_none();
            let sentence = format!(
                "{}'s {} {} created the key{} with a TTL of {}; the TTL that was asked for is {}.",
                act.client,
                case.named(act),
                at(act.time),
                on(case, act.node),
                length(ttl),
                length(case.ttl)
            );
            let harm = if never_had && is_met_late(case, act) { Harm::Kept } else { Harm::None };
            Some(case.finding(act, &[act.place], &[act.operation], harm, sentence))
        })
        .collect()
}
