//! A TTL that is a thousand times too long or too short.

use super::super::case::{Case, at, on};
use super::super::{Finding, Harm, Kind};
use super::REDIS_SET;
use super::ttl_longer_than_asked::is_met_late;
use base::words::length;
use model::history::Phase;

pub static KIND: Kind = Kind {
    code: "RJ006",
    name: "ttl-in-wrong-unit",
    title: "The key's TTL is a thousand times as long, or as short, as the one that was asked for.",
    rule: "PX and PEXPIRE count milliseconds; EX and EXPIRE count seconds.",
    source: REDIS_SET,
    fix: "Convert the TTL to the unit of the command that sets it.",
    commands: &["SET KEY TOKEN NX PX MILLISECONDS", "SET KEY TOKEN NX EX SECONDS"],
    right: Some(("single", "none")),
    inherent: false,
    check,
};

/// A library may add a margin to the TTL, or take one off.
const MARGIN: f64 = 0.2;

fn check(case: &Case) -> Vec<Finding> {
    let off = |ttl: u64| {
        let times = ttl as f64 / case.ttl.max(1) as f64;
        [1000.0, 0.001].into_iter().find(|off| (times / off - 1.0).abs() < MARGIN)
    };
    let creates = case.acts.all.iter().filter(|act| act.is_done() && case.run.expires);
    creates
        .filter_map(|act| {
            let ttl = act.create()?.ttl?;
            off(ttl)?;
            let sentence = format!(
                "{}'s {} {} created the key{} with a TTL of {}; the TTL that was asked for is {}.",
                act.client,
                case.named(act),
                at(act.time),
                on(case, act.node),
                length(ttl),
                length(case.ttl)
            );
            let released = case.of(act).is_some_and(|operation| operation.phase(Phase::Released).is_some());
            let harm = if !released && is_met_late(case, act) { Harm::Kept } else { Harm::None };
            Some(case.finding(act, &[act.place], &[act.operation], harm, sentence))
        })
        .collect()
}
