//! A renewal that compares in one command and extends in another.

use super::*;
use super::compare_then_delete::after_comparing;

pub static KIND: Kind = Kind {
    code: "RJ024",
    name: "compare-then-renew",
    title: "The renewal compares the key in one command and extends it in another.",
    rule: "Between two commands the lock can expire, and another client can acquire it. The server must compare and extend in one step.",
    source: REDIS_LOCKS,
    fix: "Compare and extend in one script.",
    commands: COMPARE_AND_EXTEND,
    right: Some(("redlock-watchdog", "long-work")),
    breaks: &[Claim::Updates, Claim::MutualExclusion, Claim::Amounts, Claim::Liveness, Claim::Timeouts, Claim::Losses],
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let found = after_comparing(case, |change| matches!(change, Change::Renew(_)), "extended");
    let harm = |act: &Act, owner: &Owned| {
        let holds = case.of(act).is_some_and(|operation| case.holds(operation, act.time));
        if holds { case.ended(owner, act.time) } else { Harm::None }
    };
    // A read before a removal may have been for the removal.
    let removed = |act: &Act| {
        let asked = case.had_compared(act).map(|asked| asked.place);
        let mut between = case.acts.before(act).filter(|other| Some(other.place) > asked);
        between.any(|other| other.client == act.client && other.what == Change::Remove)
    };
    let found = found.into_iter().filter(|(act, ..)| !removed(act));
    found.map(|(act, owner, finding)| Finding { harm: harm(act, &owner), ..finding }).collect()
}
