//! A release that fails or is cancelled, and leaves the key where it is.

use super::super::acts::{Act, Change, KeyEnd};
use super::super::case::{Case, at, on};
use super::super::{Finding, Harm, Kind};
use super::REDIS_LOCKS;
use base::words::{length, moment};
use model::history::{Outcome, Phase};

pub static KIND: Kind = Kind {
    code: "RJ040",
    name: "release-not-repeated",
    title: "A release that fails or is cancelled leaves the key behind.",
    rule: "Until the server has answered, the key may still be there. So the client keeps its value, and sends the release again.",
    source: REDIS_LOCKS,
    fix: "Forget the value only after the server has answered. After an error or a cancellation, send the release again, or let the caller \
          do so.",
    commands: super::COMPARE_AND_DELETE,
    right: Some(("single", "failed-release")),
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let created = case.acts.all.iter().filter(|act| act.is_done() && act.create().is_some());
    created.filter_map(|act| finding(case, act)).collect()
}

fn finding(case: &Case, act: &Act) -> Option<Finding> {
    let operation = case.of(act)?;
    let over = operation.completed?;
    let released = operation.outcome == Outcome::Ok && operation.phase(Phase::Released).is_some();
    operation.phase(Phase::Releasing).filter(|_| !released)?;
    // What the key was when another command met it after that.
    let told = case.acts.after(act).find(|other| other.time > over && other.owner().is_some())?;
    let owned = told.owner().filter(|owned| owned.created == act.place)?;
    let end = match owned.end {
        KeyEnd::At(end) => end,
        KeyEnd::Never => told.time,
        KeyEnd::Unknown => return None,
    };
    let removes = |other: &&Act| other.client == act.client && matches!(other.what, Change::Remove | Change::Other);
    let again =
        case.acts.after(act).take_while(|other| other.time <= end).any(|other| removes(&other) && other.time > over);
    let is_whole = case.acts.was_watched(act.node, act.time, told.time);
    // It had the time to send it again, and the way was free.
    let could = case.ran_for(act.client, over, end) >= case.ttl / 4 && case.could_send(act.client, act.node, over, end);
    if again || !is_whole || !could {
        return None;
    }
    let sentence = format!(
        "{}'s {} {} created the key{}. The release ended at {} without removing the key, and no other followed. The key stayed for another \
         {}.",
        act.client,
        case.named(act),
        at(act.time),
        on(case, act.node),
        moment(over),
        length(end.saturating_sub(over))
    );
    Some(case.finding(act, &[act.place, told.place], &[act.operation], Harm::Kept, sentence))
}
