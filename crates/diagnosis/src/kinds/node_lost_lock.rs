//! A key that a node lost before it expired, because of a fault of the run.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ021",
    name: "node-lost-lock",
    title: "A node lost the key before its TTL ended.",
    rule: "A lock lives only as long as its key. A node that is flushed, evicts keys, or restarts without its data, grants the lock to \
           the next client.",
    source: KLEPPMANN,
    fix: "Keep locks on servers that evict nothing, sync each write and refuse FLUSHALL and FLUSHDB. After a crash, wait one TTL \
        before you use a node again. Let the resource refuse late writes.",
    commands: &[
        "CONFIG SET maxmemory-policy noeviction",
        "CONFIG SET appendfsync always",
        "ACL SETUSER default -flushall -flushdb",
    ],
    right: Some(("redlock-guarded", "crash-no-persistence")),
    breaks: TWO_HOLDERS,
    inherent: true,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let lost = |window: &FaultWindow| matches!(window.kind.does.data, OnData::Lost);
    found(case, lost, |took, lost, fault| {
        format!(
            "Some time after {}, {} was {} and lost {}'s key before its TTL ended; {} created its key on {} at {}.",
            moment(fault.inject.max(lost.time)),
            took.node,
            fault.kind.says.done,
            lost.client,
            took.client,
            took.node,
            moment(took.time)
        )
    })
}

/// Keys that were created although another client's key had not expired. A fault of this kind had hit the node before, and the
/// other client relied on its lock.
pub(super) fn found(
    case: &Case,
    is_meant: impl Fn(&FaultWindow) -> bool,
    say: impl Fn(&Act, &Act, &FaultWindow) -> String,
) -> Vec<Finding> {
    let is_granted = |act: &&Act| act.is_done() && act.create().is_some() && act.operation.is_some();
    let mut found = Vec::new();
    for took in case.acts.all.iter().filter(is_granted) {
        let mut before = case.acts.before(took).rev();
        let Some(lost) = before.find(|act| act.done != Some(false) && act.what != Change::Read).filter(is_granted)
        else {
            continue;
        };
        let Some(end) = lost.create().and_then(|create| create.ttl.after()).map(|ttl| lost.time.saturating_add(ttl)) else {
            continue;
        };
        let here = case.history.faults.iter().filter(|window| window.targets.iter().any(|target| target == took.node));
        let meanwhile = here.filter(|window| {
            let injected = window.injected.map(|(time, _)| time);
            let over = if window.kind.says.lasts { window.span().1 } else { injected };
            let lasted = over.is_none_or(|over| over >= lost.time);
            let does = &window.kind.does;
            window.inject <= took.time && lasted && (does.wall_clock || !matches!(does.data, OnData::Kept))
        });
        // If two faults could have done it, it is unknown which did.
        let [fault] = meanwhile.collect::<Vec<_>>()[..] else { continue };
        let Some(holder) = case.of(lost).filter(|_| fault.was_observed() && is_meant(fault)) else { continue };
        if took.client == lost.client || took.time.saturating_add(EDGE) >= end || !case.holds(holder, took.time) {
            continue;
        }
        let places = [lost.place, took.place];
        let of = [lost.operation, took.operation];
        let finding = case.finding(took, &places, &of, Harm::Ended(holder.index), say(took, lost, fault));
        found.push(Finding { fault: Some(fault.fault), ..finding });
    }
    found
}
