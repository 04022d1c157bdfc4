//! A TTL that is a thousand times too long or too short.

use super::*;
use super::ttl_longer_than_asked::of_another_ttl;

pub static KIND: Kind = Kind {
    code: "RJ006",
    name: "ttl-in-wrong-unit",
    title: "The key's TTL is a thousand times longer or shorter than the TTL that was asked for.",
    rule: "PX and PEXPIRE count milliseconds; EX and EXPIRE count seconds.",
    source: REDIS_SET,
    fix: "Convert the TTL to the unit of the command that sets it.",
    commands: &["SET KEY TOKEN NX PX MILLISECONDS", "SET KEY TOKEN NX EX SECONDS"],
    right: Some(("single", "none")),
    breaks: &[Claim::Updates, Claim::MutualExclusion, Claim::Amounts, Claim::Liveness, Claim::Timeouts],
    inherent: false,
    check,
};

/// A library may add a margin of this fraction to the TTL, or subtract one.
const MARGIN: f64 = 0.2;

fn check(case: &Case) -> Vec<Finding> {
    of_another_ttl(case, |times| [1000.0, 0.001].into_iter().any(|off| (times / off - 1.0).abs() < MARGIN))
}
