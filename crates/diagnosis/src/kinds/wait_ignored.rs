//! A lock that is handed out though too few replicas had acknowledged it.

use super::super::case::{Case, at};
use super::super::{Finding, Harm, Kind};
use super::failover_lost_lock::{LostLock, lost_locks};
use base::words::{length, moment};

pub static KIND: Kind = Kind {
    code: "RJ031",
    name: "wait-ignored",
    title: "The lock is handed out though WAIT ended without the replicas that it asked for.",
    rule: "WAIT answers how many replicas have the write, and answers that also when its time is over. With fewer than asked, a failover \
           can lose the lock.",
    source: ("Redis, WAIT", "https://redis.io/docs/latest/commands/wait/"),
    fix: "Compare the answer of WAIT with the number that you asked for. If it is smaller, release the lock and report that it was not acquired.",
    commands: &["WAIT REPLICAS MILLISECONDS"],
    right: None,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    lost_locks(case)
        .iter()
        .filter_map(|lock| {
            let LostLock { seen, lost, took, holder, .. } = lock;
            let wait = ignored(case, lock)?;
            let command = &case.commands[wait];
            let asked = command.words.iter().skip(1).map(String::as_str).collect::<Vec<_>>().join(" ");
            let asked = base::words::sanitize(&asked, 30);
            let sentence = format!(
                "{}'s WAIT {asked} {} ended when its time was over, and {} was given the lock; {} was promoted at {} without its key, and \
                 {} took the lock there {} later.",
                lost.client,
                at(command.time),
                lost.client,
                seen.promotion.node,
                moment(seen.time),
                took.client,
                length(took.time.saturating_sub(seen.time))
            );
            let of = [lost.operation, took.operation];
            Some(case.finding(took, &[lost.place, wait, took.place], &of, Harm::Ended(holder.index), sentence))
        })
        .collect()
}

/// The place of the WAIT of this lock's acquisition, if its client was given the lock only when the time of WAIT was over. A WAIT
/// that gets its replicas ends at once.
pub(super) fn ignored(case: &Case, lock: &LostLock) -> Option<usize> {
    let LostLock { lost, holder, .. } = lock;
    let acquired = holder.phase(model::history::Phase::Acquired)?.time();
    let after = case.commands.iter().enumerate().skip(lost.place + 1);
    let mut waits = after.filter(|(_, command)| {
        command.from.as_deref() == Some(lost.client)
            && command.node == lost.node
            && command.time <= acquired
            && command.name() == "WAIT"
    });
    let (place, wait) = waits.next()?;
    let limit = wait.words.get(2)?.parse::<u64>().ok().filter(|limit| *limit > 0)?.checked_mul(1_000_000)?;
    let over = wait.time.checked_add(limit)?;
    (acquired >= over && case.ran(lost.client, wait.time, acquired)).then_some(place)
}
