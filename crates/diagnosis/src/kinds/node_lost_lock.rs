//! A key that a node gave up before its time, by a fault of the run.

use super::super::acts::{Act, Change, EDGE};
use super::super::case::Case;
use super::super::{Finding, Harm, Kind};
use super::KLEPPMANN;
use base::words::moment;
use model::fault_kinds::OnData;

pub static KIND: Kind = Kind {
    code: "RJ021",
    name: "node-lost-lock",
    title: "A node gave up the key before its TTL was over.",
    rule: "A lock lives only as long as its key. A node that is flushed, evicts keys, or starts again without its data, grants the lock to \
           the next client.",
    source: KLEPPMANN,
    fix: "Keep locks on servers that evict nothing and sync each write; after a crash, wait for a TTL before a node is used again. Let the \
          resource refuse late writes.",
    commands: &["CONFIG SET maxmemory-policy noeviction", "CONFIG SET appendfsync always"],
    right: Some(("fenced-reads", "crash-no-persistence")),
    inherent: true,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let is_granted = |act: &&Act| act.is_done() && act.create().is_some() && act.operation.is_some();
    let mut found = Vec::new();
    for took in case.acts.all.iter().filter(is_granted).filter(|_| case.run.nodes == 1) {
        let mut before = case.acts.before(took).rev();
        let Some(lost) = before.find(|act| act.is_done() && act.what != Change::Read).filter(is_granted) else { continue };
        let Some(end) = lost.create().and_then(|create| create.ttl).map(|ttl| lost.time + ttl) else { continue };
        let windows = case.history.faults.iter().filter(|window| window.was_observed());
        let fault = windows.filter(|window| window.targets.iter().any(|target| target == took.node)).find(|window| {
            window.inject >= lost.time && window.inject <= took.time && matches!(window.kind.does.data, OnData::Lost)
        });
        let (Some(fault), Some(holder)) = (fault, case.of(lost)) else { continue };
        if took.client == lost.client || took.time + EDGE >= end || !case.holds(holder, took.time) {
            continue;
        }
        let sentence = format!(
            "{} lost {}'s key by a {} at {}, before its TTL was over; {} took the lock at {}.",
            took.node,
            lost.client,
            fault.kind.says.name,
            moment(fault.inject),
            took.client,
            moment(took.time)
        );
        let places = [lost.place, took.place];
        found.push(case.finding(took, &places, &[lost.operation, took.operation], Harm::Ended(holder.index), sentence));
    }
    found
}
