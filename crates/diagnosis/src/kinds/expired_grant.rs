//! A lock that is handed out after its key has run out.

use super::super::case::{Case, end_of};
use super::super::{Finding, Kind};
use super::REDIS_LOCKS;
use super::quorum_too_small::{Grant, grants};
use base::words::{length, moment};

pub static KIND: Kind = Kind {
    code: "RJ007",
    name: "expired-grant",
    title: "The lock is handed out after its key has run out.",
    rule: "The TTL counts from the moment at which the server creates the key. What the acquisition took is taken off, and if nothing is \
           left, the lock was not acquired.",
    source: REDIS_LOCKS,
    fix: "Read a monotonic clock before the first request. After the last reply, hand the lock out only if less than the TTL has passed.",
    commands: &[],
    right: Some(("single-patient", "late-acquire-reply")),
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    grants(case)
        .into_iter()
        .filter_map(|grant| {
            let Grant { first, granted, alive, of, expired, acquired, .. } = &grant;
            let end = expired.iter().filter_map(end_of).min()?;
            let is_lost = alive * 2 <= *of && granted * 2 > *of;
            // A client that stood still may have looked in time, and been told late.
            if !is_lost || !case.ran(first.client, first.time, *acquired) {
                return None;
            }
            let sentence = format!(
                "{} was given the lock at {}, {} after its key had run out: the acquisition took {}, and its TTL is {}.",
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
