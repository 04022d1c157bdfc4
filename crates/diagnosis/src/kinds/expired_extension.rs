//! An extension that is reported after the key has expired.

use super::super::acts::{Act, Change};
use super::super::case::{Case, on};
use super::super::{Finding, Harm, Kind};
use super::REDIS_LOCKS;
use super::expired_grant::TO_RETURN;
use base::words::{length, moment};
use model::history::Phase;

pub static KIND: Kind = Kind {
    code: "RJ038",
    name: "expired-extension",
    title: "The extension reports success after the extended key has expired.",
    rule: "The TTL counts from the moment at which the server extends the key. If the reply comes after that, the lock is gone.",
    source: REDIS_LOCKS,
    fix: "Read a monotonic clock before the request. If more than the TTL has passed at the reply, report that the lock is lost.",
    commands: &[],
    right: Some(("redlock-extend", "late-extension")),
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    // The keys of a lock over several nodes end one by one.
    if case.run.nodes > 1 {
        return Vec::new();
    }
    let renews = case.acts.all.iter().filter(|act| act.is_done() && matches!(act.what, Change::Renew(Some(_))));
    renews.filter_map(|act| finding(case, act)).collect()
}

fn finding(case: &Case, act: &Act) -> Option<Finding> {
    let operation = case.of(act)?;
    let owner = act.owner().filter(|owner| owner.client == act.client && owner.operation == act.operation)?;
    let Change::Renew(Some(ttl)) = act.what else { return None };
    let end = act.time.saturating_add(ttl);
    // The first answer to an extension after this one.
    let said = operation.phases.iter().find(|stamp| stamp.phase == Phase::Extended && stamp.time() > act.time)?;
    let stamped = u64::try_from(said.stamped?).ok()?;
    let again = case
        .acts
        .after(act)
        .take_while(|other| other.time <= stamped)
        .any(|other| other.done != Some(false) && other.client == act.client && other.what != Change::Read);
    let is_whole = case.acts.was_watched(act.node, act.time, stamped);
    if again || !is_whole || case.ran_for(act.client, end, stamped) < TO_RETURN {
        return None;
    }
    let sentence = format!(
        "{} was told at {} that its lock{} was extended, {} after the key had expired: the reply came {} after the key was extended.",
        act.client,
        moment(stamped),
        on(case, act.node),
        length(stamped.saturating_sub(end)),
        length(stamped.saturating_sub(act.time))
    );
    let places = [owner.created, act.place];
    Some(case.finding(act, &places, &[act.operation], Harm::Misled(operation.index), sentence))
}
