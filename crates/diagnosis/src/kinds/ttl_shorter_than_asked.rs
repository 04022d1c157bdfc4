//! A key with a shorter TTL than the client asked for.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ048",
    name: "ttl-shorter-than-asked",
    title: "The acquisition creates the key with a shorter TTL than was asked for.",
    rule: "The holder relies on its lock for the time that it asked for. If the key expires earlier, another client acquires the lock.",
    source: REDIS_LOCKS,
    fix: "Create the key with the TTL that the caller asked for. If it has to be rounded to whole seconds, round up.",
    commands: &["SET KEY TOKEN NX PX TTL"],
    right: Some(("redlock", "work-within-ttl")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

/// A library may subtract a margin.
const SHORTER: f64 = 0.7;
/// Below this factor the unit is wrong, which is a separate diagnosis.
const OTHER_UNIT: f64 = 0.002;

fn check(case: &Case) -> Vec<Finding> {
    // A library that renews chooses how long a key lives in between.
    let renews = |act: &Act| matches!(act.what, Change::Renew(_)) && act.by != (Means::Script { compared: false });
    let is_renewed = case.acts.all.iter().any(renews)
        || case.history.operations.iter().any(|operation| operation.phases.has(Phase::Extended));
    if is_renewed {
        return Vec::new();
    }
    let created = case.acts.all.iter().filter(|act| act.is_done());
    created
        .filter_map(|act| {
            let ttl = act.create()?.ttl.after()?;
            let is_short = (OTHER_UNIT..SHORTER).contains(&(ttl as f64 / case.ttl.max(1) as f64));
            if case.run.expires && !is_short {
                return None;
            }
            let end = act.time.saturating_add(ttl);
            let harm = expired_within(case, act, end);
            // If a lock should last for ever, a TTL whose end no client ever reaches is a precaution.
            if !case.run.expires && harm == Harm::None {
                return None;
            }
            let asked = match case.run.expires {
                true => format!("the TTL that was asked for is {}", length(case.ttl)),
                false => "the lock was to last until its release".to_string(),
            };
            let sentence = format!(
                "{} created the key{} with a TTL of {}; {asked}.",
                case.did(act),
                on(case, act.node),
                length(ttl)
            );
            Some(case.finding(act, &[act.place], &[act.operation], harm, sentence))
        })
        .collect()
}

/// The harm of a key that expired at `end`: its holder counted on it then, and its time was not over.
pub(super) fn expired_within(case: &Case, act: &Act, end: u64) -> Harm {
    let ran_out = case.acts.after(act).find(|other| other.time > end.saturating_add(EDGE));
    let is_gone = ran_out.is_some_and(|other| other.before == KeyState::Absent(end, Some(Gone::Expired(end))));
    let asked = if case.run.expires { act.time.saturating_add(case.ttl) } else { u64::MAX };
    match case.of(act).filter(|operation| is_gone && end < asked && case.holds(operation, end.saturating_add(EDGE))) {
        Some(operation) => Harm::Ended(operation.index),
        None => Harm::None,
    }
}
