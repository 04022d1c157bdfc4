//! A lock that the library hands out after its key has expired.

use super::*;
use super::quorum_too_small::{Grant, grants};

pub static KIND: Kind = Kind {
    code: "RJ007",
    name: "expired-grant",
    title: "The lock is handed out after its key has expired.",
    rule: "The TTL counts from the moment at which the server creates the key. The client must subtract the time that the acquisition took. If nothing is left, \
           the lock was not acquired.",
    source: REDIS_LOCKS,
    fix: "After the last reply, hand the lock out only if less than the TTL has passed on a monotonic clock. Read it before the first request.",
    commands: &[],
    right: Some(("single-patient", "late-acquire-reply")),
    breaks: &[Claim::Updates, Claim::MutualExclusion, Claim::Amounts, Claim::Grants],
    inherent: false,
    check,
};

/// A client that has read its clock needs less than this to return, in ns.
pub(super) const TO_RETURN: u64 = 10_000_000;

fn check(case: &Case) -> Vec<Finding> {
    grants(case)
        .into_iter()
        .filter_map(|grant| {
            let Grant { first, granted, alive, of, expired, acquired, .. } = &grant;
            let end = expired.iter().filter_map(end_of).min()?;
            let is_lost = alive * 2 <= *of && granted.len() * 2 > *of;
            // When a majority of the replies can have arrived. A later stop may have come between reading the clock and the
            // grant.
            let mut replied: Vec<u64> = granted.iter().map(|act| case.replied(act)).collect();
            replied.sort_unstable();
            let replied = replied.get(of / 2).copied().unwrap_or(0);
            // Keys that an earlier try left behind are not those of the lock.
            let of_lock = first.operation.and_then(|place| case.last_value(place, *acquired));
            let is_of_lock = |act: &&Act| act.create().map(|create| create.token) == of_lock;
            if !granted.iter().all(is_of_lock) {
                return None;
            }
            if !is_lost || case.ran_but_for(first.client, replied, end, *acquired) < TO_RETURN {
                return None;
            }
            let sentence = format!(
                "{} received the lock at {}, {} after its key had expired: the acquisition took {}, and its TTL is {}.",
                first.client,
                moment(*acquired),
                length(acquired.saturating_sub(end)),
                length(acquired.saturating_sub(first.time)),
                length(end.saturating_sub(first.time))
            );
            let places: Vec<usize> = expired.iter().map(|owned| owned.created).collect();
            Some(case.finding(first, &places, &[first.operation], grant.harm(case), sentence))
        })
        .collect()
}
