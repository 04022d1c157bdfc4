//! A lock that runs out while its holder still counts on it: what every lock with a TTL does.

use super::super::acts::{Act, Change, Gone, KeyState};
use super::super::case::Case;
use super::super::{Finding, Harm, Kind};
use super::KLEPPMANN;
use base::words::{moment, plural};

pub static KIND: Kind = Kind {
    code: "RJ022",
    name: "expired-under-holder",
    title: "The lock expired while its holder still counted on it, and another client acquired it.",
    rule: "A client can be stopped at any moment, for longer than any TTL, and go on without knowing. No lock with a TTL can prevent that; \
           only the resource can.",
    source: KLEPPMANN,
    fix: "Let the resource refuse late writes: by a fencing token that rises with each acquisition, or by comparing with the value that was \
          read. A longer TTL or a renewal makes it rarer.",
    commands: &[],
    right: Some(("fenced-reads", "pause-before-write")),
    inherent: true,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_granted = |act: &&Act| act.is_done() && act.create().is_some() && act.operation.is_some();
    for took in case.acts.all.iter().filter(is_granted) {
        let KeyState::Absent(_, Some(Gone::Expired(end))) = took.before else { continue };
        let before = || case.acts.before(took);
        let Some(lost) = before().rev().find(is_granted) else { continue };
        let (Some(holder), Some(other)) = (case.of(lost), case.of(took)) else { continue };
        // Of a lock over several nodes, a key that came after the grant is no part of it.
        if case
            .history
            .certain_hold(holder)
            .is_none_or(|(start, _)| i64::try_from(lost.time).is_ok_and(|time| time > start))
        {
            continue;
        }
        let has_it = case
            .history
            .certain_hold(other)
            .is_some_and(|(start, _)| u64::try_from(start).is_ok_and(|start| case.holds(holder, start)));
        if took.client == lost.client || !has_it || holder.index == other.index {
            continue;
        }
        let renewals =
            before().filter(|act| act.place > lost.place && act.is_done() && matches!(act.what, Change::Renew(_)));
        let renewed = match renewals.count() as u64 {
            0 => String::new(),
            many => format!(", extended {}", plural(many, "time")),
        };
        let sentence = format!(
            "{}'s key, created at {}{renewed}, expired at {} while {} still counted on it; {} acquired the lock at {}.",
            lost.client,
            moment(lost.time),
            moment(end),
            lost.client,
            took.client,
            moment(took.time)
        );
        let places = [lost.place, took.place];
        found.push(case.finding(took, &places, &[lost.operation, took.operation], Harm::Ended(holder.index), sentence));
    }
    found
}
